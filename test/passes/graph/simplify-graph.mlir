// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --simplify-graph | FileCheck %s

// Dead operators, the parameters that only they read, and a second copy of an operator go; inputs stay, used or not.
// CHECK-NOT: @dead
// CHECK: dfg.parameter @w
// CHECK-NOT: @dead
// CHECK: dfg.graph @main(%[[X:.*]]: tensor<4xf32>, %{{.*}}: tensor<4xf32>)
// CHECK-NEXT: %[[W:.*]] = dfg.read @w
// CHECK-NEXT: %[[S:.*]] = dfg.add %[[X]], %[[W]]
// CHECK-NEXT: %[[P:.*]] = dfg.mul %[[S]], %[[S]]
// CHECK-NEXT: dfg.return %[[P]]
dfg.parameter @dead : tensor<4xf32> = #dfg.fill<value = 0.0 : f64>
dfg.parameter @w : tensor<4xf32> = #dfg.fill<value = 1.0 : f64>
dfg.graph @main(%x: tensor<4xf32>, %unused: tensor<4xf32>) -> tensor<4xf32> {
  %d = dfg.read @dead : tensor<4xf32>
  %w = dfg.read @w : tensor<4xf32>
  %v = dfg.read @w : tensor<4xf32>
  %0 = dfg.sub %x, %d : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = dfg.add %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = dfg.add %x, %v : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = dfg.mul %1, %2 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  dfg.return %3 : tensor<4xf32>
}
