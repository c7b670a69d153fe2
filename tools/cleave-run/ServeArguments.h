// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The options of the serve command, which `cleave` and `cleave-run` have alike.

#ifndef CLEAVE_TOOLS_CLEAVERUN_SERVEARGUMENTS_H
#define CLEAVE_TOOLS_CLEAVERUN_SERVEARGUMENTS_H

#include "runtime/serve/ServeCommand.h"
#include "runtime/watch/Watch.h"
#include "tools/cleave-run/PlanTrust.h"

namespace CLI {
class App;
} // namespace CLI

namespace cleave {

/// What the command line says.
struct ServeArguments {
  PlanTrust trust;
  runtime::serve::ServeOptions options;
  runtime::WatchOptions watch; ///< of several processes

  /// The options, with what asks for trust; `*this` must outlive them.
  const runtime::serve::ServeOptions &complete();
};

/// Adds the options to a command, but for what is served; parsing fills `arguments`, which must live as long.
void addServeArguments(CLI::App &command, ServeArguments &arguments);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVERUN_SERVEARGUMENTS_H
