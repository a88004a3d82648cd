// What plans claim under a budget: the verifier agrees, refuses more, and finds for any prices the
// bound that the searches' own networks find.
#include "pipeline/claims.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "analysis/schedule_view.h"
#include "autodiff/training.h"
#include "base/rng.h"
#include "cost/roofline.h"
#include "ops/op_table.h"
#include "order/order.h"
#include "pipeline/optimize.h"
#include "pipeline/solution.h"
#include "pipeline/testing/layers.h"
#include "pipeline/write_plan.h"
#include "plan/tick_scale.h"
#include "remat/bounds/closure_cut.h"
#include "remat/bounds/floor.h"
#include "remat/bounds/multi_cut_network.h"
#include "support/long_checks.h"
#include "verify/precedence.h"
#include "verify/verify.h"

namespace lowtide::pipeline {
namespace {

OptimizeOptions claim_options() {
  OptimizeOptions options = options_on_cpu();
  options.training = autodiff::TrainingOptions{};
  options.training->optimizer.kind = autodiff::OptimizerKind::kAdamW;
  options.schedule.remat.limits.max_units = 2'000'000;
  return options;
}

// Blocks of a product and a few elementwise ops, some with a way around; activations weigh more
// than parameters.
ir::Graph blocks(Rng& rng, int count) {
  ir::Graph graph;
  graph.name = "blocks";
  const int64_t batch = 64 * rng.between(1, 3), width = 16;
  ir::ValueId x = add_value(graph, "x", {batch, width}, Category::kInput);
  for (int i = 0; i < count; ++i) {
    const ir::ValueId before = x;
    const auto w = add_value(graph, "w" + std::to_string(i), {width, width}, Category::kParameter);
    x = apply(graph, "MatMul", {x, w, ir::ValueId::none(), ir::ValueId::none()});
    constexpr const char* kinds[] = {"Relu", "Tanh", "Exp", "Sigmoid"};
    for (int64_t k = rng.between(0, 2); k >= 0; --k) x = apply(graph, kinds[rng.below(4)], {x});
    if (rng.below(3) == 0) x = apply(graph, "Add", {x, before});
    if (rng.below(4) == 0) x = apply(graph, "Mul", {x, before});
  }
  graph.set_output(x, true);
  return graph;
}

plan::Link random_link(Rng& rng) {
  const double speed = 1e8 * (1 + 20 * rng.uniform());
  const double compute = rng.below(2) == 0 ? 0 : 0.1 / speed;
  return {speed, 2 * speed, 1e-6 * rng.uniform(), compute};
}

// None, one or two.
std::vector<plan::Link> random_links(uint64_t seed, Rng& rng) {
  std::vector<plan::Link> links;
  for (uint64_t i = seed % 3; i > 0; --i) links.push_back(random_link(rng));
  return links;
}

// What no certificate shows; as seconds, what such a claim has to say.
plan::Plan claiming(const plan::Plan& plan, int64_t ticks) {
  plan::Plan more = plan;
  plan::Claims& claims = more.claims;
  claims.lower_bound_ticks = ticks;
  claims.lower_bound_seconds = std::min(
      claims.predicted_seconds,
      plan::TickScale(plan).bound_seconds(ticks, claims.once_seconds, !plan.slow_tiers.empty()));
  return more;
}

// Other prices, multipliers and shares; a number that raises what is shown is as true as the rest.
void change(plan::TimeCuts& certificate, Rng& rng) {
  const int64_t unit = certificate.cuts[0].price;
  for (plan::CutPrice& cut : certificate.cuts)
    if (rng.below(2)) cut.price = rng.between(0, 2 * unit);
  for (auto* multipliers : {&certificate.rerun_multipliers, &certificate.store_multipliers,
                            &certificate.copy_multipliers})
    for (plan::Multiplier& m : *multipliers)
      if (rng.below(4) == 0) {
        const int64_t drawn = std::llround(static_cast<double>(m.value) * 2 * rng.uniform());
        m.value = std::clamp(drawn, -plan::kMostTicks, plan::kMostTicks);
      }
  if (certificate.shares.empty()) certificate.shares.resize(certificate.cuts.size() + 1);
  for (plan::LinkShare& share : certificate.shares)
    if (rng.below(2))
      share = {rng.between(0, plan::kTickParts / 8), rng.between(0, plan::kTickParts / 8)};
}

// A device on which ops take from 10^-12 to 10^3 seconds, many orders apart in one step.
cost::DeviceProfile random_device(Rng& rng) {
  cost::DeviceProfile device = cost::find_device("cpu").value();
  device.classes.clear();
  device.launch_seconds = 0;
  const double pace = std::pow(10, 4 + 13 * rng.uniform());
  device.bytes_per_second = device.matmul_flops_per_second = device.vector_flops_per_second = pace;
  for (const char* kind : {"MatMul", "Relu", "Tanh", "Exp", "Sigmoid", "Add", "Mul", "TanhGrad",
                           "ReluGrad", "SigmoidGrad", "AdamW"})
    if (rng.below(2)) device.efficiency[kind] = std::pow(10, -6 * rng.uniform());
  return device;
}

TEST(Claims, HoldToTheTickWhateverOpsTake) {
  int certified = 0, several = 0, by_cases = 0, moving = 0;
  for (uint64_t seed = 1; seed <= static_cast<uint64_t>(some_of(120, 4)); ++seed) {
    Rng rng(seed);
    const ir::Graph graph = blocks(rng, 3 + static_cast<int>(seed % 9));
    OptimizeOptions options = claim_options();
    options.device = random_device(rng);
    options.schedule.remat.limits.max_units = 300'000;
    if (seed % 3 == 0) {
      plan::Link link = random_link(rng);
      const double pace = options.device.bytes_per_second * std::pow(10, 2 * rng.uniform() - 4);
      link.bytes_per_second_out = pace, link.bytes_per_second_in = 2 * pace;
      if (link.compute_seconds_per_byte > 0) link.compute_seconds_per_byte = 0.1 / pace;
      options.slow_tiers = {{"host", link}};
    } else {
      options.proof_units = 5'000'000;
    }
    const auto whole = optimize(graph, options);
    ASSERT_TRUE(whole.has_value()) << whole.error().message;
    for (const int64_t percent : {85, 65, 45}) {
      options.budget_bytes = whole->plan.arena_bytes * percent / 100;
      const auto made = optimize(graph, options);
      if (!made) continue;
      const plan::Claims& claims = made->plan.claims;
      const verify::Report report = verify::verify(made->plan);
      for (const verify::Finding& f : report.findings) ADD_FAILURE() << seed << ": " << f.message;
      // What moves nothing shows more of schedules that move nothing than it claims of all.
      if (made->plan.slow_tiers.empty() == options.slow_tiers.empty())
        EXPECT_EQ(claims.lower_bound_ticks, report.time_bound_ticks) << seed;
      else
        EXPECT_LE(claims.lower_bound_ticks, report.time_bound_ticks) << seed;
      EXPECT_TRUE(verify::verify(claiming(made->plan, report.time_bound_ticks)).ok() ||
                  !claims.certificate.time);
      EXPECT_FALSE(verify::verify(claiming(made->plan, report.time_bound_ticks + 1)).ok());
      if (!claims.certificate.time) continue;
      ++certified;
      several += claims.certificate.time->cuts.size() > 1;
      by_cases += claims.certificate.cases.has_value();
      moving += !made->plan.slow_tiers.empty();
    }
  }
  EXPECT_GT(certified, some_of(60, 4));
  EXPECT_GT(several, some_of(10, 5));
  EXPECT_GT(by_cases, some_of(5, 5));
  EXPECT_GT(moving, some_of(10, 5));
}

// Whether the floor has a certificate; that shows not a byte more, and without it nothing is shown.
bool has_exact_floor(plan::Plan plan) {
  if (!plan.claims.certificate.floor) return false;
  ++*plan.claims.floor_bytes;
  EXPECT_TRUE(verify::verify(plan).has(verify::Violation::kFloor));
  --*plan.claims.floor_bytes;
  const verify::Facts facts(plan);
  const verify::Precedence precedence(facts);
  const auto& way = *plan.claims.certificate.floor;
  EXPECT_TRUE(verify::needs_backwards(precedence, way, *plan.claims.floor_bytes));
  // The first set is one more than none.
  EXPECT_FALSE(verify::needs_backwards(precedence, way, *plan.claims.floor_bytes, 0));
  plan.claims.certificate.floor.reset();
  EXPECT_TRUE(verify::verify(plan).has(verify::Violation::kFloor));
  return true;
}

TEST(Claims, OfTimeAndFloorAreWhatTheVerifierShows) {
  int certified = 0, several = 0, moving = 0, backwards = 0;
  for (uint64_t seed = 1; seed <= 36; ++seed) {
    Rng rng(seed);
    const ir::Graph graph = blocks(rng, 3 + static_cast<int>(seed % 6));
    OptimizeOptions options = claim_options();
    if (seed % 3 == 0) options.slow_tiers = {{"host", random_link(rng)}};
    if (seed % 9 == 0) options.slow_tiers.push_back({"file", random_link(rng)});
    const auto whole = optimize(graph, options);
    ASSERT_TRUE(whole.has_value()) << whole.error().message;
    EXPECT_FALSE(whole->plan.claims.certificate.time.has_value());
    const int64_t percent = !options.slow_tiers.empty() ? rng.between(30, 60) : rng.between(60, 95);
    options.budget_bytes = whole->plan.arena_bytes * percent / 100;
    const auto made = optimize(graph, options);
    if (!made) continue;
    const plan::Claims& claims = made->plan.claims;
    const verify::Report report = verify::verify(made->plan);
    for (const verify::Finding& f : report.findings) ADD_FAILURE() << seed << ": " << f.message;
    EXPECT_LE(claims.lower_bound_seconds, claims.predicted_seconds);
    EXPECT_LE(claims.lower_bound_ticks, report.time_bound_ticks);
    if (made->plan.slow_tiers.empty() == options.slow_tiers.empty()) {
      EXPECT_EQ(report.floor_bytes, *claims.floor_bytes);
      backwards += has_exact_floor(made->plan);
      EXPECT_EQ(claims.lower_bound_ticks, report.time_bound_ticks) << seed;
    }
    if (!claims.certificate.time) continue;
    ++certified;
    several += claims.certificate.time->cuts.size() > 1;
    moving += !made->plan.slow_tiers.empty();
    EXPECT_TRUE(verify::verify(claiming(made->plan, report.time_bound_ticks)).ok());
    EXPECT_FALSE(verify::verify(claiming(made->plan, report.time_bound_ticks + 1)).ok());
    for (int i = 0; i < 30; ++i) {  // other numbers show something else, but nothing untrue
      plan::Plan more = made->plan;
      change(*more.claims.certificate.time, rng);
      const verify::Report shown = verify::verify(more);
      EXPECT_LE(shown.time_bound_seconds, claims.predicted_seconds * (1 + 1e-9));
      EXPECT_EQ(shown.has(verify::Violation::kTimeCertificate),
                claims.lower_bound_ticks > shown.time_bound_ticks);
    }
  }
  EXPECT_GT(certified, 12);
  EXPECT_GT(moving, 2);
  EXPECT_GT(backwards, 2);
  RecordProperty("several", several);
}

// A chain up and its mirror down, which wants what the way up made. On the way up some layers read
// a state that ops of no place in the chain overwrote, as a teacher's means of parameters are.
ir::Graph states_on_the_way(Rng& rng, int layers) {
  ir::Graph graph;
  graph.name = "states";
  const ir::Dims dims{32 * rng.between(1, 3), 16};
  ir::ValueId x = add_value(graph, "x", dims, Category::kInput);
  std::vector<ir::ValueId> kept, read;
  for (int i = 0; i < layers; ++i) {
    x = apply(graph, "Tanh", {apply(graph, "Exp", {x})});
    kept.push_back(x);
    if (rng.below(2) == 0) continue;
    const std::string name = "state" + std::to_string(i);
    const ir::ValueId by = add_value(graph, name + ".by", dims, Category::kParameter);
    ir::ValueId state = add_value(graph, name, dims, Category::kParameter);
    for (int64_t writes = rng.between(1, 2); writes > 0; --writes)
      state = apply(graph, "SgdUpdate", {state, by}, {{"learning_rate", 0.5}});
    read.push_back(apply(graph, "Mul", {x, state}));
  }
  for (; !kept.empty(); kept.pop_back()) x = apply(graph, "Mul", {x, kept.back()});
  for (const ir::ValueId each : read) x = apply(graph, "Add", {x, each});
  graph.set_output(x, true);
  return graph;
}

// An op that reads a version which an op made by overwriting runs after it, every time.
TEST(Claims, OfStepsThatReadWhatTheyOverwroteAreWhatTheVerifierShows) {
  int certified = 0;
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    Rng rng(seed);
    const ir::Graph graph = states_on_the_way(rng, 4 + static_cast<int>(seed % 8));
    OptimizeOptions options = claim_options();
    options.training.reset();
    options.schedule.remat.limits.max_units = 300'000;
    const auto whole = optimize(graph, options);
    ASSERT_TRUE(whole.has_value()) << whole.error().message;
    const plan::Claims& all = whole->plan.claims;
    for (const int64_t part : {2, 5, 8}) {
      options.budget_bytes =
          all.floor_bytes.value_or(0) * part / 10 + all.peak_bytes * (10 - part) / 10;
      const auto made = optimize(graph, options);
      if (!made) {  // too small; a plan that the verifier refuses would be an internal error
        ASSERT_NE(made.error().code, ErrorCode::kInternal) << seed << ": " << made.error().message;
        continue;
      }
      const verify::Report report = verify::verify(made->plan);
      for (const verify::Finding& f : report.findings) ADD_FAILURE() << seed << ": " << f.message;
      EXPECT_EQ(made->plan.claims.lower_bound_ticks, report.time_bound_ticks) << seed;
      certified += made->plan.claims.certificate.time.has_value();
    }
  }
  EXPECT_GT(certified, 15);
}

// Plans of small steps within budgets, with a proof by cases where it shows more than cuts do.
std::vector<plan::Plan> plans_by_cases() {
  std::vector<plan::Plan> plans;
  for (uint64_t seed = 1; seed <= static_cast<uint64_t>(some_of(30, 2)); ++seed) {
    Rng rng(seed);
    const ir::Graph graph = blocks(rng, 6 + static_cast<int>(seed % 9));
    OptimizeOptions options = claim_options();
    options.proof_units = 40'000'000;
    const auto whole = optimize(graph, options);
    options.budget_bytes = whole->plan.arena_bytes * rng.between(45, 80) / 100;
    if (auto made = optimize(graph, options); made && made->plan.claims.certificate.cases)
      plans.push_back(std::move(made->plan));
  }
  return plans;
}

TEST(Claims, ByCasesAreWhatTheVerifierShows) {
  const std::vector<plan::Plan> plans = plans_by_cases();
  EXPECT_GT(plans.size(), long_checks() ? 4u : 1u);
  Rng rng(3);
  for (const plan::Plan& made : plans) {
    const verify::Report report = verify::verify(made);
    for (const verify::Finding& f : report.findings) ADD_FAILURE() << f.message;
    EXPECT_EQ(made.claims.lower_bound_ticks, report.time_bound_ticks);
    plan::Plan more = made;
    more.claims.certificate.cases.reset();  // the cuts alone show less
    EXPECT_TRUE(verify::verify(more).has(verify::Violation::kTimeCertificate));
    EXPECT_FALSE(verify::verify(claiming(made, report.time_bound_ticks + 1)).ok());
    for (int i = 0; i < some_of(30, 4);
         ++i) {  // other multipliers show something else, but nothing untrue
      more = made;
      for (plan::ProofNode& node : more.claims.certificate.cases->nodes)
        for (plan::ProofMultiplier& m : node.multipliers)
          if (rng.below(3) == 0) m.value = rng.between(0, 2 * m.value);
      EXPECT_LE(verify::verify(more).time_bound_seconds,
                made.claims.predicted_seconds * (1 + 1e-9));
    }
  }
}

TEST(Claims, ProofsThatLeaveOutACaseOrBendARowAreRefused) {
  int cases = 0, rows = 0;
  const auto refused = [](const plan::Plan& plan) {
    const verify::Report report = verify::verify(plan);
    return report.has(verify::Violation::kTimeCertificate) ||
           report.has(verify::Violation::kMalformed);
  };
  for (const plan::Plan& made : plans_by_cases()) {
    const size_t nodes = made.claims.certificate.cases->nodes.size();
    for (size_t i = 1; i < nodes; ++i) {
      plan::Plan worse = made;
      plan::ProofNode& node = worse.claims.certificate.cases->nodes[i];
      node.value = !node.value;  // the same case twice
      EXPECT_TRUE(refused(worse));
      node = made.claims.certificate.cases->nodes[i];
      node.id = (node.id + 1) % static_cast<int>(made.ops.size());
      EXPECT_TRUE(refused(worse));
      ++cases;
    }
    for (size_t m = 0; m < made.claims.certificate.cases->nodes[0].multipliers.size(); ++m) {
      plan::Plan worse = made;
      plan::ProofMultiplier& bent = worse.claims.certificate.cases->nodes[0].multipliers[m];
      if (bent.row == plan::ProofRow::kOnce) continue;  // holds for every op
      if (bent.row == plan::ProofRow::kNeed || bent.row == plan::ProofRow::kAgainNeed) {
        if (!bent.op.valid()) continue;
        bent.op = worse.claims.certificate.cases->cuts.front();  // reads it where it is no need
        bent.cut = 1;
      } else if (bent.row == plan::ProofRow::kCapacity) {
        bent.divisor = 0;
      } else {
        bent.cut = static_cast<int32_t>(worse.claims.certificate.cases->cuts.size()) + 1;
      }
      EXPECT_TRUE(refused(worse)) << static_cast<int>(bent.row);
      ++rows;
    }
    plan::Plan crowded = made;  // would take long to check
    for (int i = 0; i < 65; ++i)
      crowded.claims.certificate.cases->nodes[0].multipliers.push_back(
          {plan::ProofRow::kCapacity, 1, {}, {}, 1'000'000 + i, 1});
    EXPECT_TRUE(refused(crowded));
    crowded = made;
    crowded.claims.certificate.cases->cuts.resize(65, made.claims.certificate.cases->cuts[0]);
    EXPECT_TRUE(refused(crowded));
    plan::Plan shorter = made;
    shorter.claims.certificate.cases->nodes.pop_back();
    EXPECT_TRUE(nodes == 1 || refused(shorter));
    shorter.claims.certificate.cases->nodes.clear();
    EXPECT_TRUE(refused(shorter));
  }
  EXPECT_GT(cases, 10);
  EXPECT_GT(rows, 50);
}

// A plan in the best order, its problem, and a budget below its peak.
struct Made {
  analysis::ScheduleView view;
  plan::Plan plan;
};

Made in_best_order(const ir::Graph& forward, const std::vector<plan::Link>& links) {
  const OptimizeOptions options = claim_options();
  const ir::Graph graph = autodiff::make_training_graph(forward, *options.training).value();
  analysis::OpCosts costs;
  costs.seconds = cost::all_op_seconds(graph, options.device).value();
  costs.workspace_bytes = IdVector<ir::OpId, int64_t>(graph.op_count(), 0);
  Made made;
  made.view =
      analysis::make_schedule_view(graph, costs, options.device.alignment_bytes, {.links = links})
          .value();
  const plan::ScheduleOutcome order = order::solve(made.view.problem, options.order);
  const Solution solution = pack_best_order(made.view, order, options).value();
  made.plan =
      write_plan({graph, made.view, costs, solution.sequence, solution.profile, solution.buffers,
                  solution.packing, solution.slots, options.device.alignment_bytes})
          .value();
  for (const plan::Link& link : links)
    made.plan.slow_tiers.push_back({"tier" + std::to_string(made.plan.slow_tiers.size()), 0,
                                    link.bytes_per_second_out, link.bytes_per_second_in,
                                    link.latency_seconds, link.compute_seconds_per_byte});
  made.plan.claims.peak_bytes = solution.profile.peak_bytes;
  return made;
}

// Ops take other times, many orders apart, and links are as fast as that makes interesting.
void retime(Made& made, Rng& rng) {
  const double unit = std::pow(10, 12 * rng.uniform() - 12), range = 3 * rng.uniform();
  double once = 0;
  for (plan::SchedOpId op : made.view.problem.ops.ids()) {
    const double seconds = unit * std::pow(10, range * rng.uniform());
    made.view.problem.ops[op].seconds = seconds;
    made.plan.ops[plan::PlanOpId(made.view.op[op].index())].predicted_seconds = seconds;
    once += seconds;
  }
  const auto set = [&](plan::Link& link, size_t tier) {
    const double pace = static_cast<double>(made.plan.claims.peak_bytes) / once * rng.uniform();
    link = {1 + pace, 1 + 2 * pace, once / 1000, rng.below(2) ? 0.1 / pace : 0};
    plan::SlowTier& of_plan = made.plan.slow_tiers[tier];
    of_plan.bytes_per_second_out = link.bytes_per_second_out;
    of_plan.bytes_per_second_in = link.bytes_per_second_in;
    of_plan.latency_seconds = link.latency_seconds;
    of_plan.compute_seconds_per_byte = link.compute_seconds_per_byte;
  };
  plan::ScheduleProblem& problem = made.view.problem;
  if (problem.link) set(*problem.link, 0);
  for (size_t i = 0; i < problem.more_links.size(); ++i) set(problem.more_links[i], i + 1);
}

int32_t op_index(const Made& made, plan::SchedOpId op) {
  return static_cast<int32_t>(made.view.op[op].index());
}

// Within a fifth of it.
int64_t some_of(int64_t number, Rng& rng) {
  return std::llround(static_cast<double>(number) * (0.8 + 0.4 * rng.uniform()));
}

// The op, and up to three others before and after it.
std::vector<plan::SchedOpId> random_chain(const remat::StepGraph& graph, plan::SchedOpId with,
                                          Rng& rng) {
  std::vector<plan::SchedOpId> chain;
  const auto side = remat::sides_of(graph, with);
  for (plan::SchedOpId op : graph.ticks.ids()) {
    if (op != with && (rng.below(8) > 0 || chain.size() == 4)) continue;
    if (side[op] == remat::Side::kOther) continue;
    if (chain.empty() || remat::sides_of(graph, chain.back())[op] == remat::Side::kAfter)
      chain.push_back(op);
  }
  return chain;
}

TEST(Claims, TheVerifierFindsTheFloorOfTheSearches) {
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    Rng rng(seed);
    const Made made =
        in_best_order(blocks(rng, 2 + static_cast<int>(seed % 9)), random_links(seed, rng));
    EXPECT_EQ(verify::verify(made.plan).floor_bytes, remat::cut_floor(made.view.problem).bytes)
        << "seed " << seed;
  }
}

