// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A plan for four devices with instructions of nearly every kind.

#ifndef CLEAVE_TEST_RUNTIME_MESHPLAN_H
#define CLEAVE_TEST_RUNTIME_MESHPLAN_H

#include "PlanBuilder.h"

namespace cleave::runtime::test {

/// One instruction of every kind but for sends and receives, one after the other, on each of four devices: y = 32 x, of
/// ten elements.
PlanBuilder meshPlan(const std::string &driver = "cpu");

} // namespace cleave::runtime::test

#endif // CLEAVE_TEST_RUNTIME_MESHPLAN_H
