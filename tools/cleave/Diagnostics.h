// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the command says on standard error: errors, warnings and notes, also those of MLIR.

#ifndef CLEAVE_TOOLS_CLEAVE_DIAGNOSTICS_H
#define CLEAVE_TOOLS_CLEAVE_DIAGNOSTICS_H

#include "runtime/Error.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/Error.h"

namespace cleave::tool {

using runtime::Error;
using runtime::Expected;
using runtime::makeError;
using runtime::Status;

/// Prints "error: ...", coloured on a terminal unless NO_COLOR is set. The same for warnings and notes.
void printError(const llvm::Twine &message);
void printWarning(const llvm::Twine &message);
void printNote(const llvm::Twine &message);

/// Prints the error and, where it knows one, its node; nothing for success or for an error without a message, which has
/// been printed when it happened. Returns the exit code.
int report(const Error &error);

/// The failure of something that has printed its diagnostics itself.
Error alreadyPrinted(Status status);

/// Turns LLVM's error into ours.
Error fromLlvm(Status status, llvm::Error error);

/// Prints the diagnostics of a context while it lives, with the model's node or the place in the file.
class DiagnosticPrinter : public mlir::ScopedDiagnosticHandler {
public:
  explicit DiagnosticPrinter(mlir::MLIRContext *context);
};

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_DIAGNOSTICS_H
