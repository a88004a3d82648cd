// Edits against a model that keeps everything by name and builds the graph from nothing each time:
// the same changes are taken and refused, and the graphs are equal. Then undoing.
#include "ir/edit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/rng.h"
#include "ir/testing/plain_ops.h"

namespace lowtide::ir {
namespace {

using testing::add, testing::alias_of, testing::op, testing::value;

// ---- by hand ----

// x -> double -> y -> view -> flat -> last -> z
struct Chain {
  Graph graph;
  ValueId x, y, flat, z;
  Chain() {
    x = graph.add_value(value("x", {4, 4}));
    y = add(graph, op("double", {x, x}), value("y", {4, 4}));
    flat = add(graph, op("view", {y}), alias_of(y, Alias::kView, "flat", {16}));
    z = add(graph, op("last", {flat}), value("z", {16}));
    graph.set_output(z, true);
  }
};

TEST(GraphEdit, WithoutChangesIsTheGraph) {
  const Chain chain;
  const GraphEdit edit(chain.graph);
  const Rewritten same = edit.compact();
  EXPECT_TRUE(same.graph == chain.graph);
  EXPECT_EQ(same.value[chain.flat], chain.flat);
  EXPECT_FALSE(edit.is_touched());
  EXPECT_EQ(edit.first_op(), OpId(0));
  EXPECT_EQ(edit.next_op(OpId(0)), OpId(1));
  EXPECT_FALSE(edit.next_op(OpId(2)).valid());
  EXPECT_FALSE(edit.previous_op(OpId(0)).valid());
}

// What a search does to recompute a value: the op again, and the later readers read the new one.
TEST(GraphEdit, RecomputesAValueForItsLaterReaders) {
  const Chain chain;
  GraphEdit edit(chain.graph);
  const auto start = edit.mark();
  const OpId again = edit.add_op(op("double.again", {chain.x, chain.x}), {value("y2", {4, 4})},
                                 Place::after(OpId(0)))
                         .value();
  const ValueId y2 = edit.op(again).outputs[0];
  ASSERT_TRUE(edit.replace_reads(chain.y, y2).has_value());
  EXPECT_EQ(edit.value(chain.flat).base, y2);
  EXPECT_EQ(edit.value(chain.flat).storage, edit.value(y2).storage);
  EXPECT_TRUE(edit.readers(chain.y).empty());
  EXPECT_EQ(edit.values_in(edit.value(y2).storage).size(), 2u);
  ASSERT_TRUE(edit.remove_op(OpId(0)).has_value());
  EXPECT_FALSE(edit.alive(chain.y));
  const Rewritten changed = edit.compact();
  EXPECT_TRUE(check(changed.graph).has_value());
  EXPECT_EQ(changed.graph.op_count(), 3u);
  EXPECT_EQ(changed.graph.op(changed.op[again]).name, "double.again");
  EXPECT_FALSE(changed.op[OpId(0)].valid());
  edit.rollback(start);
  EXPECT_TRUE(edit.compact().graph == chain.graph);
  EXPECT_EQ(edit.op_slots(), 3u) << "the id is free again";
}

TEST(GraphEdit, RefusesWithTheNamesAndChangesNothing) {
  const Chain chain;
  GraphEdit edit(chain.graph);
  EXPECT_EQ(edit.remove_op(OpId(0)).error().message,
            "op 'double' makes 'y', which op 'view' reads");
  EXPECT_EQ(edit.remove_op(OpId(2)).error().message, "op 'last' makes 'z', an output of the step");
  EXPECT_EQ(edit.remove_value(chain.x).error().message, "value 'x' is read by op 'double'");
  EXPECT_EQ(edit.move_op(OpId(2), Place::before(OpId(0))).error().message,
            "op 'last' reads 'flat', which is made later");
  EXPECT_EQ(edit.set_input(OpId(0), 0, chain.z).error().message,
            "op 'double' cannot read 'z', which is made later");
  EXPECT_EQ(edit.set_input(OpId(1), 0, ValueId::none()).error().message,
            "op 'view' cannot do without 'y', which 'flat' lies on");
  EXPECT_EQ(edit.add_op(op("view", {}), {}, Place::end()).error().message,
            "there is an op 'view' already");
  Value whole = value("whole", {4, 8});
  whole.alias = Alias::kPieces;
  EXPECT_EQ(edit.add_op(op("join", {chain.y, chain.x}), {whole}, Place::end()).error().message,
            "op 'join' joins 'x' to 'whole': no op makes it");
  EXPECT_EQ(edit.add_op(op("join", {chain.z, chain.z}), {whole}, Place::end()).error().message,
            "op 'join' joins 'z' to 'whole': it is there twice");
  EXPECT_EQ(edit.rename(chain.y, "z").error().message, "there is a value 'z' already");
  EXPECT_EQ(edit.add_control(OpId(1), OpId(0)).error().message,
            "op 'double' cannot wait for op 'view', which comes later");
  EXPECT_EQ(edit.set_form(chain.y, {.dims = {3}}).error().message,
            "value 'flat' ends at byte 64 of the storage of 'y', which has 12");
  EXPECT_TRUE(edit.compact().graph == chain.graph);
  EXPECT_EQ(edit.mark(), 0u);
}

TEST(GraphEdit, KnowsWhoReadsWhatIsOverwritten) {
  Graph graph;
  const ValueId w = graph.add_value(value("w", {4}));
  add(graph, op("read", {w}), value("r", {4}));
  const ValueId now = add(graph, op("step", {w}), alias_of(w, Alias::kUpdate, "now", {4}));
  GraphEdit edit(graph);
  EXPECT_EQ(edit.move_op(OpId(0), Place::end()).error().message,
            "op 'read' reads 'w' after op 'step' has overwritten it");
  EXPECT_EQ(edit.move_op(OpId(1), Place::before(OpId(0))).error().message,
            "op 'step' overwrites 'w', which op 'read' reads later");
  EXPECT_EQ(edit.add_op(op("late", {w}), {value("l", {4})}, Place::end()).error().message,
            "op 'late' reads 'w' after op 'step' has overwritten it");
  EXPECT_EQ(
      edit.add_op(op("twice", {w}), {alias_of(w, Alias::kUpdate, "t", {4})}, Place::before(OpId(0)))
          .error()
          .message,
      "ops 'twice' and 'step' both overwrite 'w'");
  EXPECT_TRUE(edit.add_op(op("late", {now}), {value("l", {4})}, Place::end()).has_value());
  EXPECT_TRUE(check(edit.compact().graph).has_value());
}

TEST(GraphEdit, HandsOverWhatChangedOnce) {
  const Chain chain;
  GraphEdit edit(chain.graph);
  edit.set_attr(OpId(2), "axis", AttrValue(int64_t{1}));
  Touched touched = edit.take_touched();
  EXPECT_EQ(touched.ops, (std::set<OpId>{OpId(2)}));
  EXPECT_EQ(touched.values, std::set<ValueId>{});
  EXPECT_FALSE(edit.is_touched());
  edit.rollback(0);
  EXPECT_EQ(edit.take_touched().ops, (std::set<OpId>{OpId(2)})) << "undoing is a change, too";
  edit.set_output(chain.y, true);
  touched = edit.take_touched();
  EXPECT_EQ(touched.values, (std::set<ValueId>{chain.y, chain.flat})) << "all of the storage";
}

// ---- against the model ----

// A graph by names. Items in order: a given value (kind empty) or an op with what it makes.
struct ModelValue {
  Value value;  // without ids; offset_bytes within the base
  std::string base;
};
struct ModelItem {
  Op op;  // without ids
  std::vector<std::string> inputs, control;
  std::vector<ModelValue> made;
  bool given = false;
};
using Model = std::vector<ModelItem>;

// Two updates of one version, which check lets pass where one op makes both.
bool overwrites_twice(const Graph& graph) {
  std::set<ValueId> overwritten;
  for (const ValueId id : graph.values()) {
    if (graph.value(id).alias != Alias::kUpdate) continue;
    ValueId version = graph.value(id).base;
    while (graph.value(version).alias == Alias::kView) version = graph.value(version).base;
    if (!overwritten.insert(version).second) return true;
  }
  return false;
}

// Nothing where a name is not there yet or the graph is refused.
std::optional<Graph> build(const Model& model) {
  Graph graph;
  std::map<std::string, OpId> ops;
  const auto give = [&](const Value& value) {
    if (!graph.find_value(value.name)) graph.add_value(value);
  };
  for (const ModelItem& item : model) {
    if (item.given) {
      give(item.made[0].value);
      continue;
    }
    Op made = item.op;
    for (const std::string& name : item.inputs) {
      for (const ModelItem& other : model)
        if (other.given && other.made[0].value.name == name) give(other.made[0].value);
      const auto found = name.empty() ? ValueId::none() : graph.find_value(name);
      if (!found) return {};
      made.inputs.push_back(*found);
    }
    for (const std::string& name : item.control) {
      if (!ops.contains(name)) return {};
      made.control.push_back(ops.at(name));
    }
    std::vector<Value> outputs;
    for (const ModelValue& each : item.made) {
      Value output = each.value;
      if (output.alias == Alias::kPieces && !graph.may_join(made.inputs)) return {};
      if (output.alias == Alias::kView || output.alias == Alias::kUpdate) {
        output.base = *graph.find_value(each.base);
        output.offset_bytes = output.offset_bytes + graph.value(output.base).offset_bytes;
      }
      outputs.push_back(std::move(output));
    }
    ops.emplace(item.op.name, graph.add_op(std::move(made), std::move(outputs)));
  }
  if (!check(graph) || overwrites_twice(graph)) return {};
  return graph;
}

// The indices say what the values and ops say.
void expect_indexed(const GraphEdit& edit) {
  std::map<ValueId, std::set<OpId>> readers;
  std::map<StorageId, std::vector<ValueId>> members;
  for (OpId id = edit.first_op(); id.valid(); id = edit.next_op(id))
    for (const ValueId input : edit.op(id).inputs)
      if (input.valid()) readers[input].insert(id);
  for (size_t i = 0; i < edit.value_slots(); ++i) {
    const ValueId id(i);
    if (!edit.alive(id)) continue;
    const Value& value = edit.value(id);
    members[value.storage].push_back(id);
    const std::vector<OpId> wanted(readers[id].begin(), readers[id].end());
    ASSERT_EQ(std::vector<OpId>(edit.readers(id).begin(), edit.readers(id).end()), wanted);
    ASSERT_EQ(edit.find_value(value.name), id);
    const bool own = value.alias == Alias::kOwn || value.alias == Alias::kPieces;
    ASSERT_EQ(value.storage, own ? StorageId(i) : edit.value(value.base).storage) << value.name;
  }
  for (size_t i = 0; i < edit.value_slots(); ++i) {
    const auto found = edit.values_in(StorageId(i));
    ASSERT_EQ(std::vector<ValueId>(found.begin(), found.end()), members[StorageId(i)]);
  }
}

// Draws a change, makes it in both, and holds them against each other.
class Twins {
 public:
  Twins(uint64_t seed, Model model) : rng_(seed), model_(std::move(model)), edit_(*build(model_)) {}

