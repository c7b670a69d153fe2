// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// Two ways for keys to come, with what both take.
dfg.graph @ways(%x: tensor<4x4xf32>) -> () {
  %0 = dfg.softmax %x {dim = 1 : i64, dist.keys = {way = "ring", devices = 2 : i64, ring_seconds = 1.0, gathered_seconds = 2.0, ring_bytes = 3.0, gathered_bytes = 4.0}} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  dfg.return
}

// -----

// There is no third way.
dfg.graph @third(%x: tensor<4x4xf32>) -> () {
  // expected-error @+1 {{expects 'dist.keys' to say a way, "ring" or "gather", two devices or more, and the seconds and bytes of both ways, got}}
  %0 = dfg.softmax %x {dim = 1 : i64, dist.keys = {way = "mail", devices = 2 : i64, ring_seconds = 1.0, gathered_seconds = 2.0, ring_bytes = 3.0, gathered_bytes = 4.0}} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  dfg.return
}

// -----

// A device alone has all keys.
dfg.graph @alone(%x: tensor<4x4xf32>) -> () {
  // expected-error @+1 {{expects 'dist.keys' to say a way}}
  %0 = dfg.softmax %x {dim = 1 : i64, dist.keys = {way = "ring", devices = 1 : i64, ring_seconds = 1.0, gathered_seconds = 2.0, ring_bytes = 3.0, gathered_bytes = 4.0}} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  dfg.return
}

// -----

// Both ways are costed.
dfg.graph @half(%x: tensor<4x4xf32>) -> () {
  // expected-error @+1 {{expects 'dist.keys' to say a way}}
  %0 = dfg.softmax %x {dim = 1 : i64, dist.keys = {way = "ring", devices = 2 : i64, ring_seconds = 1.0}} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  dfg.return
}
