// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --train-add-loss --split-input-file --mlir-print-debuginfo | FileCheck %s
// RUN: cleave-opt %s --train-add-loss=loss=mse,output=y --split-input-file | FileCheck %s --check-prefix=MSE
// RUN: cleave-opt %s --train-add-loss=loss=y --split-input-file | FileCheck %s --check-prefix=MEAN
// RUN: cleave-opt %s --train-add-loss=loss=cross-entropy,ignore-index=-1 --split-input-file | FileCheck %s --check-prefix=IGNORE

// Scores: their logarithmic softmax is compared with the labels by position, so that only reductions see the classes.
// What only other outputs needed is gone, and the new operators have a node's name.
// CHECK: dfg.graph @scores(%[[X:[a-z0-9]+]]: tensor<8x4xf32> {dfg.name = "x"}
// CHECK-SAME: %[[L:[a-z0-9]+]]: tensor<8xi64> {dfg.classes = 4 : i64, dfg.name = "labels"}
// CHECK-SAME: -> (tensor<f32> {dfg.name = "loss"}, tensor<i64> {dfg.name = "correct"})
// CHECK-NOT: dfg.relu
// CHECK: %[[LINES:.*]] = dfg.reshape %[[L]] : (tensor<8xi64>) -> tensor<8x1xi64>
// CHECK: %[[AT:.*]] = dfg.iota {dim = 1 : i64} : () -> tensor<1x4xi64>
// CHECK: %[[P:.*]] = dfg.log_softmax %[[X]] {dim = 1 : i64}{{.*}} loc([[LOSS:#.*]])
// CHECK: %[[IS:.*]] = dfg.compare %[[AT]], %[[LINES]] {comparison = #dfg.comparison<equal>}
// CHECK: %[[CHOSEN:.*]] = dfg.select %[[IS]], %[[P]]
// CHECK: dfg.reduce %[[CHOSEN]]
// CHECK: dense<-1.250000e-01>
// CHECK: dfg.reduce %[[X]] {dims = array<i64: 1>, keep_dims, kind = #dfg.reduce_kind<max>}
// CHECK: dfg.reduce {{.*}} {dims = array<i64: 1>, keep_dims, kind = #dfg.reduce_kind<min>}
// CHECK: [[LOSS]] = loc("loss"
// MSE-LABEL: dfg.graph @scores
// MSE-SAME: %[[T:[a-z0-9]+]]: tensor<8x4xf32> {dfg.name = "target"}
// MSE: %[[D:.*]] = dfg.sub %{{.*}}, %[[T]] :
// MSE: dfg.mul %[[D]], %[[D]]
// MEAN-LABEL: dfg.graph @scores
// MEAN-SAME: (%[[X:[a-z0-9]+]]: tensor<8x4xf32> {dfg.name = "x"}) -> (tensor<f32> {dfg.name = "loss"})
// MEAN: dfg.reduce %[[X]]
// With an ignored label the sum is divided by how many count, which a result says.
// IGNORE-LABEL: dfg.graph @scores
// IGNORE-SAME: tensor<i64> {dfg.name = "correct"}, tensor<i64> {dfg.counts, dfg.name = "count"})
// IGNORE: dfg.compare {{.*}} {comparison = #dfg.comparison<greater_or_equal>}
// IGNORE: dfg.div
dfg.graph @scores(%x: tensor<8x4xf32> {dfg.name = "x"}) -> (tensor<8x4xf32> {dfg.name = "y"}, tensor<8x4xf32> {dfg.name = "z"}) {
  %0 = dfg.relu %x : (tensor<8x4xf32>) -> tensor<8x4xf32>
  dfg.return %x, %0 : tensor<8x4xf32>, tensor<8x4xf32>
}

// -----

// A softmax at the end gives way to its logarithm; the classes are where it has them.
// CHECK-LABEL: dfg.graph @softmax
// CHECK-SAME: (%[[X:[a-z0-9]+]]: tensor<8x4x5xf32>
// CHECK-SAME: tensor<8x5xi64> {dfg.classes = 4 : i64, dfg.name = "labels"}
// CHECK-NOT: dfg.softmax
// CHECK: dfg.log_softmax %[[X]] {dim = 1 : i64}
dfg.graph @softmax(%x: tensor<8x4x5xf32> {dfg.name = "x"}) -> (tensor<8x4x5xf32> {dfg.name = "y"}) {
  %0 = dfg.softmax %x {dim = 1 : i64} : (tensor<8x4x5xf32>) -> tensor<8x4x5xf32>
  dfg.return %0 : tensor<8x4x5xf32>
}

// -----

// One that is there is used.
// CHECK-LABEL: dfg.graph @log_softmax
// CHECK: dfg.log_softmax
// CHECK-NOT: dfg.log_softmax
// CHECK: dfg.return
dfg.graph @log_softmax(%x: tensor<8x4xf32> {dfg.name = "x"}) -> (tensor<8x4xf32> {dfg.name = "y"}) {
  %0 = dfg.log_softmax %x {dim = 1 : i64} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  dfg.return %0 : tensor<8x4xf32>
}

// -----

// Models before operator set 13 compute it on a matrix: samples and positions keep their dimensions.
// CHECK-LABEL: dfg.graph @matrix
// CHECK-SAME: (%[[X:[a-z0-9]+]]: tensor<8x3x4xf32>
// CHECK-SAME: tensor<8x3xi64> {dfg.classes = 4 : i64, dfg.name = "labels"}
// CHECK: %[[FLAT:.*]] = dfg.reshape %[[X]]
// CHECK-NOT: dfg.softmax
// CHECK: %[[FULL:.*]] = dfg.reshape %[[FLAT]] : (tensor<24x4xf32>) -> tensor<8x3x4xf32>
// CHECK: dfg.log_softmax %[[FULL]] {dim = 2 : i64}
dfg.graph @matrix(%x: tensor<8x3x4xf32> {dfg.name = "x"}) -> (tensor<8x3x4xf32> {dfg.name = "y"}) {
  %0 = dfg.reshape %x : (tensor<8x3x4xf32>) -> tensor<24x4xf32>
  %1 = dfg.softmax %0 {dim = 1 : i64} : (tensor<24x4xf32>) -> tensor<24x4xf32>
  %2 = dfg.reshape %1 : (tensor<24x4xf32>) -> tensor<8x3x4xf32>
  dfg.return %2 : tensor<8x3x4xf32>
}
