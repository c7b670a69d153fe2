// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where a plan's parameters are: in the compiler's memory when the plan runs at once, or in files that the plan's
// folder holds.

#ifndef CLEAVE_COMPILER_PLANWEIGHTS_H
#define CLEAVE_COMPILER_PLANWEIGHTS_H

#include "compiler/Messages.h"

#include "passes/import/WeightsStore.h"
#include "runtime/ParameterSource.h"

#include "mlir/IR/BuiltinOps.h"

#include <map>

namespace cleave {

/// Gives the runtime the bytes of a weights store, which must outlive it.
class WeightsSource : public runtime::ParameterSource {
public:
  explicit WeightsSource(const WeightsStore &weights) : weights(weights) {}
  Expected<std::span<const std::byte>> bytes(const runtime::FileSource &source) override;

private:
  const WeightsStore &weights;
};

/// Makes the module's parameters fit a plan in `planFolder`: files below that folder are referred to from there, all
/// other bytes become part of the store that is returned, whose file is `weightsFile`. The bytes stay those of
/// `weights`, which must outlive it. `modelFolder` is where the module's paths begin. `checksums`, unless null,
/// receives one for each parameter in a file, by its name: of samples where the file is the model's own, which nothing
/// else reads.
WeightsStore anchorParameters(mlir::ModuleOp module, const WeightsStore &weights, llvm::StringRef modelFolder,
                              llvm::StringRef planFolder, const std::string &weightsFile,
                              std::map<std::string, runtime::FileChecksum, std::less<>> *checksums = nullptr);

} // namespace cleave

#endif // CLEAVE_COMPILER_PLANWEIGHTS_H
