// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Errors of several kinds as ours.

#include "compiler/Messages.h"

namespace cleave {

Error alreadySaid(Status status) { return Error(status, ""); }

Error fromLlvm(Status status, llvm::Error error) { return Error(status, llvm::toString(std::move(error))); }

} // namespace cleave
