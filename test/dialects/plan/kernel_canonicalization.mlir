// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --canonicalize --cse | FileCheck %s

plan.native_kernel @relu.0 {
^bb0(%x: tensor<8xf32>):
  %0 = dfg.relu %x : (tensor<8xf32>) -> tensor<8xf32>
  plan.yield %0 : tensor<8xf32>
}
dist.mesh @d0 <[], devices = [0]>

// Equal launches are one, and unused launches and views go; kernels stay.
// CHECK: plan.native_kernel @relu.0
// CHECK-LABEL: dist.program @launches
// CHECK-NEXT: %[[Y:.*]] = plan.launch @relu.0
// CHECK-NEXT: dist.return %[[Y]], %[[Y]]
dist.program @launches(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) attributes {mesh = @d0} {
  %0 = plan.launch @relu.0(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = plan.launch @relu.0(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %2 = plan.launch @relu.0(%1) : (tensor<8xf32>) -> tensor<8xf32>
  %3 = plan.view %0 : tensor<8xf32> -> tensor<2x4xf32>
  dist.return %0, %1 : tensor<8xf32>, tensor<8xf32>
}
