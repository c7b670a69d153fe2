// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The environment is read once; each fault happens once.

#include "runtime/watch/Fault.h"

#include <csignal>
#include <cstdlib>
#include <sstream>
#include <unistd.h>

namespace cleave::runtime {

std::deque<Fault> &Fault::ofEnvironment() {
  static std::deque<Fault> faults;
  static const bool isRead = [] {
    const char *text = std::getenv("CLEAVE_FAULT");
    std::istringstream list(text ? text : "");
    for (std::string each; std::getline(list, each, ',');) {
      Fault &fault = faults.emplace_back();
      std::istringstream in(each);
      char colon = 0;
      in >> fault.rank >> colon;
      std::getline(in, fault.instruction, ':');
      in >> fault.step >> colon >> fault.what;
    }
    return true;
  }();
  (void)isRead;
  return faults;
}

Fault *Fault::of(uint32_t rank, const Action &action) {
  for (Fault &fault : ofEnvironment())
    if (fault.rank == rank && fault.instruction == actionName(action))
      return &fault;
  return nullptr;
}

Error Fault::meet(uint64_t now) {
  if (what == "gone" ? now < step && !met : now < step || met)
    return Error::success();
  if (met.exchange(true) && what != "gone")
    return Error::success();
  if (what == "lose" || what == "gone")
    return makeError(Status::Lost, "this loss was asked for");
  if (what == "kill")
    raise(SIGKILL);
  else if (what == "stop")
    raise(SIGSTOP);
  while (what == "hang")
    pause();
  return what == "error" ? makeError(Status::Failure, "this fault was asked for") : Error::success();
}

} // namespace cleave::runtime
