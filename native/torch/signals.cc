// oneDNN's compiled products use the stack pointer as one more register: a signal that such a thread takes has its frame written into whatever that
// points at, and the heap is destroyed (seen with 2.6, AVX-512, a transposed first matrix). So threads that compute take no signals. They come to a thread
// that only waits; libuv's handlers run in any thread, and hand over to the event loop as ever.
#include "torch/signals.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

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

}  // namespace

void leaveSignals() {
  static std::once_flag once;
  std::call_once(once, startTaker);
  sigset_t signals;
  sigfillset(&signals);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) sigdelset(&signals, fault);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

}  // namespace serac
