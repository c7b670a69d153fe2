// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// A reshape keeps the number of elements.
dfg.graph @main(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{expects as many elements of one type on both sides, got 'tensor<2x3xf32>' and 'tensor<5xf32>'}}
  %0 = dfg.reshape %x : (tensor<2x3xf32>) -> tensor<5xf32>
  dfg.return
}

// -----

// A reshape is no conversion.
dfg.graph @main(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{expects as many elements of one type on both sides, got 'tensor<2x3xf32>' and 'tensor<6xi32>'}}
  %0 = dfg.reshape %x : (tensor<2x3xf32>) -> tensor<6xi32>
  dfg.return
}

// -----

// A permutation names every dimension once.
dfg.graph @main(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{'dfg.transpose' expects a permutation of the dimensions of 'tensor<2x3xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.transpose %x {permutation = array<i64: 1, 1>} : (tensor<2x3xf32>) -> tensor<3x3xf32>
  dfg.return
}

// -----

// A permutation names every dimension.
dfg.graph @main(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{'dfg.transpose' expects a permutation of the dimensions of 'tensor<2x3xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.transpose %x {permutation = array<i64: 0>} : (tensor<2x3xf32>) -> tensor<2xf32>
  dfg.return
}

// -----

// A broadcast repeats only sizes of one.
dfg.graph @main(%x: tensor<2xf32>) {
  // expected-error @+1 {{expects a shape that broadcasts to the result's, got 'tensor<2xf32>' and 'tensor<3xf32>'}}
  %0 = dfg.broadcast %x : (tensor<2xf32>) -> tensor<3xf32>
  dfg.return
}

// -----

// A broadcast does not shrink.
dfg.graph @main(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{expects a shape that broadcasts to the result's, got 'tensor<2x3xf32>' and 'tensor<3xf32>'}}
  %0 = dfg.broadcast %x : (tensor<2x3xf32>) -> tensor<3xf32>
  dfg.return
}

// -----

// Nothing joined has no type.
dfg.graph @main() {
  // expected-error @+2 {{'dfg.concat' expects at least one input}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.concat {dim = 0 : i64} : () -> tensor<0xf32>
  dfg.return
}

// -----

// The joined dimension exists.
dfg.graph @main(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{'dfg.concat' expects a dimension of 'tensor<2x3xf32>', got 2}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.concat %x {dim = 2 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  dfg.return
}

// -----

// All other sizes are equal.
dfg.graph @main(%x: tensor<2x3xf32>, %y: tensor<3x3xf32>) {
  // expected-error @+2 {{'dfg.concat' expects inputs that differ only in dimension 1, got 'tensor<2x3xf32>' and 'tensor<3x3xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.concat %x, %y {dim = 1 : i64} : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x6xf32>
  dfg.return
}

// -----

// Slices give bounds for all dimensions.
dfg.graph @main(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{'dfg.slice' expects 2 starts, limits and strides for 'tensor<2x3xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.slice %x {starts = array<i64: 0>, limits = array<i64: 1>, strides = array<i64: 1>}
      : (tensor<2x3xf32>) -> tensor<1x3xf32>
  dfg.return
}

// -----

// Slices stay inside.
dfg.graph @main(%x: tensor<3xf32>) {
  // expected-error @+2 {{'dfg.slice' expects 0 <= start <= limit <= 3 and a positive stride in dimension 0, got 1, 4, 1}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.slice %x {starts = array<i64: 1>, limits = array<i64: 4>, strides = array<i64: 1>}
      : (tensor<3xf32>) -> tensor<3xf32>
  dfg.return
}

// -----

// Backward slices are a reverse and a slice.
dfg.graph @main(%x: tensor<3xf32>) {
  // expected-error @+2 {{'dfg.slice' expects 0 <= start <= limit <= 3 and a positive stride in dimension 0, got 0, 3, -1}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.slice %x {starts = array<i64: 0>, limits = array<i64: 3>, strides = array<i64: -1>}
      : (tensor<3xf32>) -> tensor<3xf32>
  dfg.return
}

// -----

// Reversed dimensions exist.
dfg.graph @main(%x: tensor<3xf32>) {
  // expected-error @+2 {{'dfg.reverse' expects dimensions of 'tensor<3xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.reverse %x {dims = array<i64: 1>} : (tensor<3xf32>) -> tensor<3xf32>
  dfg.return
}

// -----

// Padding is one value.
dfg.graph @main(%x: tensor<3xf32>, %v: tensor<1xf32>) {
  // expected-error @+2 {{'dfg.pad' expects a scalar of 'f32', got 'tensor<1xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.pad %x, %v {low = array<i64: 0>, high = array<i64: 1>} : (tensor<3xf32>, tensor<1xf32>) -> tensor<4xf32>
  dfg.return
}

// -----

// Padding gives amounts for all dimensions.
dfg.graph @main(%x: tensor<3xf32>, %v: tensor<f32>) {
  // expected-error @+2 {{'dfg.pad' expects 1 amounts on both sides of 'tensor<3xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.pad %x, %v {low = array<i64>, high = array<i64: 1>} : (tensor<3xf32>, tensor<f32>) -> tensor<4xf32>
  dfg.return
}

// -----

// Negative padding is a slice.
dfg.graph @main(%x: tensor<3xf32>, %v: tensor<f32>) {
  // expected-error @+2 {{'dfg.pad' expects no negative amount in dimension 0}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.pad %x, %v {low = array<i64: -1>, high = array<i64: 1>} : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  dfg.return
}

// -----

// The dimension that is taken from exists.
dfg.graph @main(%x: tensor<3xf32>, %i: tensor<2xi64>) {
  // expected-error @+2 {{'dfg.gather' expects a dimension of 'tensor<3xf32>', got 1}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.gather %x, %i {dim = 1 : i64} : (tensor<3xf32>, tensor<2xi64>) -> tensor<2xf32>
  dfg.return
}

// -----

// Nothing can be taken from nothing.
dfg.graph @main(%x: tensor<0xf32>, %i: tensor<2xi64>) {
  // expected-error @+2 {{'dfg.gather' expects elements to take from, got 'tensor<0xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.gather %x, %i {dim = 0 : i64} : (tensor<0xf32>, tensor<2xi64>) -> tensor<2xf32>
  dfg.return
}

// -----

// Positions count along a dimension that exists.
dfg.graph @main() {
  // expected-error @+1 {{expects a dimension of 'tensor<3xi64>', got 1}}
  %0 = dfg.iota {dim = 1 : i64} : () -> tensor<3xi64>
  dfg.return
}
