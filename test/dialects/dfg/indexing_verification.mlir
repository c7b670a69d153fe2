// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// Positions are those of a dimension.
dfg.graph @main(%x: tensor<4x9xf32>, %i: tensor<4x2xi64>) {
  // expected-error @+2 {{'dfg.gather_elements' expects a dimension of 'tensor<4x9xf32>', got 2}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.gather_elements %x, %i {dim = 2 : i64} : (tensor<4x9xf32>, tensor<4x2xi64>) -> tensor<4x2xf32>
  dfg.return
}

// -----

// Every line has its positions, or all share them.
dfg.graph @main(%x: tensor<4x9xf32>, %i: tensor<3x2xi64>) {
  // expected-error @+2 {{'dfg.gather_elements' expects indices of the input's size, or one, in all dimensions but 1, got 'tensor<3x2xi64>' for 'tensor<4x9xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.gather_elements %x, %i {dim = 1 : i64} : (tensor<4x9xf32>, tensor<3x2xi64>) -> tensor<4x2xf32>
  dfg.return
}

// -----

// Out of nothing nothing can be taken.
dfg.graph @main(%x: tensor<4x0xf32>, %i: tensor<4x2xi64>) {
  // expected-error @+2 {{'dfg.gather_elements' expects elements to take from, got 'tensor<4x0xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.gather_elements %x, %i {dim = 1 : i64} : (tensor<4x0xf32>, tensor<4x2xi64>) -> tensor<4x2xf32>
  dfg.return
}

// -----

// One update a position.
dfg.graph @main(%x: tensor<4x9xf32>, %i: tensor<4x2xi64>, %u: tensor<4x3xf32>) {
  // expected-error @+2 {{'dfg.scatter_elements' expects updates of the type 'tensor<4x2xf32>', got 'tensor<4x3xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.scatter_elements %x, %i, %u {dim = 1 : i64}
       : (tensor<4x9xf32>, tensor<4x2xi64>, tensor<4x3xf32>) -> tensor<4x9xf32>
  dfg.return
}

// -----

// Truth values cannot be added.
dfg.graph @main(%x: tensor<4x9xi1>, %i: tensor<4x2xi64>, %u: tensor<4x2xi1>) {
  // expected-error @+2 {{'dfg.scatter_elements' expects numbers to add, got 'tensor<4x9xi1>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.scatter_elements %x, %i, %u {dim = 1 : i64, reduction = #dfg.reduce_kind<sum>}
       : (tensor<4x9xi1>, tensor<4x2xi64>, tensor<4x2xi1>) -> tensor<4x9xi1>
  dfg.return
}

// -----

dfg.graph @main(%x: tensor<4x9xf32>) {
  // expected-error @+2 {{'dfg.cumulative_sum' expects a dimension of 'tensor<4x9xf32>', got 2}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.cumulative_sum %x {dim = 2 : i64} : (tensor<4x9xf32>) -> tensor<4x9xf32>
  dfg.return
}

// -----

dfg.graph @main(%x: tensor<4x9xf32>) {
  // expected-error @+2 {{'dfg.arg_sort' expects a dimension of 'tensor<4x9xf32>', got -1}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.arg_sort %x {dim = -1 : i64} : (tensor<4x9xf32>) -> tensor<4x9xi64>
  dfg.return
}
