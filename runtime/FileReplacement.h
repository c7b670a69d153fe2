// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Text files that appear complete or not at all.

#ifndef CLEAVE_RUNTIME_FILEREPLACEMENT_H
#define CLEAVE_RUNTIME_FILEREPLACEMENT_H

#include "runtime/Error.h"

#include <functional>
#include <iosfwd>

namespace cleave::runtime {

/// Replaces the file at `path` by what `write` writes. What is at `path` stays as it is if that fails. A device or pipe
/// (`/dev/stdout`) is written directly. "-" is standard output.
Error replaceTextFile(const std::string &path, const std::function<void(std::ostream &)> &write);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_FILEREPLACEMENT_H
