// Rows of ops whose result is another grid over the same data: Resize, padding with the tensor's
// own elements, sampling at given places, and their gradients. Along each dimension that changes,
// the first two are a fixed sparse matrix (base/axis_taps.h): any position may read any element, so
// neither side of the dimension can be split, and the elements read for one result are an axis of
// their own, which counts the work. All other dimensions are walked one to one.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/axis_taps.h"
#include "ops/row.h"

namespace lowtide::ops {
namespace {

using sym::Expr;

Result<ir::Dims> dims_of_input(const Instance& instance) {
  if (instance.inputs.size() == 1 && instance.inputs[0]) return instance.inputs[0]->dims;
  return error(ErrorCode::kInput,
               fmt::format("{}: {} inputs given, wanted 1", instance.kind, instance.inputs.size()));
}

// Which entry of `axes` names each dimension; -1: none.
Result<std::vector<int>> places_in_axes(const Instance& instance, size_t rank) {
  const ir::Dims& axes = std::get<ir::Dims>(instance.attrs->find("axes")->second);
  std::vector<int> places(rank, -1);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = axes[i].constant();
    if (!axis || *axis < 0 || *axis >= static_cast<int64_t>(rank) ||
        places[static_cast<size_t>(*axis)] >= 0)
      return error(ErrorCode::kInput,
                   fmt::format("{}: axes {} of rank {}", instance.kind, print(axes), rank));
    places[static_cast<size_t>(*axis)] = static_cast<int>(i);
  }
  return places;
}

// How many elements one position reads along a dimension.
Expr taps_along(const Resample& how, const Expr& from, const Expr& to) {
  if (how.mode == "nearest") return 1;
  const Expr reach = how.mode == "linear" ? 2 : 4;
  return how.antialias ? reach * sym::max(1, sym::ceildiv(from, to)) : reach;
}

Resample resample_of(const Instance& instance) {
  const auto text = [&](std::string_view name) -> std::string_view {
    const auto found = instance.attrs->find(name);
    return found == instance.attrs->end() ? std::string_view()
                                          : std::get<std::string>(found->second);
  };
  const auto flag = [&](std::string_view name) {
    const auto found = instance.attrs->find(name);
    return found != instance.attrs->end() && found->second != ir::AttrValue(int64_t{0});
  };
  Resample how{.mode = text("mode"), .coordinates = text("coordinates"), .nearest = "floor"};
  if (instance.attrs->contains("nearest")) how.nearest = text("nearest");
  how.exclude_outside = flag("exclude_outside");
  how.antialias = flag("antialias");
  return how;
}

// The mapped dimensions: coupled on both sides, and walked on the side of the positions, which is
// the result's, or that of dy in a gradient.
class MappedAxes {
 public:
  MappedAxes(const ir::Dims& dims, bool gradient) : dims_(dims), gradient_(gradient) {
    signature_.inputs.emplace_back(OperandIndex());
    signature_.outputs.emplace_back();
  }
  void keep(size_t d) {
    const int axis = signature_.add_axis({.name = fmt::format("a{}", d)});
    add(axis, axis);
  }
  void map(size_t d, const Expr& to, std::optional<AttrRef> source) {
    const int in = signature_.add_axis(
        {.name = fmt::format("i{}", d), .coupled = true, .chosen = !gradient_, .extent = dims_[d]});
    add(in, signature_.add_axis({.name = fmt::format("o{}", d),
                                 .coupled = true,
                                 .chosen = gradient_,
                                 .extent = to,
                                 .source = std::move(source)}));
  }
  Signature finish(const Expr& taps) {
    signature_.add_axis({.name = "taps", .coupled = true, .extent = taps});
    return std::move(signature_);
  }

 private:
  void add(int in, int out) {
    signature_.inputs[0]->push_back({.axes = {in}});
    signature_.outputs[0].push_back({.axes = {out}});
  }