// Whatever op is looked at first: a claim up to the floor is shown, and none above it.
TEST(Claims, TheVerifierShowsAFloorThatIsClaimedAndNoMore) {
  int64_t ended_early = 0;
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    Rng rng(seed);
    Made made = in_best_order(blocks(rng, 2 + static_cast<int>(seed % 9)), random_links(seed, rng));
    const int64_t floor = verify::verify(made.plan).floor_bytes;
    for (const int64_t claimed : {floor / 2, floor, floor + 1}) {
      made.plan.claims.floor_bytes = claimed;
      const auto ops = static_cast<uint64_t>(made.plan.ops.size());
      const verify::Report report =
          verify::verify(made.plan, {.as_claimed = true, .first = plan::PlanOpId(rng.below(ops))});
      EXPECT_EQ(report.has(verify::Violation::kFloor), claimed > floor) << "seed " << seed;
      EXPECT_GE(report.floor_bytes, std::min(claimed, floor)) << "seed " << seed;
      EXPECT_LE(report.floor_bytes, floor) << "seed " << seed;
      ended_early += report.floor_bytes < floor;
    }
  }
  EXPECT_GT(ended_early, 10);
}

// Multipliers for a chain of cuts, in the words of the search and of the plan.
struct Chosen {
  remat::Multipliers of_search;
  plan::TimeCuts of_plan;
};

