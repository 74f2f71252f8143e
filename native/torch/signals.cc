// oneDNN's compiled products use the stack pointer as one more register: a signal that such a thread takes has its frame written into whatever that
// points at, and the heap is destroyed (seen with 2.6, AVX-512, a transposed first matrix). So threads that compute take no signals. They come to a thread
// that only waits; libuv's handlers run in any thread, and hand over to the event loop as ever.
#include "torch/signals.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>

namespace serac {
namespace {

void startTaker() {
  Dl_info self{};
  if (dladdr(reinterpret_cast<void*>(&startTaker), &self) && self.dli_fname) dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);  // its code stays
  std::thread([] {
    for (;;) pause();
  }).detach();
}

constexpr int kStopSignals[] = {SIGINT, SIGTERM};
// Nanoseconds. `timeout`, some versions of npm and others send a signal to a process and to its group: that is one. As in src/cli/output.ts.
constexpr int64_t kSameStop = 200'000'000;

std::atomic<int64_t> gFirstStop{0};  // when, in nanoseconds; 0 before it
struct sigaction gAsked[NSIG];       // libuv's handlers

// Runs in the thread that takes the signals, also while the event loop waits for an operator.
void onStop(int signal) {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  const int64_t now = time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec;
  int64_t first = 0;
  if (gFirstStop.compare_exchange_strong(first, now)) {
    gAsked[signal].sa_handler(signal);
  } else if (now - first > kSameStop) {
    ::signal(signal, SIG_DFL);
    raise(signal);
  }
}

}  // namespace

void endAtSecondSignal() {
  gFirstStop = 0;
  for (const int signal : kStopSignals) {
    struct sigaction now{};
    sigaction(signal, nullptr, &now);
    if ((now.sa_flags & SA_SIGINFO) != 0 || now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN || now.sa_handler == onStop) continue;
    gAsked[signal] = now;
    now.sa_handler = onStop;
    sigaction(signal, &now, nullptr);
  }
}

void leaveSignals() {
  static std::once_flag once;
  std::call_once(once, startTaker);
  sigset_t signals;
  sigfillset(&signals);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) sigdelset(&signals, fault);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

}  // namespace serac