  GraphEdit& edit() { return edit_; }
  Model& model() { return model_; }
  int taken = 0, refused = 0, wholes = 0;

  void step() {
    Model next = model_;
    const size_t before = edit_.mark();
    const bool done = draw(next);
    const std::optional<Graph> wanted = possible_ ? build(next) : std::nullopt;
    ASSERT_EQ(done, wanted.has_value()) << what_;
    if (done) model_ = std::move(next);
    if (!done) {
      ASSERT_EQ(edit_.mark(), before) << what_;
    }
    ++(done ? taken : refused);
    const Graph now = edit_.compact().graph;
    ASSERT_TRUE(now == *build(model_)) << what_;
    for (const ValueId id : now.values()) wholes += now.value(id).alias == Alias::kPieces;
    ASSERT_NO_FATAL_FAILURE(expect_indexed(edit_)) << what_;
  }

 private:
  std::string fresh() { return "n" + std::to_string(count_++); }
  ModelItem& item(Model& model, OpId id) {
    const std::string& name = edit_.op(id).name;
    return *std::find_if(model.begin(), model.end(), [&](const ModelItem& each) {
      return !each.given && each.op.name == name;
    });
  }
  ModelValue& made(Model& model, const std::string& name) {
    for (ModelItem& each : model)
      for (ModelValue& value : each.made)
        if (value.value.name == name) return value;
    std::abort();
  }
  OpId any_op() {
    std::vector<OpId> all;
    for (OpId id = edit_.first_op(); id.valid(); id = edit_.next_op(id)) all.push_back(id);
    return all.empty() ? OpId::none() : all[rng_.below(all.size())];
  }
  ValueId any_value() {
    while (true)
      if (const ValueId id(rng_.below(edit_.value_slots())); edit_.alive(id)) return id;
  }
  const std::string& name(ValueId id) { return edit_.value(id).name; }
  ModelValue random_output(const std::vector<ValueId>& inputs, std::vector<ValueId>& bases) {
    ModelValue drawn;
    drawn.value = value(fresh(), {sym::Expr(rng_.between(1, 3))});
    const uint64_t kind = rng_.below(6);
    bases.push_back(ValueId::none());
    if (kind >= 4) drawn.value.alias = Alias::kPieces;
    if (kind >= 2 || inputs.empty()) return drawn;
    const ValueId base = inputs[rng_.below(inputs.size())];
    drawn.value.alias = kind == 0 ? Alias::kView : Alias::kUpdate;
    drawn.value.offset_bytes = 4 * rng_.between(0, 1);
    drawn.base = name(base);
    bases.back() = base;
    return drawn;
  }
  // The model's item index of an op's place.
  Place random_place() {
    const OpId at = any_op();
    if (!at.valid() || rng_.below(4) == 0) return Place::end();
    return rng_.below(2) == 0 ? Place::before(at) : Place::after(at);
  }
  void insert(Model& model, ModelItem drawn, Place place) {
    auto at = model.end();
    if (place.kind != Place::Kind::kEnd) {
      at = model.begin() + (&item(model, place.op) - model.data());
      if (place.kind == Place::Kind::kAfter) ++at;
    }
    model.insert(at, std::move(drawn));
  }

