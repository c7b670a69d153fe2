// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// Mixed element types have no product.
dfg.graph @main(%a: tensor<2x3xf32>, %b: tensor<3x2xf64>) {
  // expected-error @+2 {{'dfg.dot_general' expects one element type, got 'tensor<2x3xf32>' and 'tensor<3x2xf64>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.dot_general %a, %b {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>} : (tensor<2x3xf32>, tensor<3x2xf64>) -> tensor<2x2xf32>
  dfg.return
}

// -----

// A dimension that the operand lacks.
dfg.graph @main(%a: tensor<2x3xf32>, %b: tensor<3x2xf32>) {
  // expected-error @+2 {{'dfg.dot_general' expects batch and contracting dimensions to be distinct dimensions of their operand}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.dot_general %a, %b {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 2>,
      rhs_contracting = array<i64: 0>} : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  dfg.return
}

// -----

// A dimension cannot be batch and contracting at once.
dfg.graph @main(%a: tensor<2x3xf32>, %b: tensor<3x2xf32>) {
  // expected-error @+2 {{'dfg.dot_general' expects batch and contracting dimensions to be distinct dimensions of their operand}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.dot_general %a, %b {lhs_batch = array<i64: 1>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>} : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  dfg.return
}

// -----

// Dimensions pair up.
dfg.graph @main(%a: tensor<2x3xf32>, %b: tensor<3x2xf32>) {
  // expected-error @+2 {{'dfg.dot_general' expects as many batch and contracting dimensions on both sides}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.dot_general %a, %b {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0, 1>} : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  dfg.return
}

// -----

// Batch dimensions pair up by size.
dfg.graph @main(%a: tensor<2x3xf32>, %b: tensor<3x2xf32>) {
  // expected-error @+2 {{'dfg.dot_general' expects batch dimensions of equal sizes, got 'tensor<2x3xf32>' and 'tensor<3x2xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.dot_general %a, %b {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contracting = array<i64>,
      rhs_contracting = array<i64>} : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  dfg.return
}

// -----

// Contracting dimensions pair up by size.
dfg.graph @main(%a: tensor<2x3xf32>, %b: tensor<3x2xf32>) {
  // expected-error @+2 {{'dfg.dot_general' expects contracting dimensions of equal sizes}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.dot_general %a, %b {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 0>,
      rhs_contracting = array<i64: 0>} : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  dfg.return
}

// -----

// The result type follows from the operands.
dfg.graph @main(%a: tensor<2x3xf32>, %b: tensor<3x2xf32>) {
  // expected-error @+2 {{inferred type(s) 'tensor<2x2xf32>' are incompatible with return type(s) of operation 'tensor<2x3xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.dot_general %a, %b {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>} : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x3xf32>
  dfg.return
}

// -----

// A window needs a size, a stride and a dilation for each spatial dimension, and two pads.
dfg.graph @main(%x: tensor<1x4x9x9xf32>, %w: tensor<6x2x3x3xf32>) {
  // expected-error @+2 {{'dfg.conv' expects 2 window sizes, strides and dilations and 4 pads, got 2, 1, 1 and 2}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.conv %x, %w {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 2 : i64}
      : (tensor<1x4x9x9xf32>, tensor<6x2x3x3xf32>) -> tensor<1x6x7x7xf32>
  dfg.return
}

// -----

// A stride of zero never ends.
dfg.graph @main(%x: tensor<1x4x9x9xf32>, %w: tensor<6x2x3x3xf32>) {
  // expected-error @+2 {{'dfg.conv' expects positive window sizes, strides and dilations and no negative pad}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.conv %x, %w {strides = array<i64: 0, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 2 : i64}
      : (tensor<1x4x9x9xf32>, tensor<6x2x3x3xf32>) -> tensor<1x6x7x7xf32>
  dfg.return
}

// -----

// Negative pads are slices, not pads.
dfg.graph @main(%x: tensor<1x4x9x9xf32>, %w: tensor<6x2x3x3xf32>) {
  // expected-error @+2 {{'dfg.conv' expects positive window sizes, strides and dilations and no negative pad}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, -1, 0, 0>, dilations = array<i64: 1, 1>, groups = 2 : i64}
      : (tensor<1x4x9x9xf32>, tensor<6x2x3x3xf32>) -> tensor<1x6x7x7xf32>
  dfg.return
}

