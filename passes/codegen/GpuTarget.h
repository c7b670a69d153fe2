// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The GPU that kernels are compiled for, and LLVM's optimizer and code generator for it.

#ifndef CLEAVE_PASSES_CODEGEN_GPUTARGET_H
#define CLEAVE_PASSES_CODEGEN_GPUTARGET_H

#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"
#include "llvm/Target/TargetMachine.h"

#include <memory>
#include <string>

namespace cleave {

/// The triple of PTX objects.
inline constexpr llvm::StringLiteral ptxTriple = "nvptx64-nvidia-cuda";

/// A GPU architecture.
class GpuTarget {
public:
  /// `chip` as "sm_90". Fails for one that LLVM does not know, and for those older than sm_80.
  static llvm::Expected<GpuTarget> create(llvm::StringRef chip);

  const std::string &getChip() const { return chip; }

  /// LLVM's code generator for the target; one a thread.
  std::unique_ptr<llvm::TargetMachine> createMachine() const;

  /// Prepares a module of kernels: target, layout, fused multiply-adds where the code has products and sums.
  void configure(llvm::Module &module, const llvm::TargetMachine &machine) const;

private:
  GpuTarget() = default;

  std::string chip, features;
};

/// Adds the functions of CUDA's mathematical library that the module calls. Fails where it calls one and the library
/// is not found: where the toolkit was when Cleave was built, or where CUDA_PATH points to.
llvm::Error linkDeviceLibrary(llvm::Module &module);

/// Makes everything but kernels local to the module, with names that end in `suffix`, so that the texts of several
/// modules can stand in one.
void makeLocal(llvm::Module &module, const llvm::Twine &suffix);

/// Optimizes a module for speed. Vectors stay as they are.
void optimizeForGpu(llvm::Module &module, llvm::TargetMachine &machine);

/// The module as PTX.
std::string emitPtx(llvm::Module &module, llvm::TargetMachine &machine);

/// One text of several, which are for one target.
std::string joinPtx(llvm::ArrayRef<std::string> texts);

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_GPUTARGET_H
