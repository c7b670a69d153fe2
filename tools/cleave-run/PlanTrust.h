// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whether a plan's code may run: a plan is a program, and runs with the rights of whoever runs it.

#ifndef CLEAVE_TOOLS_CLEAVERUN_PLANTRUST_H
#define CLEAVE_TOOLS_CLEAVERUN_PLANTRUST_H

#include "runtime/Plan.h"

#include <string>

namespace CLI {
class App;
} // namespace CLI

namespace cleave {

/// What the command line says about trust.
struct PlanTrust {
  bool refusesCode = false; ///< --no-native
  bool acceptsAny = false;  ///< --trust-plan

  /// Adds --no-native and --trust-plan to a command; must live until it is parsed.
  void addTo(CLI::App &command);

  /// Refuses with Status::Rejected, before anything of the plan runs: a plan that holds code, for a processor or a GPU,
  /// even if nothing calls it, where --no-native is given; otherwise one that others could have written, by the owner
  /// and mode of `file`, unless it holds no code or --trust-plan is given.
  runtime::Error check(const runtime::Plan &plan, const std::string &file) const;
};

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVERUN_PLANTRUST_H
