// One line per value, op and attribute, in the order of their ids:
//
//   graph "mlp" "pytorch 2.5"
//   binding "batch" 8
//   given "x" f32 [batch, 784] input fed
//   given "w" f32 [10, 784] parameter external "w.bin" 0 31360
//   op "MatMul" "fc" "model.fc" forward v0 v1 -
//     attr "trans_b" int 1
//     control n0
//     out "y" f32 [batch, 10] activation own
//     out "z" f32 [10*batch] activation view v2 [0] layout "row_major" output 1
//
// Names are quoted; values are v<id>, ops n<id>, an absent optional input is "-". An output's
// number is its rank among the outputs, 0 where it has none. The reader checks everything that
// add_value and add_op take for granted; it looks at one line at a time and never recurses.
#include "ir/graph_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <iterator>
#include <set>

#include "ir/id_order.h"

namespace lowtide::ir {
namespace {

constexpr std::array<std::string_view, 4> kAliasWords = {"own", "view", "update", "pieces"};
constexpr std::array<std::string_view, 5> kInitialWords = {"fed", "seeded", "zero", "inline",
                                                           "external"};

constexpr int64_t kLargestRank = int64_t{1} << 32;

// ---- printing

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string list(const Dims& dims) {
  std::string out = "[";
  for (const sym::Expr& dim : dims) out += (out.size() > 1 ? ", " : "") + sym::print(dim);
  return out + "]";
}

class Printer {
 public:
  explicit Printer(const Graph& graph) : graph_(graph) {}

  std::string run() {
    line("graph {} {}\n", in_quotes(graph_.name), in_quotes(graph_.producer));
    for (const auto& [symbol, size] : graph_.bindings)
      line("binding {} {}\n", in_quotes(symbol), size);
    // Ids are given in the order of lines.
    for (const GraphItem item : in_id_order(graph_)) {
      if (item.given.valid())
        given(graph_.value(item.given));
      else
        op(item.op);
    }
    return std::move(out_);
  }

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  void type(const Value& value) {
    line("{} {} {} {}", in_quotes(value.name), name(value.dtype), list(value.dims),
         name(value.category));
  }

  void tail(const Value& value) {
    if (value.layout != Layout{}) line(" layout {}", in_quotes(lowtide::print(value.layout)));
    if (value.is_output) out_ += " output";
    if (value.output_rank != 0) line(" {}", value.output_rank);
    out_ += '\n';
  }

  void given(const Value& value) {
    out_ += "given ";
    type(value);
    const InitialValue& initial = value.initial;
    line(" {}", kInitialWords[static_cast<size_t>(initial.kind)]);
    if (initial.kind == InitialValue::Kind::kExternal)
      line(" {} {} {}", in_quotes(initial.file), initial.offset, initial.length);
    if (initial.kind == InitialValue::Kind::kInline) {
      out_ += " \"";
      for (char c : initial.bytes) line("{:02x}", static_cast<unsigned char>(c));
      out_ += '"';
    }
    tail(value);
  }

  void op(OpId id) {
    const Op& op = graph_.op(id);
    line("op {} {} {} {}", in_quotes(op.kind), in_quotes(op.name), in_quotes(op.module),
         name(op.phase));
    for (ValueId input : op.inputs)
      out_ += input.valid() ? fmt::format(" v{}", input.index()) : " -";
    out_ += '\n';
    if (!op.source.empty()) line("  source {}\n", in_quotes(op.source));
    for (const auto& [key, attr] : op.attrs) {
      line("  attr {} ", in_quotes(key));
      if (const auto* integer = std::get_if<int64_t>(&attr))
        line("int {}\n", *integer);
      else if (const auto* number = std::get_if<double>(&attr))
        line("real {}\n", *number);
      else if (const auto* word = std::get_if<std::string>(&attr))
        line("word {}\n", in_quotes(*word));
      else
        line("list {}\n", list(std::get<Dims>(attr)));
    }
    if (!op.control.empty()) {
      out_ += "  control";
      for (OpId before : op.control) line(" n{}", before.index());
      out_ += '\n';
    }
    for (ValueId output : op.outputs) {
      const Value& value = graph_.value(output);
      out_ += "  out ";
      type(value);
      line(" {}", kAliasWords[static_cast<size_t>(value.alias)]);
      if (value.alias == Alias::kView || value.alias == Alias::kUpdate)
        line(" v{} {}", value.base.index(), list({value.offset_bytes}));
      tail(value);
    }
  }

