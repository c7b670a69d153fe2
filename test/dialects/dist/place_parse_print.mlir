// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --mlir-print-op-generic | cleave-opt | FileCheck %s

dist.mesh @d0 <[], devices = [0]>
dist.mesh @pair <["data" = 1, "model" = 2], devices = [0, 1]>

// Places without and with a split, and the model's own group.
// CHECK-LABEL: dfg.graph @main
// CHECK: dfg.relu %{{.*}} {dist.group = "front", dist.place = #dist.place<@d0, by = "pin conv* -> front">}
// CHECK: dfg.exp %{{.*}} {dist.place = #dist.place<@pair, by = "planner", split = <{d0 = ["data", "model"], d1 = []}>>}
dfg.graph @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = dfg.relu %x {dist.group = "front", dist.place = #dist.place<@d0, by = "pin conv* -> front">}
       : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = dfg.exp %0 {dist.place = #dist.place<@pair, by = "planner", split = <{d0 = ["data", "model"], d1 = []}>>}
       : (tensor<4x4xf32>) -> tensor<4x4xf32>
  dfg.return %1 : tensor<4x4xf32>
}
