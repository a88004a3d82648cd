// The parser of signature texts (notation: signature.h). A text is one line of our own, read by
// plain recursive descent; an error in it is a bug of a row and is found by the test that parses
// all rows.
#include <fmt/format.h>

#include <cctype>
#include <map>

#include "ops/signature.h"

namespace lowtide::ops {
namespace {

class PatternParser {
 public:
  explicit PatternParser(std::string_view text) : text_(text) {}

  Result<Pattern> parse() {
    Pattern pattern;
    LT_RETURN_IF_ERROR(operands(pattern.inputs));
    if (!take("->")) return fail("'->'");
    LT_RETURN_IF_ERROR(operands(pattern.outputs));
    if (at_ != text_.size()) return fail("the end");
    return pattern;
  }

 private:
  // One operand after another, up to "->" or the end. No text at all means no operand; "()" is an
  // operand without dimensions.
  Status operands(std::vector<PatternOperand>& list) {
    skip_blanks();
    if (at_end_of_side()) return {};
    do {
      PatternOperand operand;
      LT_RETURN_IF_ERROR(items(operand));
      list.push_back(std::move(operand));
    } while (take(","));
    return {};
  }

  Status items(PatternOperand& operand) {
    for (skip_blanks(); !at_end_of_side() && peek() != ','; skip_blanks()) {
      if (take("()")) {
        if (take_now('?')) operand.optional = true;
        continue;
      }
      LT_ASSIGN(PatternItem item, this->item());
      operand.items.push_back(std::move(item));
      if (take_now('?')) operand.optional = true;
    }
    if (take_now('?')) operand.optional = true;
    return {};
  }

  Result<PatternItem> item() {
    const bool coupled = take_now('[');
    LT_ASSIGN(PatternItem item, plain_item());
    item.coupled = coupled;
    if (coupled && !take_now(']')) return fail("']'");
    return item;
  }

  Result<PatternItem> plain_item() {
    PatternItem item;
    if (take_now('1')) {
      item.form = LinkKind::kBroadcast;
      return item;
    }
    if (take_now('{')) {
      LT_ASSIGN(PatternAxis chosen, axis());
      item.form = LinkKind::kChosen;
      item.axes.push_back(std::move(chosen));
      if (!take_now('}')) return fail("'}'");
      return item;
    }
    if (take_now('(')) {
      LT_RETURN_IF_ERROR(bracketed(item));
    } else {
      LT_ASSIGN(PatternAxis single, axis());
      item.axes.push_back(std::move(single));
    }
    LT_RETURN_IF_ERROR(suffixes(item));
    return item;
  }

  // "a b)" or "o*s+r*d-p)".
  Status bracketed(PatternItem& item) {
    item.form = LinkKind::kGroup;
    for (skip_blanks(); peek() != ')'; skip_blanks()) {
      const bool coupled = take_now('[');
      LT_ASSIGN(PatternAxis next, axis());
      next.coupled = coupled;
      if (coupled && !take_now(']')) return fail("']'");
      item.axes.push_back(std::move(next));
      if (take_now('*')) {
        item.form = LinkKind::kWindow;
        LT_ASSIGN(std::string factor, word());
        (item.axes.size() == 1 ? item.stride : item.dilation) = std::move(factor);
      }
      if (take_now('+')) item.form = LinkKind::kWindow;
      if (take_now('-')) {
        LT_ASSIGN(item.padding, word());
      }
    }
    at_ += 1;
    if (item.form == LinkKind::kWindow && item.axes.size() != 2) return fail("position and tap");
    return {};
  }

  Status suffixes(PatternItem& item) {
    if (take("..")) item.pack = true;
    if (item.pack && take_now('@')) {
      LT_ASSIGN(item.pack_size_attr, word());
    }
    if (take_now(':')) {
      LT_ASSIGN(std::string attr, word());
      (item.form == LinkKind::kDirect ? item.axes[0].extent_attr : item.extent_attr) =
          std::move(attr);
    }
    return {};
  }

  Result<PatternAxis> axis() {
    PatternAxis axis;
    LT_ASSIGN(axis.name, word());
    if (take_now(':')) {
      LT_ASSIGN(axis.extent_attr, word());
    }
    return axis;
  }

  Result<std::string> word() {
    const size_t begin = at_;
    while (std::isalnum(static_cast<unsigned char>(peek())) || peek() == '_') ++at_;
    if (begin == at_) return fail("a name");
    return std::string(text_.substr(begin, at_ - begin));
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool at_end_of_side() const { return at_ == text_.size() || text_.substr(at_).starts_with("->"); }
  void skip_blanks() {
    while (peek() == ' ') ++at_;
  }
  bool take_now(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  bool take(std::string_view token) {
    skip_blanks();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  tl::unexpected<Error> fail(std::string_view wanted) const {
    return error(ErrorCode::kInternal,
                 fmt::format("signature \"{}\", column {}: expected {}", text_, at_ + 1, wanted));
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Result<Pattern> parse_pattern(std::string_view text) {
  return PatternParser(text).parse();
}

Result<KnownPattern> known_pattern(std::string_view text) {
  constexpr size_t kMost = 1000;  // texts follow ranks and attributes, so in practice a few dozen
  thread_local std::map<std::string, KnownPattern, std::less<>> known;
  if (const auto found = known.find(text); found != known.end()) return found->second;
  LT_ASSIGN(Pattern pattern, parse_pattern(text));
  if (known.size() >= kMost) known.clear();
  KnownPattern made = std::make_shared<const Pattern>(std::move(pattern));
  known.emplace(text, made);
  return made;
}

Arity arity(const Pattern& pattern) {
  Arity result;
  for (size_t i = 0; i < pattern.inputs.size(); ++i) {
    result.allowed = i + 1;
    if (!pattern.inputs[i].optional) result.required = i + 1;
  }
  return result;
}

}  // namespace lowtide::ops
