// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The processor that native code is compiled for, and LLVM's optimizer and code generator for it.

#ifndef CLEAVE_PASSES_CODEGEN_NATIVETARGET_H
#define CLEAVE_PASSES_CODEGEN_NATIVETARGET_H

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"
#include "llvm/Target/TargetMachine.h"

#include <memory>
#include <string>
#include <vector>

namespace llvm {
class PassInstrumentationCallbacks;
} // namespace llvm

namespace cleave {

/// A processor and its instructions that code may use.
class NativeTarget {
public:
  /// `cpu` as LLVM names it, empty for this machine's; `features` as "+avx2,-fma". Fails for an unknown processor.
  static llvm::Expected<NativeTarget> create(llvm::StringRef cpu, llvm::StringRef features);

  const std::string &getTriple() const { return triple; }
  const std::string &getCpu() const { return cpu; }
  /// LLVM's names of the features in use, sorted. Code for the target needs no others.
  const std::vector<std::string> &getFeatures() const { return features; }

  bool hasFeature(llvm::StringRef feature) const { return llvm::is_contained(features, feature); }

  /// LLVM's code generator for the target; one a thread.
  std::unique_ptr<llvm::TargetMachine> createMachine() const;

  /// Prepares a module of kernels: target, layout, function attributes.
  /// `contract`: products and sums may become fused multiply-adds.
  void configure(llvm::Module &module, const llvm::TargetMachine &machine, bool contract) const;

private:
  NativeTarget() = default;

  std::string triple, cpu, featureString;
  std::vector<std::string> features;
};

/// Optimizes a module for speed. `vectorizes`: loops and neighbouring operations become ones on vectors. `callbacks`
/// say which passes run; null: all.
void optimizeModule(llvm::Module &module, llvm::TargetMachine &machine, bool vectorizes,
                    llvm::PassInstrumentationCallbacks *callbacks = nullptr);

/// The module as a relocatable object file.
llvm::SmallVector<char, 0> emitObject(llvm::Module &module, llvm::TargetMachine &machine);

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_NATIVETARGET_H
