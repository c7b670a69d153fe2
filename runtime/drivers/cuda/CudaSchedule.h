// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One order in which a phase's commands can be put on streams, all queues of all devices together.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_CUDASCHEDULE_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_CUDASCHEDULE_H

#include "runtime/Plan.h"

#include <optional>

namespace cleave::runtime {

/// A command by the number of its queue's list and its place in it.
struct CudaPlace {
  uint32_t list = 0, index = 0;
  bool operator==(const CudaPlace &) const = default;
};

/// A command as its order depends on it.
struct CudaStep {
  uint32_t order = 0; ///< Instruction::order
  /// What must come before: the first `index` commands of other lists.
  std::vector<CudaPlace> waits;
  std::optional<uint32_t> channel; ///< of a communication
};

/// What is put on streams at once: a command, or all ends of a communication, by lists.
using CudaTurn = std::vector<CudaPlace>;

/// The turns of lists of commands, each once and in an order that keeps the lists, waits and meetings; of several that
/// could come next, the one with the lowest `order`. Status::Rejected when there is none.
Expected<std::vector<CudaTurn>> scheduleTurns(const std::vector<std::vector<CudaStep>> &lists);

/// The channel of a communication; none of any other action.
std::optional<uint32_t> channelOf(const Action &action);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_CUDASCHEDULE_H
