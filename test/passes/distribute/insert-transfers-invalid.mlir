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

// A factor that the operator does not have: the message lists those that it has.
dfg.graph @main(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  // expected-error @+1 {{expects its split to name its factors (d0 of 4, d1 of 6), got 'batch'}}
  %0 = dfg.relu %x {dist.place = #dist.place<@pair, by = "test", split = <{batch = ["model"]}>>} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  dfg.return %0 : tensor<4x6xf32>
}

// -----

dist.mesh @pair <["model" = 2], devices = [0, 1]>

// An axis of another mesh.
dfg.graph @main(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  // expected-error @+1 {{expects axes of its mesh, got "data"}}
  %0 = dfg.relu %x {dist.place = #dist.place<@pair, by = "test", split = <{d0 = ["data"]}>>} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  dfg.return %0 : tensor<4x6xf32>
}

// -----

dist.mesh @pair <["model" = 2], devices = [0, 1]>

// An axis cannot cut two factors.
dfg.graph @main(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  // expected-error @+1 {{expects an axis to cut one factor, got "model" twice}}
  %0 = dfg.relu %x {dist.place = #dist.place<@pair, by = "test", split = <{d0 = ["model"], d1 = ["model"]}>>} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  dfg.return %0 : tensor<4x6xf32>
}

// -----

dist.mesh @pair <["model" = 2], devices = [0, 1]>

// Reversing needs the whole dimension.
dfg.graph @main(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  // expected-error @+1 {{cannot be cut along 'd1', because every device needs all of it; cut another factor, or none}}
  %0 = dfg.reverse %x {dims = array<i64: 1>, dist.place = #dist.place<@pair, by = "test", split = <{d1 = ["model"]}>>} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  dfg.return %0 : tensor<4x6xf32>
}

// -----

dist.mesh @pair <["model" = 2], devices = [0, 1]>

// --distribute takes a softmax apart before.
dfg.graph @main(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  // expected-error @+1 {{cannot be cut along 'd1', only once the operator is taken apart}}
  %0 = dfg.softmax %x {dim = 1 : i64, dist.place = #dist.place<@pair, by = "test", split = <{d1 = ["model"]}>>} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  dfg.return %0 : tensor<4x6xf32>
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
// expected-error @+1 {{expects a 'dist.mesh' in the module, found none}}
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
