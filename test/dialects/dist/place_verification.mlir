// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// A place is a #dist.place.
dfg.graph @main(%x: tensor<4xf32>) {
  // expected-error @+1 {{expects the attribute 'dist.place' to be 'dist.place' with a #dist.place, or 'dist.group' with a string, got "d0"}}
  %0 = dfg.relu %x {dist.place = "d0"} : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return
}

// -----

// A group is a name.
dfg.graph @main(%x: tensor<4xf32>) {
  // expected-error @+1 {{expects the attribute 'dist.group' to be 'dist.place' with a #dist.place, or 'dist.group' with a string, got 3 : i64}}
  %0 = dfg.relu %x {dist.group = 3} : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return
}

// -----

// A misspelt attribute would be ignored.
dfg.graph @main(%x: tensor<4xf32>) {
  // expected-error @+1 {{expects the attribute 'dist.palce' to be 'dist.place' with a #dist.place}}
  %0 = dfg.relu %x {dist.palce = #dist.place<@d0, by = "x">} : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return
}

// -----

// Factors are divided by lists of axes.
dfg.graph @main(%x: tensor<4xf32>) {
  // expected-error @+2 {{expects a list of axis names for factor 'd0', got "model"}}
  // expected-error @+1 {{failed to parse Dist_PlaceAttr parameter 'split'}}
  %0 = dfg.relu %x {dist.place = #dist.place<@d0, by = "x", split = <{d0 = "model"}>>} : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return
}
