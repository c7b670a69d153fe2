// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A tensor whose elements lie in the compiler's memory: the value of constants, folded subgraphs and weights.

#ifndef CLEAVE_DIALECTS_INTERFACES_HOSTTENSOR_H
#define CLEAVE_DIALECTS_INTERFACES_HOSTTENSOR_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

#include <memory>

namespace cleave {

/// Row-major elements of a statically shaped tensor; i1 takes one byte an element, f16 and bf16 two. Copies share the
/// bytes.
class HostTensor {
public:
  HostTensor() = default;

  /// A tensor over `bytes` bytes that `owner` keeps alive (a mapped file, a buffer).
  HostTensor(mlir::RankedTensorType type, const void *data, std::shared_ptr<const void> owner)
      : type(type), bytes(static_cast<const char *>(data)), owner(std::move(owner)) {}

  /// A new tensor with undefined elements; `writable` receives where to write them.
  static HostTensor allocate(mlir::RankedTensorType type, char *&writable);

  /// The elements of an attribute.
  static HostTensor fromAttribute(mlir::DenseElementsAttr attribute);

  /// The elements as an attribute of the same type.
  mlir::DenseElementsAttr toAttribute() const;

  explicit operator bool() const { return static_cast<bool>(type); }
  mlir::RankedTensorType getType() const { return type; }
  mlir::Type getElementType() const { return type.getElementType(); }
  llvm::ArrayRef<int64_t> getShape() const { return type.getShape(); }
  int64_t getNumElements() const { return type.getNumElements(); }
  int64_t getNumBytes() const;
  const char *data() const { return bytes; }

  /// The elements as C++ values; `T` must be as wide as an element.
  template <typename T> llvm::ArrayRef<T> as() const {
    return llvm::ArrayRef<T>(reinterpret_cast<const T *>(bytes), getNumElements());
  }

  /// The same bytes under another type of equal size.
  HostTensor withType(mlir::RankedTensorType newType) const { return HostTensor(newType, bytes, owner); }

private:
  mlir::RankedTensorType type;
  const char *bytes = nullptr;
  std::shared_ptr<const void> owner;
};

} // namespace cleave

#endif // CLEAVE_DIALECTS_INTERFACES_HOSTTENSOR_H
