// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The handler only notes the signal: who runs steps looks between them.

#include "runtime/training/StopSignals.h"

#include "runtime/watch/Logbook.h"

#include <atomic>
#include <cstring>

namespace cleave::runtime {

static std::atomic<int> received{0};
static_assert(std::atomic<int>::is_always_lock_free, "the handler of a signal takes no lock");

static void onSignal(int signal) {
  // A guard counts for its process: a launcher may send one signal to both.
  if (received.exchange(signal) == 0 || Logbook::own())
    return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

StopSignals::StopSignals() {
  struct sigaction action = {};
  action.sa_handler = onSignal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i != signals.size(); ++i) {
    sigaction(signals[i], nullptr, &before[i]);
    if (before[i].sa_handler != SIG_IGN)
      sigaction(signals[i], &action, nullptr);
  }
  if (Logbook *book = Logbook::own())
    book->setEndsWhenAsked(true);
}

StopSignals::~StopSignals() {
  if (Logbook *book = Logbook::own())
    book->setEndsWhenAsked(false);
  for (size_t i = 0; i != signals.size(); ++i)
    sigaction(signals[i], &before[i], nullptr);
}

int StopSignals::asked() {
  int own = received.load();
  return own == 0 && Logbook::own() ? Logbook::own()->askedToEnd() : own;
}

void StopSignals::ask(int signal) {
  int none = 0;
  received.compare_exchange_strong(none, signal);
}

std::string StopSignals::nameOf(int signal) {
  const char *name = sigabbrev_np(signal);
  return name ? std::string("SIG") + name : "signal " + std::to_string(signal);
}

void StopSignals::endAsAsked(int code) {
  int signal = asked();
  if (signal == 0 || code != exitCodeOf(signal) || Logbook::own())
    return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

} // namespace cleave::runtime
