// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where the instances of a model run, and how one that was lost is loaded again on what is left of its devices.

#ifndef CLEAVE_RUNTIME_SERVE_INSTANCERECOVERY_H
#define CLEAVE_RUNTIME_SERVE_INSTANCERECOVERY_H

#include "runtime/serve/ModelInstance.h"

namespace cleave::runtime::serve {

/// A plan and where to run it.
struct InstanceChoice {
  size_t plan = 0; ///< as an index
  InstancePlace place;
};

/// Of `count` instances of the first plan, which have devices of their own one after the other, what the one of that
/// number may run: a plan at each of the places that it fits into between the first and the last device of the
/// instance. A plan for more devices than the first one has is tried from the instance's first device on.
std::vector<InstanceChoice> choicesOf(const ServedPlans &plans, size_t plan, unsigned number, unsigned count);

/// What came of loading an instance again: the instance and its plan, or the last error.
struct RecoveredInstance {
  std::unique_ptr<ModelInstance> instance;
  size_t plan = 0;
  Error error;
};
/// Tries the choices one after the other until one can be loaded (`load`); `report` is told in a line why others
/// cannot.
RecoveredInstance loadFirst(const ServedPlans &plans, const std::vector<InstanceChoice> &choices,
                            const std::function<Expected<std::unique_ptr<ModelInstance>>(const InstanceChoice &)> &load,
                            const std::function<void(const std::string &)> &report);

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_INSTANCERECOVERY_H
