// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads tensors of a model file. Every number in the file is checked before anything is allocated by it; bytes that
// lie in the file as they are needed are shared, not copied.

#ifndef CLEAVE_PASSES_IMPORT_TENSORREADER_H
#define CLEAVE_PASSES_IMPORT_TENSORREADER_H

#include "dialects/interfaces/HostTensor.h"
#include "passes/import/OnnxProto.h"
#include "passes/import/WeightsStore.h"

#include "llvm/Support/Error.h"

#include <map>
#include <string>

namespace cleave {

/// The largest tensor that the importer accepts, in bytes: sums and products of sizes below it cannot overflow.
inline constexpr int64_t largestTensorBytes = int64_t(1) << 46;

/// No dimension reaches this: plans describe what devices hold of a dimension up to there (runtime/Tile.h).
inline constexpr int64_t dimensionLimit = int64_t(1) << 40;

/// The most dimensions that the importer accepts: as many as tensor files may have, so that each input can be given and
/// each output be kept.
inline constexpr size_t largestTensorRank = 64;

/// The type of a tensor of `shape`; an error where a size is negative or reaches `dimensionLimit`, the tensor is larger
/// than `largestTensorBytes` or its dimensions are more than `largestTensorRank`.
llvm::Expected<mlir::RankedTensorType> makeTensorType(llvm::ArrayRef<int64_t> shape, mlir::Type elementType);

/// A tensor whose type Cleave does not have (strings, complex numbers): not malformed, but of no use.
class UnsupportedTensor : public llvm::ErrorInfo<UnsupportedTensor> {
public:
  static char ID;
  explicit UnsupportedTensor(std::string text) : text(std::move(text)) {}
  void log(llvm::raw_ostream &stream) const override { stream << text; }
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }

private:
  std::string text;
};

/// A tensor and, where it lies in a file beside the model, that file's path and the offset.
struct ModelTensor {
  HostTensor tensor;
  std::string file;
  uint64_t offset = 0;
  /// Whether the file holds elements of 4 bits, two a byte; `tensor` has them as integers of 8 bits.
  bool isPacked = false;
};

/// Reads the tensors of one model.
class TensorReader {
public:
  /// `owner` keeps the protobuf message alive; `folder` is the model's.
  TensorReader(mlir::MLIRContext *context, std::shared_ptr<const void> owner, std::string folder)
      : context(context), owner(std::move(owner)), folder(std::move(folder)) {}

  /// The tensor, or an error that says what is wrong with it. Shares the message's bytes where it can.
  llvm::Expected<ModelTensor> read(const onnx::TensorProto &proto);

  /// A mapped file that `read` met.
  const MappedBytes &getFile(const std::string &path) const { return files.at(path); }

private:
  llvm::Expected<ModelTensor> readAs(const onnx::TensorProto &proto, mlir::RankedTensorType type);
  llvm::Expected<ModelTensor> readPacked(const onnx::TensorProto &proto, bool hasSign);
  llvm::Expected<ModelTensor> readExternal(const onnx::TensorProto &proto, mlir::RankedTensorType type);
  llvm::Expected<HostTensor> readRaw(const std::string &raw, mlir::RankedTensorType type);
  llvm::Expected<HostTensor> readFields(const onnx::TensorProto &proto, mlir::RankedTensorType type);

  mlir::MLIRContext *context;
  std::shared_ptr<const void> owner;
  std::string folder;
  std::map<std::string, MappedBytes> files;
};

} // namespace cleave

#endif // CLEAVE_PASSES_IMPORT_TENSORREADER_H
