// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whether what a command writes at its end can be written, found out before its work begins.

#ifndef CLEAVE_RUNTIME_RUN_OUTPUTCHECK_H
#define CLEAVE_RUNTIME_RUN_OUTPUTCHECK_H

#include "runtime/Error.h"

#include <string_view>

namespace cleave::runtime {

/// What is written to a file, which decides how its name may end.
enum class OutputKind {
  Any,
  Tensor,  ///< a tensor, as writeTensorFile writes it
  Archive, ///< several, as writeTensorArchive does
  Weights  ///< an archive, or an ONNX model with other weights
};

/// Success if a file can be written to `path`, which `option` names: its name ends as its kind's do, its folder is
/// there and takes new files. "-" is standard output where a file may be of any kind. Makes a file in the folder for a
/// moment. Status::Usage for a name that does not fit, Status::Failure for the rest; the message names option and path,
/// and says what to do.
Error checkOutput(std::string_view option, const std::string &path, OutputKind kind = OutputKind::Any);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_RUN_OUTPUTCHECK_H
