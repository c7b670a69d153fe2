// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// Types are the local ones: four rows on two devices are two.
dist.mesh @pair <["x" = 2], devices = [0, 1]>
dist.program @p(%x: tensor<4xf32>) attributes {mesh = @pair} {
  // expected-error @+1 {{expects a tensor of shape [2] for #dist.layout<[4 by ["x"]]>, got 'tensor<4xf32>'}}
  %0 = dist.all_gather %x from <[4 by ["x"]]> to <[4]> : tensor<4xf32> -> tensor<4xf32>
  dist.return
}

// -----

// Axes are those of the program's mesh.
dist.mesh @pair <["x" = 2], devices = [0, 1]>
dist.program @p(%x: tensor<4xf32>) attributes {mesh = @pair} {
  // expected-error @+1 {{expects axes of its mesh, each once, got "y"}}
  %0 = dist.slice %x from <[4]> to <[4 by ["y"]]> : tensor<4xf32> -> tensor<2xf32>
  dist.return
}

// -----

// Both layouts are of one tensor.
dist.mesh @pair <["x" = 2], devices = [0, 1]>
dist.program @p(%x: tensor<4xf32>) attributes {mesh = @pair} {
  // expected-error @+1 {{expects two layouts of one tensor}}
  %0 = dist.permute %x from <[8 by ["x"]]> to <[4]> : tensor<4xf32> -> tensor<4xf32>
  dist.return
}

// -----

// Blocks of a device beyond the last one are counted from the first.
dist.mesh @pair <["x" = 2], devices = [0, 1]>
dist.program @p(%x: tensor<4xf32>) attributes {mesh = @pair} {
  // expected-error @+1 {{expects shifts of less than the 2 devices of axis "x"}}
  %0 = dist.permute %x from <[8 by ["x"]]> to <[8 by ["x"] shift [2]]> : tensor<4xf32> -> tensor<4xf32>
  dist.return
}

// -----

// Each axis has a shift, or none has.
dist.mesh @pair <["x" = 2], devices = [0, 1]>
dist.program @p(%x: tensor<4xf32>) attributes {mesh = @pair} {
  // expected-error @+1 {{expects a shift that is not negative for each axis}}
  %0 = dist.permute %x from <[8 by ["x"]]> to <[8 by ["x"] shift [1, 1]]> : tensor<4xf32> -> tensor<4xf32>
  dist.return
}

// -----

// Only reductions join partial values.
dist.mesh @pair <["x" = 2], devices = [0, 1]>
dist.program @p(%x: tensor<4xf32>) attributes {mesh = @pair} {
  // expected-error @+1 {{expects to join partial values where it is a reduction, and only there}}
  %0 = dist.permute %x from <[4], partial sum ["x"]> to <[4]> : tensor<4xf32> -> tensor<4xf32>
  dist.return
}

// -----

// An all-reduce leaves the parts where they are.
dist.mesh @pair <["x" = 2], devices = [0, 1]>
dist.program @p(%x: tensor<4xf32>) attributes {mesh = @pair} {
  // expected-error @+1 {{expects to join partial values where it is a reduction, and only there}}
  %0 = dist.all_reduce %x from <[4], partial sum ["x"]> to <[4 by ["x"]]> : tensor<4xf32> -> tensor<2xf32>
  dist.return
}

// -----

// A parameter that nobody declared.
dist.mesh @pair <["x" = 2], devices = [0, 1]>
dist.program @p() attributes {mesh = @pair} {
  // expected-error @+1 {{expects a parameter named 'w', found none}}
  %0 = dist.shard_of @w <[4 by ["x"]]> : tensor<2xf32>
  dist.return
}

// -----

dist.mesh @pair <["x" = 2], devices = [0, 1]>
dist.program @p(%x: tensor<4xf32>) attributes {mesh = @pair} {
  // expected-error @+1 {{expects 'sum', 'product', 'max' or 'min', and a list of axes}}
  %0 = dist.all_reduce %x from <[4], partial mean ["x"]> to <[4]> : tensor<4xf32> -> tensor<4xf32>
  dist.return
}

// -----

dist.mesh @pair <["x" = 2], devices = [0, 1]>
dist.program @p(%x: tensor<4xf32>) attributes {mesh = @pair} {
  // expected-error @+2 {{expects sizes that are not negative, and positive steps and extents}}
  %0 = dist.halo_exchange %x from <[8 by ["x"]]>
      to <[8 by ["x"] reach (4 step 0 before 1 extent 3)]> fill 0.0 : tensor<4xf32> -> tensor<5xf32>
  dist.return
}

// -----

// Each of several tensors has a result and two layouts.
dist.mesh @pair <["x" = 2], devices = [0, 1]>
dist.program @p(%x: tensor<4xf32>) attributes {mesh = @pair} {
  // expected-error @+1 {{expects a result and two layouts for each of its tensors, got 2, 1 and 2 for 2}}
  %0:2 = dist.all_reduce %x, %x from <[4], partial sum ["x"]> to <[4]>, <[4]> : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>, tensor<4xf32>
  dist.return
}

// -----

// Tensors of one message have one element type.
dist.mesh @pair <["x" = 2], devices = [0, 1]>
dist.program @p(%x: tensor<4xf32>, %y: tensor<4xi32>) attributes {mesh = @pair} {
  // expected-error @+1 {{expects tensors of one element type, got}}
  %0:2 = dist.all_reduce %x, %y from <[4], partial sum ["x"]>, <[4], partial sum ["x"]> to <[4]>, <[4]> : tensor<4xf32>, tensor<4xi32> -> tensor<4xf32>, tensor<4xi32>
  dist.return
}

// -----

// Tensors of one message are joined by the same devices.
dist.mesh @grid <["x" = 2, "y" = 2], devices = [0, 1, 2, 3]>
dist.program @p(%x: tensor<4xf32>) attributes {mesh = @grid} {
  // expected-error @+1 {{expects tensors that are joined along the same axes}}
  %0:2 = dist.all_reduce %x, %x from <[4], partial sum ["x"]>, <[4], partial sum ["y"]> to <[4]>, <[4]> : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>, tensor<4xf32>
  dist.return
}
