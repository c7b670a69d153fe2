// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --codegen-outline-native-kernels | FileCheck %s
// Locations make no other kernels, printed or not.
// RUN: cleave-opt %s --codegen-outline-native-kernels --mlir-print-debuginfo | FileCheck %s

dist.mesh @d0 <[], devices = [0]>

// Two equal operators share a kernel, a third of another shape has its own; reshapes move nothing.
// CHECK-LABEL: dist.program @main
// CHECK: plan.launch @[[A:native.relu.0]](%{{.*}}) : (tensor<8xf32>)
// CHECK: plan.launch @[[A]](
// CHECK: plan.view %{{.*}} : tensor<8xf32> -> tensor<2x4xf32>
// CHECK: plan.launch @native.relu.1(
// CHECK: plan.launch @native.add.2(%{{[^,]*}}) : (tensor<2x4xf32>)
// CHECK: plan.native_kernel @native.relu.0
// CHECK: plan.native_kernel @native.relu.1
// The constant of one value lies inside.
// CHECK: plan.native_kernel @native.add.2
// CHECK: dfg.constant
dist.program @main(%x: tensor<8xf32>) -> tensor<2x4xf32> attributes {mesh = @d0} {
  %0 = dfg.relu %x : (tensor<8xf32>) -> tensor<8xf32>
  %1 = dfg.relu %0 : (tensor<8xf32>) -> tensor<8xf32>
  %2 = dfg.reshape %1 : (tensor<8xf32>) -> tensor<2x4xf32>
  %3 = dfg.relu %2 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %c = dfg.constant dense<1.0> : tensor<f32>
  %4 = dfg.add %3, %c : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  dist.return %4 : tensor<2x4xf32>
}
