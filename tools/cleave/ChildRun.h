// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Another program, run to its end, and what it says.

#ifndef CLEAVE_TOOLS_CLEAVE_CHILDRUN_H
#define CLEAVE_TOOLS_CLEAVE_CHILDRUN_H

#include "tools/cleave/Diagnostics.h"

#include <vector>

namespace cleave::tool {

/// How a program ended. `complaints` is its standard error, or why it did not start; both without blanks around them.
struct ChildRun {
  int code = 0;
  std::string output, complaints;
};

/// Runs a program by its path, with an empty standard input. Status::Failure where there is no room for what it says.
Expected<ChildRun> runChild(const std::string &program, const std::vector<std::string> &arguments);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_CHILDRUN_H