  const ir::Dims& dims_;
  bool gradient_;
  Signature signature_;
};

bool is_gradient(const Instance& instance) {
  return instance.kind.ends_with("Grad");
}

Status check_numbers(const Instance& instance, std::string_view name, size_t count) {
  LT_ASSIGN(const std::string text, word_attr(instance, name, ""));
  const auto numbers = parse_reals(text);
  if (!numbers)
    return error(ErrorCode::kInput,
                 fmt::format("{}: {} {}", instance.kind, name, numbers.error().message));
  if (text.empty() || numbers->size() == count) return {};
  return error(ErrorCode::kInput, fmt::format("{}: {} has {} numbers, wanted {}", instance.kind,
                                              name, numbers->size(), count));
}

Status check_resize(const Instance& instance) {
  const Resample how = resample_of(instance);
  if (auto status = check(how); !status)
    return error(ErrorCode::kInput, fmt::format("{}: {}", instance.kind, status.error().message));
  const size_t count = std::get<ir::Dims>(instance.attrs->find("axes")->second).size();
  LT_RETURN_IF_ERROR(check_numbers(instance, "scales", count));
  LT_RETURN_IF_ERROR(check_numbers(instance, "roi", 2 * count));
  if (!instance.inputs.empty() && instance.inputs[0] && how.mode != "nearest" &&
      !is_float(instance.inputs[0]->dtype))
    return error(ErrorCode::kInput,
                 fmt::format("{}: mode {} of {}, which is no float type", instance.kind, how.mode,
                             name(instance.inputs[0]->dtype)));
  return {};
}

Result<Signature> resize_axes(const Instance& instance) {
  LT_ASSIGN(const ir::Dims dims, dims_of_input(instance));
  LT_ASSIGN(const std::vector<int> places, places_in_axes(instance, dims.size()));
  const size_t count = std::get<ir::Dims>(instance.attrs->find("axes")->second).size();
  LT_ASSIGN(const ir::Dims sizes, list_attr(instance, "sizes", count));
  const Resample how = resample_of(instance);
  MappedAxes mapped(dims, is_gradient(instance));
  Expr taps = 1;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (places[d] < 0) {
      mapped.keep(d);
      continue;
    }
    const Expr& to = sizes[static_cast<size_t>(places[d])];
    const auto size = to.constant();
    const Expr &whole = is_gradient(instance) ? to : dims[d],
               &made = is_gradient(instance) ? dims[d] : to;
    if ((size && *size < 0) || (whole == Expr(0) && !(made == Expr(0))))
      return error(ErrorCode::kInput, fmt::format("{}: dimension {} of {} becomes {}",
                                                  instance.kind, d, print(dims), sym::print(to)));
    taps = taps * taps_along(how, whole, made);
    mapped.map(d, to, AttrRef{"sizes", places[d]});
  }
  return mapped.finish(taps);
}

// ---- padding with the tensor's own elements ----

// What is left of a dimension after negative pads cut it is repeated, so there must be something.
Status check_repeated(const Instance& instance, size_t d, const Expr& whole, const Expr& begin,
                      const Expr& end) {
  const auto from = whole.constant(), low = begin.constant(), high = end.constant();
  if (!from || !low || !high) return {};
  const int64_t left = *from + std::min<int64_t>(*low, 0) + std::min<int64_t>(*high, 0);
  if (left > 0 || (left == 0 && *low <= 0 && *high <= 0)) return {};
  return error(ErrorCode::kInput,
               fmt::format("{}: dimension {} of extent {} padded by {} and {}: nothing to repeat",
                           instance.kind, d, *from, *low, *high));
}

Result<Signature> pad_repeat_axes(const Instance& instance) {
  LT_ASSIGN(const ir::Dims dims, dims_of_input(instance));
  LT_ASSIGN(const ir::Dims begins, list_attr(instance, "begins", dims.size()));
  LT_ASSIGN(const ir::Dims ends, list_attr(instance, "ends", dims.size()));
  LT_ASSIGN(const std::string mode, word_attr(instance, "mode"));
  if (mode != "reflect" && mode != "edge" && mode != "wrap")
    return error(ErrorCode::kInput, fmt::format("{}: mode '{}' is not known", instance.kind, mode));
  const bool gradient = is_gradient(instance);
  MappedAxes mapped(dims, gradient);
  for (size_t d = 0; d < dims.size(); ++d) {
    if (begins[d] == Expr(0) && ends[d] == Expr(0)) {
      mapped.keep(d);
      continue;
    }
    const Expr added = begins[d] + ends[d], to = gradient ? dims[d] - added : dims[d] + added;
    LT_RETURN_IF_ERROR(check_repeated(instance, d, gradient ? to : dims[d], begins[d], ends[d]));
    mapped.map(d, to, std::nullopt);
  }
  return mapped.finish(1);
}

// ---- sampling at places that data says ----

// How many pixels one point of a grid reads.
Result<Expr> grid_taps(const Instance& instance, size_t dims) {
  LT_ASSIGN(const std::string mode, word_attr(instance, "mode"));
  LT_ASSIGN(const std::string padding, word_attr(instance, "padding"));
  if (mode != "nearest" && mode != "linear" && mode != "cubic")
    return error(ErrorCode::kInput, fmt::format("{}: mode '{}' is not known", instance.kind, mode));
  if (padding != "zeros" && padding != "border" && padding != "reflection")
    return error(ErrorCode::kInput,
                 fmt::format("{}: padding '{}' is not known", instance.kind, padding));
  if (mode == "cubic" && dims != 2)
    return error(ErrorCode::kInput, fmt::format("{}: cubic in {} dims", instance.kind, dims));
  Expr taps = 1;
  for (size_t d = 0; d < dims; ++d)
    taps = taps * Expr(mode == "nearest" ? 1 : mode == "linear" ? 2 : 4);
  return taps;
}

