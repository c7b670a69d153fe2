// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tensors of the ports that exchange versions and gifts.

#include "runtime/training/asynchronous/ReplicaMessages.h"

namespace cleave::runtime {

void addParts(Messages::Parts &parts, const ParameterTensors &tensors) {
  for (const auto &[parameter, tensor] : tensors)
    parts.push_back(tensor.bytes());
}

void addParts(Messages::Parts &parts, const Gifts &gifts) {
  for (const auto &[parameter, tensors] : gifts)
    for (const HostTensor &tensor : tensors)
      parts.push_back(tensor.bytes());
}

Expected<ParameterTensors> allocateVersion(const Plan &plan) {
  ParameterTensors version;
  for (const Port &port : (*plan.entry(plan->replicas->localSteps != 0 ? fetchEntryName : "train"))->inputs) {
    if (!port.parameter)
      continue;
    auto tensor = HostTensor::allocate(port.type);
    if (!tensor)
      return tensor.error();
    version[*port.parameter] = std::move(*tensor);
  }
  return version;
}

Expected<Gifts> allocateGifts(const Plan &plan) {
  Gifts gifts;
  for (const Port &port : (*plan.entry(plan->replicas->localSteps != 0 ? giveEntryName : "train"))->outputs) {
    if (!port.parameter)
      continue;
    auto tensor = HostTensor::allocate(port.type);
    if (!tensor)
      return tensor.error();
    gifts[*port.parameter].push_back(std::move(*tensor));
  }
  return gifts;
}

} // namespace cleave::runtime
