// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --codegen-lower-to-linalg | FileCheck %s
//
// Matrix products, convolutions and pooling become loops over all their indices.

// One loop a dimension; those that are contracted are reductions, from zero.
// CHECK-LABEL: dfg.graph @dot_general
// CHECK: linalg.fill
// CHECK: linalg.generic
// CHECK-SAME: iterator_types = ["parallel", "parallel", "parallel", "reduction"]
// CHECK: arith.mulf
// CHECK: arith.addf
dfg.graph @dot_general(%x: tensor<2x3x4xf32>, %y: tensor<2x4x5xf32>) -> tensor<2x3x5xf32> {
  %0 = dfg.dot_general %x, %y {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>,
       lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 1>}
       : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
  dfg.return %0 : tensor<2x3x5xf32>
}

// Sums of f16 are kept in f32 and rounded once.
// CHECK-LABEL: dfg.graph @dot_half
// CHECK: linalg.generic
// CHECK-SAME: outs(%{{.*}} : tensor<3x5xf32>)
// CHECK: linalg.generic
// CHECK: arith.truncf %{{.*}} : f32 to f16
dfg.graph @dot_half(%x: tensor<3x4xf16>, %y: tensor<4x5xf16>) -> tensor<3x5xf16> {
  %0 = dfg.dot_general %x, %y {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
       rhs_contracting = array<i64: 0>}
       : (tensor<3x4xf16>, tensor<4x5xf16>) -> tensor<3x5xf16>
  dfg.return %0 : tensor<3x5xf16>
}

// Padding is written around the input once; strides and dilations are in the indexing map.
// CHECK-LABEL: dfg.graph @conv
// CHECK: tensor.insert_slice %{{.*}} into %{{.*}}[0, 0, 1, 1] [1, 3, 8, 8]
// CHECK: linalg.generic
// CHECK-SAME: iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]
dfg.graph @conv(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3xf32>) -> tensor<1x4x4x4xf32> {
  %0 = dfg.conv %x, %w {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 0, 0>, dilations = array<i64: 1, 1>}
       : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x4x4xf32>
  dfg.return %0 : tensor<1x4x4x4xf32>
}

// Groups become a loop of their own.
// CHECK-LABEL: dfg.graph @conv_groups
// CHECK: tensor.expand_shape %{{.*}} : tensor<1x6x8xf32> into tensor<1x2x3x8xf32>
// CHECK: tensor.expand_shape %{{.*}} : tensor<4x3x3xf32> into tensor<2x2x3x3xf32>
// CHECK: linalg.generic
// CHECK: tensor.collapse_shape %{{.*}} : tensor<1x2x2x6xf32> into tensor<1x4x6xf32>
dfg.graph @conv_groups(%x: tensor<1x6x8xf32>, %w: tensor<4x3x3xf32>) -> tensor<1x4x6xf32> {
  %0 = dfg.conv %x, %w {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 2 : i64}
       : (tensor<1x6x8xf32>, tensor<4x3x3xf32>) -> tensor<1x4x6xf32>
  dfg.return %0 : tensor<1x4x6xf32>
}

// The window is added into a whole result, from which the pads are cut.
// CHECK-LABEL: dfg.graph @conv_transpose
// CHECK: linalg.generic
// CHECK-SAME: outs(%{{.*}} : tensor<1x3x8xf32>)
// CHECK: tensor.extract_slice %{{.*}}[0, 0, 1] [1, 3, 6] [1, 1, 1]
dfg.graph @conv_transpose(%x: tensor<1x2x4xf32>, %w: tensor<2x3x2xf32>) -> tensor<1x3x6xf32> {
  %0 = dfg.conv_transpose %x, %w {strides = array<i64: 2>, pads = array<i64: 1, 1>, dilations = array<i64: 1>,
       output_padding = array<i64: 0>}
       : (tensor<1x2x4xf32>, tensor<2x3x2xf32>) -> tensor<1x3x6xf32>
  dfg.return %0 : tensor<1x3x6xf32>
}

