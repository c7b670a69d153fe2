// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A dense tensor in the host's memory: what goes into a step and what comes out of it.

#ifndef CLEAVE_RUNTIME_HOSTTENSOR_H
#define CLEAVE_RUNTIME_HOSTTENSOR_H

#include "runtime/TensorType.h"

#include <memory>
#include <span>
#include <vector>

namespace cleave::runtime {

struct Port;

/// A dense tensor's type and bytes. The bytes belong to the tensor (allocate), to something that it keeps (view with an
/// owner, part), or to someone else who keeps them alive (view). Copies share the bytes.
class HostTensor {
public:
  /// No tensor: no bytes, and a type that means nothing.
  HostTensor() = default;
  /// Zeros of `type`, aligned to 64 bytes. Fails when the type is not valid, has a layout, or memory is short. The
  /// caller has checked a size that a file names against the bytes that the file holds.
  static Expected<HostTensor> allocate(TensorType type);
  /// A tensor over someone else's bytes, which must be exactly as many as `type` needs, at any address. The tensor and
  /// its copies keep `owner`; null: the caller sees to it that the bytes stay.
  static Expected<HostTensor> view(TensorType type, std::span<std::byte> bytes, std::shared_ptr<void> owner = nullptr);
  /// A tensor over those of these bytes that begin at byte `begin`, as many as `type` needs. Fails as `view` does, and
  /// where there are fewer.
  Expected<HostTensor> part(TensorType type, uint64_t begin) const;

  const TensorType &type() const { return tensorType; }
  std::span<std::byte> bytes() const { return storage; }
  /// The bytes as elements of T; T must be as wide as the element type.
  template <typename T> std::span<T> as() const {
    assert(sizeof(T) == elementBytes(tensorType.element) && "the view must be as wide as the element");
    return {reinterpret_cast<T *>(storage.data()), storage.size() / sizeof(T)};
  }

private:
  TensorType tensorType;
  std::shared_ptr<void> owner;
  std::span<std::byte> storage;
};

/// A tensor for each port, with the values that HostTensor::allocate gives.
Expected<std::vector<HostTensor>> allocateTensors(std::span<const Port> ports);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_HOSTTENSOR_H
