// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Trained parameters on their way into a file: hours of work may be in them, so that a file that cannot be written is
// not the end of them.

#ifndef CLEAVE_RUNTIME_TRAINING_PARAMETEREXPORT_H
#define CLEAVE_RUNTIME_TRAINING_PARAMETEREXPORT_H

#include "runtime/training/KeptParameters.h"
#include "runtime/training/TrainCommand.h"

namespace cleave::runtime {

/// Success if the file system of an archive at `path` has room for the tensors of these types, as far as it says.
/// Status::Failure with the bytes that there are.
Error checkRoom(const std::string &path, std::span<const TensorType> types);

/// Writes the tensors to the archive at `path`, or into a model where the path ends in .onnx. Where that fails, and
/// `kept`, the folder of a checkpoint that has the same parameters, is empty, they go to an archive in another folder:
/// this process's, the user's own, that of temporary files. The error says what went wrong and where the parameters
/// are.
Error exportParameters(const std::string &path, std::span<const NamedTensor> tensors, const std::filesystem::path &kept,
                       ModelExport *model);

/// Success if nothing is known that would keep the entry's trained parameters from being written to
/// `options.exportFile`: its name, its folder, room for them, and their places in a model.
Error checkExport(const PlanContents &plan, const Entry &entry, const TrainOptions &options);

/// Reads an archive into `members` and gives the entry's parameters of the model its values; `members` must outlive
/// `source`. Status::Failure where a tensor has no parameter, or one of another type; `notice` gets a text if
/// parameters are left as the plan has them.
Error beginWith(const PlanContents &plan, const Entry &entry, const std::string &file,
                std::vector<ArchiveMember> &members, ValueSource &source, std::string &notice);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_PARAMETEREXPORT_H