void choose_link(const Made& made, const remat::StepGraph& graph, const remat::MultiCutNetwork& net,
                 Rng& rng, Chosen& chosen) {
  remat::LinkShares shares = net.no_shares();
  for (size_t k = 0; k <= net.cuts(); ++k) {
    if (rng.below(4) == 0) shares.store[k] = rng.between(0, remat::kOne / 64);
    if (rng.below(4) == 0) shares.load[k] = rng.between(0, remat::kOne / 64);
    chosen.of_plan.shares.push_back({shares.store[k], shares.load[k]});
  }
  chosen.of_search = net.start(shares);
  const double once = static_cast<double>(graph.once_ticks);
  for (size_t k = 0; k < net.cuts(); ++k)
    for (plan::SchedValueId v : graph.problem->values.ids())
      if (net.has_worth(k, v) && rng.below(3) == 0) {
        const int64_t ticks = std::llround(once / 50000 * (rng.uniform() - 0.5));
        chosen.of_search.copy[k][v] = ticks;
        chosen.of_plan.copy_multipliers.push_back(
            {static_cast<int32_t>(k), static_cast<int32_t>(made.view.storage[v].index()), ticks});
      }
}

void choose_rest(const Made& made, const remat::StepGraph& graph, const remat::MultiCutNetwork& net,
                 Rng& rng, Chosen& chosen) {
  const double once = static_cast<double>(graph.once_ticks);
  const auto some = [&] {
    return std::llround(once / (graph.link ? 50000 : 2000) * rng.uniform());
  };
  for (plan::SchedOpId op : graph.ticks.ids())
    if (net.has_credit(op) && rng.below(3) == 0) {
      chosen.of_search.credit[op] = some();
      chosen.of_plan.rerun_multipliers.push_back(
          {0, op_index(made, op), chosen.of_search.credit[op]});
    }
  for (size_t k = 0; k < net.cuts(); ++k)
    for (plan::SchedValueId v : graph.problem->values.ids())
      if (net.has_worth(k, v) && rng.below(3) == 0) {
        chosen.of_search.worth[k][v] = some();
        chosen.of_plan.store_multipliers.push_back(
            {static_cast<int32_t>(k), static_cast<int32_t>(made.view.storage[v].index()),
             chosen.of_search.worth[k][v]});
      }
}

