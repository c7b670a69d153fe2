// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Errors of std::cout stay with it until somebody asks.

#include "runtime/StandardOutput.h"

#include <cerrno>
#include <cstring>
#include <iostream>

namespace cleave::runtime {

Error flushStandardOutput() {
  errno = 0;
  std::cout.flush();
  if (std::cout)
    return Error::success();
  std::string reason = errno == 0 ? "" : std::string(": ") + std::strerror(errno);
  return makeError(Status::Failure, "cannot write standard output", reason);
}

} // namespace cleave::runtime
