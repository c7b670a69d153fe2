// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --codegen-choose-native-loops --verify-diagnostics
// RUN: sed -n '/^module/,$p' %s | not cleave-opt --codegen-choose-native-loops=cpu=abacus 2>&1 | FileCheck %s

// How an operator that Cleave does not know is computed cannot be decided, nor for a processor that LLVM does not know.
// CHECK: error: native kernels expect to get loops: {{.*}}abacus
// expected-error @below {{native kernels expect to get loops: kernel 'k' expects operators with a reference meaning}}
module {
  plan.native_kernel @k {
  ^bb0(%x: tensor<4xf32>):
    // expected-error @below {{'dfg.opaque' op expects a reference meaning on these operands, found none}}
    %0 = dfg.opaque "Sparkle"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
}
