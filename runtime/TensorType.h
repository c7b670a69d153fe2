// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a tensor is without its values: element type, shape and memory layout, and how many bytes that takes.

#ifndef CLEAVE_RUNTIME_TENSORTYPE_H
#define CLEAVE_RUNTIME_TENSORTYPE_H

#include "runtime/ElementType.h"
#include "runtime/Error.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cleave::runtime {

/// A blocked memory layout. Dimension d is padded to padded[d]; an element's outer position along d is its index
/// divided by the product of the inner blocks of d, and is multiplied by strides[d] (in elements). Inner block i holds
/// innerBlocks[i] values of dimension innerDims[i]; the last inner block varies fastest.
struct Layout {
  std::vector<int64_t> padded, strides, innerBlocks;
  std::vector<int32_t> innerDims;

  bool operator==(const Layout &) const = default;
};

/// Element type, shape and layout (absent: dense and row-major) of a tensor. A scalar has an empty shape.
struct TensorType {
  ElementType element = ElementType::F32;
  std::vector<int64_t> shape;
  std::optional<Layout> layout;

  bool operator==(const TensorType &) const = default;

  /// Why the type is not valid: a negative dimension, a size that overflows, a layout that does not fit the shape.
  Error check() const;
  /// Product of the shape, without padding; nothing when a dimension is negative or the product exceeds 2^63-1.
  std::optional<uint64_t> elementCount() const;
  /// Bytes from the first to the last element, padding included; nothing when check() fails.
  std::optional<uint64_t> byteSize() const;
  /// For people: "f32[1,64,56,56]", with "blocked" appended when there is a layout.
  std::string text() const;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TENSORTYPE_H
