// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// Tensors of different ranks.
dfg.graph @main(%x: tensor<1x4x9x9xf32>, %dy: tensor<1x6x7xf32>) {
  // expected-error @+1 {{'dfg.conv_filter_gradient' op expects input, cotangent and result of one element type (or the result of f32, the others narrower) and one rank of at least 3, got 'tensor<1x4x9x9xf32>', 'tensor<1x6x7xf32>' and 'tensor<6x4x3x3xf32>'}}
  %0 = dfg.conv_filter_gradient %x, %dy {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x4x9x9xf32>, tensor<1x6x7xf32>) -> tensor<6x4x3x3xf32>
  dfg.return
}

// -----

// A filter that does not read all channels.
dfg.graph @main(%x: tensor<1x4x9x9xf32>, %dy: tensor<1x6x7x7xf32>) {
  // expected-error @+1 {{'dfg.conv_filter_gradient' op expects input channels = groups x filter dimension 1 and filters divisible by groups, got 'tensor<1x4x9x9xf32>', 'tensor<6x3x3x3xf32>' and 1 groups}}
  %0 = dfg.conv_filter_gradient %x, %dy {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x4x9x9xf32>, tensor<1x6x7x7xf32>) -> tensor<6x3x3x3xf32>
  dfg.return
}

// -----

// A cotangent of another convolution.
dfg.graph @main(%x: tensor<1x4x9x9xf32>, %dy: tensor<1x6x9x9xf32>) {
  // expected-error @+1 {{'dfg.conv_filter_gradient' op expects a cotangent of the convolution's type 'tensor<1x6x7x7xf32>', got 'tensor<1x6x9x9xf32>'}}
  %0 = dfg.conv_filter_gradient %x, %dy {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x4x9x9xf32>, tensor<1x6x9x9xf32>) -> tensor<6x4x3x3xf32>
  dfg.return
}

// -----

// A cotangent of another pooling.
dfg.graph @main(%dy: tensor<1x8x13x13xf32>) {
  // expected-error @+1 {{'dfg.pool_gradient' op expects a cotangent of the pooling's type 'tensor<1x8x14x14xf32>', got 'tensor<1x8x13x13xf32>'}}
  %0 = dfg.pool_gradient %dy {kind = #dfg.pool_kind<average>, window = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x8x13x13xf32>) -> tensor<1x8x28x28xf32>
  dfg.return
}

// -----

// Where the largest elements are only the input tells.
dfg.graph @main(%dy: tensor<1x8x14x14xf32>) {
  // expected-error @+1 {{'dfg.pool_gradient' op expects an input of the result's type for max}}
  %0 = dfg.pool_gradient %dy {kind = #dfg.pool_kind<max>, window = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x8x14x14xf32>) -> tensor<1x8x28x28xf32>
  dfg.return
}

// -----

// Averages read no input.
dfg.graph @main(%dy: tensor<1x8x14x14xf32>, %x: tensor<1x8x28x28xf32>) {
  // expected-error @+1 {{'dfg.pool_gradient' op expects no input for average}}
  %0 = dfg.pool_gradient %dy, %x {kind = #dfg.pool_kind<average>, window = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x8x14x14xf32>, tensor<1x8x28x28xf32>) -> tensor<1x8x28x28xf32>
  dfg.return
}

// -----

// Pooling has spatial dimensions.
dfg.graph @main(%dy: tensor<1x8xf32>) {
  // expected-error @+1 {{'dfg.pool_gradient' op expects a result of rank 3 or more, got 'tensor<1x8xf32>'}}
  %0 = dfg.pool_gradient %dy {kind = #dfg.pool_kind<average>, window = array<i64>, strides = array<i64>, pads = array<i64>, dilations = array<i64>} : (tensor<1x8xf32>) -> tensor<1x8xf32>
  dfg.return
}

// -----

// A dimension that the result lacks.
dfg.graph @main(%dy: tensor<2x64xf32>, %i: tensor<2xi64>) {
  // expected-error @+1 {{'dfg.gather_gradient' op expects a dimension of 'tensor<9x64xf32>', got 2}}
  %0 = dfg.gather_gradient %dy, %i {dim = 2 : i64} : (tensor<2x64xf32>, tensor<2xi64>) -> tensor<9x64xf32>
  dfg.return
}

// -----

// A cotangent of another gather.
dfg.graph @main(%dy: tensor<3x64xf32>, %i: tensor<2xi64>) {
  // expected-error @+1 {{'dfg.gather_gradient' op expects a cotangent of the gather's type 'tensor<2x64xf32>', got 'tensor<3x64xf32>'}}
  %0 = dfg.gather_gradient %dy, %i {dim = 0 : i64} : (tensor<3x64xf32>, tensor<2xi64>) -> tensor<9x64xf32>
  dfg.return
}

// -----

// Nothing to add to.
dfg.graph @main(%dy: tensor<2x64xf32>, %i: tensor<2xi64>) {
  // expected-error @+1 {{'dfg.gather_gradient' op expects positions to add to, got 'tensor<0x64xf32>'}}
  %0 = dfg.gather_gradient %dy, %i {dim = 0 : i64} : (tensor<2x64xf32>, tensor<2xi64>) -> tensor<0x64xf32>
  dfg.return
}

// -----

// A result may be wider than the operands only in f32.
dfg.graph @main(%x: tensor<1x4x9x9xf32>, %dy: tensor<1x6x7x7xf32>) {
  // expected-error @+1 {{'dfg.conv_filter_gradient' op expects input, cotangent and result of one element type}}
  %0 = dfg.conv_filter_gradient %x, %dy {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x4x9x9xf32>, tensor<1x6x7x7xf32>) -> tensor<6x4x3x3xf64>
  dfg.return
}

// -----

// What is in the host's memory is for nobody but who fetches it.
dfg.graph @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error @+1 {{'dfg.offload' op expects nothing but 'dfg.fetch' to read its result, or a parameter to be written with it, found 'dfg.relu'}}
  %0 = dfg.offload %x : (tensor<2xf32>) -> tensor<2xf32>
  %1 = dfg.relu %0 : (tensor<2xf32>) -> tensor<2xf32>
  dfg.return %1 : tensor<2xf32>
}

// -----

// Nothing else is fetched.
dfg.graph @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error @+1 {{'dfg.fetch' op expects the result of 'dfg.offload', or a parameter}}
  %0 = dfg.fetch %x : (tensor<2xf32>) -> tensor<2xf32>
  dfg.return %0 : tensor<2xf32>
}
