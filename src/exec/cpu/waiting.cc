// A step is some hundred short parallel kernels, and each ends with a barrier. GCC's OpenMP lets a
// thread spin some milliseconds at a barrier before it sleeps. On a machine of one's own that is
// best. Where other processes run it is ruinous: the thread that spins keeps its processor from the
// team-mate it waits for, and every kernel can cost a slice of the scheduler (steps of 5.4 s
// instead of 2.6 s were measured with one busy process on two processors). Spinning some
// microseconds before sleeping costs an undisturbed step little and removes that.
//
// The runtime reads its settings from the environment when it is loaded, before any code of ours,
// and has no call to change them. But it also has the short spin, for when it manages more threads
// than there are processors. So a second team is made once, of two threads that sleep for good:
// with it the runtime manages one thread more than the processors that the first team fills.
#include "exec/cpu/waiting.h"

#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <system_error>
#include <thread>

namespace lowtide::exec_cpu {
namespace {

// Makes this thread the first of a team of two and never returns. Signals are for other threads.
[[maybe_unused]] void sleep_as_team() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  int members = 0;
#pragma omp parallel num_threads(2) reduction(+ : members)
  members += 1;
  while (members > 0) pause();  // NOLINT(bugprone-infinite-loop): it is meant to be
}

}  // namespace

void wait_briefly(int threads) {
#if defined(__GNUC__) && !defined(__clang__)
  if (threads < omp_get_num_procs() || threads < 2) return;
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  static std::once_flag once;
  std::call_once(once, [] {
    try {
      std::thread(sleep_as_team).detach();
    } catch (const std::system_error&) {
      // No thread to be had: waiting stays as it was.
    }
  });
#else
  static_cast<void>(threads);
#endif
}

}  // namespace lowtide::exec_cpu
