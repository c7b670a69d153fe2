// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --train-normalize-by-batch --split-input-file | FileCheck %s
// RUN: cleave-opt %s --train-normalize-by-batch=groups=4 --split-input-file | FileCheck %s --check-prefix=FOUR

// One group: the mean over samples and positions, 48 elements a channel. The running statistics keep 0.75 of
// themselves; the variance that they get is the one with the divisor 47.
// CHECK-LABEL: dfg.graph @main
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<8x4x6xf32>
// CHECK: %[[MEAN:.*]] = dfg.read @mean
// CHECK: %[[SUM:.*]] = dfg.reduce %[[X]] {dims = array<i64: 0, 2>, keep_dims, kind = #dfg.reduce_kind<sum>} : (tensor<8x4x6xf32>) -> tensor<1x4x1xf32>
// CHECK: %[[N:.*]] = dfg.constant dense<0.020833334> : tensor<f32>
// CHECK: %[[M:.*]] = dfg.mul %[[SUM]], %[[N]]
// CHECK: %[[CENTRED:.*]] = dfg.sub %[[X]], %[[M]]
// CHECK: %[[SQUARES:.*]] = dfg.mul %[[CENTRED]], %[[CENTRED]]
// CHECK: dfg.reduce %[[SQUARES]] {dims = array<i64: 0, 2>
// CHECK: %[[FACTOR:.*]] = dfg.div
// CHECK: %[[SCALED:.*]] = dfg.mul %[[CENTRED]], %[[FACTOR]]
// CHECK: %[[Y:.*]] = dfg.add %[[SCALED]],
// CHECK: dense<7.500000e-01>
// CHECK: dfg.mul %[[MEAN]],
// CHECK: dense<2.500000e-01>
// CHECK: dfg.write @mean,
// CHECK: dense<0.255319148> : tensor<f32>
// CHECK: dfg.write @variance,
// CHECK: dfg.return %[[Y]]
// Four groups: samples as groups by samples, of which only the latter are reduced.
// FOUR-LABEL: dfg.graph @main
// FOUR: %[[X:.*]] = dfg.reshape %{{.*}} : (tensor<8x4x6xf32>) -> tensor<4x2x4x6xf32>
// FOUR: dfg.reduce %[[X]] {dims = array<i64: 1, 3>, keep_dims, kind = #dfg.reduce_kind<sum>} : (tensor<4x2x4x6xf32>) -> tensor<4x1x4x1xf32>
// FOUR: dfg.reduce %{{.*}} {dims = array<i64: 0>, kind = #dfg.reduce_kind<sum>} : (tensor<4x1x4x1xf32>) -> tensor<1x4x1xf32>
// FOUR: dfg.write @mean,
// FOUR: dfg.reshape %{{.*}} : (tensor<4x2x4x6xf32>) -> tensor<8x4x6xf32>
dfg.parameter @scale : tensor<4xf32> = #dfg.fill<value = 1.0 : f64>
dfg.parameter state @mean : tensor<4xf32> = #dfg.fill<value = 0.0 : f64>
dfg.parameter state @variance : tensor<4xf32> = #dfg.fill<value = 1.0 : f64>
dfg.graph @main(%x: tensor<8x4x6xf32>, %bias: tensor<4xf32>) -> tensor<8x4x6xf32> {
  %scale = dfg.read @scale : tensor<4xf32>
  %mean = dfg.read @mean : tensor<4xf32>
  %variance = dfg.read @variance : tensor<4xf32>
  %0 = dfg.batch_norm %x, %scale, %bias, %mean, %variance {epsilon = 1.0e-5 : f64, momentum = 0.75 : f64} : (tensor<8x4x6xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<8x4x6xf32>
  dfg.return %0 : tensor<8x4x6xf32>
}

// -----

// Narrow inputs are widened; six samples do not divide into four groups. Two operators share their statistics: the
// second goes on from what the first one has, and there is one write. Statistics that no parameter has are left.
// CHECK-LABEL: dfg.graph @shared
// CHECK: dfg.cast %{{.*}} {to = f32}
// CHECK-COUNT-1: dfg.write @mean
// CHECK-NOT: dfg.write
// CHECK: dfg.cast %{{.*}} {to = bf16}
// FOUR-LABEL: dfg.graph @shared
// FOUR-NOT: tensor<4x
// FOUR: dfg.return
dfg.parameter state @mean : tensor<3xf32> = #dfg.fill<value = 0.0 : f64>
dfg.graph @shared(%x: tensor<6x3xbf16>, %one: tensor<3xbf16>, %variance: tensor<3xf32>) -> tensor<6x3xbf16> {
  %mean = dfg.read @mean : tensor<3xf32>
  %0 = dfg.batch_norm %x, %one, %one, %mean, %variance {epsilon = 1.0e-5 : f64} : (tensor<6x3xbf16>, tensor<3xbf16>, tensor<3xbf16>, tensor<3xf32>, tensor<3xf32>) -> tensor<6x3xbf16>
  %1 = dfg.batch_norm %0, %one, %one, %mean, %variance {epsilon = 1.0e-5 : f64} : (tensor<6x3xbf16>, tensor<3xbf16>, tensor<3xbf16>, tensor<3xf32>, tensor<3xf32>) -> tensor<6x3xbf16>
  dfg.return %1 : tensor<6x3xbf16>
}
