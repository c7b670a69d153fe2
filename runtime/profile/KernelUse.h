// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How a step calls a kernel: which of its arguments share bytes, which of them last from step to step, which a core's
// own caches still hold since the step has touched them last, and how much a step touches before it comes back to the
// others. Two calls that are alike in this take equally long.

#ifndef CLEAVE_RUNTIME_PROFILE_KERNELUSE_H
#define CLEAVE_RUNTIME_PROFILE_KERNELUSE_H

#include "runtime/Plan.h"

namespace cleave::runtime {

struct KernelUse {
  /// Bytes that arguments lie in; those of different blocks have nothing in common.
  struct Block {
    uint64_t bytes = 0;
    bool lasts = false; ///< Filled before the first step (weights), else during each.
  };
  struct Argument {
    uint32_t block = 0;
    uint64_t offset = 0, bytes = 0;
    /// Since a step has last touched these bytes it has touched no more than the cores' own caches hold. A backward
    /// pass reads what the forward pass has left long ago.
    bool isWarm = false;
  };
  const Instruction *instruction = nullptr; ///< a call
  uint32_t kernel = 0;
  std::vector<Block> blocks;
  std::vector<Argument> arguments;
  /// Bytes that a step touches between two uses of arguments that last, and of others; 0 where all such arguments are
  /// warm. Rounded up to powers of two.
  uint64_t lastingDistance = 0, passingDistance = 0;

  /// The same for equal uses of equal kernels, in any plan: operation, attributes, types, or the native code's
  /// checksum; and the arguments.
  std::string signature(const PlanContents &plan) const;
};

/// The uses of all calls of the program's body, on a device of so many cores of this host.
std::vector<KernelUse> kernelUsesOf(const Program &program, unsigned cores);
/// The same on a GPU, whichever: warm is what a cache of 32 MiB holds, as large ones have it.
std::vector<KernelUse> kernelUsesOnGpu(const Program &program);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PROFILE_KERNELUSE_H