// How many bounds were more than each op once.
int several_cuts_agree(bool links) {
  int beyond_once = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Rng rng(seed);
    Made made = in_best_order(blocks(rng, 3 + static_cast<int>(seed % 7)),
                              links ? random_links(1 + seed % 2, rng) : std::vector<plan::Link>{});
    if (seed % 2 == 0) retime(made, rng);
    plan::ScheduleProblem& problem = made.view.problem;
    problem.budget_bytes =
        made.plan.claims.peak_bytes * (links ? rng.between(30, 90) : rng.between(50, 99)) / 100;
    const remat::CutBoundResult single = remat::closure_cut(problem);
    if (!single.op || !single.feasible) continue;
    const remat::StepGraph graph(problem);
    const std::vector<plan::SchedOpId> chain = random_chain(graph, *single.op, rng);
    remat::MultiCutNetwork net(graph, chain);
    Chosen chosen{net.start(), {}};
    if (links) choose_link(made, graph, net, rng, chosen);
    bool fits = true;
    for (size_t i = 0; i < chain.size(); ++i) {
      int64_t& price = chosen.of_search.price[i];
      price = some_of(single.prices.per_byte, rng);
      if (chain[i] != *single.op) price /= 8;
      chosen.of_plan.cuts.push_back({plan::PlanOpId(made.view.op[chain[i]].index()), price});
      fits &= remat::ClosureNetwork(graph, chain[i]).fixed_bytes() <= *problem.budget_bytes;
    }
    if (!fits) continue;
    choose_rest(made, graph, net, rng, chosen);
    remat::Violations violations;
    const int64_t expected = std::max<int64_t>(0, net.solve(chosen.of_search, violations));
    made.plan.claims.budget_bytes = problem.budget_bytes;
    made.plan.claims.certificate.time = chosen.of_plan;
    const verify::Report report = verify::verify(made.plan);
    EXPECT_EQ(report.time_bound_ticks, graph.once_ticks + expected) << "seed " << seed;
    beyond_once += expected > 0;
  }
  return beyond_once;
}

