// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Trained parameters on their way into a file: hours of work may be in them, so that a file that cannot be written is
// not the end of them.

#ifndef CLEAVE_RUNTIME_TRAINING_PARAMETEREXPORT_H
#define CLEAVE_RUNTIME_TRAINING_PARAMETEREXPORT_H

#include "runtime/training/Checkpoint.h"

namespace cleave::runtime {

/// Success if the file system of an archive at `path` has room for the tensors of these types, as far as it says.
/// Status::Failure with the bytes that there are.
Error checkRoom(const std::string &path, std::span<const TensorType> types);

/// Writes the tensors to the archive at `path`. Where that fails, and `kept`, the folder of a checkpoint that has the
/// same parameters, is empty, they go to another folder: this process's, the user's own, that of temporary files. The
/// error says what went wrong and where the parameters are.
Error exportParameters(const std::string &path, std::span<const NamedTensor> tensors,
                       const std::filesystem::path &kept);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_PARAMETEREXPORT_H
