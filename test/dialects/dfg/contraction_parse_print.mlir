// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --mlir-print-op-generic | cleave-opt | FileCheck %s

// Matrix products: plain, batched, over two dimensions, and with sums that are not rounded.
// CHECK-LABEL: dfg.graph @dot_general
// CHECK: dfg.dot_general %{{.*}}, %{{.*}} {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 1>} : (tensor<8x64x32xf32>, tensor<8x32x16xf32>) -> tensor<8x64x16xf32>
// CHECK: dfg.dot_general %{{.*}}, %{{.*}} {lhs_batch = array<i64>, lhs_contracting = array<i64: 1, 2>, rhs_batch = array<i64>, rhs_contracting = array<i64: 0, 1>} : (tensor<8x64x32xf32>, tensor<64x32xf32>) -> tensor<8xf32>
// CHECK: dfg.dot_general %{{.*}}, %{{.*}} {lhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_batch = array<i64>, rhs_contracting = array<i64: 1>, wide} : (tensor<8x4xbf16>, tensor<8x4xbf16>) -> tensor<8x8xf32>
dfg.graph @dot_general(%a: tensor<8x64x32xf32>, %b: tensor<8x32x16xf32>, %c: tensor<64x32xf32>, %d: tensor<8x4xbf16>) {
  %0 = dfg.dot_general %a, %b {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 1>} : (tensor<8x64x32xf32>, tensor<8x32x16xf32>) -> tensor<8x64x16xf32>
  %1 = dfg.dot_general %a, %c {lhs_batch = array<i64>, lhs_contracting = array<i64: 1, 2>, rhs_batch = array<i64>, rhs_contracting = array<i64: 0, 1>} : (tensor<8x64x32xf32>, tensor<64x32xf32>) -> tensor<8xf32>
  %2 = dfg.dot_general %d, %d {lhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_batch = array<i64>, rhs_contracting = array<i64: 1>, wide} : (tensor<8x4xbf16>, tensor<8x4xbf16>) -> tensor<8x8xf32>
  dfg.return
}

// Convolutions: with groups and strides, in one dimension, of integers; a window that fits nowhere leaves nothing.
// CHECK-LABEL: dfg.graph @conv
// CHECK: dfg.conv %{{.*}}, %{{.*}} {dilations = array<i64: 1, 1>, groups = 2 : i64, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<1x4x9x9xf32>, tensor<6x2x3x3xf32>) -> tensor<1x6x5x5xf32>
// CHECK: dfg.conv %{{.*}}, %{{.*}} {dilations = array<i64: 2>, pads = array<i64: 0, 0>, strides = array<i64: 1>} : (tensor<2x4x5xi32>, tensor<3x4x3xi32>) -> tensor<2x3x1xi32>
// CHECK: dfg.conv %{{.*}}, %{{.*}} {dilations = array<i64: 1>, pads = array<i64: 0, 0>, strides = array<i64: 1>} : (tensor<2x4x5xi32>, tensor<3x4x7xi32>) -> tensor<2x3x0xi32>
dfg.graph @conv(%x: tensor<1x4x9x9xf32>, %w: tensor<6x2x3x3xf32>, %y: tensor<2x4x5xi32>, %v: tensor<3x4x3xi32>, %big: tensor<3x4x7xi32>) {
  %0 = dfg.conv %x, %w {dilations = array<i64: 1, 1>, groups = 2 : i64, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<1x4x9x9xf32>, tensor<6x2x3x3xf32>) -> tensor<1x6x5x5xf32>
  %1 = dfg.conv %y, %v {dilations = array<i64: 2>, pads = array<i64: 0, 0>, strides = array<i64: 1>} : (tensor<2x4x5xi32>, tensor<3x4x3xi32>) -> tensor<2x3x1xi32>
  %2 = dfg.conv %y, %big {dilations = array<i64: 1>, pads = array<i64: 0, 0>, strides = array<i64: 1>} : (tensor<2x4x5xi32>, tensor<3x4x7xi32>) -> tensor<2x3x0xi32>
  dfg.return
}