TEST(Claims, TheVerifierFindsTheBoundOfSeveralCuts) {
  EXPECT_GT(several_cuts_agree(false), 10);
}

TEST(Claims, TheVerifierFindsTheBoundOfSeveralCutsWithALink) {
  EXPECT_GT(several_cuts_agree(true), 10);
}

TEST(Claims, TheVerifierFindsTheBoundWithALink) {
  int beyond_once = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Rng rng(seed);
    Made made =
        in_best_order(blocks(rng, 3 + static_cast<int>(seed % 7)), random_links(1 + seed % 2, rng));
    plan::ScheduleProblem& problem = made.view.problem;
    problem.budget_bytes = made.plan.claims.peak_bytes * rng.between(30, 90) / 100;
    const remat::CutBoundResult single = remat::closure_cut(problem);
    if (!single.op || !single.feasible) continue;
    const remat::StepGraph graph(problem);
    const plan::SchedOpId op = rng.below(4) ? *single.op : plan::SchedOpId(rng.below(graph.size()));
    remat::ClosureNetwork net(graph, op);
    const int64_t capacity = *problem.budget_bytes - net.fixed_bytes();
    if (capacity < 0) continue;
    remat::CutPrices prices;
    prices.per_byte = some_of(single.prices.per_byte, rng);
    prices.before = std::min(remat::kOne, some_of(single.prices.before, rng));
    prices.after = std::min(remat::kOne, some_of(single.prices.after, rng));
    remat::CutChoice choice;
    const int64_t ticks = net.bound(net.solve(prices, choice), prices, capacity);
    plan::TimeCuts certificate;
    certificate.cuts.push_back({plan::PlanOpId(made.view.op[op].index()), prices.per_byte});
    certificate.shares = {{remat::kOne - prices.before, 0}, {0, remat::kOne - prices.after}};
    made.plan.claims.budget_bytes = problem.budget_bytes;
    made.plan.claims.certificate.time = certificate;
    const verify::Report report = verify::verify(made.plan);
    // Each op, and each share, may lose a tick: the search weighs sums, the verifier each.
    const int64_t lost = static_cast<int64_t>(graph.size()) + 2;
    EXPECT_GE(report.time_bound_ticks, graph.once_ticks + ticks - lost) << seed;
    beyond_once += ticks > 0;
  }
  EXPECT_GT(beyond_once, 10);
}

}  // namespace
}  // namespace lowtide::pipeline
