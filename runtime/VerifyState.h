// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The part of the verifier that looks at parameters which steps write: where programs keep them, and that entries which
// run on the same arenas leave each other what lasts.

#ifndef CLEAVE_RUNTIME_VERIFYSTATE_H
#define CLEAVE_RUNTIME_VERIFYSTATE_H

#include "runtime/Plan.h"

namespace cleave::runtime {

/// Bytes [begin, end) of a program's arena that hold `buffer`, or a view of it, from `prepare` on: its body reads them
/// in every step as `prepare` left them.
struct LastingBytes {
  uint64_t begin = 0, end = 0;
  uint32_t buffer = 0;
};
/// By program of an entry.
using LastingOfPrograms = std::vector<std::vector<LastingBytes>>;

/// verifyOrder (Verify.h), which also finds what lasts in each program.
Error verifyOrder(const PlanContents &plan, const Entry &entry, LastingOfPrograms &lasting);

/// The parameters that a program with sound buffers and instructions keeps: each once, in a dense tile in bytes of its
/// own, which `prepare` loads and does not read.
Error verifyState(const PlanContents &plan, const Entry &entry, const Program &program);

/// What entries that train or evaluate (Entry::samples) may expect of each other, which run on the same arenas: the
/// same parameters in the same places, nothing made once that another entry overwrites, room for all on every device.
/// `lasting` has an element for each entry of the plan.
Error verifySharing(const PlanContents &plan, const std::vector<LastingOfPrograms> &lasting);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_VERIFYSTATE_H
