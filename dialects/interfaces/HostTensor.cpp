// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Conversions between tensors in memory and MLIR attributes.

#include "dialects/interfaces/HostTensor.h"
#include "dialects/interfaces/SplitRule.h"

#include <cstdlib>
#include <cstring>

using namespace mlir;

namespace cleave {

int64_t HostTensor::getNumBytes() const { return tensorBytes(type); }

HostTensor HostTensor::allocate(RankedTensorType type, char *&writable) {
  size_t size = static_cast<size_t>(tensorBytes(type));
  std::shared_ptr<char> buffer(static_cast<char *>(std::malloc(size ? size : 1)), std::free);
  if (!buffer)
    llvm::report_fatal_error("out of memory for a tensor");
  writable = buffer.get();
  return HostTensor(type, buffer.get(), buffer);
}

HostTensor HostTensor::fromAttribute(DenseElementsAttr attribute) {
  auto type = cast<RankedTensorType>(attribute.getType());
  char *writable = nullptr;
  HostTensor tensor = allocate(type, writable);
  if (type.getElementType().isInteger(1)) {
    for (bool value : attribute.getValues<bool>())
      *writable++ = value;
    return tensor;
  }
  size_t width = static_cast<size_t>(tensorBytes(type)) / std::max<int64_t>(type.getNumElements(), 1);
  ArrayRef<char> raw = attribute.getRawData();
  // The data of an empty attribute may be null, which memcpy must not be given.
  if (raw.empty())
    return tensor;
  if (attribute.isSplat())
    for (int64_t i = 0; i < type.getNumElements(); ++i)
      std::memcpy(writable + i * width, raw.data(), width);
  else
    std::memcpy(writable, raw.data(), raw.size());
  return tensor;
}

DenseElementsAttr HostTensor::toAttribute() const {
  if (getElementType().isInteger(1))
    return DenseElementsAttr::get(type, ArrayRef<bool>(reinterpret_cast<const bool *>(bytes), getNumElements()));
  return DenseElementsAttr::getFromRawBuffer(type, ArrayRef<char>(bytes, getNumBytes()));
}

} // namespace cleave
