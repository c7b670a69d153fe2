// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// A launch calls a kernel that exists.
dist.mesh @d0 <[], devices = [0]>
dist.program @p(%x: tensor<8xf32>) attributes {mesh = @d0} {
  // expected-error @+1 {{'plan.launch' op expects a kernel named 'relu.0', found none}}
  %0 = plan.launch @relu.0(%x) : (tensor<8xf32>) -> tensor<8xf32>
  dist.return
}

// -----

// A kernel is no other symbol.
dist.mesh @d0 <[], devices = [0]>
dist.program @p(%x: tensor<8xf32>) attributes {mesh = @d0} {
  // expected-error @+1 {{'plan.launch' op expects a kernel named 'd0', found none}}
  %0 = plan.launch @d0(%x) : (tensor<8xf32>) -> tensor<8xf32>
  dist.return
}

// -----

// Arguments are the kernel's.
plan.native_kernel @relu.0 {
^bb0(%x: tensor<8xf32>):
  %0 = dfg.relu %x : (tensor<8xf32>) -> tensor<8xf32>
  plan.yield %0 : tensor<8xf32>
}
dist.mesh @d0 <[], devices = [0]>
dist.program @p(%x: tensor<4xf32>) attributes {mesh = @d0} {
  // expected-error @+1 {{expects the kernel's types ('tensor<8xf32>') -> ('tensor<8xf32>'), got ('tensor<4xf32>') -> ('tensor<8xf32>')}}
  %0 = plan.launch @relu.0(%x) : (tensor<4xf32>) -> tensor<8xf32>
  dist.return
}

// -----

// Layouts are part of a library kernel's types.
plan.library_kernel @turn "onednn" "reorder" {}
    : (tensor<8x4xf32>) -> tensor<8x4xf32, #plan.layout<"ba", padded = [8, 4], strides = [1, 8]>>
dist.mesh @d0 <[], devices = [0]>
dist.program @p(%x: tensor<8x4xf32>) attributes {mesh = @d0} {
  // expected-error @+1 {{expects the kernel's types ('tensor<8x4xf32>') -> ('tensor<8x4xf32, #plan.layout<"ba", padded = [8, 4], strides = [1, 8]>>'), got ('tensor<8x4xf32>') -> ('tensor<8x4xf32>')}}
  %0 = plan.launch @turn(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  dist.return
}

// -----

// A view shows as many bytes: 32 of float32, 64 of float64.
dist.mesh @d0 <[], devices = [0]>
dist.program @p(%x: tensor<8xf32>) attributes {mesh = @d0} {
  // expected-error @+1 {{expects types of as many bytes, got 32 and 64}}
  %0 = plan.view %x : tensor<8xf32> -> tensor<8xf64>
  dist.return
}

// -----

// Padding counts: three channels padded to 16, times 2 x 2 positions of 4 bytes, are 256 bytes, not 48.
dist.mesh @d0 <[], devices = [0]>
dist.program @p(%x: tensor<1x3x2x2xf32>) attributes {mesh = @d0} {
  // expected-error @+1 {{expects types of as many bytes, got 48 and 256}}
  %0 = plan.view %x : tensor<1x3x2x2xf32>
    -> tensor<1x3x2x2xf32, #plan.layout<"aBcd16b", padded = [1, 16, 2, 2], strides = [64, 64, 32, 16], blocks = [16], dims = [1]>>
  dist.return
}

// -----

// A kernel ends with its results.
// expected-error @+1 {{'plan.native_kernel' op expects a non-empty block}}
plan.native_kernel @k {
^bb0(%x: tensor<8xf32>):
}

// -----

// Loops share something, if it is nothing.
// expected-error @+1 {{'plan.native_kernel' op expects either 'common' or 'mappings' to say what its loops share}}
plan.native_kernel @k {
^bb0(%x: tensor<8xf32>):
  plan.yield %x : tensor<8xf32>
} loops {
^bb0(%x: tensor<8xf32>):
  plan.yield %x : tensor<8xf32>
}

// -----

// Without loops nothing is shared.
// expected-error @+1 {{'plan.native_kernel' op expects no 'common' and no 'mappings' without loops}}
plan.native_kernel @k attributes {common = #plan.common_loops<>} {
^bb0(%x: tensor<8xf32>):
  plan.yield %x : tensor<8xf32>
}

// -----

// Nor are launches mapped.
// expected-error @+1 {{'plan.native_kernel' op expects no 'common' and no 'mappings' without loops}}
plan.native_kernel @k attributes {mappings = []} {
^bb0(%x: tensor<8xf32>):
  plan.yield %x : tensor<8xf32>
}

// -----

// Loops are for processors or for GPUs.
// expected-error @+1 {{'plan.native_kernel' op expects either 'common' or 'mappings' to say what its loops share}}
plan.native_kernel @k attributes {common = #plan.common_loops<>, mappings = []} {
^bb0(%x: tensor<8xf32>):
  plan.yield %x : tensor<8xf32>
} loops {
^bb0(%x: tensor<8xf32>):
  plan.yield %x : tensor<8xf32>
}

// -----

// Loops compute what the body does.
// expected-error @+1 {{'plan.native_kernel' op expects its loops to take and give tensors of the same shapes as its body}}
plan.native_kernel @k attributes {common = #plan.common_loops<>} {
^bb0(%x: tensor<8xf32>):
  plan.yield %x : tensor<8xf32>
} loops {
^bb0(%x: tensor<4xf32>):
  plan.yield %x : tensor<4xf32>
}

// -----

// The name belongs to one kind of attribute.
// expected-error @+1 {{'plan.native_kernel' op expects 'plan.nest' to be a #plan.nest, got 1}}
plan.native_kernel @k attributes {plan.nest = 1 : i64} {
^bb0(%x: tensor<8xf32>):
  plan.yield %x : tensor<8xf32>
}

// -----

// A flag is one of two words.
// expected-error @+1 {{expects true or false, got 'maybe'}}
plan.native_kernel @k attributes {mappings = [#plan.gpu_mapping<blocks = 1, unrolled = maybe>]} {
^bb0(%x: tensor<8xf32>):
  plan.yield %x : tensor<8xf32>
}
