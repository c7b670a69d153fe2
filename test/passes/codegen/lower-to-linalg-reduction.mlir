// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --codegen-lower-to-linalg | FileCheck %s
//
// Reductions start from the neutral element; normalizations are made of them.

// A sum starts from zero.
// CHECK-LABEL: dfg.graph @reduce_sum
// CHECK: arith.constant 0.000000e+00 : f32
// CHECK: linalg.fill
// CHECK: linalg.generic
// CHECK-SAME: iterator_types = ["parallel", "reduction"]
// CHECK: arith.addf
dfg.graph @reduce_sum(%x: tensor<4x8xf32>) -> tensor<4xf32> {
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// A product starts from one.
// CHECK-LABEL: dfg.graph @reduce_product
// CHECK: arith.constant 1.000000e+00 : f32
// CHECK: arith.mulf
dfg.graph @reduce_product(%x: tensor<4x8xf32>) -> tensor<4xf32> {
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<product>, dims = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// A maximum hands NaN on.
// CHECK-LABEL: dfg.graph @reduce_max
// CHECK: arith.constant 0xFF800000 : f32
// CHECK: arith.maximumf
dfg.graph @reduce_max(%x: tensor<4x8xf32>) -> tensor<4xf32> {
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<max>, dims = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// A minimum starts from infinity.
// CHECK-LABEL: dfg.graph @reduce_min
// CHECK: arith.constant 0x7F800000 : f32
// CHECK: arith.minimumf
dfg.graph @reduce_min(%x: tensor<4x8xf32>) -> tensor<4xf32> {
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<min>, dims = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// Reduced dimensions that stay are put back by a reshape.
// CHECK-LABEL: dfg.graph @reduce_keep
// CHECK: arith.ori %{{.*}}, %{{.*}} : i1
// CHECK: tensor.expand_shape
dfg.graph @reduce_keep(%x: tensor<4x8xi1>) -> tensor<4x1xi1> {
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<max>, dims = array<i64: 1>, keep_dims}
       : (tensor<4x8xi1>) -> tensor<4x1xi1>
  dfg.return %0 : tensor<4x1xi1>
}

// The first of equal elements: only a better one replaces it.
// CHECK-LABEL: dfg.graph @arg_reduce
// CHECK: arith.cmpf olt
// CHECK: linalg.index 1
// CHECK: arith.select
// CHECK: arith.select
dfg.graph @arg_reduce(%x: tensor<4x8xf32>) -> tensor<4xi64> {
  %0 = dfg.arg_reduce %x {kind = #dfg.arg_kind<max>, dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4xi64>
  dfg.return %0 : tensor<4xi64>
}

// The last of equal elements: an equal one replaces it.
// CHECK-LABEL: dfg.graph @arg_reduce_last
// CHECK: arith.cmpi sle
dfg.graph @arg_reduce_last(%x: tensor<4x8xi32>) -> tensor<4xi64> {
  %0 = dfg.arg_reduce %x {kind = #dfg.arg_kind<min>, dim = 1 : i64, last} : (tensor<4x8xi32>) -> tensor<4xi64>
  dfg.return %0 : tensor<4xi64>
}

// The maximum goes off before the exponential; the division writes over the powers.
// CHECK-LABEL: dfg.graph @softmax
// CHECK: arith.maximumf
// CHECK: %[[POWERS:.*]] = linalg.generic
// CHECK: arith.subf
// CHECK: math.exp
// CHECK: arith.addf
// CHECK: linalg.generic
// CHECK-SAME: outs(%[[POWERS]] : tensor<4x8xf32>)
// CHECK: arith.divf
dfg.graph @softmax(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = dfg.softmax %x {dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  dfg.return %0 : tensor<4x8xf32>
}

// The logarithm is taken of the sum, never of a small quotient.
// CHECK-LABEL: dfg.graph @log_softmax
// CHECK: arith.maximumf
// CHECK: math.exp
// CHECK: math.log
// CHECK-NOT: arith.divf
// CHECK: dfg.return
dfg.graph @log_softmax(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = dfg.log_softmax %x {dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  dfg.return %0 : tensor<4x8xf32>
}

// The variance is that of the distances from the mean: two passes, as one cancels.
// CHECK-LABEL: dfg.graph @layer_norm
// CHECK: arith.addf
// CHECK: %[[MEAN:.*]] = linalg.generic
// CHECK: arith.divf
// CHECK: linalg.generic
// CHECK-SAME: %[[MEAN]]
// CHECK: arith.subf
// CHECK: arith.mulf
// CHECK: math.sqrt
// CHECK: linalg.generic
// CHECK: arith.mulf
dfg.graph @layer_norm(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = dfg.layer_norm %x {dims = array<i64: 1>, epsilon = 1.0e-5 : f64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  dfg.return %0 : tensor<4x8xf32>
}

// Statistics are read by channel.
// CHECK-LABEL: dfg.graph @batch_norm
// CHECK: linalg.generic
// CHECK: math.sqrt
// CHECK: arith.divf
dfg.graph @batch_norm(%x: tensor<1x8x4xf32>, %s: tensor<8xf32>) -> tensor<1x8x4xf32> {
  %0 = dfg.batch_norm %x, %s, %s, %s, %s {epsilon = 1.0e-5 : f64}
       : (tensor<1x8x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<1x8x4xf32>
  dfg.return %0 : tensor<1x8x4xf32>
}

// Squares padded along the channels; the common power needs two roots and no logarithm.
// CHECK-LABEL: dfg.graph @lrn
// CHECK: tensor.insert_slice %{{.*}} into %{{.*}}[0, 2, 0, 0] [1, 8, 4, 4]
// CHECK: arith.addf
// CHECK: math.sqrt
// CHECK: math.sqrt
// CHECK-NOT: math.powf
// CHECK: dfg.return
dfg.graph @lrn(%x: tensor<1x8x4x4xf32>) -> tensor<1x8x4x4xf32> {
  %0 = dfg.lrn %x {size = 5 : i64, alpha = 1.0e-4 : f64, beta = 0.75 : f64, k = 1.0 : f64}
       : (tensor<1x8x4x4xf32>) -> tensor<1x8x4x4xf32>
  dfg.return %0 : tensor<1x8x4x4xf32>
}
