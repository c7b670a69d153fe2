// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// A parameter's first value is one of four.
// expected-error @+1 {{expects #dfg.file, #dfg.normal, #dfg.uniform or #dfg.fill as its first value, got "zeros"}}
dfg.parameter @w : tensor<4xf32> = "zeros"

// -----

// Only what exists can be read.
dfg.graph @main() {
  // expected-error @+1 {{expects a 'dfg.parameter' named 'w', found none}}
  %0 = dfg.read @w : tensor<4xf32>
  dfg.return
}

// -----

// As what it is.
dfg.parameter @w : tensor<4xf32> = #dfg.fill<value = 0.0 : f64>
dfg.graph @main() {
  // expected-error @+1 {{expects the parameter's type 'tensor<4xf32>', got 'tensor<2xf32>'}}
  %0 = dfg.read @w : tensor<2xf32>
  dfg.return
}

// -----

// Inputs have static shapes.
// expected-error @+1 {{expects inputs and outputs to be tensors of static shape, got 'tensor<?xf32>'}}
dfg.graph @main(%x: tensor<?xf32>) {
  dfg.return
}

// -----

// Inputs are tensors.
// expected-error @+1 {{expects inputs and outputs to be tensors of static shape, got 'i32'}}
dfg.graph @main(%x: i32) {
  dfg.return
}

// -----

// Names are texts.
// expected-error @+1 {{expects only the string attribute 'dfg.name' on arguments and results, got 'dfg.name'}}
dfg.graph @main(%x: tensor<4xf32> {dfg.name = 3}) {
  dfg.return
}

// -----

// Outputs have a name and nothing else.
// expected-error @+1 {{expects only the string attribute 'dfg.name' on arguments and results, got 'dfg.title'}}
dfg.graph @main(%x: tensor<4xf32>) -> (tensor<4xf32> {dfg.title = "y"}) {
  dfg.return %x : tensor<4xf32>
}

// -----

// A graph returns what it promises.
dfg.graph @main(%x: tensor<4xf32>) -> tensor<2xf32> {
  // expected-error @+1 {{expects the graph's result types ('tensor<2xf32>'), got ('tensor<4xf32>')}}
  dfg.return %x : tensor<4xf32>
}

// -----

// The region of a fusion takes the operands.
dfg.graph @main(%x: tensor<4xf32>) {
  // expected-error @+1 {{expects the region's argument types to equal the operand types ('tensor<4xf32>'), got ('tensor<2xf32>')}}
  %0 = dfg.fusion %x : (tensor<4xf32>) -> tensor<2xf32> {
  ^bb0(%y: tensor<2xf32>):
    dfg.yield %y : tensor<2xf32>
  }
  dfg.return
}

// -----

// And gives the results.
dfg.graph @main(%x: tensor<4xf32>) {
  // expected-error @+1 {{expects the yielded types to equal the result types ('tensor<2xf32>'), got ('tensor<4xf32>')}}
  %0 = dfg.fusion %x : (tensor<4xf32>) -> tensor<2xf32> {
  ^bb0(%y: tensor<4xf32>):
    dfg.yield %y : tensor<4xf32>
  }
  dfg.return
}

// -----

// A band has a bound at least.
// expected-error @+1 {{expects a lower bound, an upper one, or both in order}}
#none = #dfg.band<rows = 0, blocks = 2, columns = 4>

// -----

// Nothing lies between bounds that cross.
// expected-error @+1 {{expects a lower bound, an upper one, or both in order}}
#none = #dfg.band<rows = 0, blocks = 2, columns = 4, lower = 1, upper = 0>

// -----

// Columns come in blocks.
// expected-error @+1 {{expects blocks of columns, got 0 of 4}}
#none = #dfg.band<rows = 0, blocks = 0, columns = 4, lower = 1>

// -----

// What a mask leaves is said of a parameter, in that form.
// expected-error @+1 {{carries the attribute 'dfg.score_mask', expected it on an argument or result of 'dfg.graph'}}
dfg.parameter @mask : tensor<8x8xi1> = #dfg.file<"w", offset = 0> {dfg.score_mask = "seen"}
