// How an instance is drawn from a row: read its pattern; draw a size for each pack and an extent
// for each axis; draw strides, dilations and pads, and from them the extent of each windowed
// dimension; then every operand's dimensions are known, and so is every attribute that gives an
// extent. Rows with a computed signature either stand for one of several texts, and are drawn from
// one of them, or are rearrangements, and have a few lines of their own.
#include "ops/testing/random_instance.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "ops/row.h"
#include "ops/testing/random_draw.h"
#include "ops/testing/random_resampling.h"

namespace lowtide::ops {

bool chance(Rng& rng, uint64_t one_in) {
  return rng.below(one_in) == 0;
}

ir::Dims random_dims(Rng& rng, int64_t rank) {
  ir::Dims dims;
  for (int64_t d = 0; d < rank; ++d) dims.push_back(rng.between(1, 5));
  return dims;
}

int64_t number(const sym::Expr& extent) {
  return extent.constant().value_or(1);
}

namespace {

using Kind = InputValues::Kind;

// ---- from a pattern ----

class PatternDraw {
 public:
  PatternDraw(const Row& row, const Pattern& pattern, RandomInstance& made, Rng& rng)
      : row_(row), pattern_(pattern), made_(made), rng_(rng) {}

  void run() {
    const size_t whole = rng_.below(std::max<size_t>(1, arity(pattern_).required));
    for (const PatternOperand& output : pattern_.outputs) operand(output);
    for (const PatternOperand& input : pattern_.inputs) operand(input);
    for (size_t i = 0; i < pattern_.inputs.size(); ++i) {
      const PatternOperand& input = pattern_.inputs[i];
      if (input.optional && chance(rng_, 2)) {
        made_.inputs.push_back(std::nullopt);
        continue;
      }
      const std::vector<int64_t> dims = operand(input);
      const bool exact = !row_.broadcast || i == whole || input.optional;
      made_.inputs.push_back(Type{DType::kF32, narrowed(input, dims, exact), {}});
    }
    for (const auto& [name, list] : lists_) made_.attrs[name] = ir::Dims(list.begin(), list.end());
  }

  // The extent of the coupled or chosen axis, which limits labels and indices.
  int64_t limit() const { return limit_; }
  int64_t taps() const { return taps_; }

 private:
  // The dimensions of an operand; draws what was not drawn before.
  std::vector<int64_t> operand(const PatternOperand& operand) {
    std::vector<int64_t> dims;
    for (const PatternItem& item : operand.items) {
      const int count = item.pack ? pack_size(item) : 1;
      if (!item.pack_size_attr.empty()) made_.attrs[item.pack_size_attr] = int64_t{count};
      for (int d = 0; d < count; ++d) dims.push_back(dimension(item, item.pack ? d : -1, count));
    }
    return dims;
  }

  int pack_size(const PatternItem& item) {
    for (const PatternAxis& axis : item.axes)
      if (const auto known = packs_.find(axis.name); known != packs_.end()) {
        for (const PatternAxis& other : item.axes) packs_[other.name] = known->second;
        return known->second;
      }
    const bool window = has_windows();
    const bool alone = pattern_.inputs[0].items.size() == 1 || item.coupled;
    const int size = static_cast<int>(window ? rng_.between(1, 2) : rng_.between(alone ? 1 : 0, 2));
    for (const PatternAxis& axis : item.axes) packs_[axis.name] = size;
    return size;
  }

  bool has_windows() const {
    const auto windowed = [](const PatternOperand& operand) {
      return std::any_of(operand.items.begin(), operand.items.end(),
                         [](const PatternItem& item) { return item.form == LinkKind::kWindow; });
    };
    return std::any_of(pattern_.inputs.begin(), pattern_.inputs.end(), windowed) ||
           std::any_of(pattern_.outputs.begin(), pattern_.outputs.end(), windowed);
  }

