// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --codegen-choose-native-loops --codegen-compile-native-kernels | FileCheck %s

// Each kernel learns its entry in the one object and how far its outermost loop goes, so that cores can share it.
// What was decided about loops is in the code.
// CHECK-NOT: loops
// CHECK: plan.native_kernel @relu attributes {object = @native, parallel_extent = 8 : i64, symbol = "[[RELU:.*]]"}
// CHECK-NOT: symbol = "[[RELU]]"
// CHECK: plan.native_kernel @neg attributes {object = @native, parallel_extent = 4 : i64, symbol = "{{.*}}"}
// The image is an ELF file.
// CHECK: plan.object @native triple = "x86_64{{.*}}" cpu = "{{.+}}" features = [{{.*}}] image = "\7FELF
plan.native_kernel @relu {
^bb0(%x: tensor<8xf32>):
  %0 = dfg.relu %x : (tensor<8xf32>) -> tensor<8xf32>
  plan.yield %0 : tensor<8xf32>
}
plan.native_kernel @neg {
^bb0(%x: tensor<4xf32>):
  %0 = dfg.neg %x : (tensor<4xf32>) -> tensor<4xf32>
  plan.yield %0 : tensor<4xf32>
}