  bool draw(Model& next) {
    possible_ = true;
    switch (rng_.below(14)) {
      case 0:
      case 1:
      case 2:
        return draw_add(next);
      case 3:
        return draw_remove(next);
      case 4:
        return draw_move(next);
      case 5:
      case 6:
        return draw_input(next);
      case 7:
        return draw_replace(next);
      case 8:
      case 9:
        return draw_form(next);
      case 10:
        return draw_control(next);
      case 11:
        return draw_given(next);
      case 12:
        return draw_flags(next);
      default:
        return draw_attr(next);
    }
  }

  bool draw_add(Model& next) {
    what_ = "add_op";
    ModelItem drawn;
    std::vector<ValueId> inputs, bases;
    for (uint64_t i = rng_.below(3); i > 0; --i) inputs.push_back(any_value());
    for (const ValueId input : inputs) drawn.inputs.push_back(name(input));
    drawn.op = op(fresh(), {});
    for (uint64_t i = rng_.below(3); i > 0; --i) drawn.made.push_back(random_output(inputs, bases));
    Op added = drawn.op;
    added.inputs = inputs;
    std::vector<Value> outputs;
    for (size_t i = 0; i < drawn.made.size(); ++i) {
      outputs.push_back(drawn.made[i].value);
      if (!bases[i].valid()) continue;
      outputs.back().base = bases[i];
      outputs.back().offset_bytes =
          outputs.back().offset_bytes + edit_.value(bases[i]).offset_bytes;
    }
    const Place place = random_place();
    insert(next, std::move(drawn), place);
    return edit_.add_op(std::move(added), std::move(outputs), place).has_value();
  }

