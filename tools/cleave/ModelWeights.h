// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Other weights in the place of an ONNX model's own, by their names.

#ifndef CLEAVE_TOOLS_CLEAVE_MODELWEIGHTS_H
#define CLEAVE_TOOLS_CLEAVE_MODELWEIGHTS_H

#include "tools/cleave/Diagnostics.h"

#include "runtime/training/TrainCommand.h"

namespace onnx {
class ModelProto;
} // namespace onnx

namespace cleave::tool {

/// The names by which --dim gives a model its symbolic dimensions. Nothing where the file cannot be read: who imports
/// it says why.
std::vector<std::string> symbolicDims(const std::string &file);

/// Success if the model has a weight for each: an initializer, or what a node makes of nothing else, of that name,
/// shape and element type. `source` begins the message.
Error checkWeights(const onnx::ModelProto &model, std::span<const std::pair<std::string, runtime::TensorType>> weights,
                   const std::string &source);

/// Puts the weights in the place of the model's own; all others stay. Errors as of checkWeights.
Error putWeights(onnx::ModelProto &model, std::span<const runtime::ArchiveMember> weights, const std::string &source);

/// Writes parameters of a plan into a copy of its model, which lies where the plan says unless another file is given.
class ExportToModel : public runtime::ModelExport {
public:
  /// To be called before anything else.
  void setModel(std::string file) { modelFile = std::move(file); }
  Error check(std::span<const std::pair<std::string, runtime::TensorType>> parameters) override;
  Error write(const std::string &path, std::span<const runtime::ArchiveMember> parameters) override;

private:
  std::string modelFile;
};

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_MODELWEIGHTS_H
