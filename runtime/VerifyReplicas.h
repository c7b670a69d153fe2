// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rules of plans whose replicas do not wait for each other: that no step computes with parameters of which it does
// not know the version. Private to the verifier.

#ifndef CLEAVE_RUNTIME_VERIFYREPLICAS_H
#define CLEAVE_RUNTIME_VERIFYREPLICAS_H

#include "runtime/Plan.h"

namespace cleave::runtime {

/// For a plan of which all else has been verified. Each replica has devices of its own; whatever "apply" keeps and
/// gives out comes to the replicas as a version, all of it and nothing twice, and in no other way; what replicas give
/// is what "apply" takes.
Error verifyReplicas(const PlanContents &plan);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_VERIFYREPLICAS_H
