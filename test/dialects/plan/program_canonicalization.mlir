// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --canonicalize --cse | FileCheck %s

dist.mesh @d0 <[], devices = [0]>

// Instructions stay, as they are and in their order, though nothing seems to read what they write.
// CHECK-LABEL: plan.program @p
// CHECK: plan.load_input 0
// CHECK: plan.load_input 0
// CHECK: plan.store_output
plan.program @p on @d0 queues ["compute"] arena 64 live 64 {
  %x = plan.buffer "x" offset 0 bytes 32 : !plan.buffer<tensor<8xf32>>
  %y = plan.buffer "y" offset 32 bytes 32 : !plan.buffer<tensor<8xf32>>
  plan.body {
    plan.load_input 0 -> %x {order = 0 : i64, queue = 0 : i64} : !plan.buffer<tensor<8xf32>>
    plan.load_input 0 -> %y {order = 1 : i64, queue = 0 : i64} : !plan.buffer<tensor<8xf32>>
    plan.store_output %x -> 0 {order = 2 : i64, queue = 0 : i64} : !plan.buffer<tensor<8xf32>>
  }
}
