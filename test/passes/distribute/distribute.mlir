// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --dist-place-operators="strategy=alternate machine=host:3x1" --distribute | FileCheck %s

// The whole stage behind placement, operator by operator over three devices: every value crosses.
// CHECK-LABEL: dist.program @main.d0
// CHECK-SAME: -> (tensor<4xf32> {dist.output = 0 : i64})
// CHECK-NEXT: dfg.relu
// CHECK-NEXT: dist.send %{{.*}} to @d1 channel 0
// CHECK-NEXT: %[[T:.*]] = dist.receive from @d2 channel 2
// CHECK-NEXT: %[[S:.*]] = dfg.sqrt %[[T]]
// CHECK-NEXT: dist.return %[[S]]
// CHECK-LABEL: dist.program @main.d1
// CHECK-NEXT: dist.receive from @d0 channel 0
// CHECK-NEXT: dfg.exp
// CHECK-NEXT: dist.send %{{.*}} to @d2 channel 1
// CHECK-LABEL: dist.program @main.d2
// CHECK-NEXT: dist.receive from @d1 channel 1
// CHECK-NEXT: dfg.tanh
// CHECK-NEXT: dist.send %{{.*}} to @d0 channel 2
dfg.graph @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dfg.relu %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = dfg.exp %0 : (tensor<4xf32>) -> tensor<4xf32>
  %2 = dfg.tanh %1 : (tensor<4xf32>) -> tensor<4xf32>
  %3 = dfg.sqrt %2 : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return %3 : tensor<4xf32>
}
