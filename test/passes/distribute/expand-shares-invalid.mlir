// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// RUN: cleave-opt %s --dist-expand-shares --split-input-file --verify-diagnostics

dist.mesh @grid <["data" = [2, 1], "model" = 2], devices = [0, 1, 2, 3]>
dfg.graph @inside(%x: tensor<12xf32>) -> tensor<12xf32> {
  // expected-error@+1 {{expects axis "data", which has shares, to cut 'd0' before other axes do; name it first}}
  %0 = dfg.relu %x {dist.place = #dist.place<@grid, by = "test", split = <{d0 = ["model", "data"]}>>}
      : (tensor<12xf32>) -> tensor<12xf32>
  dfg.return %0 : tensor<12xf32>
}

// -----

dist.mesh @both <["space" = [2, 1]], devices = [0, 1]>
dfg.graph @window(%x: tensor<1x4x9x9xf32>) -> tensor<1x4x9x9xf32> {
  // expected-error@+1 {{cannot be cut along 'height' in unequal shares, because parts overlap; cut another factor, or give axis "space" no shares}}
  %0 = dfg.pool %x {kind = #dfg.pool_kind<max>, window = array<i64: 3, 3>, strides = array<i64: 1, 1>,
      pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>,
      dist.place = #dist.place<@both, by = "test", split = <{height = ["space"]}>>}
      : (tensor<1x4x9x9xf32>) -> tensor<1x4x9x9xf32>
  dfg.return %0 : tensor<1x4x9x9xf32>
}

// -----

dist.mesh @both <["data" = [2, 1]], devices = [0, 1]>
// expected-error@+1 {{expects the name "d1" to be free for a part of mesh "both"}}
dist.mesh @d1 <[], devices = [2]>

// -----

// expected-error@+1 {{expects at most one axis with shares, got 2}}
dist.mesh @two <["a" = [2, 1], "b" = [1, 2]], devices = [0, 1, 2, 3]>

// -----

// expected-error@+1 {{expects positive shares of at most 1073741824 together, got 0}}
dist.mesh @none <["a" = [2, 0]], devices = [0, 1]>
