#include "api/levers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "pipeline/label_search.h"
#include "pipeline/least_time.h"
#include "pipeline/parts_floor.h"
#include "pipeline/take_rewrites.h"

namespace lowtide {
namespace {

constexpr std::array<std::string_view, 5> kLevers = {"split", "recompute", "swap", "reorder",
                                                     "rewrite"};

// The words between the commas.
Result<std::vector<std::string>> parse_levers(const char* flag, std::string_view text) {
  std::vector<std::string> words;
  for (size_t from = 0; from <= text.size();) {
    const size_t end = std::min(text.find(',', from), text.size());
    const std::string_view word = text.substr(from, end - from);
    from = end + 1;
    if (std::find(kLevers.begin(), kLevers.end(), word) == kLevers.end())
      return error(ErrorCode::kUsage, fmt::format("{}: '{}' is no lever; levers are {}", flag, word,
                                                  fmt::join(kLevers, ", ")));
    if (std::find(words.begin(), words.end(), word) != words.end())
      return error(ErrorCode::kUsage, fmt::format("{}: lever '{}' is named twice", flag, word));
    words.emplace_back(word);
  }
  return words;
}

// The levers that may be used. Without a flag: all.
struct Allowed {
  const char* flag = nullptr;
  std::vector<std::string> words;

