// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// Shapes that do not broadcast.
dfg.graph @main(%a: tensor<2x3xf32>, %b: tensor<2xf32>) {
  // expected-error @+2 {{'dfg.add' expects shapes that broadcast, got 'tensor<2x3xf32>', 'tensor<2xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.add %a, %b : (tensor<2x3xf32>, tensor<2xf32>) -> tensor<2x3xf32>
  dfg.return
}

// -----

// No implicit conversion.
dfg.graph @main(%a: tensor<4xf32>, %b: tensor<4xi64>) {
  // expected-error @+2 {{'dfg.add' expects one element type, got 'tensor<4xf32>', 'tensor<4xi64>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.add %a, %b : (tensor<4xf32>, tensor<4xi64>) -> tensor<4xf32>
  dfg.return
}

// -----

// Both values of a choice have one type.
dfg.graph @main(%p: tensor<4xi1>, %a: tensor<4xf32>, %b: tensor<4xi64>) {
  // expected-error @+2 {{'dfg.select' expects one element type, got 'tensor<4xi1>', 'tensor<4xf32>', 'tensor<4xi64>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.select %p, %a, %b : (tensor<4xi1>, tensor<4xf32>, tensor<4xi64>) -> tensor<4xf32>
  dfg.return
}

// -----

// The result has the joined shape.
dfg.graph @main(%a: tensor<2x1xf32>, %b: tensor<1x3xf32>) {
  // expected-error @+2 {{inferred type(s) 'tensor<2x3xf32>' are incompatible with return type(s) of operation 'tensor<2x1xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.mul %a, %b : (tensor<2x1xf32>, tensor<1x3xf32>) -> tensor<2x1xf32>
  dfg.return
}

// -----

// Shapes are static.
dfg.graph @main(%a: tensor<4xf32>) {
  // expected-error @+1 {{result #0 must be statically shaped tensor}}
  %0 = "dfg.neg"(%a) : (tensor<4xf32>) -> tensor<?xf32>
  dfg.return
}

// -----

// Some operators are of floating point only.
dfg.graph @main(%a: tensor<4xi64>) {
  // expected-error @+1 {{operand #0 must be statically shaped tensor}}
  %0 = dfg.exp %a : (tensor<4xi64>) -> tensor<4xi64>
  dfg.return
}

// -----

// Logic is of truth values only.
dfg.graph @main(%a: tensor<4xf32>) {
  // expected-error @+1 {{operand #0 must be statically shaped tensor}}
  %0 = dfg.not %a : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return
}

// -----

// A conversion gives what it says.
dfg.graph @main(%a: tensor<4xf32>) {
  // expected-error @+2 {{inferred type(s) 'tensor<4xi64>' are incompatible with return type(s) of operation 'tensor<4xi32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.cast %a {to = i64} : (tensor<4xf32>) -> tensor<4xi32>
  dfg.return
}

// -----

// Only graphs have attributes of the dialect, on their inputs and outputs.
dfg.graph @main(%a: tensor<4xf32>) {
  // expected-error @+1 {{carries the attribute 'dfg.name', expected it on an argument or result of 'dfg.graph'}}
  %0 = dfg.neg %a {dfg.name = "x"} : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return
}

// -----

dfg.graph @main(%a: tensor<4xf32>) {
  // expected-error @+2 {{'dfg.dropout' expects a ratio from 0 to 1, got 1.500000e+00}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.dropout %a {ratio = 1.5 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return
}
