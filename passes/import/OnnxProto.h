// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ONNX's protobuf schema, and its element types as MLIR types.

#ifndef CLEAVE_PASSES_IMPORT_ONNXPROTO_H
#define CLEAVE_PASSES_IMPORT_ONNXPROTO_H

#include "onnx/onnx_pb.h"

#include "mlir/IR/BuiltinTypes.h"

#include <string>

namespace cleave {

/// The MLIR type of ONNX's element type; null where Cleave has none.
mlir::Type elementTypeFromOnnx(mlir::MLIRContext *context, int onnxType);

/// The name of ONNX's element type as its documentation spells it, or `type N`.
std::string onnxTypeName(int onnxType);

} // namespace cleave

#endif // CLEAVE_PASSES_IMPORT_ONNXPROTO_H
