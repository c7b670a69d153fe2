// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Proves that a plan can run: every index, type and size fits, the queues cannot deadlock under rendezvous semantics,
// every read sees the value that was meant for it, and no two accesses race. The compiler calls it before it writes a
// plan (and as the oracle of its memory planner), the runtime before it runs one.

#ifndef CLEAVE_RUNTIME_VERIFY_H
#define CLEAVE_RUNTIME_VERIFY_H

#include "runtime/Plan.h"

namespace cleave::runtime {

/// The first rule that the plan breaks, as Status::Rejected with the entry, device, instruction and node concerned.
/// Time: linear in instructions times queues. Needs no more memory than a small multiple of the plan's.
Error verifyPlan(const PlanContents &plan);

/// The same for a plan that was read.
inline Error verifyPlan(const Plan &plan) { return verifyPlan(*plan); }

/// Reads a plan's file and verifies it.
Expected<Plan> readVerifiedPlan(const std::filesystem::path &file);

/// The rules that need no order: indices, types, sizes, signatures, queue kinds, channels, kernels.
Error verifyStructure(const PlanContents &plan);

/// The rules of order and memory for one entry whose structure is sound: deadlock, initialization, overwritten values,
/// races.
Error verifyOrder(const PlanContents &plan, const Entry &entry);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_VERIFY_H