  int64_t dimension(const PatternItem& item, int entry, int count) {
    if (item.form == LinkKind::kWindow) return window(item, entry, count);
    int64_t extent = 1;
    for (const PatternAxis& axis : item.axes) extent *= axis_extent(axis, item, entry, count);
    if (item.coupled || item.form == LinkKind::kChosen) limit_ = extent;
    return extent;
  }

  int64_t axis_extent(const PatternAxis& axis, const PatternItem& item, int entry, int count) {
    const std::string name = entry < 0 ? axis.name : fmt::format("{}{}", axis.name, entry);
    const auto [found, fresh] = extents_.emplace(name, 0);
    if (fresh) {
      const bool tap = has_windows() && axis.name == "r";
      const bool group = axis.extent_attr == "group";
      found->second = tap || group ? rng_.between(1, tap ? 3 : 2) : rng_.between(2, 5);
      if (!tap && !group && !item.coupled && chance(rng_, 8)) found->second = 1;
    }
    if (!axis.extent_attr.empty()) give(axis.extent_attr, entry, count, found->second);
    if (item.form == LinkKind::kChosen) limit_ = found->second;
    return found->second;
  }

  void give(const std::string& attr, int entry, int count, int64_t value) {
    if (entry < 0) {
      made_.attrs[attr] = value;
      return;
    }
    auto& list = lists_[attr];
    list.resize(static_cast<size_t>(count), 1);
    list[static_cast<size_t>(entry)] = value;
  }

  // The extent of a dimension under a window. Positions are recomputed where ceil_mode adds one.
  int64_t window(const PatternItem& item, int entry, int count) {
    const std::string key = fmt::format("{}{}", item.axes[0].name, entry);
    const int64_t taps = axis_extent(item.axes[1], item, entry, count);
    const int64_t positions = axis_extent(item.axes[0], item, entry, count);
    int64_t& extent = windows_.emplace(key, 0).first->second;
    if (extent == 0) extent = draw_window(item, key, entry, count, taps, positions);
    if (!item.extent_attr.empty()) give(item.extent_attr, entry, count, extent);
    return extent;
  }

  int64_t draw_window(const PatternItem& item, const std::string& key, int entry, int count,
                      int64_t taps, int64_t positions) {
    const int64_t stride = rng_.between(1, 3);
    const int64_t dilation = item.dilation.empty() ? 1 : rng_.between(1, 2);
    const int64_t span = dilation * (taps - 1) + 1;
    const int64_t low = rng_.between(0, span / 2), high = rng_.between(0, span / 2);
    const bool ceil = row_.attrs.find("ceil_mode") != std::string_view::npos &&
                      made_.attrs.emplace("ceil_mode", int64_t{chance(rng_, 2)}).first->second ==
                          ir::AttrValue(int64_t{1});
    while (stride * (positions - 1) + span - low - high < 1) ++positions;
    const int64_t extent =
        stride * (positions - 1) + span - low - high + rng_.between(0, stride - 1);
    if (ceil) {
      const int64_t room = extent + low + high - span;
      positions = std::min((room + stride - 1) / stride, (extent + low - 1) / stride) + 1;
    }
    extents_[key] = positions;
    give(item.stride, entry, count, stride);
    if (!item.dilation.empty()) give(item.dilation, entry, count, dilation);
    auto& pads = lists_[item.padding];
    pads.resize(static_cast<size_t>(2 * count), 0);
    pads[static_cast<size_t>(entry)] = low;
    pads[static_cast<size_t>(count + entry)] = high;
    // A tap that lies inside the dimension at every position exists only without padding; see
    // taps().
    taps_ *= taps;
    return extent;
  }

  // Extent 1 here and there, and leading dimensions left out, where the row broadcasts.
  ir::Dims narrowed(const PatternOperand& operand, const std::vector<int64_t>& dims, bool exact) {
    ir::Dims result(dims.begin(), dims.end());
    if (exact) return result;
    size_t pack_dims = 0;
    for (const PatternItem& item : operand.items)
      if (item.pack) pack_dims += static_cast<size_t>(packs_[item.axes[0].name]);
    for (size_t d = 0; d < pack_dims; ++d)
      if (chance(rng_, 4)) result[d] = 1;
    if (pack_dims > 0 && chance(rng_, 4))
      result.erase(result.begin(), result.begin() + static_cast<long>(1 + rng_.below(pack_dims)));
    return result;
  }