  bool draw_remove(Model& next) {
    what_ = "remove_op";
    const OpId id = any_op();
    if (!id.valid()) return true;
    for (const ValueId output : edit_.op(id).outputs) possible_ &= !edit_.value(output).is_output;
    const std::string gone = edit_.op(id).name;
    next.erase(next.begin() + (&item(next, id) - next.data()));
    for (ModelItem& each : next) std::erase(each.control, gone);
    return edit_.remove_op(id).has_value();
  }

  bool draw_move(Model& next) {
    what_ = "move_op";
    const OpId id = any_op();
    const Place place = random_place();
    if (!id.valid() || place.op == id) return true;
    ModelItem moved = item(next, id);
    next.erase(next.begin() + (&item(next, id) - next.data()));
    insert(next, std::move(moved), place);
    return edit_.move_op(id, place).has_value();
  }

  bool draw_input(Model& next) {
    what_ = "set_input";
    const OpId id = any_op();
    if (!id.valid() || edit_.op(id).inputs.empty()) return true;
    const std::vector<ValueId>& inputs = edit_.op(id).inputs;
    const size_t index = rng_.below(inputs.size());
    const ValueId from = inputs[index];
    const ValueId to = rng_.below(6) == 0 ? ValueId::none() : any_value();
    if (from == to) return true;
    ModelItem& changed = item(next, id);
    changed.inputs[index] = to.valid() ? name(to) : "";
    for (ModelValue& each : changed.made) {
      if (each.base.empty() || !from.valid() || each.base != name(from)) continue;
      possible_ &= std::count(inputs.begin(), inputs.end(), from) == 1 && to.valid();
      each.base = to.valid() ? name(to) : "";
    }
    return edit_.set_input(id, index, to).has_value();
  }