  bool has(std::string_view lever) const {
    const bool is_named = std::find(words.begin(), words.end(), lever) != words.end();
    return flag == nullptr || is_named == (std::string_view(flag) == "--allow");
  }
  bool names(std::string_view lever) const {
    return flag != nullptr && std::string_view(flag) == "--allow" && has(lever);
  }
  tl::unexpected<Error> conflict(std::string_view lever, std::string_view asked) const {
    return error(ErrorCode::kUsage, fmt::format("{} {}: {} is not allowed, but {} asks for it",
                                                flag, fmt::join(words, ","), lever, asked));
  }
};

Result<Allowed> allowed_by(const PlanOptions& options) {
  if (!options.allow.empty() && !options.forbid.empty())
    return error(ErrorCode::kUsage,
                 fmt::format("--allow {} and --forbid {} are two answers to one question: give one",
                             options.allow, options.forbid));
  Allowed allowed;
  if (options.allow.empty() && options.forbid.empty()) return allowed;
  allowed.flag = options.forbid.empty() ? "--allow" : "--forbid";
  const std::string& text = options.forbid.empty() ? options.allow : options.forbid;
  LT_ASSIGN(allowed.words, parse_levers(allowed.flag, text));
  return allowed;
}

}  // namespace

bool leaves_levers_open(const PlanOptions& options) {
  const bool all_as_given = options.recompute && options.reorder && options.query_blocks == 1;
  return options.more_levers && all_as_given && options.allow.empty() && options.forbid.empty() &&
         options.split.empty() && options.cuts.empty() && options.swap.empty();
}

std::string all_levers(const PlanOptions& options, const cost::DeviceProfile& device) {
  const bool may_move = !device.slow_tiers.empty() && options.prove <= 0;
  return may_move ? "split,recompute,swap,reorder,rewrite" : "split,recompute,reorder,rewrite";
}

Result<PlanOptions> with_levers(const PlanOptions& options, const cost::DeviceProfile& device) {
  LT_ASSIGN(const Allowed allowed, allowed_by(options));
  PlanOptions made = options;
  made.allow.clear(), made.forbid.clear();
  if (options.slowdown && leaves_levers_open(options)) made.split = "auto";
  const bool is_split = !options.split.empty() && options.split != "1";
  if (!allowed.has("split")) {
    if (is_split) return allowed.conflict("split", "--split " + options.split);
    if (!options.cuts.empty()) return allowed.conflict("split", "--cut " + options.cuts.front());
    if (options.query_blocks > 1)
      return allowed.conflict("split", fmt::format("--query-blocks {}", options.query_blocks));
  } else if (allowed.names("split") && options.split.empty()) {
    made.split = "auto";
  }
  if (!allowed.has("recompute")) made.recompute = false;
  if (allowed.names("recompute") && !options.recompute)
    return error(ErrorCode::kUsage, "--no-recompute: --allow names recompute");
  if (!allowed.has("swap") && !options.swap.empty())
    return allowed.conflict("swap", "--swap " + options.swap);
  if (allowed.names("swap") && options.swap.empty()) {
    if (device.slow_tiers.empty())
      return error(
          ErrorCode::kUsage,
          fmt::format("--allow swap: the device '{}' knows no slow tier; name one and give "
                      "its speed, as in --swap host --link 12GiB/s",
                      device.name));
    made.swap = device.slow_tiers.front().name;
  }
  if (!allowed.has("reorder")) made.reorder = false;
  if (!allowed.has("rewrite")) {
    if (!options.rewrites.empty())
      return allowed.conflict("rewrite", "--rewrite " + options.rewrites.front());
    made.no_rewrites = pipeline::all_rewrites();
  }
  return made;
}

namespace {

// Slow memory as the device's first slow tier is, with room without end.
pipeline::SlowTierChoice first_tier(const cost::DeviceProfile& device) {
  const cost::SlowTierRate& rate = device.slow_tiers.front();
  pipeline::SlowTierChoice tier;
  tier.name = rate.name;
  tier.link = {rate.out_bytes_per_second, rate.in_bytes_per_second, rate.latency_seconds,
               rate.compute_seconds_per_byte, tier.link.bytes};
  return tier;
}

}  // namespace

std::vector<std::string> unused_levers(const PlanOptions& asked,
                                       const pipeline::OptimizeOptions& options) {
  const auto parsed = parse_levers("", all_levers(asked, options.device));
  std::vector<std::string> unused;
  for (const std::string& lever : *parsed) {
    const bool is_used = lever == "split"       ? !options.split.whole() || !options.cuts.empty()
                         : lever == "recompute" ? options.schedule.recompute
                         : lever == "swap"      ? !options.slow_tiers.empty()
                         : lever == "reorder"   ? options.schedule.remat.reorder
                                                : options.rewrites.without.empty();
    if (!is_used) unused.push_back(lever);
  }
  return unused;
}

std::vector<std::string> levers_without_effect(const PlanOptions& asked,
                                               const pipeline::Optimized& made) {
  std::vector<std::string> lines;
  const std::vector<std::string>& without = asked.no_rewrites;
  if (made.query_blocks < asked.query_blocks) {
    const bool is_off = std::find(without.begin(), without.end(), "query-blocks") != without.end();
    const std::string what =
        is_off ? "the rewrite query-blocks is switched off, so nothing is in blocks of queries"
        : made.query_blocks <= 1
            ? "no attention was found, so nothing is in blocks of queries"
            : fmt::format("no attention has more than {} rows of queries, so it is in {} blocks",
                          made.query_blocks, made.query_blocks);
    lines.push_back(fmt::format("--query-blocks {}: {}", asked.query_blocks, what));
  }
  for (const std::string& name : asked.rewrites) {
    const auto is_of = [&](const pipeline::RewriteWorth& one) { return one.name == name; };
    if (std::none_of(made.rewrites.begin(), made.rewrites.end(), is_of))
      lines.push_back(fmt::format("--rewrite {}: it found nothing to change", name));
  }
  return lines;
}

namespace {

// Of the step that these options make, each op once.
std::optional<double> once_seconds(const ir::Graph& forward, pipeline::OptimizeOptions options) {
  options.budget_bytes = std::numeric_limits<int64_t>::max();
  return pipeline::least_seconds(forward, options).value_or(std::nullopt);
}

std::string more_time(const char* how, double seconds, double once) {
  return fmt::format(" and {} {:.1f} % more time", how, std::max(0.0, 100 * (seconds / once - 1)));
}

// What keeping the budget takes then, by a bound; empty where there is none.
std::string time_bought(const ir::Graph& forward, pipeline::OptimizeOptions options,
                        int64_t budget_bytes) {
  options.budget_bytes = budget_bytes;
  const auto least = pipeline::least_seconds(forward, options).value_or(std::nullopt);
  const auto once = once_seconds(forward, options);
  return least && once && *once > 0 ? more_time("at least", *least, *once) : "";
}

// In even parts, each op once, by estimate; empty where none keep the budget so.
std::string time_of_parts(const ir::Graph& forward, pipeline::OptimizeOptions options,
                          int64_t budget_bytes) {
  constexpr size_t kNumbers = 1;  // the fewest parts take the least time, as a rule
  const auto once = once_seconds(forward, options);
  options.budget_bytes = budget_bytes;
  options.split = {.parts = 0};
  const auto step = pipeline::step_to_cut(forward, options);
  if (!step || !once || *once <= 0) return {};
  const auto parts = pipeline::even_candidates(*step, options, kNumbers);
  if (!parts || parts->size() < 2) return {};
  return more_time("about", parts->back().seconds, *once) +
         fmt::format(" in {} parts", parts->back().labels.parts);
}

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct LeverPartsTuning {
  int64_t looked_at[3] = {2, 4, 16};  // for rewrites, where parts are to be found
};
constexpr LeverPartsTuning kLeverParts;

// What each missing lever alone would do for a budget, and where none is enough, all of them.
class MissingLevers {
 public:
  MissingLevers(const ir::Graph& forward, const pipeline::OptimizeOptions& options,
                int64_t budget_bytes)
      : forward_(forward), options_(options), all_(options), budget_(budget_bytes) {}

