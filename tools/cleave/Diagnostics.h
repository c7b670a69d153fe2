// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the command says on standard error: errors, warnings and notes, also those of MLIR.

#ifndef CLEAVE_TOOLS_CLEAVE_DIAGNOSTICS_H
#define CLEAVE_TOOLS_CLEAVE_DIAGNOSTICS_H

#include "compiler/Messages.h"

#include "mlir/IR/Diagnostics.h"

namespace cleave::tool {

/// Prints "error: ...", coloured on a terminal unless NO_COLOR is set. The same for warnings and notes.
void printError(const llvm::Twine &message);
void printWarning(const llvm::Twine &message);
void printNote(const llvm::Twine &message);

/// Prints the error and, where it knows one, its node; nothing for success or for an error without a message, which has
/// been printed when it happened. Returns the exit code.
int report(const Error &error);

/// Prints what a compilation says, and keeps its reproducer (Reproducer.h).
Messages &console();

/// Prints the diagnostics of a context while it lives, with the model's node or the place in the file.
class DiagnosticPrinter : public mlir::ScopedDiagnosticHandler {
public:
  explicit DiagnosticPrinter(mlir::MLIRContext *context);
};

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_DIAGNOSTICS_H
