// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Functions that are there once for each of several processors, of which the one for the processor at hand is called.
// All of them must compute the same: sums and minima, no products, which some processors add without rounding.

#ifndef CLEAVE_PASSES_PLANNER_SOLVER_VECTORTARGETS_H
#define CLEAVE_PASSES_PLANNER_SOLVER_VECTORTARGETS_H

// Sanitizers cannot run what chooses between them.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CLEAVE_HAS_VECTOR_TARGETS 1
/// In front of one of several definitions: the instructions that it may have, or "default".
#define CLEAVE_FOR(processor) __attribute__((target(processor)))
/// In front of a definition that is built for each.
#define CLEAVE_FOR_EACH __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLEAVE_HAS_VECTOR_TARGETS 0
#define CLEAVE_FOR(processor)
#define CLEAVE_FOR_EACH
#endif

/// A function that is built for the processor of each one that calls it.
#define CLEAVE_INLINE [[gnu::always_inline]] inline

#endif // CLEAVE_PASSES_PLANNER_SOLVER_VECTORTARGETS_H
