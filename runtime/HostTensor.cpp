// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Allocation and checking of host tensors.

#include "runtime/HostTensor.h"

#include "runtime/Plan.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace cleave::runtime {

static Expected<uint64_t> denseBytes(const TensorType &type) {
  if (Error error = type.check())
    return error;
  if (type.layout)
    return makeError(Status::Failure, "host tensor expects a dense type, got ", type.text());
  return *type.byteSize();
}

Expected<HostTensor> HostTensor::allocate(TensorType type) {
  auto bytes = denseBytes(type);
  if (!bytes)
    return bytes.error();
  size_t rounded = *bytes < 64 ? 64 : (*bytes + 63) / 64 * 64;
  void *memory = std::aligned_alloc(64, rounded);
  if (!memory)
    return makeError(Status::Infeasible, "host tensor ", type.text(), " needs ", *bytes,
                     " bytes, which the host does not have");
  std::memset(memory, 0, rounded);
  HostTensor tensor;
  tensor.owner = std::shared_ptr<void>(memory, std::free);
  tensor.storage = {static_cast<std::byte *>(memory), *bytes};
  tensor.tensorType = std::move(type);
  return tensor;
}

Expected<HostTensor> HostTensor::view(TensorType type, std::span<std::byte> bytes, std::shared_ptr<void> owner) {
  auto needed = denseBytes(type);
  if (!needed)
    return needed.error();
  if (*needed != bytes.size())
    return makeError(Status::Failure, "host tensor ", type.text(), " expects ", *needed, " bytes, got ", bytes.size());
  HostTensor tensor;
  tensor.owner = std::move(owner);
  tensor.storage = bytes;
  tensor.tensorType = std::move(type);
  return tensor;
}

Expected<HostTensor> HostTensor::part(TensorType type, uint64_t begin) const {
  auto bytes = denseBytes(type);
  if (!bytes)
    return bytes.error();
  if (begin > storage.size() || *bytes > storage.size() - begin)
    return makeError(Status::Failure, "a part ", type.text(), " at byte ", begin, " of host tensor ", tensorType.text(),
                     " expects ", *bytes, " bytes, got ", storage.size() - std::min<uint64_t>(begin, storage.size()));
  return view(std::move(type), storage.subspan(begin, *bytes), owner);
}

Expected<std::vector<HostTensor>> allocateTensors(std::span<const Port> ports) {
  std::vector<HostTensor> tensors;
  for (const Port &port : ports) {
    auto tensor = HostTensor::allocate(port.type);
    if (!tensor)
      return tensor.error();
    tensors.push_back(*tensor);
  }
  return tensors;
}

} // namespace cleave::runtime
