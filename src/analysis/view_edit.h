// The schedule view of a graph that is being edited: made once, and after each change made anew
// only where the change shows.
//
//     ir::GraphEdit graph(step);
//     ViewEdit view = ViewEdit::make(graph, costs).value();
//     const auto before = view.mark();
//     ... edits of graph ...
//     view.update();                        // now view.problem() is that of the changed graph
//     ... evaluate view.problem() or view.compact() ...
//     view.rollback(before);                // graph and problem, both as they were
//
// What it holds is a plan::ProblemEdit, whose ids are stable as those of the graph's edit are. It
// is at every update what make_schedule_view makes of the compacted graph, but for ids: compact()
// numbers anew, and then the two are equal.
//
// Idea. Each op and value of the problem is a function of few neighbours in the graph
// (schedule_rules.h). The edit says which ops, values and storages it touched; the functions are
// asked again for these and for
//
//     of a storage     who overwrites it: its readers come first
//     of a value       whoever makes or reads a value of its storage: the type, the versions or the
//                      use as an output may have changed for them
//     of an op         if it begins or ceases to compute: the storages that it reads and makes, and
//                      who waits for it
//     of a whole       the wholes that it is a piece of; then its pieces, now and before, which are
//                      read by whoever reads the whole; and who reads what begins or ceases to be a
//                      piece, since none may take it over in place
//
// A sum is the chain that the graph says: which sums may come in any order (sums.h) is found in a
// whole graph.
//
// Cost: the touched ops with their operands, and the readers of the storages that they share. A
// storage that hundreds of ops read costs their number when a reader joins, a few bytes each.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "analysis/schedule_view.h"
#include "ir/edit.h"
#include "plan/problem_edit.h"

namespace lowtide::analysis {

struct OpCost {
  double seconds = 0;           // of one run
  int64_t workspace_bytes = 0;  // unaligned
};
// Asked for an op when it is new, and when it or its operands have changed.
using CostOf = std::function<Result<OpCost>(const ir::GraphEdit&, ir::OpId)>;

// A graph and its view, both with dense numbers. Contracted ops of the problem stand for no
// single op of the graph: view.op is none there.
struct CompactedView {
  ir::Rewritten graph;
  ScheduleView view;
};

class ViewEdit {
 public:
  // Takes the graph's edit as it is, and from then on alone asks it what was touched. `graph` must
  // outlive this. Error: as make_schedule_view.
  static Result<ViewEdit> make(ir::GraphEdit& graph, CostOf costs, int64_t alignment_bytes,
                               std::span<const plan::Link> links = {});

  // Follows what happened to the graph since the last update, undoing included. Error: as
  // make_schedule_view; then, and only then, nothing but a rollback may follow.
  Status update();

  // Regions may be contracted and expanded in it; the rest of it is written by update. What update
  // moves or removes must not be inside of a contracted op (its error says so).
  plan::ProblemEdit& problem() { return problem_; }
  const plan::ProblemEdit& problem() const { return problem_; }
  // None for ops that only make views, and for storages that are there before the step.
  plan::SchedOpId sched_op(ir::OpId id) const;
  plan::SchedValueId sched_value(ir::StorageId id) const;

  struct Mark {
    ir::GraphEdit::Mark graph;
    plan::ProblemEdit::Mark problem;
    size_t ops, homes, pieces;
  };
  // Of both edits; no change of the graph may wait for its update.
  Mark mark() const;
  void rollback(const Mark& mark);
  void commit();  // forgets the logs of both: what was done stays

  CompactedView compact() const;

 private:
  // What became of a storage.
  struct Home {
    plan::SchedValueId value;
    plan::SchedResidentId resident;  // when a link may move it
    int64_t resident_bytes = 0;      // when it is there before the step
  };
  // What an update looks at again.
  struct Dirty {
    std::set<ir::OpId> ops;
    std::set<ir::OpId> waits;  // others, of which only what they wait for may have changed
    std::set<ir::StorageId> storages;
    std::map<ir::StorageId, std::vector<ir::StorageId>> pieces;  // of wholes, none where it is gone
    std::vector<ir::OpId> in_order;  // those of `ops` that compute something now
  };

  ViewEdit(ir::GraphEdit& graph, CostOf costs, int64_t alignment_bytes)
      : graph_(&graph), costs_(std::move(costs)), alignment_(alignment_bytes) {}

  Dirty dirty_from(const ir::Touched& touched) const;
  void add_storages_of(const ir::Touched& touched, Dirty& dirty) const;
  void add_begun_and_ceased(Dirty& dirty) const;
  void add_pieces(Dirty& dirty) const;
  void sort_ops(Dirty& dirty) const;
  std::set<ir::StorageId> wholes_to_look_at(const Dirty& dirty) const;
  bool is_whole(ir::StorageId id) const;
  bool computes(ir::OpId id) const;
  bool exists(ir::StorageId id) const;
  plan::SchedOpId place_of(ir::OpId id) const;
  std::vector<plan::SchedOpId> sched_ops(const std::vector<ir::OpId>& ops) const;
  Status apply(const Dirty& dirty, const std::set<ir::OpId>& places);
  void drop_storage(ir::StorageId id);
  Status drop_op(ir::OpId id);
  Status put_op(ir::OpId id, bool moved);
  Status write_storage(ir::StorageId id);
  Status write_value(ir::StorageId id, Home home, int64_t bytes);
  void write_resident(ir::StorageId id, Home home, int64_t bytes);
  Status write_op(ir::OpId id);
  void write_waits(ir::OpId id);
  std::vector<plan::SchedOpId> control_of(ir::OpId id) const;
  void set_sched_op(ir::OpId id, plan::SchedOpId now);
  void set_home(ir::StorageId id, Home now);
  void set_pieces(ir::StorageId whole, const std::vector<ir::StorageId>& now);

  ir::GraphEdit* graph_;
  CostOf costs_;
  int64_t alignment_;
  bool has_link_ = false;
  plan::ProblemEdit problem_;
  IdVector<ir::OpId, plan::SchedOpId> sched_op_;
  IdVector<ir::StorageId, Home> home_;
  IdVector<ir::StorageId, std::vector<ir::StorageId>> pieces_;  // of wholes
  IdVector<ir::StorageId, std::vector<ir::StorageId>> wholes_;  // that it is a piece of
  std::vector<std::pair<ir::OpId, plan::SchedOpId>> op_log_;    // as they were
  std::vector<std::pair<ir::StorageId, Home>> home_log_;
  std::vector<std::pair<ir::StorageId, std::vector<ir::StorageId>>> pieces_log_;
};

}  // namespace lowtide::analysis
