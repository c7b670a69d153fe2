// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// Reduced dimensions exist.
dfg.graph @main(%x: tensor<4x8xf32>) {
  // expected-error @+2 {{'dfg.reduce' expects distinct dimensions of 'tensor<4x8xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 2>} : (tensor<4x8xf32>) -> tensor<4xf32>
  dfg.return
}

// -----

// Nothing is reduced twice.
dfg.graph @main(%x: tensor<4x8xf32>) {
  // expected-error @+2 {{'dfg.reduce' expects distinct dimensions of 'tensor<4x8xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1, 1>} : (tensor<4x8xf32>) -> tensor<4xf32>
  dfg.return
}

// -----

// Dimensions of size one stay where they are kept.
dfg.graph @main(%x: tensor<4x8xf32>) {
  // expected-error @+2 {{inferred type(s) 'tensor<4x1xf32>' are incompatible with return type(s) of operation 'tensor<4xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>, keep_dims} : (tensor<4x8xf32>) -> tensor<4xf32>
  dfg.return
}

// -----

// The searched dimension exists.
dfg.graph @main(%x: tensor<4x8xf32>) {
  // expected-error @+2 {{'dfg.arg_reduce' expects distinct dimensions of 'tensor<4x8xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.arg_reduce %x {kind = #dfg.arg_kind<max>, dim = -1 : i64} : (tensor<4x8xf32>) -> tensor<4xi64>
  dfg.return
}

// -----

// Softmax runs along a dimension that exists.
dfg.graph @main(%x: tensor<4x8xf32>) {
  // expected-error @+2 {{'dfg.softmax' expects distinct dimensions of 'tensor<4x8xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.softmax %x {dim = 2 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  dfg.return
}

// -----

// So does its logarithm.
dfg.graph @main(%x: tensor<4x8xf32>) {
  // expected-error @+2 {{'dfg.log_softmax' expects distinct dimensions of 'tensor<4x8xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.log_softmax %x {dim = 2 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  dfg.return
}

// -----

// Normalized dimensions exist.
dfg.graph @main(%x: tensor<4x8xf32>) {
  // expected-error @+2 {{'dfg.layer_norm' expects distinct dimensions of 'tensor<4x8xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.layer_norm %x {dims = array<i64: 2>, epsilon = 1.0e-5 : f64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  dfg.return
}

// -----

// Response normalization runs over channels.
dfg.graph @main(%x: tensor<4xf32>) {
  // expected-error @+2 {{'dfg.lrn' expects an input with channels and a positive size, got 'tensor<4xf32>' and 5}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.lrn %x {size = 5 : i64, alpha = 1.0 : f64, beta = 1.0 : f64, k = 1.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return
}

// -----

// Its window is not empty.
dfg.graph @main(%x: tensor<1x4xf32>) {
  // expected-error @+2 {{'dfg.lrn' expects an input with channels and a positive size, got 'tensor<1x4xf32>' and 0}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.lrn %x {size = 0 : i64, alpha = 1.0 : f64, beta = 1.0 : f64, k = 1.0 : f64} : (tensor<1x4xf32>) -> tensor<1x4xf32>
  dfg.return
}

// -----

// Batch normalization has channels.
dfg.graph @main(%x: tensor<4xf32>, %c: tensor<4xf32>) {
  // expected-error @+2 {{'dfg.batch_norm' expects an input with channels, got 'tensor<4xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.batch_norm %x, %c, %c, %c, %c {epsilon = 1.0e-5 : f64}
      : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  dfg.return
}

// -----

// And one value of each statistic for each of them.
dfg.graph @main(%x: tensor<1x4xf32>, %c: tensor<4xf32>, %d: tensor<3xf32>) {
  // expected-error @+2 {{'dfg.batch_norm' expects one value a channel of 'tensor<1x4xf32>', got 'tensor<3xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.batch_norm %x, %c, %c, %d, %c {epsilon = 1.0e-5 : f64}
      : (tensor<1x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<3xf32>, tensor<4xf32>) -> tensor<1x4xf32>
  dfg.return
}
