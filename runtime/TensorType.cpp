// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks and sizes of tensor types, with every product checked for overflow: the numbers may come from a hostile file.

#include "runtime/TensorType.h"

#include <limits>

namespace cleave::runtime {

static constexpr uint64_t mostBytes = std::numeric_limits<int64_t>::max();

/// left * right, or nothing beyond 2^63-1.
static std::optional<uint64_t> multiply(uint64_t left, uint64_t right) {
  uint64_t product;
  if (__builtin_mul_overflow(left, right, &product) || product > mostBytes)
    return std::nullopt;
  return product;
}

/// Products of the inner blocks of each dimension; check() has passed for the blocks.
static std::vector<uint64_t> blockSizes(const Layout &layout, size_t rank) {
  std::vector<uint64_t> sizes(rank, 1);
  for (size_t i = 0; i != layout.innerBlocks.size(); ++i)
    sizes[layout.innerDims[i]] *= layout.innerBlocks[i];
  return sizes;
}

/// Elements from the first to the last of a blocked tensor, padding included; nothing when that overflows.
static std::optional<uint64_t> extentOf(const Layout &layout, size_t rank) {
  std::vector<uint64_t> blocks = blockSizes(layout, rank);
  uint64_t last = 0, inner = 1;
  for (size_t d = 0; d != rank; ++d) {
    if (layout.padded[d] == 0)
      return 0;
    auto step = multiply(layout.padded[d] / blocks[d] - 1, layout.strides[d]);
    auto volume = multiply(inner, blocks[d]);
    if (!step || !volume || *step > mostBytes - last)
      return std::nullopt;
    last += *step;
    inner = *volume;
  }
  return inner > mostBytes - last ? std::nullopt : std::optional(last + inner);
}

static Error checkLayout(const TensorType &type) {
  const Layout &layout = *type.layout;
  size_t rank = type.shape.size();
  if (layout.padded.size() != rank || layout.strides.size() != rank)
    return makeError(Status::Rejected, "layout of ", type.text(), " expects ", rank,
                     " padded dimensions and strides, got ", layout.padded.size(), " and ", layout.strides.size());
  if (layout.innerBlocks.size() != layout.innerDims.size())
    return makeError(Status::Rejected, "layout of ", type.text(), " expects a dimension for each of its ",
                     layout.innerBlocks.size(), " inner blocks, got ", layout.innerDims.size());
  std::vector<uint64_t> blocks(rank, 1);
  for (size_t i = 0; i != layout.innerBlocks.size(); ++i) {
    int32_t d = layout.innerDims[i];
    if (d < 0 || static_cast<size_t>(d) >= rank || layout.innerBlocks[i] < 1)
      return makeError(Status::Rejected, "layout of ", type.text(), " has an inner block of ", layout.innerBlocks[i],
                       " values of dimension ", d, ", expected at least 1 value of one of ", rank, " dimensions");
    auto product = multiply(blocks[d], layout.innerBlocks[i]);
    if (!product)
      return makeError(Status::Rejected, "layout of ", type.text(), " has inner blocks whose sizes overflow");
    blocks[d] = *product;
  }
  for (size_t d = 0; d != rank; ++d) {
    if (layout.padded[d] < type.shape[d] || layout.padded[d] % blocks[d] != 0)
      return makeError(Status::Rejected, "layout of ", type.text(), " expects dimension ", d,
                       " padded to a multiple of ", blocks[d], " that is at least ", type.shape[d], ", got ",
                       layout.padded[d]);
    if (layout.strides[d] < 0)
      return makeError(Status::Rejected, "layout of ", type.text(), " expects no negative stride, got ",
                       layout.strides[d], " for dimension ", d);
  }
  return Error::success();
}

Error TensorType::check() const {
  if (static_cast<unsigned>(element) >= numElementTypes)
    return makeError(Status::Rejected, "tensor type expects an element type below ", numElementTypes, ", got ",
                     static_cast<unsigned>(element));
  for (int64_t size : shape)
    if (size < 0)
      return makeError(Status::Rejected, "tensor type ", text(), " expects no negative dimension, got ", size);
  auto count = elementCount();
  if (!count || !multiply(*count, elementBytes(element)))
    return makeError(Status::Rejected, "tensor type ", text(), " has more bytes than 2^63-1");
  if (!layout)
    return Error::success();
  if (Error error = checkLayout(*this))
    return error;
  auto extent = extentOf(*layout, shape.size());
  if (!extent || !multiply(*extent, elementBytes(element)))
    return makeError(Status::Rejected, "layout of ", text(), " has more bytes than 2^63-1");
  return Error::success();
}

std::optional<uint64_t> TensorType::elementCount() const {
  uint64_t count = 1;
  bool empty = false;
  for (int64_t size : shape) {
    if (size < 0)
      return std::nullopt;
    empty |= size == 0;
  }
  if (empty)
    return 0;
  for (int64_t size : shape) {
    auto product = multiply(count, size);
    if (!product)
      return std::nullopt;
    count = *product;
  }
  return count;
}

std::optional<uint64_t> TensorType::byteSize() const {
  if (Error error = check())
    return std::nullopt;
  return (layout ? *extentOf(*layout, shape.size()) : *elementCount()) * elementBytes(element);
}

std::string TensorType::text() const {
  std::ostringstream out;
  out << (static_cast<unsigned>(element) < numElementTypes ? elementName(element) : "?") << '[';
  for (size_t d = 0; d != shape.size(); ++d)
    out << (d ? "," : "") << shape[d];
  out << (layout ? "] blocked" : "]");
  return out.str();
}

} // namespace cleave::runtime
