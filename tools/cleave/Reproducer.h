// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is left behind by an internal error: the module that the compiler was given, in a file to report.

#ifndef CLEAVE_TOOLS_CLEAVE_REPRODUCER_H
#define CLEAVE_TOOLS_CLEAVE_REPRODUCER_H

#include "llvm/ADT/StringRef.h"

namespace cleave::tool {

/// From now on a crash writes what was kept (below) to a file in the temporary folder, names the file on standard error
/// and ends the process with exit code 70. What ends it from outside, as SIGQUIT does, is no crash.
void installCrashHandler();

/// Keeps the text of a reproducer; replaces what was kept before.
void keepReproducer(std::string text);

/// Writes what was kept, if anything, and says where; returns exit code 70.
int reportInternalError(llvm::StringRef message);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_REPRODUCER_H