// -----

// A convolution needs a spatial dimension.
dfg.graph @main(%x: tensor<1x4xf32>, %w: tensor<6x4xf32>) {
  // expected-error @+2 {{'dfg.conv' expects input and filter of one element type and one rank of at least 3, got 'tensor<1x4xf32>' and 'tensor<6x4xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.conv %x, %w {strides = array<i64>, pads = array<i64>, dilations = array<i64>}
      : (tensor<1x4xf32>, tensor<6x4xf32>) -> tensor<1x6xf32>
  dfg.return
}

// -----

// Channels must fit the groups.
dfg.graph @main(%x: tensor<1x4x9x9xf32>, %w: tensor<6x2x3x3xf32>) {
  // expected-error @+2 {{'dfg.conv' expects input channels = groups x filter dimension 1 and filters divisible by groups}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 4 : i64}
      : (tensor<1x4x9x9xf32>, tensor<6x2x3x3xf32>) -> tensor<1x6x7x7xf32>
  dfg.return
}

// -----

// Groups are counted from one.
dfg.graph @main(%x: tensor<1x4x9x9xf32>, %w: tensor<6x2x3x3xf32>) {
  // expected-error @+2 {{'dfg.conv' expects input channels = groups x filter dimension 1 and filters divisible by groups}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 0 : i64}
      : (tensor<1x4x9x9xf32>, tensor<6x2x3x3xf32>) -> tensor<1x6x7x7xf32>
  dfg.return
}

// -----

// Mixed ranks have no transposed convolution.
dfg.graph @main(%x: tensor<1x8x4x4xf32>, %w: tensor<8x3x2xf32>) {
  // expected-error @+2 {{'dfg.conv_transpose' expects input and filter of one element type and one rank of at least 3}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.conv_transpose %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, output_padding = array<i64: 0, 0>}
      : (tensor<1x8x4x4xf32>, tensor<8x3x2xf32>) -> tensor<1x3x5x5xf32>
  dfg.return
}

// -----

// Filters belong to input channels.
dfg.graph @main(%x: tensor<1x8x4x4xf32>, %w: tensor<4x3x2x2xf32>) {
  // expected-error @+2 {{'dfg.conv_transpose' expects filter dimension 0 = input channels, divisible by groups}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.conv_transpose %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, output_padding = array<i64: 0, 0>}
      : (tensor<1x8x4x4xf32>, tensor<4x3x2x2xf32>) -> tensor<1x3x5x5xf32>
  dfg.return
}

// -----

// One output padding a spatial dimension.
dfg.graph @main(%x: tensor<1x8x4x4xf32>, %w: tensor<8x3x2x2xf32>) {
  // expected-error @+2 {{'dfg.conv_transpose' expects 2 output paddings, none negative}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.conv_transpose %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, output_padding = array<i64: 0>}
      : (tensor<1x8x4x4xf32>, tensor<8x3x2x2xf32>) -> tensor<1x3x5x5xf32>
  dfg.return
}

// -----

// Pads that take away more than there is.
dfg.graph @main(%x: tensor<1x8x4x4xf32>, %w: tensor<8x3x2x2xf32>) {
  // expected-error @+2 {{'dfg.conv_transpose' expects pads within the result, got a result size of -1 in dimension 2}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.conv_transpose %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 3, 0, 3, 0>, dilations = array<i64: 1, 1>, output_padding = array<i64: 0, 0>}
      : (tensor<1x8x4x4xf32>, tensor<8x3x2x2xf32>) -> tensor<1x3x0x5xf32>
  dfg.return
}

// -----

// Pooling needs a spatial dimension.
dfg.graph @main(%x: tensor<1x4xf32>) {
  // expected-error @+2 {{'dfg.pool' expects an input of rank 3 or more, got 'tensor<1x4xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.pool %x {kind = #dfg.pool_kind<max>, window = array<i64>, strides = array<i64>, pads = array<i64>,
      dilations = array<i64>} : (tensor<1x4xf32>) -> tensor<1x4xf32>
  dfg.return
}

// -----

