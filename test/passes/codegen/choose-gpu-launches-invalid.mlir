// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --codegen-choose-gpu-launches --verify-diagnostics

// How an operator that Cleave does not know is computed cannot be decided.
// expected-error @below {{kernels for GPUs expect to get launches: kernel 'k' expects operators with a reference meaning}}
module {
  plan.native_kernel @k attributes {driver = "cuda"} {
  ^bb0(%x: tensor<4xf32>):
    // expected-error @below {{'dfg.opaque' op expects a reference meaning on these operands, found none}}
    %0 = dfg.opaque "Sparkle"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
}
