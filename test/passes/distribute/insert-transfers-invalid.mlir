// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --split-input-file --verify-diagnostics --dist-insert-transfers

dist.mesh @d0 <[], devices = [0]>

// A graph that nobody placed: the error says what to run.
dfg.graph @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'dfg.relu' op expects a 'dist.place', found none; run --dist-place-operators before}}
  %0 = dfg.relu %x : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// -----

dist.mesh @d0 <[], devices = [0]>

// A place that names no mesh.
dfg.graph @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{expects a 'dist.mesh' named 'd7', found none}}
  %0 = dfg.relu %x {dist.place = #dist.place<@d7, by = "test">} : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// -----

dist.mesh @pair <["model" = 2], devices = [0, 1]>

// A mesh of several devices without a split would compute everything twice.
dfg.graph @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{expects a mesh of one device, got 'pair' of 2}}
  %0 = dfg.relu %x {dist.place = #dist.place<@pair, by = "test">} : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// -----

dist.mesh @pair <["model" = 2], devices = [0, 1]>

// A split operator must not be taken for a whole one.
dfg.graph @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{expects to be whole on one device, got #dist.split<{d0 = ["model"]}>}}
  %0 = dfg.relu %x {dist.place = #dist.place<@pair, by = "test", split = <{d0 = ["model"]}>>}
       : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// -----

dist.mesh @d0 <[], devices = [0]>

// A constant goes to whoever uses it, so a place on it would be ignored.
dfg.graph @main() -> tensor<4xf32> {
  // expected-error @+1 {{expects no 'dist.place': it is copied to whoever uses it}}
  %0 = dfg.constant dense<1.0> : tensor<4xf32> {dist.place = #dist.place<@d0, by = "test">}
  dfg.return %0 : tensor<4xf32>
}

// -----

// No device that could give the output.
// expected-error @+1 {{expects a 'dist.mesh' of one device in the module, found none}}
dfg.graph @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  dfg.return %x : tensor<4xf32>
}

// -----

dist.mesh @d0 <[], devices = [0]>

// The pass ran already: its programs are not written twice.
dfg.graph @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dfg.relu %x {dist.place = #dist.place<@d0, by = "test">} : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}
// expected-error @+1 {{expects the name "main.d0" to be free for the program of graph "main" on mesh "d0"}}
dist.program @main.d0() attributes {mesh = @d0} {
  dist.return
}
