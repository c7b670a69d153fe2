// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What command lines say about an entry's inputs and outputs: "NAME=FILE", by name or by position.

#ifndef CLEAVE_RUNTIME_PORTBINDING_H
#define CLEAVE_RUNTIME_PORTBINDING_H

#include "runtime/Plan.h"

namespace cleave::runtime {

/// A file, or something else, for each port that has one.
using PortBindings = std::vector<std::optional<std::string>>;

/// What the bindings say of each port; a NAME is a port's name or "@" and its position. `option` and `what` are what
/// messages call the option and the part behind "=". Status::Usage for an unknown name, a name without anything, or one
/// that comes twice.
Expected<PortBindings> bindPorts(const std::vector<std::string> &bindings, const std::vector<Port> &ports,
                                 const char *option, const char *what = "FILE");

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PORTBINDING_H
