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
