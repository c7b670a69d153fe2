// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns the bytes of a plan file into PlanContents.

#ifndef CLEAVE_RUNTIME_PLANREADER_H
#define CLEAVE_RUNTIME_PLANREADER_H

#include "runtime/Plan.h"

namespace cleave::runtime {

/// The contents of a plan file, whose spans refer to `bytes`. Status::Rejected when the bytes are not a well-formed
/// plan. Never copies more than a fixed multiple of bytes.size(), however often the file shares its parts.
Expected<PlanContents> readPlanContents(std::span<const std::byte> bytes);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PLANREADER_H
