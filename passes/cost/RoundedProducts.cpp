// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rates of TF32 in the place of float32's.

#include "passes/cost/RoundedProducts.h"

#include "passes/cost/Calibration.h"
#include "runtime/Plan.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace cleave {

bool canRoundProducts(const Machine &machine) {
  return any_of(machine.devices, [](const DeviceSpec &device) { return device.isGpu(); });
}

Machine withRoundedProducts(Machine machine) {
  for (auto &[name, kind] : machine.kinds) {
    auto rate = kind.peak.find("tf32");
    if (isProcessor(kind.driver) || rate == kind.peak.end())
      continue;
    kind.peak["f32"] = rate->second;
    if (const TileModel *tiles = kind.findTiles("tf32")) {
      kind.tiles["contraction.f32"] = TileModel(*tiles);
      kind.efficiency.erase("contraction.f32");
    }
    for (const char *products : {"contraction", "convolution", "winograd", "winograd_training", "streaming"})
      if (const EfficiencyCurve *curve = kind.findCurve(products, "tf32"))
        kind.efficiency[std::string(products) + ".f32"] = EfficiencyCurve(*curve);
  }
  return machine;
}

Machine costedMachine(Machine machine, bool libraries) {
  if (libraries || machine.executor.roundsProducts)
    machine = withRoundedProducts(std::move(machine));
  return withCalibration(std::move(machine));
}

bool roundsProducts(const runtime::Kernel &kernel) {
  const auto *library = std::get_if<runtime::LibraryKernel>(&kernel.body);
  return library && any_of(library->attributes, [](const runtime::Attribute &attribute) {
           return attribute.name == "tf32" && attribute.ints == std::vector<int64_t>{1};
         });
}

} // namespace cleave
