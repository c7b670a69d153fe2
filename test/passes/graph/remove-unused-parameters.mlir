// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --graph-remove-unused-parameters | FileCheck %s

// What is read stays, what nothing mentions goes.
// CHECK: dfg.parameter @used
// CHECK-NOT: @unused
// CHECK: dfg.read @used
dfg.parameter @used : tensor<4xf32> = #dfg.fill<value = 0.0 : f64>
dfg.parameter @unused : tensor<4xf32> = #dfg.fill<value = 0.0 : f64>
dfg.parameter state @unused_state : tensor<4xf32> = #dfg.fill<value = 0.0 : f64>
dfg.graph @main() -> tensor<4xf32> {
  %0 = dfg.read @used : tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}
