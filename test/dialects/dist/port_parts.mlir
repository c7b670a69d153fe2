// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Parts of a graph's inputs and outputs.

// RUN: cleave-opt %s --split-input-file --verify-diagnostics | FileCheck %s

// CHECK: dist.input_part %{{.*}} {begin = 4 : i64, dim = 0 : i64} : tensor<6x3xf32> -> tensor<2x3xf32>
// CHECK: dist.output_parts %{{.*}}, %{{.*}} {dim = 0 : i64} : (tensor<4x3xf32>, tensor<2x3xf32>) -> tensor<6x3xf32>
dfg.graph @both(%x: tensor<6x3xf32>) -> tensor<6x3xf32> {
  %0 = dist.input_part %x {dim = 0 : i64, begin = 0 : i64} : tensor<6x3xf32> -> tensor<4x3xf32>
  %1 = dist.input_part %x {dim = 0 : i64, begin = 4 : i64} : tensor<6x3xf32> -> tensor<2x3xf32>
  %2 = dist.output_parts %0, %1 {dim = 0 : i64} : (tensor<4x3xf32>, tensor<2x3xf32>) -> tensor<6x3xf32>
  dfg.return %2 : tensor<6x3xf32>
}

// -----

dfg.graph @behind(%x: tensor<6x3xf32>) -> tensor<4x3xf32> {
  // expected-error @+1 {{expects a part of 'tensor<6x3xf32>' from 3 on in dimension 0, got 'tensor<4x3xf32>'}}
  %0 = dist.input_part %x {dim = 0 : i64, begin = 3 : i64} : tensor<6x3xf32> -> tensor<4x3xf32>
  dfg.return %0 : tensor<4x3xf32>
}

// -----

dfg.graph @other(%x: tensor<6x3xf32>) -> tensor<4x2xf32> {
  // expected-error @+1 {{expects a part of 'tensor<6x3xf32>', got 'tensor<4x2xf32>'}}
  %0 = dist.input_part %x {dim = 0 : i64, begin = 0 : i64} : tensor<6x3xf32> -> tensor<4x2xf32>
  dfg.return %0 : tensor<4x2xf32>
}

// -----

dfg.graph @value(%x: tensor<6x3xf32>) -> tensor<4x3xf32> {
  %0 = dfg.relu %x : (tensor<6x3xf32>) -> tensor<6x3xf32>
  // expected-error @+1 {{expects an input of the graph}}
  %1 = dist.input_part %0 {dim = 0 : i64, begin = 0 : i64} : tensor<6x3xf32> -> tensor<4x3xf32>
  dfg.return %1 : tensor<4x3xf32>
}

// -----

dfg.graph @gap(%x: tensor<2x3xf32>, %y: tensor<3x3xf32>) -> tensor<6x3xf32> {
  // expected-error @+1 {{expects parts that cover 'tensor<6x3xf32>', got them up to 5}}
  %0 = dist.output_parts %x, %y {dim = 0 : i64} : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<6x3xf32>
  dfg.return %0 : tensor<6x3xf32>
}

// -----

dfg.graph @read(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>) -> tensor<6x3xf32> {
  // expected-error @+1 {{expects to be an output of the graph, and nothing else to read it}}
  %0 = dist.output_parts %x, %y {dim = 0 : i64} : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<6x3xf32>
  %1 = dfg.relu %0 : (tensor<6x3xf32>) -> tensor<6x3xf32>
  dfg.return %1 : tensor<6x3xf32>
}

// -----

dist.mesh @d0 <[], devices = [0]>
// expected-error @+1 {{expects a dimension, and a part that begins within its size, got dimension 0 from 6 on of 6}}
dist.program @main(%x: tensor<2xf32> {dist.input = 0 : i64, dist.within = #dist.within<dim = 0, begin = 6, size = 6>}) attributes {mesh = @d0} {
  dist.return
}
