// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// A program runs on a mesh that exists.
// expected-error @+1 {{'dist.program' op expects a 'dist.mesh' named 'd0', found none}}
dist.program @p() attributes {mesh = @d0} {
  dist.return
}

// -----

// Results are as declared.
dist.mesh @d0 <[], devices = [0]>
dist.program @p(%x: tensor<4xf32>) -> tensor<2xf32> attributes {mesh = @d0} {
  // expected-error @+1 {{expects the program's result types ('tensor<2xf32>'), got ('tensor<4xf32>')}}
  dist.return %x : tensor<4xf32>
}

// -----

// Inputs have an index.
dist.mesh @d0 <[], devices = [0]>
// expected-error @+1 {{expects the integer attribute 'dist.input', 'dist.layout' with a #dist.layout or 'dist.within' with a #dist.within, got 'dist.input'}}
dist.program @p(%x: tensor<4xf32> {dist.input = "x"}) attributes {mesh = @d0} {
  dist.return
}

// -----

// Outputs have an index.
dist.mesh @d0 <[], devices = [0]>
// expected-error @+1 {{expects the integer attribute 'dist.output', 'dist.layout' with a #dist.layout or 'dist.within' with a #dist.within, got 'dist.input'}}
dist.program @p(%x: tensor<4xf32>) -> (tensor<4xf32> {dist.input = 0 : i64}) attributes {mesh = @d0} {
  dist.return %x : tensor<4xf32>
}

// -----

// A send goes to a mesh that exists.
dist.mesh @d0 <[], devices = [0]>
dist.program @p(%x: tensor<4xf32>) attributes {mesh = @d0} {
  // expected-error @+1 {{'dist.send' op expects a 'dist.mesh' named 'd1', found none}}
  dist.send %x to @d1 channel 0 : tensor<4xf32>
  dist.return
}

// -----

// A receive comes from a mesh that exists.
dist.mesh @d0 <[], devices = [0]>
dist.program @p() attributes {mesh = @d0} {
  // expected-error @+1 {{'dist.receive' op expects a 'dist.mesh' named 'd1', found none}}
  %0 = dist.receive from @d1 channel 0 : tensor<4xf32>
  dist.return
}

// -----

// Nobody sends to itself: there would be nobody to receive.
dist.mesh @d0 <[], devices = [0]>
dist.program @p(%x: tensor<4xf32>) attributes {mesh = @d0} {
  // expected-error @+1 {{expects another mesh than the program's own, got @d0}}
  dist.send %x to @d0 channel 0 : tensor<4xf32>
  dist.return
}

// -----

// The order of channels is the one global order that keeps programs from blocking each other.
dist.mesh @d0 <[], devices = [0]>
dist.mesh @d1 <[], devices = [1]>
dist.program @p(%x: tensor<4xf32>) attributes {mesh = @d0} {
  dist.send %x to @d1 channel 4 : tensor<4xf32>
  // expected-error @+1 {{expects the transfers of a program in the order of their channels, got channel 3 after 4}}
  %0 = dist.receive from @d1 channel 3 : tensor<4xf32>
  dist.return
}

// -----

// A channel is used once.
dist.mesh @d0 <[], devices = [0]>
dist.mesh @d1 <[], devices = [1]>
dist.program @p(%x: tensor<4xf32>) attributes {mesh = @d0} {
  dist.send %x to @d1 channel 4 : tensor<4xf32>
  // expected-error @+1 {{expects the transfers of a program in the order of their channels, got channel 4 after 4}}
  dist.send %x to @d1 channel 4 : tensor<4xf32>
  dist.return
}

// -----

// A program ends with its own return.
dist.mesh @d0 <[], devices = [0]>
dist.program @p() attributes {mesh = @d0} {
  // expected-error @+1 {{'dfg.return' op expects parent op 'dfg.graph'}}
  dfg.return
}