  const Row& row_;
  const Pattern& pattern_;
  RandomInstance& made_;
  Rng& rng_;
  std::map<std::string, int, std::less<>> packs_;
  std::map<std::string, int64_t, std::less<>> extents_, windows_;
  std::map<std::string, std::vector<int64_t>, std::less<>> lists_;
  int64_t limit_ = 1, taps_ = 1;
};

// The text of a row, or one of the texts that its function chooses from.
std::string pattern_text(const Row& row, RandomInstance& made, Rng& rng) {
  if (row.kind == "LabelLogits") return "a..@axis [c] b.., a.. b.. -> a.. b..";  // labels below c
  if (row.compute == nullptr) return std::string(row.axes);
  if (row.kind == "MatMul") {
    const bool trans_a = chance(rng, 2), trans_b = chance(rng, 2);
    made.attrs["trans_a"] = int64_t{trans_a};
    made.attrs["trans_b"] = int64_t{trans_b};
    return fmt::format("b.. {}, b.. {}, n? -> b.. m n", trans_a ? "k m" : "m k",
                       trans_b ? "n k" : "k n");
  }
  if (row.kind.starts_with("CrossEntropy") && chance(rng, 4))
    made.attrs["ignore_index"] = int64_t{0};
  if (row.kind == "CrossEntropy") return "a..@axis [c] b.., a.. b.., ()? -> (), a.. b..";
  if (row.kind == "CrossEntropyMean") return "a.., a.., a.., ()? -> ()";
  if (row.kind == "CrossEntropyGrad")
    return "a..@axis [c] b.., a.. b.., a.. b.., ()? -> a.. [c] b..";
  if (row.kind == "ReverseSequence") {
    const bool time_first = chance(rng, 2);
    made.attrs["time_axis"] = int64_t{!time_first};
    made.attrs["batch_axis"] = int64_t{time_first};
    return time_first ? "[t] b x.., b -> [t] b x.." : "b [t] x.., b -> b [t] x..";
  }
  if (row.kind == "SgdUpdate")
    return chance(rng, 2) ? "a.., a.., a.. -> a.., a.." : "a.., a.. -> a..";
  return {};
}

// ---- rearrangements ----

// Splits, joins and drops dimensions: the factors of all extents in order, regrouped.
ir::Dims random_shape(const ir::Dims& dims, Rng& rng) {
  ir::Dims shape;
  int64_t open = 1;
  for (const sym::Expr& dim : dims)
    for (int64_t rest = number(dim), factor = 2; rest > 1;) {
      if (rest % factor != 0) {
        ++factor;
        continue;
      }
      rest /= factor;
      open *= factor;
      if (!chance(rng, 2)) continue;
      shape.push_back(open);
      open = 1;
      if (chance(rng, 6)) shape.push_back(1);
    }
  if (open > 1 || chance(rng, 4)) shape.push_back(open);
  return shape;
}

void draw_slice(RandomInstance& made, const ir::Dims& dims, Rng& rng) {
  ir::Dims starts, sizes, steps;
  for (const sym::Expr& dim : dims) {
    const int64_t start = chance(rng, 2) ? 0 : static_cast<int64_t>(rng.below(number(dim)));
    const int64_t step = chance(rng, 4) ? 2 : 1;
    const int64_t most = (number(dim) - start + step - 1) / step;
    starts.push_back(start);
    steps.push_back(step);
    sizes.push_back(chance(rng, 2) ? most : rng.between(1, most));
  }
  made.attrs = {{"starts", starts}, {"sizes", sizes}, {"steps", steps}};
}

void draw_pad(RandomInstance& made, const ir::Dims& dims, Rng& rng) {
  ir::Dims begins, ends;
  for (const sym::Expr& dim : dims) {
    const bool crop = number(dim) > 1 && chance(rng, 4);
    begins.push_back(crop ? -1 : rng.between(0, 2));
    ends.push_back(rng.between(0, 2));
  }
  made.attrs = {{"begins", begins}, {"ends", ends}, {"value", 0.5}};
}

// Pieces can be joined along the outermost dimension that has more than one element.
void draw_concat(RandomInstance& made, ir::Dims dims, Rng& rng) {
  const size_t axis = rng.below(dims.size());
  if (made.kind == "Join") {
    std::fill(dims.begin(), dims.begin() + static_cast<long>(axis), sym::Expr(1));
    made.inputs = {Type{DType::kF32, dims, {}}};
  }
  made.attrs["axis"] = static_cast<int64_t>(axis);
  for (int64_t more = rng.between(0, 2); more > 0; --more) {
    ir::Dims other = dims;
    other[axis] = rng.between(1, 4);
    made.inputs.push_back(Type{DType::kF32, other, {}});
  }
}

// The dimensions that are left of a reduction.
ir::Dims reduced(const ir::Dims& dims, const ir::Dims& axes, bool keep) {
  ir::Dims left;
  for (size_t d = 0; d < dims.size(); ++d) {
    const sym::Expr axis = static_cast<int64_t>(d);
    const bool gone = std::find(axes.begin(), axes.end(), axis) != axes.end();
    if (!gone) left.push_back(dims[d]);
    if (gone && keep) left.emplace_back(1);
  }
  return left;
}

void draw_rearrangement(RandomInstance& made, Rng& rng) {
  ir::Dims dims = random_dims(rng, rng.between(1, 4));
  made.inputs = {Type{DType::kF32, dims, {}}};
  if (made.kind == "Reshape") {
    made.attrs["shape"] = random_shape(dims, rng);
  } else if (made.kind == "Transpose") {
    ir::Dims perm;
    for (size_t d = 0; d < dims.size(); ++d) perm.emplace_back(static_cast<int64_t>(d));
    for (size_t d = perm.size(); d > 1; --d) std::swap(perm[d - 1], perm[rng.below(d)]);
    made.attrs["perm"] = perm;
  } else if (made.kind == "Slice") {
    draw_slice(made, dims, rng);
  } else if (made.kind == "Pad") {
    draw_pad(made, dims, rng);
  } else if (made.kind.starts_with("Resize")) {
    draw_resize(made, dims, rng);
  } else if (made.kind.starts_with("GridSample")) {
    draw_grid_sample(made, rng);
  } else if (made.kind == "RoiAlign") {
    draw_roi_align(made, rng);
  } else if (made.kind.starts_with("PadRepeat")) {
    draw_pad_repeat(made, dims, rng);
  } else if (made.kind == "Concat" || made.kind == "Join") {
    draw_concat(made, dims, rng);
  } else if (made.kind == "Expand") {
    ir::Dims from = dims;
    for (sym::Expr& dim : from)
      if (chance(rng, 2)) dim = 1;
    from.erase(from.begin(), from.begin() + static_cast<long>(rng.below(from.size())));
    made.inputs = {Type{DType::kF32, from, {}}};
    made.attrs["shape"] = dims;
  } else if (made.kind == "Fill") {
    made.inputs.clear();
    made.attrs = {{"shape", dims}, {"value", 1.5}, {"dtype", std::string("f32")}};
  } else if (made.kind.starts_with("Reduce")) {
    ir::Dims axes;
    for (size_t d = 0; d < dims.size(); ++d)
      if (chance(rng, 2)) axes.emplace_back(static_cast<int64_t>(d));
    const bool keep = chance(rng, 2);
    made.attrs = {{"axes", axes}, {"keepdims", int64_t{keep}}};
    if (made.kind == "ReduceProdGrad")
      made.inputs.insert(made.inputs.begin(), Type{DType::kF32, reduced(dims, axes, keep), {}});
  }
}

// ---- attributes, types, values ----

// Attributes that no pattern mentions. Words and reals are by name, so that ops share what they
// share.
void fill_attrs(const Row& row, RandomInstance& made, Rng& rng) {
  const std::map<std::string, ir::AttrValue, std::less<>> usual = {
      {"alpha", 0.25},
      {"beta", 0.5},
      {"exponent", 3.0},
      {"scale", 0.75},
      {"shift", -0.5},
      {"bias", 1.0},
      {"size", rng.between(1, 4)},
      {"p", rng.between(1, 2)},
      {"ratio", 0.25},
      {"stream", int64_t{7}},
      {"low", -1.0},
      {"high", 2.0},
      {"epsilon", 1e-3},
      {"count", int64_t{24}},
      {"first_class", int64_t{1}},
      {"classes", int64_t{24}},
      {"momentum", 0.875},
      {"correction", 1.25},
      {"beta1", 0.875},
      {"beta2", 0.96875},
      {"learning_rate", 0.125},
      {"weight_decay", 0.0625},
      {"value", 0.5},
      {"to", std::string("i64")},
      {"min", -0.5},
      {"max", 0.5},
      {"layout", std::string("row_major")},
      {"count_include_pad", int64_t{chance(rng, 2)}},
      {"upper", int64_t{chance(rng, 2)}},
      {"k", rng.between(-2, 2)},
      {"last", int64_t{chance(rng, 2)}},
      {"smallest", int64_t{chance(rng, 2)}},
      {"exclusive", int64_t{chance(rng, 2)}},
      {"reverse", int64_t{chance(rng, 2)}},
      {"approximate", std::string(chance(rng, 2) ? "tanh" : "none")}};
  for (const auto& [name, value] : usual)
    if (fmt::format(" {}", row.attrs).find(fmt::format(" {}:", name)) != std::string::npos)
      made.attrs.emplace(name, value);
}

// Inputs whose values are not free: divisors, variances, arguments of roots and logarithms.
bool is_positive(std::string_view kind, size_t input) {
  using Entry = std::pair<std::string_view, size_t>;
  static constexpr Entry kEntries[] = {{"Log", 0},
                                       {"Sqrt", 0},
                                       {"Reciprocal", 0},
                                       {"Div", 1},
                                       {"Pow", 0},
                                       {"Mod", 0},
                                       {"Mod", 1},
                                       {"AdamWUpdate", 3},
                                       {"CrossEntropy", 2},
                                       {"CrossEntropyGrad", 3},
                                       {"CrossEntropyMean", 3},
                                       {"BatchNormGrad", 4},
                                       {"BatchNormGradSums", 3},
                                       {"BatchNormGradData", 4},
                                       {"LayerNormGrad", 4},
                                       {"BatchNormInference", 4},
                                       {"RmsNormGrad", 3}};
  return std::any_of(std::begin(kEntries), std::end(kEntries),
                     [&](const Entry& entry) { return entry == Entry(kind, input); });
}

// Arguments of functions that are defined on a part of the numbers only, and not near its ends.
InputValues within_domain(std::string_view kind, InputValues values) {
  if (kind == "Asin" || kind == "Acos" || kind == "Atanh") values.least = -0.9, values.most = 0.9;
  if (kind == "Tan") values.least = -1.2, values.most = 1.2;
  if (kind == "Acosh") values.least = 1.1, values.most = 4;
  return values;
}

// The word of the operands that share a type: a variable, or that of the only operand there is.
std::string_view shared_word(const Row& row) {
  const OperandWords words = parse_words(row.types);
  for (const std::vector<std::string_view>* side : {&words.inputs, &words.outputs})
    for (const std::string_view word : *side)
      if (std::string_view("TNUI*").find(word[0]) != std::string_view::npos) return word;
  return words.inputs.empty() ? "*" : "";  // Fill: its attribute says
}

// Moderate values of a type; divisors and the like are positive.
InputValues values_of(DType type, bool positive) {
  if (type == DType::kBool) return {.kind = Kind::kBool};
  if (is_float(type)) return {.kind = positive ? Kind::kPositive : Kind::kReal};
  if (positive) return {.kind = Kind::kWhole, .low = 1, .high = 5};
  return {.kind = Kind::kWhole, .low = is_unsigned(type) ? 0 : -9, .high = 10};
}

// The type and the values of one operand. `limit` is the extent that indices name positions of,
// `taps` the number of taps of a window.
InputValues give_type(Type& operand, std::string_view word, DType shared, bool positive,
                      int64_t limit, int64_t taps, Rng& rng) {
  switch (word[0]) {
    case 'b':
      operand.dtype = DType::kBool;
      return {.kind = Kind::kBool};
    case 'l':
      operand.dtype = DType::kI64;
      if (positive) return values_of(DType::kI64, positive);
      return {.kind = Kind::kInteger, .low = 0, .high = limit};
    case 'i':
      operand.dtype = chance(rng, 2) ? DType::kI64 : DType::kI32;
      return {.kind = Kind::kInteger, .low = -limit, .high = limit};
    case 'u':
      operand.dtype = DType::kU8;
      return {.kind = Kind::kInteger, .low = 0, .high = taps};
    case 'S':
      operand.dtype = state_type(shared);
      return values_of(operand.dtype, positive);
    default:
      operand.dtype = shared;
      return values_of(shared, positive);
  }
}

struct Drawn {
  DType shared;
  int64_t limit, taps;
};

void fill_types(const Row& row, RandomInstance& made, const Drawn& drawn, Rng& rng) {
  for (size_t i = 0; i < made.inputs.size(); ++i) {
    const std::string_view word = input_word(parse_words(row.types), i);
    InputValues values{.kind = is_positive(row.kind, i) ? Kind::kPositive : Kind::kReal};
    if (made.inputs[i])
      values = give_type(*made.inputs[i], word, drawn.shared, is_positive(row.kind, i), drawn.limit,
                         drawn.taps, rng);
    made.values.push_back(within_domain(row.kind, values));
  }
}

// Attributes that name the type of an output.
void fill_named_types(RandomInstance& made, DType shared, Rng& rng) {
  if (made.kind == "Fill") made.attrs["dtype"] = std::string(name(shared));
  if (made.kind == "BitCast") {
    std::vector<DType> alike;
    for (int t = 0; t < kDTypes; ++t) {
      const auto to = static_cast<DType>(t);
      if (size_bytes(to) == size_bytes(shared) && (to != DType::kBool || to == shared))
        alike.push_back(to);
    }
    made.attrs["to"] = std::string(name(alike[rng.below(alike.size())]));
  }
  if (made.kind == "Cast")
    made.attrs["to"] = std::string(name(static_cast<DType>(rng.below(kDTypes))));
}

// What a row's text does not say: how many elements a TopK may take, that a OneHot has two values.
void fit_to_checks(RandomInstance& made, int64_t& limit) {
  if (made.kind == "TopK") {
    const auto axis = static_cast<size_t>(std::get<int64_t>(made.attrs.at("axis")));
    auto& count = std::get<int64_t>(made.attrs.at("count"));
    count = std::min(count, number(made.inputs[0]->dims[axis]));
  } else if (made.kind == "OneHot") {
    made.inputs[1]->dims = {2};
    limit = std::get<int64_t>(made.attrs.at("depth"));
  }
}

// Any tap may be named at any position, so none may lie in padding.
void remove_padding(RandomInstance& made) {
  const auto list = [&](std::string_view name) {
    return std::get<ir::Dims>(made.attrs.find(name)->second);
  };
  const ir::Dims pads = list("pads");
  ir::Dims spatial = list("input_spatial");
  for (size_t d = 0; d < spatial.size(); ++d) {
    const sym::Expr span = list("dilations")[d] * (list("kernel")[d] - 1) + 1;
    spatial[d] = list("strides")[d] * (made.inputs[0]->dims[d + 2] - 1) + span;
  }
  made.attrs["ceil_mode"] = int64_t{0};
  made.attrs["pads"] = ir::Dims(pads.size(), sym::Expr(0));
  made.attrs["input_spatial"] = spatial;
}

}  // namespace

std::vector<DType> shared_types(std::string_view kind) {
  std::vector<DType> types;
  const Row* row = find(kind);
  const std::string_view word = row == nullptr ? "" : shared_word(*row);
  for (int t = 0; t < kDTypes && !word.empty(); ++t)
    if (accepts(word, static_cast<DType>(t))) types.push_back(static_cast<DType>(t));
  return types;
}

namespace {

Result<RandomInstance> draw_instance(std::string_view kind, Rng& rng, std::optional<DType> type) {
  const Row* row = find(kind);
  if (row == nullptr)
    return error(ErrorCode::kInput, fmt::format("there is no op of kind {}", kind));
  RandomInstance made;
  made.kind = std::string(kind);
  int64_t limit = 1, taps = 1;
  if (is_indexing(kind) || is_recurrent(kind)) {
    if (is_indexing(kind))
      draw_indexing(made, rng);
    else
      draw_recurrent(made, rng);
    LT_RETURN_IF_ERROR(infer(made.instance()).map([](const auto&) {}));
    return made;
  }
  if (const std::string text = pattern_text(*row, made, rng); !text.empty()) {
    LT_ASSIGN(const Pattern pattern, parse_pattern(text));
    PatternDraw draw(*row, pattern, made, rng);
    draw.run();
    limit = draw.limit();
    taps = draw.taps();
  } else {
    draw_rearrangement(made, rng);
  }
  if (kind.starts_with("Lrn") && chance(rng, 2)) made.attrs["beta"] = 0.75;
  fit_to_checks(made, limit);
  const DType shared = type.value_or(shared_word(*row) == "I" ? DType::kI32 : DType::kF32);
  if (kind == "RoiAlign") draw_roi_align(made, rng);
  if (kind == "Resize" && !is_float(shared)) copy_nearest(made);
  fill_attrs(*row, made, rng);
  fill_types(*row, made, {.shared = shared, .limit = limit, .taps = taps}, rng);
  if (type || kind == "BitCast") fill_named_types(made, shared, rng);
  if (kind == "MaxPoolGrad") remove_padding(made);
  if (kind == "RoiAlign") made.values[1] = {Kind::kInteger, 0, number(made.inputs[0]->dims[0])};
  if (kind == "MaxPoolPositions") made.values[0].high = draw_positions(made, rng);
  LT_RETURN_IF_ERROR(infer(made.instance()).map([](const auto&) {}));
  return made;
}

// An accumulator here and there.
Status draw_accumulators(RandomInstance& made, Rng& rng) {
  LT_ASSIGN(const std::vector<OutputType> outputs, infer(made.instance()));
  for (size_t o = 0; o < outputs.size(); ++o) {
    const auto place = accumulator_operand(*find(made.kind), static_cast<int>(o));
    if (!place || !chance(rng, 3)) continue;
    const auto input = static_cast<size_t>(*place);
    if (made.inputs.size() <= input) made.inputs.resize(input + 1);
    made.inputs[input] = outputs[o].type;
    made.values.resize(made.inputs.size());
    if (!is_float(outputs[o].type.dtype)) made.values[input] = {Kind::kWhole, 0, 4};
  }
  return infer(made.instance()).map([](const auto&) {});
}

}  // namespace

Result<RandomInstance> random_instance(std::string_view kind, Rng& rng, std::optional<DType> type) {
  LT_ASSIGN(RandomInstance made, draw_instance(kind, rng, type));
  LT_RETURN_IF_ERROR(draw_accumulators(made, rng));
  return made;
}

}  // namespace lowtide::ops