  bool draw_replace(Model& next) {
    what_ = "replace_reads";
    const ValueId from = any_value(), to = any_value();
    if (from == to) return true;
    for (ModelItem& each : next) {
      std::replace(each.inputs.begin(), each.inputs.end(), name(from), name(to));
      for (ModelValue& value : each.made)
        if (value.base == name(from)) value.base = name(to);
    }
    return edit_.replace_reads(from, to).has_value();
  }

  bool draw_form(Model& next) {
    what_ = "set_form";
    const ValueId id = any_value();
    const OpId producer = edit_.value(id).producer;
    ValueForm form{.dims = {sym::Expr(rng_.between(1, 4))}};
    if (producer.valid() && rng_.below(2) == 0)
      for (const ValueId input : edit_.op(producer).inputs)
        if (input.valid()) form.base = input;
    if (producer.valid() && !form.base.valid() && rng_.below(2) == 0) form.alias = Alias::kPieces;
    if (form.base.valid()) {
      form.alias = rng_.below(2) == 0 ? Alias::kView : Alias::kUpdate;
      form.offset_bytes = 4 * rng_.between(0, 1);
    }
    ModelValue& changed = made(next, name(id));
    changed.value.dims = form.dims;
    changed.value.alias = form.alias;
    changed.value.offset_bytes = form.offset_bytes;
    changed.base = form.base.valid() ? name(form.base) : "";
    return edit_.set_form(id, form).has_value();
  }

  bool draw_control(Model& next) {
    what_ = "control";
    const OpId first = any_op(), second = any_op();
    if (!first.valid() || first == second) return true;
    std::vector<std::string>& control = item(next, second).control;
    const std::string& waited = edit_.op(first).name;
    if (std::count(control.begin(), control.end(), waited) > 0) {
      std::erase(control, waited);
      edit_.remove_control(first, second);
      return true;
    }
    control.push_back(waited);
    return edit_.add_control(first, second).has_value();
  }

