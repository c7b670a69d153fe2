// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --train-build-step --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s
// RUN: cleave-opt %s --train-build-step --distribute | FileCheck %s --check-prefix=PARTS

// Three samples of two rows on two devices: two samples here, one there, but three rows of six each. The gradient of a sum
// over a dimension of one element is a reshape of what lies as the samples do; it is cut all the same, only nearly there.
// CHECK: dfg.graph @train
// CHECK: dfg.reshape %{{.*}} split = <{d0 = ["data"]}>>} : (tensor<3x2x4xf32>) -> tensor<6x4xf32> loc("rows/gradient"
// CHECK: dfg.reshape %{{.*}} split = <{d1 = ["data"]}>>} : (tensor<6x4xf32>) -> tensor<1x6x4xf32> loc("sum/gradient"

// PARTS: dist.program
// PARTS-NOT: dist.all_gather
// PARTS: dist.return
dist.mesh @pair <["data" = 2], devices = [0, 1]>
dfg.parameter @w : tensor<4xf32> = #dfg.fill<value = 1.0>
dfg.graph @data(%x: tensor<3x2x4xf32>) -> tensor<f32> {
  %w = dfg.read @w : tensor<4xf32>
  %0 = dfg.mul %x, %w {dist.place = #dist.place<@pair, by = "test", split = <{d0 = ["data"]}>>} : (tensor<3x2x4xf32>, tensor<4xf32>) -> tensor<3x2x4xf32> loc("scale"("Mul"))
  %1 = dfg.reshape %0 {dist.place = #dist.place<@pair, by = "test", split = <{d0 = ["data"]}>>} : (tensor<3x2x4xf32>) -> tensor<6x4xf32> loc("tokens"("Reshape"))
  %2 = dfg.reshape %1 {dist.place = #dist.place<@pair, by = "test", split = <{d1 = ["data"]}>>} : (tensor<6x4xf32>) -> tensor<1x6x4xf32> loc("expert"("Reshape"))
  %3 = dfg.reduce %2 {dims = array<i64: 0>, kind = #dfg.reduce_kind<sum>, dist.place = #dist.place<@pair, by = "test", split = <{d1 = ["data"]}>>} : (tensor<1x6x4xf32>) -> tensor<6x4xf32> loc("sum"("ReduceSum"))
  %4 = dfg.reshape %3 {dist.place = #dist.place<@pair, by = "test", split = <{d0 = ["data"]}>>} : (tensor<6x4xf32>) -> tensor<3x2x4xf32> loc("rows"("Reshape"))
  %loss = dfg.reduce %4 {dims = array<i64: 0, 1, 2>, kind = #dfg.reduce_kind<sum>, dist.place = #dist.place<@pair, by = "test", split = <{d0 = ["data"]}>>} : (tensor<3x2x4xf32>) -> tensor<f32> loc("loss"("ReduceSum"))
  dfg.return %loss : tensor<f32>
}
