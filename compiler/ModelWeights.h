// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Other weights in the place of an ONNX model's own, by their names.

#ifndef CLEAVE_COMPILER_MODELWEIGHTS_H
#define CLEAVE_COMPILER_MODELWEIGHTS_H

#include "compiler/Messages.h"

#include "runtime/TensorType.h"
#include "runtime/tensorfile/TensorFile.h"

#include <span>

namespace onnx {
class ModelProto;
} // namespace onnx

namespace cleave {

/// Success if the model has a weight for each: an initializer, or what a node makes of nothing else, of that name,
/// shape and element type. `source` begins the message.
Error checkWeights(const onnx::ModelProto &model, std::span<const std::pair<std::string, runtime::TensorType>> weights,
                   const std::string &source);

/// Puts the weights in the place of the model's own; all others stay. Errors as of checkWeights.
Error putWeights(onnx::ModelProto &model, std::span<const runtime::ArchiveMember> weights, const std::string &source);

} // namespace cleave

#endif // CLEAVE_COMPILER_MODELWEIGHTS_H
