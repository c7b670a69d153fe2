// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What processes that run a plan together tell each other of a step's tensors: the first one has them whole, each of
// the others needs what its devices load, and has what they store.

#ifndef CLEAVE_RUNTIME_SERVE_STEPPARTS_H
#define CLEAVE_RUNTIME_SERVE_STEPPARTS_H

#include "runtime/HostTensor.h"
#include "runtime/Plan.h"
#include "runtime/StridedCopy.h"

namespace cleave::runtime::serve {

/// Boxes of several tensors, by position, and their bytes one after the other.
class TensorParts {
public:
  /// A box of tensor number `tensor`, from the tensor to the tensor; nothing where it is there already.
  void add(uint32_t tensor, StridedCopy box);
  uint64_t bytes() const { return all; }
  /// `packed` has as many bytes.
  void pack(const std::vector<HostTensor> &tensors, std::span<std::byte> packed) const;
  void unpack(std::span<const std::byte> packed, const std::vector<HostTensor> &tensors) const;

private:
  struct Part {
    uint32_t tensor = 0;
    StridedCopy box;
    bool operator==(const Part &) const = default;
  };
  std::vector<Part> parts;
  uint64_t all = 0;
};

struct StepParts {
  TensorParts inputs, outputs;
};

/// What the devices of process `rank` load and store in a step of the entry.
StepParts stepPartsOf(const PlanContents &plan, const Entry &entry, const std::vector<uint32_t> &rankOfDevice,
                      uint32_t rank);

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_STEPPARTS_H
