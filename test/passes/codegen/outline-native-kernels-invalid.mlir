// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: not cleave-opt %s --codegen-outline-native-kernels 2>&1 | FileCheck %s

dist.mesh @d0 <[], devices = [0]>

// An operator that Cleave does not know is refused by the model's names for it.
dist.program @main(%x: tensor<8xf32>) -> tensor<8xf32> attributes {mesh = @d0} {
  // CHECK: node "n1" has the operator 'Sparkle', which can be placed and explained, but not run
  %0 = dfg.opaque "Sparkle"(%x) : (tensor<8xf32>) -> tensor<8xf32> loc("n1"("Sparkle"))
  dist.return %0 : tensor<8xf32>
}
