// The relaxation comes first, by our own calls of Clp: a bound that its multipliers prove, an end
// where there is nothing for CBC to do, and a basis for it to begin with.
//
// CBC is called through its C++ interface, as the C one can neither be stopped nor counts
// iterations: an event handler looks at the allowance between nodes, rounds of cuts and heuristics.
// CBC never sees the clock, because with a time limit it takes other ways. Its default cuts and
// heuristics are behind CbcMain1, the command line's function, which keeps some of its state in
// variables of the library; one call at a time, therefore. Its preprocessing is off: in version
// 2.10.8 it cuts off the best point of one in 2,000 of the programs that the tests draw.

#include "solver/coin.h"

#include <fmt/format.h>

#include <algorithm>
#include <coin/CbcEventHandler.hpp>
#include <coin/CbcModel.hpp>
#include <coin/CbcSolver.hpp>
#include <coin/OsiClpSolverInterface.hpp>
#include <mutex>

#include "solver/relaxation.h"
#include "solver/sparse_columns.h"

namespace lowtide::solver {
namespace {

constexpr double kLeastImprovement = 1e-7;  // less is none, for CBC

struct Watch {
  WorkBudget& work;
  int64_t iterations;  // allowed
  bool stopped = false;
};

// Stops when the work is spent. CBC copies it, together with models.
class EventHandler : public CbcEventHandler {
 public:
  explicit EventHandler(Watch& watch) : watch_(&watch) {}

  CbcAction event(CbcEvent event) override {
    if (model_ == nullptr ||
        (model_->getIterationCount() <= watch_->iterations && watch_->work.look()))
      return noAction;
    watch_->stopped = true;
    model_->sayEventHappened();
    switch (event) {
      case node:
      case treeStatus:
      case heuristicPass:
        return stop;
      case smallBranchAndBound:
        return killSolution;  // do not begin
      default:
        return noAction;  // what was found is kept
    }
  }
  CbcAction event(CbcEvent event, void* /*data*/) override { return this->event(event); }
  CbcEventHandler* clone() const override { return new EventHandler(*this); }

 private:
  Watch* watch_;
};

void load(const Program& program, const DualSimplex::Basis& basis, OsiClpSolverInterface& osi) {
  osi.messageHandler()->setLogLevel(0);
  osi.getModelPtr()->setLogLevel(0);
  const SparseColumns a(program, kClpInfinity);
  osi.loadProblem(static_cast<int>(program.columns.size()), static_cast<int>(program.rows.size()),
                  a.start.data(), a.row.data(), a.value.data(), a.lower.data(), a.upper.data(),
                  a.cost.data(), a.row_lower.data(), a.row_upper.data());
  for (size_t j = 0; j < program.columns.size(); ++j)
    if (program.columns[j].integer) osi.setInteger(static_cast<int>(j));
  if (!basis.empty()) osi.getModelPtr()->copyinStatus(basis.data());
}

std::string column_name(size_t column) {
  return fmt::format("c{}", column);
}

// CBC knows the columns of a start by their names. It crashes where rows have none and columns do.
void name_all(const Program& program, OsiClpSolverInterface& osi) {
  osi.setIntParam(OsiNameDiscipline, 1);
  for (size_t j = 0; j < program.columns.size(); ++j)
    osi.setColName(static_cast<int>(j), column_name(j));
  for (size_t r = 0; r < program.rows.size(); ++r)
    osi.setRowName(static_cast<int>(r), fmt::format("r{}", r));
}

void set_start(const std::vector<double>& start, CbcModel& model) {
  std::vector<std::pair<std::string, double>> values;
  for (size_t j = 0; j < start.size(); ++j) values.emplace_back(column_name(j), start[j]);
  model.setMIPStart(values);
}

void call_command_line(CbcModel& model, const Allowance& allowance) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  CbcSolverUsefulData data;
  CbcMain0(model, data);
  data.noPrinting_ = true;
  model.setLogLevel(0);
  const std::vector<std::string> words = {"lowtide",
                                          "-logLevel",
                                          "0",
                                          "-slogLevel",
                                          "0",
                                          "-preprocess",
                                          "off",
                                          "-threads",
                                          "0",
                                          "-maxNodes",
                                          fmt::format("{}", allowance.nodes()),
                                          "-allowableGap",
                                          fmt::format("{:.17g}", allowance.absolute_gap),
                                          "-ratioGap",
                                          fmt::format("{:.17g}", allowance.relative_gap),
                                          "-increment",
                                          fmt::format("{:.17g}", kLeastImprovement),
                                          "-solve",
                                          "-quit"};
  std::vector<const char*> arguments;
  for (const std::string& word : words) arguments.push_back(word.c_str());
  CbcMain1(
      static_cast<int>(arguments.size()), arguments.data(), model, [](CbcModel*, int) { return 0; },
      data);
}

// CBC's words, with the constant that it does not know.
Answer read_answer(const Program& program, const CbcModel& model) {
  Answer answer;
  answer.nodes = model.getNodeCount();
  if (const double* best = model.bestSolution()) {
    answer.has_point = true;
    answer.point.assign(best, best + program.columns.size());
  }
  constexpr int kStoppedOnGap = 2;
  if (model.isProvenInfeasible() && !answer.has_point) answer.end = Answer::End::kInfeasible;
  if (model.isProvenOptimal() || model.secondaryStatus() == kStoppedOnGap)
    answer.end = Answer::End::kDone;
  const double bound = model.getBestPossibleObjValue();
  if (std::abs(bound) < kLargest) answer.bound = bound + program.constant;
  return answer;
}

}  // namespace

Result<Answer> solve_with_coin(const Program& program, Allowance& allowance) {
  LT_ASSIGN(Relaxation relaxation, solve_relaxation(program, allowance.work));
  if (relaxation.answer.end != Answer::End::kDone || !program.has_integers())
    return std::move(relaxation.answer);
  try {
    OsiClpSolverInterface osi;
    load(program, relaxation.basis, osi);
    if (!allowance.start.empty()) name_all(program, osi);
    CbcModel model(osi);
    Watch watch{allowance.work, allowance.work.steps_remaining()};
    const EventHandler handler(watch);
    model.passInEventHandler(&handler);
    if (!allowance.start.empty()) set_start(allowance.start, model);
    call_command_line(model, allowance);
    allowance.work.spend(std::max(0, model.getIterationCount()));
    Answer answer = read_answer(program, model);
    if (watch.stopped) answer.end = Answer::End::kStopped;
    answer.bound = std::max(answer.bound, relaxation.answer.bound);
    return answer;
  } catch (const CoinError& thrown) {
    return error(ErrorCode::kInternal, fmt::format("CBC gave up: {}", thrown.message()));
  }
}

std::string coin_version() {
  return fmt::format("CBC {}", CBC_VERSION);
}

}  // namespace lowtide::solver
