// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --train-build-step="microbatches=2 zero=3" | FileCheck %s
// RUN: cleave-opt %s --train-build-step="microbatches=2 zero=3" --dist-insert-transfers | FileCheck %s --check-prefix=PROGRAM
// RUN: cleave-opt %s --train-build-step="microbatches=2 zero=2" | FileCheck %s --check-prefix=WHOLE

// Devices have parts of a parameter, and every task gathers the whole for itself: it sees the parameter through a barrier
// of its own. What a task uses last and the next one first is kept: here @w2 from forward to backward, and @w1 from
// backward to forward. What an elementwise operator, as a conversion, makes of a parameter is made again.
// CHECK-LABEL: dfg.graph @train
// CHECK: %[[W0:.*]] = dfg.read @w0 {{.*}}split = <{d0 = ["data"]}>
// CHECK: %[[W1:.*]] = dfg.read @w1 {{.*}}split = <{d0 = ["data"]}>
// CHECK: %[[W2:.*]] = dfg.read @w2 {{.*}}split = <{d0 = ["data"]}>
// CHECK: %[[S0:.*]] = dfg.barrier %[[W0]] {{.*}}split = <{d0 = ["data"]}>
// CHECK: dfg.dot_general %{{.*}}, %[[S0]]
// CHECK: %[[S1:.*]] = dfg.barrier %[[W1]] {{.*}}split = <{d0 = ["data"]}>
// CHECK: %[[FIRST1:.*]] = dfg.neg %[[S1]]
// CHECK: dfg.dot_general %{{.*}}, %[[FIRST1]]
// CHECK: %[[S2:.*]] = dfg.barrier %[[W2]]
// CHECK: dfg.dot_general %{{.*}}, %[[S2]]
// CHECK: dfg.dot_general %{{.*}}, %[[S2]]
// CHECK: %[[AGAIN1:.*]] = dfg.barrier %[[W1]]
// CHECK: %[[MADE1:.*]] = dfg.neg %[[AGAIN1]]
// CHECK: dfg.dot_general %{{.*}}, %[[MADE1]]
// CHECK: %[[AGAIN0:.*]] = dfg.barrier %[[W0]]
// CHECK: dfg.dot_general %{{.*}}, %[[AGAIN0]]
// CHECK: %[[KEPT1:.*]] = dfg.neg %[[AGAIN1]]
// CHECK: dfg.dot_general %{{.*}}, %[[KEPT1]]
// CHECK: %[[AGAIN2:.*]] = dfg.barrier %[[W2]]
// CHECK: dfg.dot_general %{{.*}}, %[[AGAIN2]]
// WHOLE-NOT: dfg.barrier

// In programs nothing is left of the barriers, but gathers that are not joined.
// PROGRAM-LABEL: dist.program @train.pair
// PROGRAM: %[[P0:.*]] = dist.shard_of @w0
// PROGRAM: dist.all_gather %[[P0]] from {{.*}} {dist.again = 0 : i64}
// PROGRAM-NOT: dfg.barrier
// PROGRAM: dist.all_gather %[[P0]] from {{.*}} {dist.again = {{[1-9]}} : i64}
dist.mesh @pair <["data" = 2], devices = [0, 1]>
dfg.parameter @w0 : tensor<4x4xf32> = #dfg.fill<value = 1.0>
dfg.parameter @w1 : tensor<4x4xf32> = #dfg.fill<value = 1.0>
dfg.parameter @w2 : tensor<4x4xf32> = #dfg.fill<value = 1.0>
dfg.graph @data(%x: tensor<2x4xf32>) -> tensor<f32> {
  %w0 = dfg.read @w0 : tensor<4x4xf32>
  %w1 = dfg.read @w1 : tensor<4x4xf32>
  %w2 = dfg.read @w2 : tensor<4x4xf32>
  %0 = dfg.dot_general %x, %w0 {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@pair, by = "test", split = <{m = ["data"]}>>}
      : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %c = dfg.neg %w1 {dist.place = #dist.place<@pair, by = "test">} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = dfg.dot_general %0, %c {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@pair, by = "test", split = <{m = ["data"]}>>}
      : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %2 = dfg.dot_general %1, %w2 {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@pair, by = "test", split = <{m = ["data"]}>>}
      : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %loss = dfg.reduce %2 {dims = array<i64: 0, 1>, kind = #dfg.reduce_kind<sum>, dist.place = #dist.place<@pair, by = "test", split = <{d0 = ["data"]}>>}
      : (tensor<2x4xf32>) -> tensor<f32>
  dfg.return %loss : tensor<f32>
}
