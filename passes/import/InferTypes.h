// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ONNX's own shape inference, for results of operators that Cleave does not know.

#ifndef CLEAVE_PASSES_IMPORT_INFERTYPES_H
#define CLEAVE_PASSES_IMPORT_INFERTYPES_H

#include "passes/import/OnnxProto.h"

namespace cleave {

/// The types of the model's values as far as the library can infer them, in the graph's `value_info` and `output`.
/// Runs in a process of its own: the library was not written for files that nobody checked, and may abort on them.
/// Where that happens nothing is inferred.
onnx::GraphProto inferTypes(onnx::ModelProto &model);

} // namespace cleave

#endif // CLEAVE_PASSES_IMPORT_INFERTYPES_H
