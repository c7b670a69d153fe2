// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --codegen-lower-to-linalg | FileCheck %s
//
// Operators that move elements read at computed indices, or show and insert slices.

// CHECK-DAG: #[[REVERSED:.*]] = affine_map<(d0, d1) -> (d0, -d1 + 7)>
// CHECK-DAG: #[[SWAPPED:.*]] = affine_map<(d0, d1) -> (d1, d0)>
// CHECK-DAG: #[[ROW:.*]] = affine_map<(d0, d1) -> (d0, 0)>

// A permutation is an indexing map.
// CHECK-LABEL: dfg.graph @transpose
// CHECK: linalg.generic {indexing_maps = [#[[SWAPPED]],
dfg.graph @transpose(%x: tensor<2x8xf32>) -> tensor<8x2xf32> {
  %0 = dfg.transpose %x {permutation = array<i64: 1, 0>} : (tensor<2x8xf32>) -> tensor<8x2xf32>
  dfg.return %0 : tensor<8x2xf32>
}

// So is a reversal.
// CHECK-LABEL: dfg.graph @reverse
// CHECK: linalg.generic {indexing_maps = [#[[REVERSED]],
dfg.graph @reverse(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = dfg.reverse %x {dims = array<i64: 1>} : (tensor<2x8xf32>) -> tensor<2x8xf32>
  dfg.return %0 : tensor<2x8xf32>
}

// A dimension of size one is read at 0.
// CHECK-LABEL: dfg.graph @broadcast
// CHECK: linalg.generic {indexing_maps = [#[[ROW]],
dfg.graph @broadcast(%x: tensor<2x1xf32>) -> tensor<2x8xf32> {
  %0 = dfg.broadcast %x : (tensor<2x1xf32>) -> tensor<2x8xf32>
  dfg.return %0 : tensor<2x8xf32>
}

// A slice is a view.
// CHECK-LABEL: dfg.graph @slice
// CHECK: tensor.extract_slice %{{.*}}[0, 2] [2, 3] [1, 2]
dfg.graph @slice(%x: tensor<2x8xf32>) -> tensor<2x3xf32> {
  %0 = dfg.slice %x {starts = array<i64: 0, 2>, limits = array<i64: 2, 8>, strides = array<i64: 1, 2>}
       : (tensor<2x8xf32>) -> tensor<2x3xf32>
  dfg.return %0 : tensor<2x3xf32>
}

// Shapes without common groups go by way of one dimension.
// CHECK-LABEL: dfg.graph @reshape
// CHECK: tensor.collapse_shape %{{.*}} : tensor<4x6xf32> into tensor<24xf32>
// CHECK: tensor.expand_shape %{{.*}} : tensor<24xf32> into tensor<6x4xf32>
dfg.graph @reshape(%x: tensor<4x6xf32>) -> tensor<6x4xf32> {
  %0 = dfg.reshape %x : (tensor<4x6xf32>) -> tensor<6x4xf32>
  dfg.return %0 : tensor<6x4xf32>
}

// Each part is inserted behind the one before.
// CHECK-LABEL: dfg.graph @concat
// CHECK: tensor.insert_slice %{{.*}} into %{{.*}}[0, 0] [2, 3]
// CHECK: tensor.insert_slice %{{.*}} into %{{.*}}[0, 3] [2, 4]
dfg.graph @concat(%x: tensor<2x3xf32>, %y: tensor<2x4xf32>) -> tensor<2x7xf32> {
  %0 = dfg.concat %x, %y {dim = 1 : i64} : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<2x7xf32>
  dfg.return %0 : tensor<2x7xf32>
}

// The value is read where it is needed, as it may be known only at run time.
// CHECK-LABEL: dfg.graph @pad
// CHECK: linalg.generic
// CHECK-SAME: ins(%{{.*}} : tensor<f32>)
// CHECK: tensor.insert_slice %{{.*}} into %{{.*}}[0, 1] [2, 8]
dfg.graph @pad(%x: tensor<2x8xf32>, %v: tensor<f32>) -> tensor<2x10xf32> {
  %0 = dfg.pad %x, %v {low = array<i64: 0, 1>, high = array<i64: 0, 1>}
       : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x10xf32>
  dfg.return %0 : tensor<2x10xf32>
}

// Positions from the end become ones from the start, and all are kept inside.
// CHECK-LABEL: dfg.graph @gather
// CHECK: arith.select
// CHECK: arith.maxsi
// CHECK: arith.minsi
// CHECK: linalg.index 1
// CHECK: tensor.extract
dfg.graph @gather(%x: tensor<9x8xf32>, %i: tensor<4xi32>) -> tensor<4x8xf32> {
  %0 = dfg.gather %x, %i {dim = 0 : i64} : (tensor<9x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  dfg.return %0 : tensor<4x8xf32>
}

// The position along a dimension.
// CHECK-LABEL: dfg.graph @iota
// CHECK: linalg.index 1
// CHECK: arith.sitofp
dfg.graph @iota() -> tensor<2x3xf32> {
  %0 = dfg.iota {dim = 1 : i64} : () -> tensor<2x3xf32>
  dfg.return %0 : tensor<2x3xf32>
}