  const Graph& graph_;
  std::string out_;
};

// ---- reading

// Takes pieces off the front of one line.
class Line {
 public:
  Line(std::string_view text, std::string_view origin, size_t number)
      : text_(text), origin_(origin), number_(number) {}

  tl::unexpected<Error> fail(std::string_view expected) const {
    std::string rest(text_.substr(0, 40));
    for (char& c : rest)
      if (static_cast<unsigned char>(c) < 0x20) c = ' ';
    return error(ErrorCode::kInput,
                 fmt::format("{}:{}: expected {}, found '{}'", origin_, number_, expected, rest));
  }

  bool at_end() {
    skip_space();
    return text_.empty();
  }
  // The next word if it is this one.
  bool accept(std::string_view word) {
    skip_space();
    if (!text_.starts_with(word)) return false;
    if (text_.size() > word.size() && text_[word.size()] != ' ') return false;
    text_.remove_prefix(word.size());
    return true;
  }
  std::string_view word() {
    skip_space();
    const std::string_view found = text_.substr(0, text_.find(' '));
    text_.remove_prefix(found.size());
    return found;
  }

  Result<std::string> name() {
    skip_space();
    if (!text_.starts_with('"')) return fail("a quoted name");
    std::string out;
    for (size_t i = 1; i < text_.size(); ++i) {
      if (text_[i] == '"') {
        text_.remove_prefix(i + 1);
        return out;
      }
      if (text_[i] != '\\') {
        out += text_[i];
      } else if (++i < text_.size() && text_[i] == 'x') {
        unsigned code = 0;
        if (!hex(i + 1, code)) return fail("two hexadecimal digits after \\x");
        out += static_cast<char>(code);
        i += 2;
      } else if (i < text_.size()) {
        out += text_[i];
      }
    }
    return fail("a closing quote");
  }

  Result<int64_t> integer() {
    const std::string_view digits = word();
    int64_t number = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size() || digits.empty())
      return fail(fmt::format("an integer instead of '{}'", digits.substr(0, 40)));
    return number;
  }

  Result<double> real() {
    const std::string_view digits = word();
    double number = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size() || digits.empty())
      return fail(fmt::format("a number instead of '{}'", digits.substr(0, 40)));
    return number;
  }

  // "v12" with prefix 'v', below `count`.
  Result<size_t> id(char prefix, size_t count) {
    std::string_view digits = word();
    size_t number = 0;
    const bool prefixed = digits.starts_with(prefix);
    if (prefixed) digits.remove_prefix(1);
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (!prefixed || digits.empty() || parsed.ec != std::errc() ||
        parsed.ptr != digits.data() + digits.size() || number >= count)
      return fail(
          fmt::format("{}<id> with an id below {}, not '{}'", prefix, count, digits.substr(0, 20)));
    return number;
  }

  // "[a, floor_div(b, 2)]"
  Result<Dims> list() {
    skip_space();
    if (!text_.starts_with('[')) return fail("a list in brackets");
    text_.remove_prefix(1);
    Dims out;
    if (text_.starts_with(']')) {
      text_.remove_prefix(1);
      return out;
    }
    while (true) {
      const size_t end = element_end();
      if (end == std::string_view::npos) return fail("',' or ']'");
      auto dim = sym::parse_expr(text_.substr(0, end));
      if (!dim) return fail(fmt::format("a size ({})", dim.error().message));
      out.push_back(std::move(*dim));
      const bool last = text_[end] == ']';
      text_.remove_prefix(end + 1);
      if (last) return out;
    }
  }

  // One of the words of an enumeration that starts at 0 without holes.
  template <class Enum, size_t n>
  Result<Enum> one_of(const std::array<std::string_view, n>& words) {
    for (size_t i = 0; i < n; ++i)
      if (accept(words[i])) return static_cast<Enum>(i);
    return fail(fmt::format("one of {}", fmt::join(words, ", ")));
  }

  // The word that `parse_word` understands.
  template <class Enum>
  Result<Enum> parsed(std::optional<Enum> (*parse_word)(std::string_view), std::string_view what) {
    const std::string_view found = word();
    if (const auto value = parse_word(found)) return *value;
    return fail(fmt::format("{} instead of '{}'", what, found.substr(0, 40)));
  }