// A point of the grid has as many coordinates as the image has dims, whose pixels it chooses.
Result<Signature> grid_sample_axes(const Instance& instance) {
  const size_t image = is_gradient(instance) ? 1 : 0, grid = image + 1;
  if (instance.inputs.size() != grid + 1 || !instance.inputs[image] || !instance.inputs[grid])
    return error(ErrorCode::kInput, fmt::format("{}: {} inputs given, wanted {}", instance.kind,
                                                instance.inputs.size(), grid + 1));
  const size_t rank = instance.inputs[image]->dims.size(), dims = rank - 2;
  if (rank != 4 && rank != 5)
    return error(ErrorCode::kInput,
                 fmt::format("{}: an image of rank {}, wanted 4 or 5", instance.kind, rank));
  const ir::Dims& places = instance.inputs[grid]->dims;
  if (places.size() == rank && !(places.back() == Expr(static_cast<int64_t>(dims))))
    return error(ErrorCode::kInput,
                 fmt::format("{}: a grid {} over {} dims", instance.kind, print(places), dims));
  const std::string_view read = dims == 2 ? "n c {h} {w}" : "n c {d} {h} {w}";
  const std::string_view walked = dims == 2 ? "y x" : "z y x";
  const std::string text =
      is_gradient(instance)
          ? fmt::format("n c {1}, {0}, n {1} {{k}} -> {0}, n {1} {{k}}", read, walked)
          : fmt::format("{0}, n {1} {{k}} -> n c {1}", read, walked);
  LT_ASSIGN(const KnownPattern pattern, known_pattern(text));
  LT_ASSIGN(Signature signature, expand(*pattern, instance, false));
  LT_ASSIGN(const Expr taps, grid_taps(instance, dims));
  signature.add_axis({.name = "taps", .coupled = true, .extent = taps});
  return signature;
}

Status check_roi_align(const Instance& instance) {
  LT_ASSIGN(const std::string mode, word_attr(instance, "mode"));
  if (mode != "avg" && mode != "max")
    return error(ErrorCode::kInput, fmt::format("{}: mode '{}' is not known", instance.kind, mode));
  if (instance.inputs.size() < 3 || !instance.inputs[2]) return {};
  const ir::Dims& boxes = instance.inputs[2]->dims;
  if (boxes.size() == 2 && boxes[1] == Expr(4)) return {};
  return error(ErrorCode::kInput,
               fmt::format("{}: boxes {}, wanted four numbers each", instance.kind, print(boxes)));
}

Row resize(std::string_view kind, std::string_view types, std::string_view gradient) {
  return {.kind = kind,
          .compute = resize_axes,
          .types = types,
          .layouts = "x -> x",
          .attrs =
              "axes:list sizes:list mode:word coordinates:word nearest:word? cubic_a:real? "
              "exclude_outside:int? antialias:int? scales:word? roi:word? "
              "extrapolation:real?",
          .flops = 2,
          .check = check_resize,
          .traits = {.gradient = gradient}};
}

}  // namespace

std::span<const Row> resampling_rows() {
  static const std::vector<Row> rows = {
      resize("Resize", "U -> U", "Resize"),
      resize("ResizeGrad", "T -> T", ""),
      {.kind = "GridSample",
       .compute = grid_sample_axes,
       .types = "T T -> T",
       .layouts = "x r -> x",
       .attrs = "mode:word padding:word align_corners:int? pixels:int?",
       .flops = 2,
       .traits = {.gradient = "GridSample"}},
      {.kind = "GridSampleGrad",
       .compute = grid_sample_axes,
       .types = "T T T -> T T",
       .layouts = "x x r -> x r",
       .attrs = "mode:word padding:word align_corners:int? pixels:int?",
       .adds_into = "0 1",
       .flops = 6},
      {.kind = "RoiAlign",
       .axes = "{n} c {h} {w}, r, r {four} -> r c [y:height] [x:width]",
       .types = "T i T -> T",
       .layouts = "x r r -> x",
       .attrs = "mode:word height:int width:int sampling_ratio:int? scale:real? half_pixel:int?",
       .positions = "1:n",
       .flops = 8,
       .check = check_roi_align},
      {.kind = "PadRepeat",
       .compute = pad_repeat_axes,
       .types = "U -> U",
       .layouts = "x -> x",
       .attrs = "begins:list ends:list mode:word",
       .traits = {.carries = true, .gradient = "PadRepeat"}},
      {.kind = "PadRepeatGrad",
       .compute = pad_repeat_axes,
       .types = "T -> T",
       .layouts = "x -> x",
       .attrs = "begins:list ends:list mode:word",
       .flops = 1},
  };
  return rows;
}

}  // namespace lowtide::ops
