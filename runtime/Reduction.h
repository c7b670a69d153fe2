// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The arithmetic of reductions on host memory: any number of sources into any number of targets, at the memory's speed.

#ifndef CLEAVE_RUNTIME_REDUCTION_H
#define CLEAVE_RUNTIME_REDUCTION_H

#include "runtime/Plan.h"

namespace cleave::runtime {

/// Whether elements of that type combine so: i1 has Max (or) and Min (and) only.
bool combines(ElementType element, Combiner combiner);

/// Writes the combination of `elements` elements of every source to every target. Sources are combined in their order;
/// f16 and bf16 in f32, integers wrap, NaN wins. A target may be a source. `streams`: past the caches, for targets that
/// are larger than these anyway.
void combine(ElementType element, Combiner combiner, std::span<const std::byte *const> sources,
             std::span<std::byte *const> targets, uint64_t elements, bool streams);

/// The combination of f16 or bf16 sources, in f32 and not rounded yet: for what is to be combined further.
void combineWide(ElementType element, Combiner combiner, std::span<const std::byte *const> sources, float *target,
                 uint64_t elements);
/// Rounds to f16 or bf16.
void narrow(ElementType element, const float *source, std::byte *target, uint64_t elements);

/// Copies `bytes` bytes; if `streams`, past the caches. The buffers do not overlap.
void copyBytes(const std::byte *source, std::byte *target, uint64_t bytes, bool streams);

/// Whether so many bytes exceed the caches that belong to one core alone, as far as the system knows their size: what
/// others share, a virtual machine sees but does not own.
bool exceedsOwnCaches(uint64_t bytes);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_REDUCTION_H
