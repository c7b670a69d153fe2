// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --codegen-choose-gpu-launches --codegen-compile-gpu-kernels=chip=sm_70 --verify-diagnostics
// RUN: sed 's/sm_70/abacus/' %s > %t && cleave-opt %t --codegen-choose-gpu-launches --codegen-compile-gpu-kernels=chip=abacus --verify-diagnostics

// A GPU that is too old, and one that nobody knows.
// expected-error @below {{kernels for GPUs expect to compile: kernels for GPUs expect an architecture from sm_80 on that LLVM knows, got 'sm_70'}}
module {
  plan.native_kernel @relu attributes {driver = "cuda"} {
  ^bb0(%x: tensor<8xf32>):
    %0 = dfg.relu %x : (tensor<8xf32>) -> tensor<8xf32>
    plan.yield %0 : tensor<8xf32>
  }
}
