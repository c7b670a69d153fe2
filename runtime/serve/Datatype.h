// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Element types by the names that the Open Inference Protocol has for them. BF16 is Triton's addition.

#ifndef CLEAVE_RUNTIME_SERVE_DATATYPE_H
#define CLEAVE_RUNTIME_SERVE_DATATYPE_H

#include "runtime/ElementType.h"

namespace cleave::runtime::serve {

/// "FP32", "INT64", "BOOL", ...
std::string_view datatypeName(ElementType type);

/// The type of that name; nothing for BYTES, which no model here takes, and for what is no name.
std::optional<ElementType> datatypeNamed(std::string_view name);

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_DATATYPE_H
