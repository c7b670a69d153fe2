// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From an ONNX model file to the dfg dialect: the importer's public face.

#ifndef CLEAVE_PASSES_IMPORT_IMPORT_H
#define CLEAVE_PASSES_IMPORT_IMPORT_H

#include "dialects/interfaces/HostTensor.h"
#include "passes/import/WeightsStore.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/Error.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace onnx {
class ModelProto;
} // namespace onnx

namespace cleave {

/// Why an import failed; the values are the command line's exit codes.
enum class ImportFailure {
  Diagnosed = 1,   ///< The file cannot be read, or an input's value is needed and not bound.
  Usage = 2,       ///< A wrong or missing `--dim` or `--bind`.
  Unsupported = 3, ///< An operator or type whose results' types are unknown to Cleave.
  Rejected = 4     ///< The model is malformed or unsafe.
};

/// What an import may take, looked at before each node; more is Rejected.
struct ImportLimits {
  /// Nodes, once functions are inlined and loops unrolled, and operators that nodes become, as recurrent ones do for
  /// every step: more than any model has.
  uint64_t nodes = 250'000;
  /// Operands and results of one node together: compilation takes time with their square.
  uint64_t operands = 2'000;
  /// Bytes that the process holds in memory, files that are mapped included; 0: any number.
  uint64_t bytes = 0;
  /// Seconds since the import began; 0: any time.
  double seconds = 0;
};

/// What the user says about a model besides its file.
struct ImportOptions {
  /// Sizes of symbolic dimensions by their names; `INPUT.N` is the dimension N of an input that has no name.
  std::map<std::string, int64_t> dims;
  /// The size of dimension 0 of the first input, and of all inputs that have the same there, in place of what the model
  /// says: a microbatch of a training step.
  std::optional<int64_t> samples;
  /// The same for a model that leaves this size open, as a symbolic dimension without an entry in `dims`, or has a
  /// single sample, as exported models do.
  std::optional<int64_t> openSamples;
  /// Changes the model before it is imported, where it is given; its error is the user's (ImportFailure::Diagnosed).
  std::function<llvm::Error(onnx::ModelProto &)> edit;
  /// Values of graph inputs that are fixed at compile time. The inputs stay in the graph's signature, so that
  /// positions do not move, and what is given for them when the graph runs is not read.
  std::map<std::string, HostTensor> bindings;
  /// Asked for the value of an input that fixes a shape and is not in `bindings`: `cleave run` answers from its
  /// `--input`. May be empty.
  std::function<std::optional<HostTensor>(llvm::StringRef name, mlir::RankedTensorType type)> bindInput;
  /// Asked for the shape of an input with dimensions that nothing else fixes. May be empty.
  std::function<std::optional<llvm::SmallVector<int64_t>>(llvm::StringRef name)> inputShape;
  /// Whether the graph is to be trained: dropout becomes an operator whatever mode the model says, and batch
  /// normalization keeps its running statistics, both for the train stage.
  bool training = false;
  /// Whether dropout becomes an operator without the rest of that, for plans of training that do not run.
  bool keepsDropout = false;
  ImportLimits limits;
};

/// A node that was imported as `dfg.opaque`.
struct UnsupportedNode {
  std::string name, kind, reason;
};

/// What an import found, also when it failed.
struct ImportReport {
  ImportFailure failure = ImportFailure::Diagnosed;
  int64_t irVersion = 0, opset = 0;
  /// The samples that took the place of those that the model declares; nothing where its own were kept.
  std::optional<int64_t> samples;
  /// The name by which `dims` fixes the batch; empty where the model fixes it.
  std::string samplesDim;
  /// Whether the model leaves its number of samples open, and nothing gave it.
  bool lacksSamples = false;
  /// How many nodes of each operator type the model holds, inlined functions included.
  std::map<std::string, int64_t> operators;
  std::vector<UnsupportedNode> unsupported;
  /// Inputs whose values were fixed, by `bindings` or `bindInput`.
  std::vector<std::string> boundInputs;
  /// Inputs whose values are needed for a shape and were not given.
  std::vector<std::string> inputsToBind;
};

/// Reads an ONNX model (IR 3 to 13, operator set 1 to 23) into a module with one `dfg.parameter` for every weight and
/// one `dfg.graph @main`. `weights` receives the parameters' bytes. Errors are diagnostics that name the node or
/// tensor; `report.failure` then says of what kind they are. Operators that Cleave does not know become `dfg.opaque`.
llvm::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> importOnnx(mlir::MLIRContext &context, llvm::StringRef path,
                                                              const ImportOptions &options, WeightsStore &weights,
                                                              ImportReport &report);

/// Reads a tensor from a file that holds one ONNX TensorProto. Errors say what is wrong with the file.
llvm::Expected<HostTensor> readTensorFile(mlir::MLIRContext &context, llvm::StringRef path);

} // namespace cleave

#endif // CLEAVE_PASSES_IMPORT_IMPORT_H