// The padding of a maximum is minus infinity: it never wins.
// CHECK-LABEL: dfg.graph @max_pool
// CHECK: arith.constant 0xFF800000 : f32
// CHECK: linalg.generic
// CHECK: arith.maximumf
dfg.graph @max_pool(%x: tensor<1x2x8xf32>) -> tensor<1x2x4xf32> {
  %0 = dfg.pool %x {kind = #dfg.pool_kind<max>, window = array<i64: 3>, strides = array<i64: 2>,
       pads = array<i64: 1, 0>, dilations = array<i64: 1>}
       : (tensor<1x2x8xf32>) -> tensor<1x2x4xf32>
  dfg.return %0 : tensor<1x2x4xf32>
}

// Without the padding, a mean divides by the number of elements inside.
// CHECK-LABEL: dfg.graph @average_pool
// CHECK: linalg.generic
// CHECK: arith.addf
// CHECK: linalg.generic
// CHECK: linalg.index 2
// CHECK: arith.divf
dfg.graph @average_pool(%x: tensor<1x2x8xf32>) -> tensor<1x2x4xf32> {
  %0 = dfg.pool %x {kind = #dfg.pool_kind<average>, window = array<i64: 3>, strides = array<i64: 2>,
       pads = array<i64: 1, 0>, dilations = array<i64: 1>}
       : (tensor<1x2x8xf32>) -> tensor<1x2x4xf32>
  dfg.return %0 : tensor<1x2x4xf32>
}

// With it, by the size of the window.
// CHECK-LABEL: dfg.graph @average_pool_whole
// CHECK: linalg.generic
// CHECK: linalg.generic
// CHECK-NOT: linalg.index
// CHECK: arith.constant 3.000000e+00 : f32
// CHECK: arith.divf
dfg.graph @average_pool_whole(%x: tensor<1x2x8xf32>) -> tensor<1x2x4xf32> {
  %0 = dfg.pool %x {kind = #dfg.pool_kind<average>, count_include_pad, window = array<i64: 3>,
       strides = array<i64: 2>, pads = array<i64: 1, 0>, dilations = array<i64: 1>}
       : (tensor<1x2x8xf32>) -> tensor<1x2x4xf32>
  dfg.return %0 : tensor<1x2x4xf32>
}

// Integers of 8 bits are multiplied and summed in 32, each by its own sign.
// CHECK-LABEL: dfg.graph @wide_product
// CHECK: linalg.generic
// CHECK-DAG: %[[LEFT:.*]] = arith.extui %{{.*}} : i8 to i32
// CHECK-DAG: %[[RIGHT:.*]] = arith.extsi %{{.*}} : i8 to i32
// CHECK: arith.muli {{%[[:alnum:]]+}}, {{%[[:alnum:]]+}} : i32
// CHECK: arith.addi
dfg.graph @wide_product(%x: tensor<3x4xui8>, %y: tensor<4x5xi8>) -> tensor<3x5xi32> {
  %0 = dfg.dot_general %x, %y {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
       rhs_contracting = array<i64: 0>, wide} : (tensor<3x4xui8>, tensor<4x5xi8>) -> tensor<3x5xi32>
  dfg.return %0 : tensor<3x5xi32>
}

// The padding of a convolution has the type of what it pads.
// CHECK-LABEL: dfg.graph @wide_convolution
// CHECK: tensor.insert_slice {{.*}} : tensor<1x2x8xui8> into tensor<1x2x10xui8>
// CHECK: linalg.generic
// CHECK-SAME: outs(%{{.*}} : tensor<1x4x8xi32>)
dfg.graph @wide_convolution(%x: tensor<1x2x8xui8>, %w: tensor<4x2x3xi8>) -> tensor<1x4x8xi32> {
  %0 = dfg.conv %x, %w {strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 1>, wide}
       : (tensor<1x2x8xui8>, tensor<4x2x3xi8>) -> tensor<1x4x8xi32>
  dfg.return %0 : tensor<1x4x8xi32>
}
