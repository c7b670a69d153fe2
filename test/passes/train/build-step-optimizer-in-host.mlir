// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --train-build-step="optimizer=momentum optimizer-in-host=true zero=1" | FileCheck %s

// What the optimizer keeps is read, fetched, moved back and written in the layout that replicas share it in; the parameter
// itself stays on the devices.
// CHECK-LABEL: dfg.graph @train(
// CHECK: %[[W:.*]] = dfg.read @w
// CHECK-NOT: dfg.fetch %[[W]]
// CHECK: %[[M:.*]] = dfg.read @"w/momentum" {dist.place = #dist.place<@pair, by = "optimizer", split = <{[[PART:.*]]}>>}
// CHECK: %[[OLD:.*]] = dfg.fetch %[[M]] {dist.place = #dist.place<@pair, by = "optimizer", split = <{[[PART]]}>>}
// CHECK: %[[NEXT:.*]] = dfg.add %{{.*}}, %{{.*}} {dist.place = #dist.place<@pair, by = "optimizer", split = <{[[PART]]}>>}
// CHECK: %[[KEPT:.*]] = dfg.offload %[[NEXT]] {dist.place = #dist.place<@pair, by = "optimizer", split = <{[[PART]]}>>}
// CHECK: dfg.write @w, %{{.*}}
// CHECK: dfg.write @"w/momentum", %[[KEPT]]
dist.mesh @pair <["data" = 2], devices = [0, 1]>
dfg.parameter @w : tensor<4x4xf32> = #dfg.fill<value = 1.0>
dfg.graph @main(%x: tensor<2x4xf32>) -> tensor<f32> {
  %w = dfg.read @w : tensor<4x4xf32>
  %0 = dfg.dot_general %x, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@pair, by = "test", split = <{m = ["data"]}>>}
      : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %loss = dfg.reduce %0 {dims = array<i64: 0, 1>, kind = #dfg.reduce_kind<sum>,
      dist.place = #dist.place<@pair, by = "test", split = <{d0 = ["data"]}>>} : (tensor<2x4xf32>) -> tensor<f32>
  dfg.return %loss : tensor<f32>
}
