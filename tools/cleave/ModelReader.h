// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads a model, from ONNX or from a dfg module in text form, for every command that takes one.

#ifndef CLEAVE_TOOLS_CLEAVE_MODELREADER_H
#define CLEAVE_TOOLS_CLEAVE_MODELREADER_H

#include "tools/cleave/InputFiles.h"

#include "passes/import/Import.h"

namespace CLI {
class App;
} // namespace CLI

namespace cleave::tool {

/// What the command line says about a model.
struct ModelOptions {
  std::string model;
  std::vector<std::string> dims, bindings; ///< "NAME=N" and "NAME=FILE"
  std::optional<int64_t> samples;          ///< ImportOptions::samples
  std::optional<int64_t> openSamples;      ///< ImportOptions::openSamples
  std::string weights;                     ///< an archive of weights in the place of the model's; empty: its own
  bool training = false;                   ///< ImportOptions::training
  bool keepsDropout = false;               ///< ImportOptions::keepsDropout

  ImportLimits limits; ///< --max-nodes, --max-operands, --max-memory, --max-seconds

  /// Adds MODEL and --dim to a command, and --bind; with --dim come --weights and the limits of an import.
  void addTo(CLI::App &command);
  void addDimTo(CLI::App &command);
  void addBindTo(CLI::App &command);
};

/// A model in the compiler.
struct LoadedModel {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  WeightsStore weights;
  bool isText = false; ///< read from a module in text form: the import report says only what is unsupported
};

/// Makes a context with the dialects that a model is read into.
std::unique_ptr<mlir::MLIRContext> createContext();

/// Reads the model; its in-memory weights belong to the file `weightsFile`. Diagnostics have been printed when the
/// error has no message. `inputs` may be null. `import` is filled also on failure.
Expected<LoadedModel> readModel(mlir::MLIRContext &context, const ModelOptions &options, InputFiles *inputs,
                                const std::string &weightsFile, ImportReport &import);

/// An error with the first operators that cannot run, if there are any; Status::Unsupported.
Error checkSupported(mlir::ModuleOp module, const ImportReport &import);

/// The module's graph; null where it has none.
mlir::Operation *findGraph(mlir::ModuleOp module);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_MODELREADER_H
