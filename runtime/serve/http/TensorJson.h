// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tensors as JSON arrays of numbers.

#ifndef CLEAVE_RUNTIME_SERVE_HTTP_TENSORJSON_H
#define CLEAVE_RUNTIME_SERVE_HTTP_TENSORJSON_H

#include "runtime/HostTensor.h"

#include <simdjson.h>

#include <string>

namespace cleave::runtime::serve {

/// Fills the tensor with the elements of an array, which may be flat or nested as the shape is, in row-major order.
/// Status::Failure where there are more or fewer of them, or one is no number of the element type.
Error readElements(const simdjson::dom::array &array, const HostTensor &tensor);

/// Appends the elements as one flat array. Floats have the digits that give the same float again; what is not finite,
/// which JSON has no number for, becomes null.
void appendElements(std::string &text, const HostTensor &tensor);

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_HTTP_TENSORJSON_H
