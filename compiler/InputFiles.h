// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tensor files that the command line gives for a model's inputs, for the compiler: an input whose value fixes a shape
// is bound from its file, and a file's shape fixes symbolic dimensions.

#ifndef CLEAVE_COMPILER_INPUTFILES_H
#define CLEAVE_COMPILER_INPUTFILES_H

#include "compiler/Messages.h"

#include "dialects/interfaces/HostTensor.h"
#include "runtime/HostTensor.h"

#include <map>
#include <optional>

namespace cleave {

/// "NAME=VALUE" at its first equals sign; Status::Usage with `option`'s name otherwise.
Expected<std::pair<std::string, std::string>> splitBinding(const std::string &text, const char *option);

/// A tensor that the runtime has read, as the compiler's.
HostTensor toCompiler(mlir::MLIRContext *context, const runtime::HostTensor &tensor);

/// Files by the names, or by "@" and the positions, of inputs. A position is known once the importer has asked for the
/// input, which it does in order.
class InputFiles {
public:
  /// From "NAME=FILE" and "@N=FILE".
  static Expected<InputFiles> create(const std::vector<std::string> &bindings);

  bool empty() const { return files.empty() && shapes.empty(); }
  /// Says which shape an input has, whatever its file says.
  void setShape(const std::string &input, std::vector<int64_t> shape) { shapes[input] = std::move(shape); }
  /// The shape of the input, as set or of the file's tensor; nothing when neither says.
  std::optional<llvm::SmallVector<int64_t>> shapeOf(llvm::StringRef input);
  /// The file's tensor if it has the type, else nothing: the run that follows then says what is wrong with it.
  std::optional<HostTensor> valueOf(llvm::StringRef input, mlir::RankedTensorType type);

private:
  const std::string *fileOf(llvm::StringRef input);
  const runtime::HostTensor *tensorOf(llvm::StringRef input);

  std::map<std::string, std::string> files;
  std::map<std::string, std::vector<int64_t>> shapes;
  std::map<std::string, size_t> positions;
  std::map<std::string, std::optional<runtime::HostTensor>> read; // by file
};

} // namespace cleave

#endif // CLEAVE_COMPILER_INPUTFILES_H