  std::string told() {
    if (!options_.schedule.recompute)
      offer("recompute", [](auto& more) { more.schedule.recompute = true; });
    if (options_.split.whole()) {
      tell("split", pipeline::least_bytes_in_parts(forward_, options_),
           [&] { return time_of_parts(forward_, options_, budget_); });
      in_parts_ = true;
    }
    if (!options_.schedule.remat.reorder)
      offer("reorder", [](auto& more) {
        more.order = {};
        more.schedule.remat.reorder = more.sums = true;
      });
    offer_rewrites();
    if (options_.slow_tiers.empty() && !options_.device.slow_tiers.empty())
      offer("swap", [](auto& more) { more.slow_tiers = {first_tier(more.device)}; });
    if (found_.size() > 1 && !would_do_) offer_all();
    return found_.empty() ? "" : fmt::format("; not used: {}", fmt::join(found_, ", "));
  }

 private:
  template <class Time>
  void tell(std::string_view lever, const Result<int64_t>& least, Time&& time) {
    if (!least || *least == 0) return;  // nothing is proven
    const bool would_do = *least <= budget_;
    would_do_ |= would_do;
    found_.push_back(fmt::format("with {} at least {} bytes ({}){}{}", lever, *least,
                                 format_bytes(*least), would_do ? " would be needed" : ", too many",
                                 would_do ? time() : std::string()));
  }

  template <class Allow>
  void offer(std::string_view lever, const Allow& allow) {
    pipeline::OptimizeOptions more = options_;
    allow(more);
    allow(all_);
    tell(lever, pipeline::least_bytes(forward_, more),
         [&] { return time_bought(forward_, more, budget_); });
  }

  void offer_all() {
    const auto least = in_parts_ ? pipeline::least_bytes_in_parts(forward_, all_)
                                 : pipeline::least_bytes(forward_, all_);
    tell("all of them", least, [] { return std::string(); });
  }

  // Options with rewrites, and the bytes that the step needs at least with them.
  struct Rewritten {
    pipeline::OptimizeOptions options;
    int64_t least = 0;
  };

  // Where parts are to be found, what is proven of all of them knows no rewrite. Some even parts
  // are looked at, and what would keep the budget in one of them is told: the rest says nothing of
  // other parts.
  void offer_rewrites() {
    if (!options_.split.chosen()) {
      if (const auto better = better_rewrites(options_)) tell_rewrites(*better);
      return;
    }
    for (const int64_t parts : kLeverParts.looked_at) {
      pipeline::OptimizeOptions in_parts = options_;
      in_parts.split = {.parts = parts};
      const auto better = better_rewrites(in_parts);
      if (better && better->least <= budget_) return tell_rewrites(*better);
    }
  }

  void tell_rewrites(const Rewritten& better) {
    all_.rewrites = better.options.rewrites;
    tell(said(better.options), better.least,
         [&] { return time_bought(forward_, better.options, budget_); });
  }

  // The flag does it alone where no rewrite is refused.
  std::string said(const pipeline::OptimizeOptions& better) const {
    const rewrite::RewriteChoice& choice = better.rewrites;
    std::string words = "rewrite";
    if (choice.with != options_.rewrites.with) {
      const char* form = options_.rewrites.without.empty() ? " (--rewrite {})" : " (all, and {})";
      words += fmt::format(fmt::runtime(form), choice.with.back());
    }
    if (options_.split.chosen()) words += fmt::format(" in {} parts", better.split.parts);
    return words;
  }

  // Those that run by default, if they keep the budget; else whichever needs the least, with one
  // that runs only where it is asked for or without. Nothing where the step needs no more as it is.
  std::optional<Rewritten> better_rewrites(const pipeline::OptimizeOptions& options) const {
    const Result<int64_t> now = pipeline::least_bytes(forward_, options);
    if (!now) return std::nullopt;
    pipeline::OptimizeOptions more = options;
    more.rewrites.without.clear();
    std::vector<rewrite::RewriteChoice> choices = {more.rewrites};
    for (const std::string& name :
         pipeline::promising_rewrites(forward_, more).value_or(std::vector<std::string>())) {
      choices.push_back(more.rewrites);
      choices.back().with.push_back(name);
    }
    std::optional<Rewritten> best;
    for (rewrite::RewriteChoice& choice : choices) {
      if (best && best->least <= budget_) break;  // by default
      more.rewrites = std::move(choice);
      const Result<int64_t> least = pipeline::least_bytes(forward_, more);
      if (least && *least < (best ? best->least : *now)) best = {more, *least};
    }
    return best;
  }

  const ir::Graph& forward_;
  const pipeline::OptimizeOptions& options_;
  pipeline::OptimizeOptions all_;  // with each that was offered
  const int64_t budget_;
  bool in_parts_ = false, would_do_ = false;
  std::vector<std::string> found_;
};

}  // namespace

std::string missing_levers(const ir::Graph& forward, const pipeline::OptimizeOptions& options,
                           int64_t budget_bytes) {
  return MissingLevers(forward, options, budget_bytes).told();
}

}  // namespace lowtide
