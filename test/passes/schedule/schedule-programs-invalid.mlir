// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --plan-schedule --split-input-file --verify-diagnostics

// An operator without a kernel cannot be scheduled.
dist.mesh @d0 <[], devices = [0]>
dist.program @main(%x: tensor<8xf32>) -> tensor<8xf32> attributes {mesh = @d0} {
  // expected-error @+1 {{'dfg.relu' op is left in a program, expected only kernel launches, parameters, constants, views, transfers and collectives; give it a kernel before scheduling}}
  %0 = dfg.relu %x : (tensor<8xf32>) -> tensor<8xf32>
  dist.return %0 : tensor<8xf32>
}

// -----

// A send that nobody receives would never end.
dist.mesh @d0 <[], devices = [0]>
dist.mesh @d1 <[], devices = [1]>
dist.program @main(%x: tensor<8xf32>) attributes {mesh = @d0} {
  // expected-error @+1 {{'dist.send' op expects its channel 3 to have a send and a receive, found one of them}}
  dist.send %x to @d1 channel 3 : tensor<8xf32>
  dist.return
}

// -----

// A channel is for one value.
dist.mesh @d0 <[], devices = [0]>
dist.mesh @d1 <[], devices = [1]>
dist.program @first(%x: tensor<8xf32>) attributes {mesh = @d0} {
  dist.send %x to @d1 channel 3 : tensor<8xf32>
  dist.return
}
dist.program @second(%x: tensor<8xf32>) attributes {mesh = @d1} {
  // expected-error @+1 {{'dist.send' op expects to be the only one of channel 3, found another}}
  dist.send %x to @d0 channel 3 : tensor<8xf32>
  dist.return
}

// -----

// The same on the other side.
dist.mesh @d0 <[], devices = [0]>
dist.mesh @d1 <[], devices = [1]>
dist.program @first() attributes {mesh = @d1} {
  %0 = dist.receive from @d0 channel 3 : tensor<8xf32>
  dist.return
}
dist.program @second() attributes {mesh = @d0} {
  // expected-error @+1 {{'dist.receive' op expects to be the only one of channel 3, found another}}
  %0 = dist.receive from @d1 channel 3 : tensor<8xf32>
  dist.return
}

// -----

// Both ends must mean the same bytes and each other.
dist.mesh @d0 <[], devices = [0]>
dist.mesh @d1 <[], devices = [1]>
dist.program @first(%x: tensor<8xf32>) attributes {mesh = @d0} {
  // expected-error @+1 {{expects channel 0 to lead from 'd0' to 'd1' with one type, got 'tensor<8xf32>' from 'd0' and 'tensor<4xf32>' in 'd1'}}
  dist.send %x to @d1 channel 0 : tensor<8xf32>
  dist.return
}
dist.program @second() attributes {mesh = @d1} {
  %0 = dist.receive from @d0 channel 0 : tensor<4xf32>
  dist.return
}

// -----

// Both ends must know of the same parts.
dist.mesh @d0 <[], devices = [0]>
dist.mesh @pair <["x" = 2], devices = [1, 2]>
dist.program @first(%x: tensor<8xf32>) attributes {mesh = @d0} {
  // expected-error @+1 {{'dist.send' op expects the layouts of its receive on channel 0}}
  dist.send %x to @pair channel 0 from <[8]> to <[8 by ["x"]]> : tensor<8xf32>
  dist.return
}
dist.program @second() attributes {mesh = @pair} {
  %0 = dist.receive from @d0 channel 0 from <[8]> to <[8]> : tensor<8xf32>
  dist.return
}

// -----

// Nobody knows which of several partial values to send.
dist.mesh @d0 <[], devices = [0]>
dist.mesh @pair <["x" = 2], devices = [1, 2]>
dist.program @first(%x: tensor<8xf32>) attributes {mesh = @pair} {
  // expected-error @+1 {{'dist.send' op expects values that are not partial, got #dist.layout<[8], partial sum ["x"]>; join them before}}
  dist.send %x to @d0 channel 0 from <[8], partial sum ["x"]> to <[8]> : tensor<8xf32>
  dist.return
}
dist.program @second() attributes {mesh = @d0} {
  %0 = dist.receive from @pair channel 0 from <[8], partial sum ["x"]> to <[8]> : tensor<8xf32>
  dist.return
}

// -----

// A scatter keeps blocks of what the device has: here it would move others'.
dist.mesh @grid <["x" = 2, "y" = 2], devices = [0, 1, 2, 3]>
dist.program @main(%x: tensor<4x8xf32>) -> tensor<8x2xf32> attributes {mesh = @grid} {
  // expected-error @+1 {{'dist.reduce_scatter' op expects its result to cut the blocks of its operand along the axes that it joins, got #dist.layout<[8 by ["x"], 8], partial sum ["y"]> and #dist.layout<[8, 8 by ["x", "y"]]>}}
  %0 = dist.reduce_scatter %x from <[8 by ["x"], 8], partial sum ["y"]> to <[8, 8 by ["x", "y"]]> : tensor<4x8xf32> -> tensor<8x2xf32>
  dist.return %0 : tensor<8x2xf32>
}

// -----

// Nor does it cut along an axis that it does not join.
dist.mesh @grid <["x" = 2, "y" = 2], devices = [0, 1, 2, 3]>
dist.program @main(%x: tensor<8xf32>) -> tensor<2xf32> attributes {mesh = @grid} {
  // expected-error @+1 {{'dist.reduce_scatter' op expects its result to cut the blocks of its operand along the axes that it joins, got #dist.layout<[8], partial sum ["x"]> and #dist.layout<[8 by ["x", "y"]]>}}
  %0 = dist.reduce_scatter %x from <[8], partial sum ["x"]> to <[8 by ["x", "y"]]> : tensor<8xf32> -> tensor<2xf32>
  dist.return %0 : tensor<2xf32>
}

// -----

// Bytes in a padded layout are not the same tensor under another shape.
dist.mesh @d0 <[], devices = [0]>
#padded = #plan.layout<"aB16b", padded = [1, 16], strides = [16, 16], blocks = [16], dims = [1]>
dist.program @main(%x: tensor<1x12xf32, #padded>) attributes {mesh = @d0} {
  // expected-error @+1 {{'dfg.reshape' op expects types of as many bytes, got}}
  %0 = dfg.reshape %x : (tensor<1x12xf32, #padded>) -> tensor<12xf32>
  dist.return
}