 private:
  void skip_space() {
    while (text_.starts_with(' ')) text_.remove_prefix(1);
  }
  bool hex(size_t at, unsigned& code) const {
    if (at + 2 > text_.size()) return false;
    const auto parsed = std::from_chars(text_.data() + at, text_.data() + at + 2, code, 16);
    return parsed.ec == std::errc() && parsed.ptr == text_.data() + at + 2;
  }
  // Where the first element ends: at a ',' or ']' outside parentheses and quotes.
  size_t element_end() const {
    int depth = 0;
    bool in_name = false;
    for (size_t i = 0; i < text_.size(); ++i) {
      const char c = text_[i];
      if (in_name && c == '\\')
        ++i;
      else if (c == '"')
        in_name = !in_name;
      else if (in_name)
        continue;
      else if (c == '(')
        ++depth;
      else if (c == ')')
        --depth;
      else if (depth == 0 && (c == ',' || c == ']'))
        return i;
    }
    return std::string_view::npos;
  }

  std::string_view text_;
  std::string_view origin_;
  size_t number_;
};

class Reader {
 public:
  explicit Reader(std::string_view origin) : origin_(origin) {}

  Result<Graph> run(std::string_view text) {
    for (size_t number = 1; !text.empty(); ++number) {
      const size_t end = text.find('\n');
      LT_RETURN_IF_ERROR(read(Line(text.substr(0, end), origin_, number)));
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
    finish_op();
    if (!started_)
      return error(ErrorCode::kInput,
                   fmt::format("{}:1: expected a line that starts with 'graph'", origin_));
    if (Status status = check(graph_); !status)
      return error(status.error().code, fmt::format("{}: {}", origin_, status.error().message));
    return std::move(graph_);
  }

 private:
  Status read(Line line) {
    if (line.at_end()) return {};
    if (!started_) return read_header(line);
    if (line.accept("source")) return read_source(line);
    if (line.accept("attr")) return read_attr(line);
    if (line.accept("control")) return read_control(line);
    if (line.accept("out")) return read_out(line);
    finish_op();
    if (line.accept("binding")) return read_binding(line);
    if (line.accept("given")) return read_given(line);
    if (line.accept("op")) return read_op(line);
    return line.fail("binding, given, op, source, attr, control or out");
  }

  Status done(Line& line) const {
    if (!line.at_end()) return line.fail("the end of the line");
    return {};
  }

  Status read_header(Line& line) {
    if (!line.accept("graph")) return line.fail("'graph'");
    started_ = true;
    LT_ASSIGN(graph_.name, line.name());
    LT_ASSIGN(graph_.producer, line.name());
    return done(line);
  }

  Status read_binding(Line& line) {
    LT_ASSIGN(const std::string symbol, line.name());
    LT_ASSIGN(graph_.bindings[symbol], line.integer());
    return done(line);
  }

  Result<Value> read_type(Line& line) {
    Value value;
    LT_ASSIGN(value.name, line.name());
    if (!value_names_.insert(value.name).second) return line.fail("a name that no other value has");
    LT_ASSIGN(value.dtype, line.parsed(&parse_dtype, "a dtype such as f32"));
    LT_ASSIGN(value.dims, line.list());
    LT_ASSIGN(value.category, line.parsed(&parse_category, "a category such as activation"));
    return value;
  }

  Status read_tail(Line& line, Value& value) {
    if (line.accept("layout")) {
      LT_ASSIGN(const std::string layout, line.name());
      if (!lowtide::parse(layout, value.layout)) return line.fail("a layout such as \"perm:0231\"");
    }
    value.is_output = line.accept("output");
    if (!value.is_output || line.at_end()) return done(line);
    LT_ASSIGN(value.output_rank, line.integer());
    if (value.output_rank < 0 || value.output_rank > kLargestRank)
      return line.fail(fmt::format("a rank between 0 and {} before this", kLargestRank));
    return done(line);
  }

  Status read_given(Line& line) {
    LT_ASSIGN(Value value, read_type(line));
    InitialValue& initial = value.initial;
    LT_ASSIGN(initial.kind, line.one_of<InitialValue::Kind>(kInitialWords));
    if (initial.kind == InitialValue::Kind::kExternal) {
      LT_ASSIGN(initial.file, line.name());
      LT_ASSIGN(initial.offset, line.integer());
      LT_ASSIGN(initial.length, line.integer());
      if (initial.offset < 0 || initial.length < 0)
        return line.fail("an offset and a length of at least 0 before this");
    }
    if (initial.kind == InitialValue::Kind::kInline) {
      LT_ASSIGN(const std::string digits, line.name());
      if (digits.size() % 2 != 0)
        return line.fail("an even number of hexadecimal digits before this");
      for (size_t i = 0; i < digits.size(); i += 2) {
        unsigned byte = 0;
        const auto parsed = std::from_chars(digits.data() + i, digits.data() + i + 2, byte, 16);
        if (parsed.ec != std::errc() || parsed.ptr != digits.data() + i + 2)
          return line.fail("hexadecimal digits before this");
        initial.bytes += static_cast<char>(byte);
      }
    }
    LT_RETURN_IF_ERROR(read_tail(line, value));
    graph_.add_value(std::move(value));
    return {};
  }

  Status read_op(Line& line) {
    Op op;
    LT_ASSIGN(op.kind, line.name());
    LT_ASSIGN(op.name, line.name());
    if (!op_names_.insert(op.name).second) return line.fail("a name that no other op has");
    LT_ASSIGN(op.module, line.name());
    LT_ASSIGN(op.phase, line.parsed(&parse_phase, "forward, backward or update"));
    while (!line.at_end()) {
      if (line.accept("-")) {
        op.inputs.push_back(ValueId::none());
        continue;
      }
      LT_ASSIGN(const size_t input, line.id('v', graph_.value_count()));
      op.inputs.push_back(ValueId(input));
    }
    op_ = std::move(op);
    return {};
  }

  Status read_source(Line& line) {
    if (!op_) return line.fail("an op before its source");
    if (!op_->source.empty()) return line.fail("one source");
    LT_ASSIGN(op_->source, line.name());
    return done(line);
  }

  Status read_attr(Line& line) {
    if (!op_) return line.fail("an op before its attributes");
    LT_ASSIGN(const std::string key, line.name());
    if (op_->attrs.contains(key)) return line.fail("each attribute once");
    AttrValue& attr = op_->attrs[key];
    if (line.accept("int")) {
      LT_ASSIGN(attr, line.integer());
    } else if (line.accept("real")) {
      LT_ASSIGN(attr, line.real());
    } else if (line.accept("word")) {
      LT_ASSIGN(attr, line.name());
    } else if (line.accept("list")) {
      LT_ASSIGN(attr, line.list());
    } else {
      return line.fail("int, real, word or list");
    }
    return done(line);
  }

  Status read_control(Line& line) {
    if (!op_) return line.fail("an op before its control edges");
    while (!line.at_end()) {
      LT_ASSIGN(const size_t before, line.id('n', graph_.op_count()));
      op_->control.push_back(OpId(before));
    }
    return {};
  }

  Status read_out(Line& line) {
    if (!op_) return line.fail("an op before its outputs");
    LT_ASSIGN(Value value, read_type(line));
    LT_ASSIGN(value.alias, line.one_of<Alias>(kAliasWords));
    if (value.alias == Alias::kPieces && !graph_.may_join(op_->inputs))
      return line.fail("an op before this whose inputs are all there and share no storage");
    if (value.alias == Alias::kView || value.alias == Alias::kUpdate) {
      LT_ASSIGN(const size_t base, line.id('v', graph_.value_count()));
      value.base = ValueId(base);
      if (std::find(op_->inputs.begin(), op_->inputs.end(), value.base) == op_->inputs.end())
        return line.fail("an input of the op as base before this");
      LT_ASSIGN(const Dims offset, line.list());
      if (offset.size() != 1) return line.fail("one offset before this");
      value.offset_bytes = offset[0];
    }
    LT_RETURN_IF_ERROR(read_tail(line, value));
    outputs_.push_back(std::move(value));
    return {};
  }

  void finish_op() {
    if (!op_) return;
    graph_.add_op(std::move(*op_), std::move(outputs_));
    op_.reset();
    outputs_.clear();
  }

  std::string_view origin_;
  bool started_ = false;
  Graph graph_;
  std::optional<Op> op_;  // whose attributes and outputs are being read
  std::vector<Value> outputs_;
  std::set<std::string, std::less<>> value_names_, op_names_;
};

}  // namespace

std::string print(const Graph& graph) {
  return Printer(graph).run();
}

Result<Graph> parse_graph(std::string_view text, std::string_view origin) {
  return Reader(origin).run(text);
}

}  // namespace lowtide::ir
