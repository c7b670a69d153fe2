// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads a model, from ONNX or from a dfg module in text form, for whoever takes one.

#ifndef CLEAVE_COMPILER_MODELREADER_H
#define CLEAVE_COMPILER_MODELREADER_H

#include "compiler/InputFiles.h"
#include "compiler/Options.h"

namespace cleave {

/// A model in the compiler.
struct LoadedModel {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  WeightsStore weights;
  bool isText = false; ///< read from a module in text form: the import report says only what is unsupported
};

/// Has contexts made from here on have more: dialects of a program's own, with operators that stages ask through
/// interfaces.
void extendContexts(std::function<void(mlir::DialectRegistry &)> extension);

/// Makes a context with the dialects that a model is read into.
std::unique_ptr<mlir::MLIRContext> createContext();

/// Reads the model; its in-memory weights belong to the file `weightsFile`. Diagnostics have been printed when the
/// error has no message. `inputs` may be null. `import` is filled also on failure.
Expected<LoadedModel> readModel(mlir::MLIRContext &context, const ModelOptions &options, InputFiles *inputs,
                                const std::string &weightsFile, ImportReport &import);

/// Makes the files known to which a module's parameters refer, those below `folder` or, where they are not there, below
/// `otherFolder`. Status::Rejected where they do not hold what is asked of them.
Error mapParameters(mlir::ModuleOp module, llvm::StringRef folder, llvm::StringRef otherFolder, WeightsStore &weights);

/// An error with the first operators that cannot run, if there are any; Status::Unsupported.
Error checkSupported(mlir::ModuleOp module, const ImportReport &import);

/// The module's graph; null where it has none.
mlir::Operation *findGraph(mlir::ModuleOp module);

} // namespace cleave

#endif // CLEAVE_COMPILER_MODELREADER_H
