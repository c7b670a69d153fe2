// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A plan's buffer as a place in a device's memory.

#ifndef CLEAVE_RUNTIME_BUFFER_H
#define CLEAVE_RUNTIME_BUFFER_H

#include <cstddef>
#include <cstdint>
#include <span>

namespace cleave::runtime {

/// A place in a device's arena. `data` is an address of the device, null where the driver has no memory.
struct Buffer {
  std::byte *data = nullptr;
  uint64_t size = 0; ///< bytes

  std::span<std::byte> bytes() const { return {data, size}; }
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_BUFFER_H