// Pooling windows are checked as those of convolutions.
dfg.graph @main(%x: tensor<1x4x8xf32>) {
  // expected-error @+2 {{'dfg.pool' expects positive window sizes, strides and dilations and no negative pad}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.pool %x {kind = #dfg.pool_kind<max>, window = array<i64: 0>, strides = array<i64: 1>, pads = array<i64: 0, 0>,
      dilations = array<i64: 1>} : (tensor<1x4x8xf32>) -> tensor<1x4x8xf32>
  dfg.return
}

// -----

// Only narrow types have sums that are wider than they are.
dfg.graph @main(%a: tensor<2x3xf64>, %b: tensor<3x2xf64>) {
  // expected-error @+2 {{'dfg.dot_general' expects f16, bf16 or integers of 8 bits for a wide result, got 'tensor<2x3xf64>' and 'tensor<3x2xf64>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.dot_general %a, %b {wide, lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>} : (tensor<2x3xf64>, tensor<3x2xf64>) -> tensor<2x2xf32>
  dfg.return
}

// -----

// Integers of 8 bits of either kind are summed in 32 bits, and those of other widths in their own.
dfg.graph @main(%a: tensor<2x3xi16>, %b: tensor<3x2xi8>) {
  // expected-error @+2 {{'dfg.dot_general' expects f16, bf16 or integers of 8 bits for a wide result, got 'tensor<2x3xi16>' and 'tensor<3x2xi8>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.dot_general %a, %b {wide, lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>} : (tensor<2x3xi16>, tensor<3x2xi8>) -> tensor<2x2xi32>
  dfg.return
}

// -----

// Without being asked to, nothing mixes them.
dfg.graph @main(%x: tensor<1x2x8xui8>, %w: tensor<4x2x3xi8>) {
  // expected-error @+2 {{'dfg.conv' expects input and filter of one element type and one rank of at least 3, got 'tensor<1x2x8xui8>' and 'tensor<4x2x3xi8>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.conv %x, %w {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>}
      : (tensor<1x2x8xui8>, tensor<4x2x3xi8>) -> tensor<1x4x6xi32>
  dfg.return
}

// -----

// Each row has an index.
dfg.graph @main(%x: tensor<5x32xf32>, %w: tensor<8x32x64xf32>, %i: tensor<4xi64>) {
  // expected-error @+2 {{'dfg.gather_dot' expects rows, matrices of rank 3 and of the rows' element type, and an index for each row, got 'tensor<5x32xf32>', 'tensor<8x32x64xf32>' and 'tensor<4xi64>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.gather_dot %x, %w, %i : (tensor<5x32xf32>, tensor<8x32x64xf32>, tensor<4xi64>) -> tensor<5x64xf32>
  dfg.return
}

// -----

// Matrices take rows of their size.
dfg.graph @main(%x: tensor<5x32xf32>, %w: tensor<8x32x64xf32>, %i: tensor<5xi64>) {
  // expected-error @+2 {{'dfg.gather_dot' expects rows of 64 elements, as the matrices 'tensor<8x32x64xf32>' have, got 'tensor<5x32xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = dfg.gather_dot %x, %w, %i {transposed} : (tensor<5x32xf32>, tensor<8x32x64xf32>, tensor<5xi64>) -> tensor<5x32xf32>
  dfg.return
}

// -----

// Both sides have the rows of the indices.
dfg.graph @main(%x: tensor<5x32xf32>, %y: tensor<4x64xf32>, %i: tensor<5xi64>) {
  // expected-error @+1 {{'dfg.scatter_dot' op expects two operands of rows of one element type, and an index for each row, got 'tensor<5x32xf32>', 'tensor<4x64xf32>' and 'tensor<5xi64>'}}
  %0 = dfg.scatter_dot %x, %y, %i : (tensor<5x32xf32>, tensor<4x64xf32>, tensor<5xi64>) -> tensor<8x32x64xf32>
  dfg.return
}

// -----

// Outer products have the sizes of both rows.
dfg.graph @main(%x: tensor<5x32xf32>, %y: tensor<5x64xf32>, %i: tensor<5xi64>) {
  // expected-error @+1 {{'dfg.scatter_dot' op expects a matrix of 32 x 64 elements for each index, got 'tensor<8x64x32xf32>'}}
  %0 = dfg.scatter_dot %x, %y, %i : (tensor<5x32xf32>, tensor<5x64xf32>, tensor<5xi64>) -> tensor<8x64x32xf32>
  dfg.return
}