  bool draw_given(Model& next) {
    what_ = "given values";
    if (rng_.below(2) == 0) {
      const auto is_op = [](const ModelItem& each) { return !each.given; };
      const Value drawn = value(fresh(), {4});
      next.insert(std::find_if(next.begin(), next.end(), is_op),
                  ModelItem{{}, {}, {}, {{drawn, ""}}, true});
      return edit_.add_value(drawn).has_value();
    }
    const ValueId id = any_value();
    if (edit_.value(id).producer.valid() || id == ValueId(0)) return true;  // one value stays
    possible_ = edit_.readers(id).empty() && !edit_.value(id).is_output;
    std::erase_if(next, [&](const ModelItem& each) {
      return each.given && each.made[0].value.name == name(id);
    });
    return edit_.remove_value(id).has_value();
  }

  bool draw_flags(Model& next) {
    what_ = "set_output, rename";
    const ValueId id = any_value();
    if (rng_.below(2) == 0) {
      const std::string old = name(id), now = fresh();
      made(next, old).value.name = now;
      for (ModelItem& each : next) {
        std::replace(each.inputs.begin(), each.inputs.end(), old, now);
        for (ModelValue& value : each.made)
          if (value.base == old) value.base = now;
      }
      return edit_.rename(id, now).has_value();
    }
    Graph graph = *build(next);
    const ValueId same = *graph.find_value(name(id));
    graph.set_output(same, !graph.value(same).is_output);
    made(next, name(id)).value.is_output = graph.value(same).is_output;
    made(next, name(id)).value.output_rank = graph.value(same).output_rank;
    edit_.set_output(id, !edit_.value(id).is_output);
    return true;
  }

  bool draw_attr(Model& next) {
    what_ = "set_attr";
    const OpId id = any_op();
    if (!id.valid()) return true;
    const auto now = static_cast<int64_t>(rng_.below(5));
    item(next, id).op.attrs["a"] = now;
    edit_.set_attr(id, "a", AttrValue(now));
    return true;
  }

  Rng rng_;
  Model model_;
  GraphEdit edit_;
  std::string what_;
  bool possible_ = true;
  int count_ = 0;
};

// Two values, one of them behind an op that does not read it.
Model start() {
  return {ModelItem{{}, {}, {}, {{value("x", {4}), ""}}, true},
          ModelItem{op("first", {}), {"x"}, {}, {{value("y", {4}), ""}}, false},
          ModelItem{{}, {}, {}, {{value("w", {4}), ""}}, true}};
}

TEST(GraphEditProperty, TakesAndRefusesWhatTheModelDoes) {
  int taken = 0, refused = 0, wholes = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Twins twins(seed, start());
    for (int i = 0; i < 120; ++i) {
      ASSERT_NO_FATAL_FAILURE(twins.step()) << "step " << i;
    }
    taken += twins.taken;
    refused += twins.refused;
    wholes += twins.wholes;
  }
  EXPECT_GT(wholes, 1000) << "that were there after a change";
  EXPECT_GT(taken, 2000);
  EXPECT_GT(refused, 1000);
}

// Marks on a stack: at each the graph is noted, and after random rollbacks it is the same.
TEST(GraphEditProperty, RollsBackToEqualGraphs) {
  for (uint64_t seed = 100; seed < 140; ++seed) {
    SCOPED_TRACE(seed);
    Twins twins(seed, start());
    Rng rng(seed);
    struct Noted {
      GraphEdit::Mark mark;
      Graph graph;
      Model model;
    };
    std::vector<Noted> marks;
    for (int i = 0; i < 120; ++i) {
      if (rng.below(6) == 0)
        marks.push_back({twins.edit().mark(), twins.edit().compact().graph, twins.model()});
      if (rng.below(15) == 0 && !marks.empty()) {
        marks.erase(marks.begin() + static_cast<std::ptrdiff_t>(1 + rng.below(marks.size())),
                    marks.end());
        twins.edit().rollback(marks.back().mark);
        ASSERT_TRUE(twins.edit().compact().graph == marks.back().graph);
        twins.model() = marks.back().model;
      }
      ASSERT_NO_FATAL_FAILURE(twins.step()) << "step " << i;
    }
    twins.edit().rollback(0);
    EXPECT_TRUE(twins.edit().compact().graph == *build(start()));
  }
}

}  // namespace
}  // namespace lowtide::ir
