// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --train-build-step="microbatches=2 zero=1" | FileCheck %s --check-prefixes=CHECK,ONE
// RUN: cleave-opt %s --train-build-step="microbatches=2 zero=2" | FileCheck %s --check-prefixes=CHECK,TWO
// RUN: cleave-opt %s --train-build-step="microbatches=2 zero=3" | FileCheck %s --check-prefixes=CHECK,THREE
// RUN: cleave-opt %s --train-build-step="microbatches=2 zero=1" --distribute | FileCheck %s --check-prefix=PARTS1
// RUN: cleave-opt %s --train-build-step="microbatches=2 zero=2" --distribute | FileCheck %s --check-prefix=PARTS2

// Replicas share the work of the optimizer (1), the gradients while they are summed up (2), and the parameter (3).
// CHECK: dfg.graph @train
// ONE: dfg.read @w {dist.place = #dist.place<@pair, by = "home">}
// TWO: dfg.read @w {dist.place = #dist.place<@pair, by = "home">}
// THREE: dfg.read @w {dist.place = #dist.place<@pair, by = "home", split = <{d0 = ["data"]}>>}
// ONE: dfg.add %{{.*}} {dist.accumulates, dist.place = #dist.place<@pair, by = "test">}
// TWO: dfg.add %{{.*}} {dist.accumulates, dist.place = #dist.place<@pair, by = "test", split = <{d0 = ["data"]}>>}
// THREE: dfg.add %{{.*}} {dist.accumulates, dist.place = #dist.place<@pair, by = "test", split = <{d0 = ["data"]}>>}
// CHECK: dfg.sub %{{.*}} {dist.place = #dist.place<@pair, by = "optimizer", split = <{d0 = ["data"]}>>}
// ONE: dfg.write @w, %{{.*}} {dist.place = #dist.place<@pair, by = "optimizer">}
// TWO: dfg.write @w, %{{.*}} {dist.place = #dist.place<@pair, by = "optimizer">}
// THREE: dfg.write @w, %{{.*}} {dist.place = #dist.place<@pair, by = "optimizer", split = <{d0 = ["data"]}>>}

// The sum of both microbatches is scattered, or that of each of them.
// PARTS1-COUNT-1: dist.reduce_scatter
// PARTS1-NOT: dist.reduce_scatter
// PARTS1: dist.all_gather
// PARTS2-COUNT-2: dist.reduce_scatter
// PARTS2: dist.all_gather
dist.mesh @pair <["data" = 2], devices = [0, 1]>
dfg.parameter @w : tensor<4x4xf32> = #dfg.fill<value = 1.0>
dfg.graph @data(%x: tensor<2x4xf32>) -> tensor<f32> {
  %w = dfg.read @w : tensor<4x4xf32>
  %0 = dfg.dot_general %x, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, dist.place = #dist.place<@pair, by = "test", split = <{m = ["data"]}>>}
      : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %loss = dfg.reduce %0 {dims = array<i64: 0, 1>, kind = #dfg.reduce_kind<sum>, dist.place = #dist.place<@pair, by = "test", split = <{d0 = ["data"]}>>}
      : (tensor<2x4xf32>) -> tensor<f32>
  dfg.return %loss : tensor<f32>
}
