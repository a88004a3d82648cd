// Layout: title, subtitle and legend stand above the axes, so that nothing of them meets a curve.
// What is known of the left end is shaded: no schedule lies there. A label of a point stands where
// it covers least of what was drawn: everything drawn leaves points behind, a few pixels apart, and
// of some places around the point the one with the fewest of them under it is taken, near ones
// first.
#include "report/plot/pareto_plot.h"

#include <cairo-svg.h>
#include <cairo.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace lowtide::report {
namespace {

constexpr double kLeft = 78, kRight = 30, kTop = 104, kBottom = 62;
constexpr double kMiB = 1024.0 * 1024.0;
constexpr double kTextHeight = 14;

struct Colour {
  double red, green, blue;
};
constexpr Colour kWhite{1, 1, 1}, kInk{0.12, 0.14, 0.17}, kSoft{0.42, 0.45, 0.50},
    kGrid{0.90, 0.91, 0.93}, kShade{0.955, 0.945, 0.93}, kPlan{0.05, 0.36, 0.66},
    kGap{0.90, 0.94, 0.98}, kBound{0.82, 0.40, 0.09}, kBefore{0.45, 0.20, 0.55},
    kChosen{0.80, 0.10, 0.25};

// A step of 1, 2 or 5 times a power of ten that gives at most `most` ticks.
double tick_step(double range, int most) {
  const double rough = std::max(range, 1e-9) / most;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

// "2,100" or "0.5".
std::string number(double value) {
  std::string text = fmt::format("{:.6g}", value);
  const size_t whole = std::min(text.find('.'), text.size());
  for (size_t at = whole; at > 3; at -= 3)
    if (text.find('e') == std::string::npos) text.insert(at - 3, ",");
  return text;
}

class Figure {
 public:
  Figure(cairo_t* cairo, const ParetoPlot& plot) : cairo_(cairo), plot_(plot) {
    double least = static_cast<double>(plot.before_bytes), most = least;
    for (const ParetoPoint& p : plot.points) {
      least = std::min(least, static_cast<double>(p.arena_bytes));
      most =
          std::max({most, static_cast<double>(p.arena_bytes), static_cast<double>(p.budget_bytes)});
      top_ = std::max(top_, 100 * p.extra * 1.15);
    }
    if (plot.floor_bytes > 0) least = std::min(least, static_cast<double>(plot.floor_bytes));
    if (most > 10 * 1024 * kMiB) unit_ = 1024 * kMiB, unit_name_ = "GiB";
    const double margin = 0.06 * std::max(most - least, 0.005 * most);
    from_ = std::max(0.0, least - margin) / unit_, to_ = (most + margin) / unit_;
    cairo_select_font_face(cairo_, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_line_join(cairo_, CAIRO_LINE_JOIN_ROUND);
  }

  void draw() {
    ink(kWhite);
    cairo_paint(cairo_);
    if (plot_.floor_bytes > 0) shade_below_floor();
    shade_gap();
    axes();
    if (plot_.floor_bytes > 0) upright(plot_.floor_bytes, kBound, "proven floor", -1);
    if (plot_.before_bytes > 0) given_order();
    bound();
    plans();
    labels();
    head();
  }

 private:
  double x(int64_t bytes) const { return x_of(static_cast<double>(bytes) / unit_); }
  double x_of(double units) const {
    return kLeft + (units - from_) / (to_ - from_) * (kPlotWidth - kLeft - kRight);
  }
  double y(double percent) const {
    return kPlotHeight - kBottom - percent / top_ * (kPlotHeight - kTop - kBottom);
  }
  double plan_x(const ParetoPoint& p) const { return x(p.arena_bytes); }
  double plan_y(const ParetoPoint& p) const { return y(100 * p.extra); }
  double bound_y(const ParetoPoint& p) const { return y(100 * p.bound_extra); }
  // With the digits that tell points apart.
  std::string memory(int64_t bytes) const {
    const double units = static_cast<double>(bytes) / unit_, range = to_ - from_;
    if (range >= 100) return fmt::format("{} {}", number(std::round(units)), unit_name_);
    return fmt::format("{:.{}f} {}", units, range >= 20 ? 1 : 2, unit_name_);
  }
  void ink(Colour c) { cairo_set_source_rgb(cairo_, c.red, c.green, c.blue); }

  void drawn(double x0, double y0, double x1, double y1) {
    constexpr double kApart = 4;
    const int steps = 1 + static_cast<int>(std::hypot(x1 - x0, y1 - y0) / kApart);
    for (int i = 0; i <= steps; ++i) {
      const double along = static_cast<double>(i) / steps;
      drawn_.emplace_back(x0 + along * (x1 - x0), y0 + along * (y1 - y0));
    }
  }

  void line(double x0, double y0, double x1, double y1, double width) {
    cairo_set_line_width(cairo_, width);
    cairo_move_to(cairo_, x0, y0);
    cairo_line_to(cairo_, x1, y1);
    cairo_stroke(cairo_);
  }
  void dashes(bool on) {
    const double lengths[] = {6, 4};
    cairo_set_dash(cairo_, lengths, on ? 2 : 0, 0);
  }
  void dot(double at_x, double at_y, double radius) {
    cairo_new_path(cairo_);
    cairo_arc(cairo_, at_x, at_y, radius, 0, 2 * M_PI);
    cairo_fill(cairo_);
  }
  void ring(double at_x, double at_y, double radius) {
    cairo_set_line_width(cairo_, 1.8);
    cairo_new_sub_path(cairo_);
    cairo_arc(cairo_, at_x, at_y, radius, 0, 2 * M_PI);
    cairo_stroke(cairo_);
  }
  void diamond(double at_x, double at_y, double radius) {
    cairo_move_to(cairo_, at_x - radius, at_y);
    cairo_line_to(cairo_, at_x, at_y - radius);
    cairo_line_to(cairo_, at_x + radius, at_y);
    cairo_line_to(cairo_, at_x, at_y + radius);
    cairo_close_path(cairo_);
    cairo_fill(cairo_);
  }

  double width_of(const std::string& words, double size) {
    cairo_set_font_size(cairo_, size);
    cairo_text_extents_t extents;
    cairo_text_extents(cairo_, words.c_str(), &extents);
    return extents.x_advance;
  }
  // align: 0 starts at x, 0.5 is centred, 1 ends there.
  void text(double at_x, double at_y, const std::string& words, double align, double size = 12.5) {
    cairo_move_to(cairo_, at_x - align * width_of(words, size), at_y);
    cairo_show_text(cairo_, words.c_str());
  }
  // Reads upwards. align: 1 ends at y, 0.5 is centred.
  void upward_text(double at_x, double at_y, const std::string& words, double align, double size) {
    const double width = width_of(words, size);
    const double bottom = at_y + align * width;
    for (double across : {0.0, 4.0, 8.0, 12.0})
      drawn(at_x - across, bottom, at_x - across, bottom - width);
    cairo_save(cairo_);
    cairo_translate(cairo_, at_x, at_y + align * width);
    cairo_rotate(cairo_, -M_PI / 2);
    cairo_move_to(cairo_, 0, 0);
    cairo_show_text(cairo_, words.c_str());
    cairo_restore(cairo_);
  }

  void shade_below_floor() {
    ink(kShade);
    cairo_rectangle(cairo_, kLeft, kTop, x(plot_.floor_bytes) - kLeft,
                    kPlotHeight - kBottom - kTop);
    cairo_fill(cairo_);
  }

  void shade_gap() {
    if (plot_.points.size() < 2) return;
    cairo_new_path(cairo_);
    for (const ParetoPoint& p : plot_.points) cairo_line_to(cairo_, plan_x(p), plan_y(p));
    for (size_t i = plot_.points.size(); i-- > 0;)
      cairo_line_to(cairo_, x(plot_.points[i].budget_bytes), bound_y(plot_.points[i]));
    cairo_close_path(cairo_);
    ink(kGap);
    cairo_fill(cairo_);
  }

  void axes() {
    const double bottom = kPlotHeight - kBottom, right = kPlotWidth - kRight;
    const double memory_step = tick_step(to_ - from_, 8), percent_step = tick_step(top_, 7);
    for (double at = std::ceil(from_ / memory_step) * memory_step; at <= to_; at += memory_step) {
      ink(kGrid), line(x_of(at), kTop, x_of(at), bottom, 1);
      ink(kInk), text(x_of(at), bottom + 19, number(at), 0.5);
    }
    for (int i = 0; i * percent_step <= top_; ++i) {
      const double percent = i * percent_step;
      ink(kGrid), line(kLeft, y(percent), right, y(percent), 1);
      ink(kInk), text(kLeft - 9, y(percent) + 4.5, number(percent), 1);
    }
    ink(kInk);
    line(kLeft, bottom, right, bottom, 1.4);
    line(kLeft, kTop, kLeft, bottom, 1.4);
    text((kLeft + right) / 2, kPlotHeight - 16, fmt::format("memory on the device, {}", unit_name_),
         0.5, 13.5);
    upward_text(26, (kTop + bottom) / 2, "extra step time, %", 0.5, 13.5);
  }

  // A dashed line from bottom to top, with words beside it: side -1 left, 1 right.
  void upright(int64_t bytes, Colour colour, const std::string& words, int side) {
    ink(colour);
    dashes(true);
    line(x(bytes), kTop, x(bytes), kPlotHeight - kBottom, 1.3);
    drawn(x(bytes), kTop, x(bytes), kPlotHeight - kBottom);
    dashes(false);
    const std::string all = fmt::format("{}, {}", words, memory(bytes));
    const bool inside = side < 0 ? x(bytes) - kLeft > kTextHeight + 6
                                 : kPlotWidth - kRight - x(bytes) > kTextHeight + 6;
    upward_text(x(bytes) + ((side < 0) == inside ? -6 : kTextHeight + 1), kTop + 8, all, 1, 12);
  }

  void given_order() {
    upright(plot_.before_bytes, kBefore, "given order", 1);
    diamond(x(plot_.before_bytes), y(0), 6);
  }

  template <class At>
  void curve(const At& at) {
    cairo_new_path(cairo_);
    for (size_t i = 0; i < plot_.points.size(); ++i) {
      const auto [to_x, to_y] = at(plot_.points[i]);
      cairo_line_to(cairo_, to_x, to_y);
      const auto [from_x, from_y] = at(plot_.points[i > 0 ? i - 1 : 0]);
      drawn(from_x, from_y, to_x, to_y);
    }
    cairo_stroke(cairo_);
  }

  void bound() {
    ink(kBound);
    cairo_set_line_width(cairo_, 2);
    dashes(true);
    curve([this](const ParetoPoint& p) { return std::pair(x(p.budget_bytes), bound_y(p)); });
    dashes(false);
    for (const ParetoPoint& p : plot_.points) dot(x(p.budget_bytes), bound_y(p), 2.6);
  }

  void plans() {
    ink(kPlan);
    cairo_set_line_width(cairo_, 2.4);
    curve([this](const ParetoPoint& p) { return std::pair(plan_x(p), plan_y(p)); });
    for (const ParetoPoint& p : plot_.points) dot(plan_x(p), plan_y(p), 3.6);
  }

  // Lower left corner of words of that width near the point.
  std::pair<double, double> free_place(double point_x, double point_y, double width) const {
    std::pair<double, double> best{kLeft + 4, kTop + kTextHeight};
    double least = 1e9;
    for (double rise : {11.0, -5.0, 32.0, -26.0, 54.0, -48.0, 78.0, -72.0, 110.0, 150.0, 200.0})
      for (double shift : {12.0, -width / 2, -width - 12}) {
        const double at_x = point_x + shift, at_y = point_y - rise;
        if (at_x < kLeft + 4 || at_x + width > kPlotWidth - kRight - 4 ||
            at_y - kTextHeight < kTop || at_y + 6 > kPlotHeight - kBottom)
          continue;
        double cost = std::abs(rise) / 20 + std::abs(shift - 12) / (width + 24);
        for (const auto& [x_of_it, y_of_it] : drawn_)
          if (x_of_it > at_x - 5 && x_of_it < at_x + width + 5 &&
              y_of_it > at_y - kTextHeight - 2 && y_of_it < at_y + 6)
            cost += 4;
        if (cost < least) least = cost, best = {at_x, at_y};
      }
    return best;
  }

  void label(const ParetoPoint& p, const std::string& words, Colour colour) {
    const double width = width_of(words, 12.5);
    const auto [at_x, at_y] = free_place(plan_x(p), plan_y(p), width);
    ink(colour);
    const double near_x = std::clamp(plan_x(p), at_x, at_x + width);
    const double near_y = at_y < plan_y(p) ? at_y + 5 : at_y - kTextHeight + 2;
    const double far = std::hypot(near_x - plan_x(p), near_y - plan_y(p));
    if (far > 22) {
      const double part = 10 / far;  // the leader begins outside the ring
      line(plan_x(p) + part * (near_x - plan_x(p)), plan_y(p) + part * (near_y - plan_y(p)), near_x,
           near_y, 0.8);
    }
    cairo_set_source_rgba(cairo_, 1, 1, 1, 0.85);
    cairo_rectangle(cairo_, at_x - 3, at_y - kTextHeight + 2, width + 6, kTextHeight + 3);
    cairo_fill(cairo_);
    ink(colour);
    text(at_x, at_y, words, 0);
    for (double up : {0.0, 5.0, 10.0, 15.0}) drawn(at_x, at_y - up, at_x + width, at_y - up);
  }

  std::string say(const char* what, const ParetoPoint& p) const {
    return fmt::format("{}: {}, +{:.1f} %", what, memory(p.arena_bytes), 100 * p.extra);
  }

  void mark(size_t index, const char* what, Colour colour, bool filled) {
    const ParetoPoint& p = plot_.points[index];
    ink(colour);
    if (filled) dot(plan_x(p), plan_y(p), 5.4);
    ring(plan_x(p), plan_y(p), 9);
    drawn(plan_x(p), plan_y(p) - 9, plan_x(p), plan_y(p) + 9);
    label(p, say(what, p), colour);
  }

  void labels() {
    const bool same = plot_.chosen && plot_.knee && *plot_.chosen == *plot_.knee;
    if (plot_.chosen) mark(*plot_.chosen, same ? "chosen, the knee" : "chosen", kChosen, true);
    if (plot_.knee && !same) mark(*plot_.knee, "knee", kPlan, false);
  }

  void head() {
    ink(kInk);
    cairo_select_font_face(cairo_, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_BOLD);
    text(kLeft, 30, plot_.title, 0, 17);
    cairo_select_font_face(cairo_, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    ink(kSoft);
    text(kLeft, 52, plot_.subtitle, 0, 12.5);
    double at = kLeft;
    const double level = 82;
    const auto entry = [&](Colour colour, const char* words, bool dashed, bool is_diamond) {
      ink(colour);
      dashes(dashed);
      if (!is_diamond) line(at, level - 4, at + 28, level - 4, 2.2);
      dashes(false);
      if (is_diamond)
        diamond(at + 14, level - 4, 6);
      else
        dot(at + 14, level - 4, 3.4);
      ink(kInk);
      text(at + 36, level, words, 0);
      at += 36 + width_of(words, 12.5) + 26;
    };
    entry(kPlan, "plans found", false, false);
    entry(kBound, "proven lower bound", true, false);
    entry(kBefore, "given order, nothing reused in place", false, true);
  }

  cairo_t* cairo_;
  const ParetoPlot& plot_;
  double from_ = 0, to_ = 1;  // of unit_
  double unit_ = kMiB;
  const char* unit_name_ = "MiB";
  double top_ = 1;                                // percent
  std::vector<std::pair<double, double>> drawn_;  // points of what labels should not cover
};

cairo_status_t append(void* out, const unsigned char* bytes, unsigned int length) {
  static_cast<std::string*>(out)->append(reinterpret_cast<const char*>(bytes), length);
  return CAIRO_STATUS_SUCCESS;
}

Status draw_on(cairo_surface_t* surface, const ParetoPlot& plot) {
  cairo_t* cairo = cairo_create(surface);
  Figure(cairo, plot).draw();
  const cairo_status_t status = cairo_status(cairo);
  cairo_destroy(cairo);
  if (status == CAIRO_STATUS_SUCCESS) return {};
  return error(ErrorCode::kInternal,
               fmt::format("drawing the plot: {}", cairo_status_to_string(status)));
}

}  // namespace

Result<std::string> draw_svg(const ParetoPlot& plot) {
  std::string out;
  cairo_surface_t* surface =
      cairo_svg_surface_create_for_stream(append, &out, kPlotWidth, kPlotHeight);
  const Status status = draw_on(surface, plot);
  cairo_surface_finish(surface);
  cairo_surface_destroy(surface);
  LT_RETURN_IF_ERROR(status);
  return out;
}

Result<std::string> draw_png(const ParetoPlot& plot) {
  std::string out;
  cairo_surface_t* surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, kPlotWidth * kPngScale,
                                                        kPlotHeight * kPngScale);
  cairo_surface_set_device_scale(surface, kPngScale, kPngScale);
  Status status = draw_on(surface, plot);
  if (status && cairo_surface_write_to_png_stream(surface, append, &out) != CAIRO_STATUS_SUCCESS)
    status = error(ErrorCode::kInternal, "drawing the plot: the PNG could not be written");
  cairo_surface_destroy(surface);
  LT_RETURN_IF_ERROR(status);
  return out;
}

}  // namespace lowtide::report
