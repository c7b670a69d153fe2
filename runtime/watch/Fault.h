// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Faults on purpose, for tests of how a run of several processes ends. The environment variable CLEAVE_FAULT has, by
// commas, "RANK:INSTRUCTION:STEP:WHAT", as in "2:all_reduce:3:kill": the first instruction of that kind (actionName)
// that the rank begins in that step or a later one, counted from 0, meets it; those before the first step are in step
// 0. WHAT is error (the instruction fails), lose (its device is lost), kill, stop (the process gets that signal) or
// hang (the thread sleeps). With gone the device is lost, and so is each one that begins such an instruction from then
// on, in any step.

#ifndef CLEAVE_RUNTIME_WATCH_FAULT_H
#define CLEAVE_RUNTIME_WATCH_FAULT_H

#include "runtime/Plan.h"

#include <atomic>
#include <deque>

namespace cleave::runtime {

class Fault {
public:
  /// The one that the environment asks for and this action of this rank may meet, else null.
  static Fault *of(uint32_t rank, const Action &action);
  /// What happens when such an instruction begins: nothing, or not before its step, an error, or no return.
  Error meet(uint64_t step);

private:
  static std::deque<Fault> &ofEnvironment();

  uint32_t rank = 0;
  std::string instruction, what;
  uint64_t step = 0;
  std::atomic<bool> met{false};
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_WATCH_FAULT_H