// Transposed convolutions.
// CHECK-LABEL: dfg.graph @conv_transpose
// CHECK: dfg.conv_transpose %{{.*}}, %{{.*}} {dilations = array<i64: 1, 1>, {{.*}}output_padding = array<i64: 0, 0>, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 2, 2>} : (tensor<1x8x4x4xf32>, tensor<8x3x2x2xf32>) -> tensor<1x3x8x8xf32>
// CHECK: dfg.conv_transpose %{{.*}}, %{{.*}} {dilations = array<i64: 1, 1>, groups = 2 : i64, output_padding = array<i64: 1, 0>, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 2, 2>} : (tensor<1x8x4x4xf32>, tensor<8x3x2x2xf32>) -> tensor<1x6x9x8xf32>
dfg.graph @conv_transpose(%x: tensor<1x8x4x4xf32>, %w: tensor<8x3x2x2xf32>) {
  %0 = dfg.conv_transpose %x, %w {dilations = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 0, 0>, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 2, 2>} : (tensor<1x8x4x4xf32>, tensor<8x3x2x2xf32>) -> tensor<1x3x8x8xf32>
  %1 = dfg.conv_transpose %x, %w {dilations = array<i64: 1, 1>, groups = 2 : i64, output_padding = array<i64: 1, 0>, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 2, 2>} : (tensor<1x8x4x4xf32>, tensor<8x3x2x2xf32>) -> tensor<1x6x9x8xf32>
  dfg.return
}

// Pooling of both kinds.
// CHECK-LABEL: dfg.graph @pool
// CHECK: dfg.pool %{{.*}} {dilations = array<i64: 1, 1>, kind = #dfg.pool_kind<max>, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>, window = array<i64: 3, 3>} : (tensor<1x64x12x12xf32>) -> tensor<1x64x6x6xf32>
// CHECK: dfg.pool %{{.*}} {count_include_pad, dilations = array<i64: 1, 1>, kind = #dfg.pool_kind<average>, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>, window = array<i64: 12, 12>} : (tensor<1x64x12x12xf32>) -> tensor<1x64x1x1xf32>
dfg.graph @pool(%x: tensor<1x64x12x12xf32>) {
  %0 = dfg.pool %x {dilations = array<i64: 1, 1>, kind = #dfg.pool_kind<max>, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>, window = array<i64: 3, 3>} : (tensor<1x64x12x12xf32>) -> tensor<1x64x6x6xf32>
  %1 = dfg.pool %x {count_include_pad, dilations = array<i64: 1, 1>, kind = #dfg.pool_kind<average>, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>, window = array<i64: 12, 12>} : (tensor<1x64x12x12xf32>) -> tensor<1x64x1x1xf32>
  dfg.return
}

// Products of rows with the matrices that indices choose: rows of one and two dimensions, of which one repeats.
// CHECK-LABEL: dfg.graph @gathered
// CHECK: dfg.gather_dot %{{.*}}, %{{.*}}, %{{.*}} : (tensor<5x32xf32>, tensor<8x32x64xf32>, tensor<5xi32>) -> tensor<5x64xf32>
// CHECK: dfg.gather_dot %{{.*}}, %{{.*}}, %{{.*}} {total = 16 : i64, transposed} : (tensor<5x1x32xbf16>, tensor<8x64x32xbf16>, tensor<5x2xi64>) -> tensor<5x2x64xbf16>
// CHECK: dfg.scatter_dot %{{.*}}, %{{.*}}, %{{.*}} : (tensor<5x1x32xbf16>, tensor<5x2x64xbf16>, tensor<5x2xi64>) -> tensor<8x32x64xbf16>
dfg.graph @gathered(%x: tensor<5x32xf32>, %w: tensor<8x32x64xf32>, %i: tensor<5xi32>, %y: tensor<5x1x32xbf16>, %v: tensor<8x64x32xbf16>, %j: tensor<5x2xi64>) {
  %0 = dfg.gather_dot %x, %w, %i : (tensor<5x32xf32>, tensor<8x32x64xf32>, tensor<5xi32>) -> tensor<5x64xf32>
  %1 = dfg.gather_dot %y, %v, %j {transposed, total = 16 : i64} : (tensor<5x1x32xbf16>, tensor<8x64x32xbf16>, tensor<5x2xi64>) -> tensor<5x2x64xbf16>
  %2 = dfg.scatter_dot %y, %1, %j : (tensor<5x1x32xbf16>, tensor<5x2x64xbf16>, tensor<5x2xi64>) -> tensor<8x32x64xbf16>
  dfg.return
}
