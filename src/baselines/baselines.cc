#include "baselines/baselines.h"

#include "baselines/chen.h"
#include "baselines/dtr.h"
#include "baselines/judge.h"
#include "baselines/pofo.h"
#include "baselines/xla.h"

namespace lowtide::baselines {

BaselineOutcome solve(const plan::ScheduleProblem& problem, Method method,
                      const BaselineOptions& options) {
  Judge judge(problem, options.limits);
  judge.score(given_order(problem));
  if (judge.outcome().found()) return judge.outcome();
  switch (method) {
    case Method::kChen:
      add_chen(problem, options.forward, judge);
      break;
    case Method::kDtr:
      add_dtr(problem, judge);
      break;
    case Method::kXla:
      add_xla(problem, judge);
      break;
    case Method::kPofo:
      add_pofo(problem, options.forward, judge);
      break;
  }
  return judge.outcome();
}

}  // namespace lowtide::baselines
