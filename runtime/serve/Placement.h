// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where a model runs, as JSON: its plans, and of each instance the devices with their memory, and what batches take.

#ifndef CLEAVE_RUNTIME_SERVE_PLACEMENT_H
#define CLEAVE_RUNTIME_SERVE_PLACEMENT_H

#include "runtime/serve/ServedModel.h"

namespace cleave::runtime::serve {

/// Plans by the names of their files, without folders; times in seconds.
std::string writePlacement(const ServedModel &model);

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_PLACEMENT_H
