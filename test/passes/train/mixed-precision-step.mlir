// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --train-narrow-arithmetic "--train-build-step=microbatches=2" --train-widen-sums | FileCheck %s
// RUN: cleave-opt %s --train-narrow-arithmetic "--train-build-step=microbatches=2" --train-widen-sums --distribute | FileCheck %s --check-prefix=PARTS

// A step in bfloat16 around a master weight in f32: the gradient of each microbatch is a sum in f32, both are added in
// f32, and joined by the devices once, in f32.
// CHECK: dfg.graph @train
// CHECK: %[[W:.*]] = dfg.read @w {dist.place = #dist.place<@pair, by = "home">} : tensor<4x4xf32>
// CHECK-COUNT-2: dfg.dot_general {{.*}}wide{{.*}} : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xf32>
// CHECK: dfg.add {{.*}} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK: dfg.write @w, {{.*}} : tensor<4x4xf32>
// PARTS: dist.program @train.pair
// PARTS-NOT: all_reduce{{.*}}tensor<4x4xbf16>
// PARTS: dist.all_reduce {{.*}}tensor<4x4xf32>
// PARTS-NOT: dist.all_reduce {{.*}}tensor<4x4x
dist.mesh @pair <["data" = 2], devices = [0, 1]>
dfg.parameter @w : tensor<4x4xf32> = #dfg.fill<value = 1.0>
dfg.graph @main(%x: tensor<4x4xf32>) -> tensor<f32> {
  %w = dfg.read @w : tensor<4x4xf32>
  %0 = dfg.dot_general %x, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@pair, by = "test", split = <{m = ["data"]}>>}
      : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %loss = dfg.reduce %0 {dims = array<i64: 0, 1>, kind = #dfg.reduce_kind<sum>, dist.place = #dist.place<@pair, by = "test", split = <{d0 = ["data"]}>>}
      : (tensor<4x4xf32>) -> tensor<f32>
  dfg.return %loss : tensor<f32>
}
