// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --dist-insert-transfers --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s

dist.mesh @d0 <[], devices = [0]>
dist.mesh @d1 <[], devices = [1]>

// Operators keep their node's location, transfers have the producer's, and nobody's group or place stays.
// CHECK-LABEL: dist.program @locations.d0
// CHECK: dfg.relu %{{.*}} : (tensor<4xf32>) -> tensor<4xf32> loc("act"("Relu"))
// CHECK-NEXT: dist.send %{{.*}} to @d1 channel 0 : tensor<4xf32> loc("act"("Relu"))
// CHECK-LABEL: dist.program @locations.d1
// CHECK: dist.receive from @d0 channel 0 : tensor<4xf32> loc("act"("Relu"))
// CHECK-NEXT: dfg.exp %{{.*}} : (tensor<4xf32>) -> tensor<4xf32> loc("grow"("Exp"))
dfg.graph @locations(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = dfg.relu %x {dist.group = "front", dist.place = #dist.place<@d0, by = "test">}
       : (tensor<4xf32>) -> tensor<4xf32> loc("act"("Relu"))
  %b = dfg.exp %a {dist.place = #dist.place<@d1, by = "test">} : (tensor<4xf32>) -> tensor<4xf32> loc("grow"("Exp"))
  dfg.return %b : tensor<4xf32>
}
