// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --mlir-print-op-generic | cleave-opt | FileCheck %s

dist.mesh @d0 <[], devices = [0]>
dist.mesh @d1 <[], devices = [1]>
dfg.parameter @w : tensor<8xf32> = #dfg.fill<value = 1.0 : f64>
plan.library_kernel @add.0 "onednn" "binary.add" {} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>

// Every instruction once, with waits and scratch memory where it can have them.
// CHECK: plan.program @main.d0 on @d0 queues ["compute", "send", "receive", "host"] arena 384 live 352 {
// CHECK: %[[W:.*]] = plan.buffer "w" offset 0 bytes 32 : <tensor<8xf32>>
// CHECK: %[[X:.*]] = plan.buffer "x" offset 64 bytes 32 : <tensor<8xf32>>
// CHECK: %[[Y:.*]] = plan.buffer "y" offset 128 bytes 32 : <tensor<8xf32>>
// CHECK: %[[V:.*]] = plan.buffer "y" offset 144 bytes 16 of %[[Y]] : !plan.buffer<tensor<8xf32>> : <tensor<2x2xf32>>
// CHECK: %[[C:.*]] = plan.buffer "c" offset 192 bytes 16 : <tensor<2xi64>>
// CHECK: %[[S:.*]] = plan.buffer "scratch" offset 256 bytes 64 : <tensor<64xi8>>
// CHECK: plan.prepare {
// CHECK: plan.load_parameter @w -> %[[W]] {order = 0 : i64, queue = 3 : i64} : <tensor<8xf32>>
// CHECK: plan.load_constant dense<[1, 2]> : tensor<2xi64> -> %[[C]] {order = 1 : i64, queue = 3 : i64} : <tensor<2xi64>>
// CHECK: plan.body {
// CHECK: plan.load_input 0 -> %[[X]] {order = 2 : i64, queue = 3 : i64} : <tensor<8xf32>>
// CHECK: plan.call @add.0(%[[X]], %[[W]]) -> (%[[Y]]) scratch(%[[S]] : !plan.buffer<tensor<64xi8>>) {order = 3 : i64, queue = 0 : i64, waits = [#plan.wait<queue = 3, value = 1>]} : (!plan.buffer<tensor<8xf32>>, !plan.buffer<tensor<8xf32>>) -> !plan.buffer<tensor<8xf32>>
// CHECK: plan.call @add.0(%[[Y]], %[[W]]) -> (%[[X]]) {order = 4 : i64, queue = 0 : i64}
// CHECK: plan.send %[[Y]] to @d1 {channel = 3 : i64, order = 5 : i64, queue = 1 : i64} : <tensor<8xf32>>
// CHECK: plan.receive %[[X]] from @d1 {channel = 4 : i64, order = 6 : i64, queue = 2 : i64} : <tensor<8xf32>>
// CHECK: plan.store_output %[[V]] -> 0 {order = 7 : i64, queue = 3 : i64} : <tensor<2x2xf32>>
plan.program @main.d0 on @d0 queues ["compute", "send", "receive", "host"] arena 384 live 352 {
  %w = plan.buffer "w" offset 0 bytes 32 : !plan.buffer<tensor<8xf32>>
  %x = plan.buffer "x" offset 64 bytes 32 : !plan.buffer<tensor<8xf32>>
  %y = plan.buffer "y" offset 128 bytes 32 : !plan.buffer<tensor<8xf32>>
  %v = plan.buffer "y" offset 144 bytes 16 of %y : !plan.buffer<tensor<8xf32>> : !plan.buffer<tensor<2x2xf32>>
  %c = plan.buffer "c" offset 192 bytes 16 : !plan.buffer<tensor<2xi64>>
  %s = plan.buffer "scratch" offset 256 bytes 64 : !plan.buffer<tensor<64xi8>>
  plan.prepare {
    plan.load_parameter @w -> %w {order = 0 : i64, queue = 3 : i64} : !plan.buffer<tensor<8xf32>>
    plan.load_constant dense<[1, 2]> : tensor<2xi64> -> %c {order = 1 : i64, queue = 3 : i64} : !plan.buffer<tensor<2xi64>>
  }
  plan.body {
    plan.load_input 0 -> %x {order = 2 : i64, queue = 3 : i64} : !plan.buffer<tensor<8xf32>>
    plan.call @add.0(%x, %w) -> (%y) scratch(%s : !plan.buffer<tensor<64xi8>>)
        {order = 3 : i64, queue = 0 : i64, waits = [#plan.wait<queue = 3, value = 1>]}
        : (!plan.buffer<tensor<8xf32>>, !plan.buffer<tensor<8xf32>>) -> !plan.buffer<tensor<8xf32>>
    plan.call @add.0(%y, %w) -> (%x) {order = 4 : i64, queue = 0 : i64}
        : (!plan.buffer<tensor<8xf32>>, !plan.buffer<tensor<8xf32>>) -> !plan.buffer<tensor<8xf32>>
    plan.send %y to @d1 {channel = 3 : i64, order = 5 : i64, queue = 1 : i64} : !plan.buffer<tensor<8xf32>>
    plan.receive %x from @d1 {channel = 4 : i64, order = 6 : i64, queue = 2 : i64} : !plan.buffer<tensor<8xf32>>
    plan.store_output %v -> 0 {order = 7 : i64, queue = 3 : i64} : !plan.buffer<tensor<2x2xf32>>
  }
}

// Parts of tensors on a mesh: nested cuts, windows, collectives.
dist.mesh @grid <["a" = 2, "b" = 2], devices = [0, 1, 2, 3]>
// CHECK: plan.program @main.grid on @grid queues ["compute", "send", "receive", "collective"]
plan.program @main.grid on @grid queues ["compute", "send", "receive", "collective"] arena 384 live 0 {
  %w = plan.buffer "w" offset 0 bytes 8 : !plan.buffer<tensor<2xf32>>
  %x = plan.buffer "x" offset 64 bytes 32 : !plan.buffer<tensor<8xf32>>
  %h = plan.buffer "h" offset 128 bytes 24 : !plan.buffer<tensor<6xf32>>
  %y = plan.buffer "y" offset 192 bytes 16 : !plan.buffer<tensor<4xf32>>
  %i = plan.buffer "i" offset 256 bytes 8 : !plan.buffer<tensor<i64>>
  plan.prepare {
    // CHECK: plan.load_parameter @w -> %{{.*}} {order = 0 : i64, queue = 0 : i64, tile = #plan.tile<[8 by [0 of 4, 1 of 2]]>} : <tensor<2xf32>>
    plan.load_parameter @w -> %w {order = 0 : i64, queue = 0 : i64, tile = #plan.tile<[8 by [0 of 4, 1 of 2]]>} : !plan.buffer<tensor<2xf32>>
    // CHECK: plan.load_index "start" 0 of <[7 by [0 of 4]]> -> %{{.*}} {order = 1 : i64, queue = 0 : i64} : <tensor<i64>>
    plan.load_index "start" 0 of <[7 by [0 of 4]]> -> %i {order = 1 : i64, queue = 0 : i64} : !plan.buffer<tensor<i64>>
  }
  plan.body {
    // CHECK: plan.load_input 0 -> %{{.*}} {order = 2 : i64, queue = 0 : i64, tile = #plan.tile<[2, 8 by [1 of 2]]>} : <tensor<4xf32>>
    plan.load_input 0 -> %y {order = 2 : i64, queue = 0 : i64, tile = #plan.tile<[2, 8 by [1 of 2]]>} : !plan.buffer<tensor<4xf32>>
    // CHECK: plan.exchange "halo_exchange" %{{.*}} -> %{{.*}} {channel = 5 : i64, fill = 1.000000e+00 : f64, order = 3 : i64, queue = 3 : i64, source_tiles = [#plan.tile<[8 by [0 of 4]]>], target_tiles = [#plan.tile<[8 by [0 of 4] window (6 step 1 before 1)]>]} : !plan.buffer<tensor<4xf32>> -> !plan.buffer<tensor<6xf32>>
    plan.exchange "halo_exchange" %y -> %h {channel = 5 : i64, fill = 1.0 : f64, order = 3 : i64, queue = 3 : i64,
        source_tiles = [#plan.tile<[8 by [0 of 4]]>], target_tiles = [#plan.tile<[8 by [0 of 4] window (6 step 1 before 1)]>]}
        : !plan.buffer<tensor<4xf32>> -> !plan.buffer<tensor<6xf32>>
    // CHECK: plan.all_reduce "max" over [0, 1] %{{.*}} -> %{{.*}} {channel = 6 : i64, order = 4 : i64, queue = 3 : i64} : !plan.buffer<tensor<8xf32>> -> !plan.buffer<tensor<8xf32>>
    plan.all_reduce "max" over [0, 1] %x -> %x {channel = 6 : i64, order = 4 : i64, queue = 3 : i64} : !plan.buffer<tensor<8xf32>> -> !plan.buffer<tensor<8xf32>>
    // CHECK: plan.all_reduce "sum" over [0] %{{.*}}, %{{.*}} -> %{{.*}}, %{{.*}} {channel = 8 : i64, order = 4 : i64, queue = 3 : i64} : !plan.buffer<tensor<8xf32>>, !plan.buffer<tensor<4xf32>> -> !plan.buffer<tensor<8xf32>>, !plan.buffer<tensor<4xf32>>
    plan.all_reduce "sum" over [0] %x, %y -> %x, %y {channel = 8 : i64, order = 4 : i64, queue = 3 : i64} : !plan.buffer<tensor<8xf32>>, !plan.buffer<tensor<4xf32>> -> !plan.buffer<tensor<8xf32>>, !plan.buffer<tensor<4xf32>>
    // CHECK: plan.exchange "permute" {{.*}} target_tiles = [#plan.tile<[8 by [0 of 4 shift 1 of 2]]>]}
    plan.exchange "permute" %y -> %y {channel = 9 : i64, order = 8 : i64, queue = 3 : i64,
        source_tiles = [#plan.tile<[8 by [0 of 4]]>], target_tiles = [#plan.tile<[8 by [0 of 4 shift 1 of 2]]>]}
        : !plan.buffer<tensor<4xf32>> -> !plan.buffer<tensor<4xf32>>
    // CHECK: plan.reduce_scatter "sum" over [0] %{{.*}} -> %{{.*}} {channel = 7 : i64, order = 5 : i64, queue = 3 : i64, tiles = [#plan.tile<[8 by [0 of 4]]>]} : !plan.buffer<tensor<8xf32>> -> !plan.buffer<tensor<4xf32>>
    plan.reduce_scatter "sum" over [0] %x -> %y {channel = 7 : i64, order = 5 : i64, queue = 3 : i64, tiles = [#plan.tile<[8 by [0 of 4]]>]} : !plan.buffer<tensor<8xf32>> -> !plan.buffer<tensor<4xf32>>
    // CHECK: plan.send %{{.*}} to @d0 {channel = 8 : i64, order = 6 : i64, queue = 1 : i64, source_tile = #plan.tile<[8 by [0 of 4]]>} : <tensor<4xf32>>
    plan.send %y to @d0 {channel = 8 : i64, order = 6 : i64, queue = 1 : i64, source_tile = #plan.tile<[8 by [0 of 4]]>} : !plan.buffer<tensor<4xf32>>
    // CHECK: plan.receive %{{.*}} from @d0 {channel = 9 : i64, order = 7 : i64, queue = 2 : i64, target_tile = #plan.tile<[8 by [0 of 4]]>} : <tensor<4xf32>>
    plan.receive %y from @d0 {channel = 9 : i64, order = 7 : i64, queue = 2 : i64, target_tile = #plan.tile<[8 by [0 of 4]]>} : !plan.buffer<tensor<4xf32>>
    // CHECK: plan.store_output %{{.*}} -> 0 {order = 8 : i64, queue = 0 : i64, tile = #plan.tile<[8 by [0 of 4]]>} : <tensor<4xf32>>
    plan.store_output %y -> 0 {order = 8 : i64, queue = 0 : i64, tile = #plan.tile<[8 by [0 of 4]]>} : !plan.buffer<tensor<4xf32>>
  }
}
