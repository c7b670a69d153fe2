// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How a compilation tells of what goes wrong: errors are returned, all else is said to who listens.

#ifndef CLEAVE_COMPILER_MESSAGES_H
#define CLEAVE_COMPILER_MESSAGES_H

#include "runtime/Error.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/Error.h"

#include <string>

namespace cleave {

using runtime::Error;
using runtime::Expected;
using runtime::makeError;
using runtime::Status;

/// Who listens; by itself, nobody.
class Messages {
public:
  virtual ~Messages() = default;

  /// What MLIR says: errors among it, which are not returned again but as alreadySaid.
  virtual void diagnostic(mlir::Diagnostic &) {}
  virtual void warning(const std::string &) {}
  virtual void note(const std::string &) {}
  /// A line about the best that a search has found so far, which takes the place of the one before.
  virtual void progress(const std::string &) {}
  /// The search has ended: nothing takes the place of the last line.
  virtual void endProgress() {}
  /// A module in text form that shows an internal error, should one follow.
  virtual void reproducer(std::string) {}
  /// The compiler's own fault.
  virtual void internalError(const std::string &) {}
};

/// The failure of something that has said its diagnostics itself.
Error alreadySaid(Status status);

/// Turns LLVM's error into ours.
Error fromLlvm(Status status, llvm::Error error);

} // namespace cleave

#endif // CLEAVE_COMPILER_MESSAGES_H
