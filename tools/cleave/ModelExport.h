// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What commands read of an ONNX model's file, and write into a copy of it, by themselves.

#ifndef CLEAVE_TOOLS_CLEAVE_MODELEXPORT_H
#define CLEAVE_TOOLS_CLEAVE_MODELEXPORT_H

#include "tools/cleave/Diagnostics.h"

#include "runtime/training/TrainCommand.h"

namespace cleave::tool {

/// The names by which --dim gives a model its symbolic dimensions. Nothing where the file cannot be read: who imports
/// it says why.
std::vector<std::string> symbolicDims(const std::string &file);

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

#endif // CLEAVE_TOOLS_CLEAVE_MODELEXPORT_H
