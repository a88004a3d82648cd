// The words of rules: what a rule's condition may ask of a match, how neighbours of a run may be
// related, and where the attributes of new ops come from. A word is a row: its name, what names it
// takes (a letter each), and a function that looks at the graph and changes nothing.
//
//   v  a value, or the first result of an op     o  an op
//   V  any number of values; one is such, too    O  any number of ops, as in a run
//
// words.cc has the general ones, slice_words.cc those of slices and concats, move_words.cc those of
// what is moved and cast.
//
// Tests: rules_test.cc, slice_concat_test.cc, round_trips_test.cc.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/edit.h"
#include "rewrite/pattern.h"

namespace lowtide::rewrite {

// What the names behind a word stand for in a match.
struct Arguments {
  const Match& match;
  std::span<const size_t> names;

  const ir::GraphEdit& edit() const { return *match.edit; }
  const std::vector<ir::ValueId>& values(size_t i) const { return match.bound[names[i]]; }
  ir::ValueId value(size_t i) const { return values(i)[0]; }
  ir::OpId op(size_t i) const { return match.op(names[i]); }
};

struct ConditionWord {
  std::string_view word, takes;
  bool (*holds)(const Arguments& arguments) = nullptr;
};
struct AttributesWord {
  std::string_view word, takes;
  std::optional<ir::Attrs> (*of)(const Arguments& arguments) = nullptr;  // none: no such op
};
// Of two neighbours among the operands of the reader.
struct RelationWord {
  std::string_view word;
  bool (*holds)(const ir::GraphEdit& edit, ir::OpId reader, ir::ValueId left,
                ir::ValueId right) = nullptr;
};

// A list of them.
struct Words {
  std::span<const ConditionWord> conditions = {};
  std::span<const AttributesWord> attributes = {};
  std::span<const RelationWord> relations = {};
};
Words general_words();
Words slice_words();
Words move_words();

// Of all lists; null where there is none.
const ConditionWord* find_condition(std::string_view word);
const AttributesWord* find_attributes(std::string_view word);
const RelationWord* find_relation(std::string_view word);

// Whether a call gives a word what it takes. Error: kUsage.
Status check_call(const Call& call, std::string_view takes, std::span<const Name> names);

// ---- for words ----

bool is_view(const ir::GraphEdit& edit, ir::ValueId value);
// Neither a view where there was a copy, nor a copy where there was a view.
bool lies_alike(const ir::GraphEdit& edit, ir::ValueId now, ir::ValueId was);
// Nothing where one is a symbol.
std::optional<std::vector<int64_t>> numbers(const ir::Dims& dims);

}  // namespace lowtide::rewrite
