// What the public objects hold. For src/api and tools/ only.
//
// Tests: c_api_test.cc, front_test.cc.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "lowtide/api.h"
#include "pipeline/optimize.h"
#include "plan/plan.h"
#include "report/verdict.h"
#include "runtime/session.h"

namespace lowtide {

struct Model::State {
  ir::Graph graph;
  std::string origin;              // the path it was read from, for messages
  std::vector<std::string> notes;  // of reading it, fit to be printed
  double reading_seconds = 0;
  bool dropout = true;     // ReadOptions::dropout
  sym::Bindings examples;  // sizes that its symbols had when it was exported, as far as it says
};

struct Plan::State {
  plan::Plan plan;
  report::PlanningFacts facts;  // of a plan that was loaded what its file says of them
  bool verified = false;        // when it was made; one that was loaded is what its file says
};

struct Session::State {
  std::unique_ptr<runtime::KernelFactory> kernels;
  runtime::Session session;
};

}  // namespace lowtide
