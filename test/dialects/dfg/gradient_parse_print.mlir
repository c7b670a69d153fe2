// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --mlir-print-op-generic | cleave-opt | FileCheck %s

// A filter's gradient, with groups and a stride that leaves the input's last row unread.
// CHECK-LABEL: dfg.graph @conv_filter_gradient
// CHECK: dfg.conv_filter_gradient %{{.*}}, %{{.*}} {dilations = array<i64: 1, 1>, groups = 2 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 2, 2>} : (tensor<1x4x10x9xf32>, tensor<1x6x4x4xf32>) -> tensor<6x2x3x3xf32>
dfg.graph @conv_filter_gradient(%x: tensor<1x4x10x9xf32>, %dy: tensor<1x6x4x4xf32>) {
  %0 = dfg.conv_filter_gradient %x, %dy {dilations = array<i64: 1, 1>, groups = 2 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 2, 2>} : (tensor<1x4x10x9xf32>, tensor<1x6x4x4xf32>) -> tensor<6x2x3x3xf32>
  dfg.return
}

// Largest elements need the input, averages do not.
// CHECK-LABEL: dfg.graph @pool_gradient
// CHECK: dfg.pool_gradient %{{.*}}, %{{.*}} {{{.*}}kind = #dfg.pool_kind<max>{{.*}}} : (tensor<1x8x14x14xf32>, tensor<1x8x28x28xf32>) -> tensor<1x8x28x28xf32>
// CHECK: dfg.pool_gradient %{{.*}} {count_include_pad, {{.*}}kind = #dfg.pool_kind<average>{{.*}}} : (tensor<1x8x14x14xf32>) -> tensor<1x8x28x28xf32>
dfg.graph @pool_gradient(%dy: tensor<1x8x14x14xf32>, %x: tensor<1x8x28x28xf32>) {
  %0 = dfg.pool_gradient %dy, %x {dilations = array<i64: 1, 1>, kind = #dfg.pool_kind<max>, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 2, 2>, window = array<i64: 2, 2>} : (tensor<1x8x14x14xf32>, tensor<1x8x28x28xf32>) -> tensor<1x8x28x28xf32>
  %1 = dfg.pool_gradient %dy {count_include_pad, dilations = array<i64: 1, 1>, kind = #dfg.pool_kind<average>, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 2, 2>, window = array<i64: 2, 2>} : (tensor<1x8x14x14xf32>) -> tensor<1x8x28x28xf32>
  dfg.return
}

// The gradient of a table, by positions of any shape.
// CHECK-LABEL: dfg.graph @gather_gradient
// CHECK: dfg.gather_gradient %{{.*}}, %{{.*}} {dim = 0 : i64} : (tensor<2x8x64xf32>, tensor<2x8xi64>) -> tensor<1000x64xf32>
dfg.graph @gather_gradient(%dy: tensor<2x8x64xf32>, %ids: tensor<2x8xi64>) {
  %0 = dfg.gather_gradient %dy, %ids {dim = 0 : i64} : (tensor<2x8x64xf32>, tensor<2x8xi64>) -> tensor<1000x64xf32>
  dfg.return
}
