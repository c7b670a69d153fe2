// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels that a device has loaded.

#ifndef CLEAVE_RUNTIME_EXECUTABLE_H
#define CLEAVE_RUNTIME_EXECUTABLE_H

#include "runtime/Error.h"

#include <cstdint>

namespace cleave::runtime {

/// The kernels of a program, loaded for one device and called from its compute queues.
class Executable {
public:
  virtual ~Executable() = default;
  /// Runs the kernel with that index in the plan. Arguments: inputs, outputs, then scratch if it has any.
  virtual Error call(uint32_t kernel, void *const *arguments) = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXECUTABLE_H
