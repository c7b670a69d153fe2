// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Results on standard output or in files that appear complete or not at all.

#ifndef CLEAVE_TOOLS_CLEAVE_OUTPUTFILE_H
#define CLEAVE_TOOLS_CLEAVE_OUTPUTFILE_H

#include "tools/cleave/Diagnostics.h"
#include "tools/cleave/JsonStream.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/raw_ostream.h"

namespace cleave::tool {

/// Writes a result to the file at `path`: to a temporary file beside it, which takes its name when complete and is
/// removed by a signal. "-" is standard output, where what a terminal would take for a command is escaped; a device or
/// pipe is written directly.
Error writeOutput(llvm::StringRef path, llvm::function_ref<void(llvm::raw_ostream &)> write);

/// The same for bytes that stay as they are on standard output, too.
Error writeBinary(llvm::StringRef path, llvm::function_ref<void(llvm::raw_ostream &)> write);

/// Status::Usage where such bytes, for which an option names `path`, would go to a terminal.
Error checkBinaryOutput(llvm::StringRef option, llvm::StringRef path);

/// Writes what a command says to standard output, unless that is where its JSON goes: `json` is its path.
Error writeText(llvm::StringRef json, llvm::function_ref<void(llvm::raw_ostream &)> write);

/// Status::Failure where what LLVM's stream of standard output got could not be written.
Error flushStandardOutput();

/// Writes one JSON object, indented, whose attributes `write` adds.
Error writeJson(llvm::StringRef path, llvm::function_ref<void(JsonStream &)> write);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_OUTPUTFILE_H
