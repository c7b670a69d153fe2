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

/// The name of this machine's processor, whatever it is.
inline constexpr llvm::StringLiteral nativeCpu = "native";

/// A processor and its instructions that code may use.
class NativeTarget {
public:
  /// `cpu` as LLVM names it ("x86-64-v3", "znver4"); "native" for this machine's; several joined by "+" for what all of
  /// them have; empty for the one that the environment's CLEAVE_CPU names, else "native". `features` as "+avx2,-fma".
  /// Fails for an unknown processor.
  static llvm::Expected<NativeTarget> create(llvm::StringRef cpu, llvm::StringRef features);

  /// A processor whose features were chosen already: `cpu` only says what to tune for. Fails where this program has no
  /// code generator for x86-64.
  static llvm::Expected<NativeTarget> withFeatures(llvm::StringRef cpu, llvm::ArrayRef<std::string> features);

  const std::string &getTriple() const { return triple; }
  /// As LLVM names it, this machine's too.
  const std::string &getCpu() const { return cpu; }
  /// LLVM's names of the features in use, sorted. Code for the target needs no others.
  const std::vector<std::string> &getFeatures() const { return features; }

  bool hasFeature(llvm::StringRef feature) const { return llvm::is_contained(features, feature); }

  /// LLVM's code generator for the target; one a thread.
  std::unique_ptr<llvm::TargetMachine> createMachine() const;

  /// Prepares a module of kernels: target, layout, function attributes.
  /// `contract`: products and sums may become fused multiply-adds, but in functions that make integers of reals: where
  /// a number lies between two steps, rounding as the model says takes the one that others take.
  void configure(llvm::Module &module, const llvm::TargetMachine &machine, bool contract) const;

private:
  NativeTarget() = default;

  std::string triple, cpu, tuneCpu, featureString;
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
