// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --train-build-step="microbatches=2 schedule=2bw" --split-input-file --verify-diagnostics

// Nothing to overlap.
dist.mesh @d0 <[], devices = [0]>
dfg.parameter @w : tensor<2x4xf32> = #dfg.fill<value = 1.0>
// expected-error@+1 {{schedule 2bw expects stages that form one chain over two devices or more, each with a stage of its own; give --degrees pipeline=N or --place}}
dfg.graph @stage(%x: tensor<2x4xf32>) -> tensor<f32> {
  %w = dfg.read @w : tensor<2x4xf32>
  %0 = dfg.mul %x, %w {dist.place = #dist.place<@d0, by = "test">} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %loss = dfg.reduce %0 {dims = array<i64: 0, 1>, kind = #dfg.reduce_kind<sum>, dist.place = #dist.place<@d0, by = "test">}
      : (tensor<2x4xf32>) -> tensor<f32>
  dfg.return %loss : tensor<f32>
}

// -----

// An output of a microbatch that the step before began would have to be kept, too.
dist.mesh @d0 <[], devices = [0]>
dist.mesh @d1 <[], devices = [1]>
dfg.parameter @w : tensor<2x4xf32> = #dfg.fill<value = 1.0>
// expected-error@+1 {{schedule 2bw expects the last stage to compute the loss and all other outputs}}
dfg.graph @stages(%x: tensor<2x4xf32>) -> (tensor<f32>, tensor<2x4xf32>) {
  %w = dfg.read @w : tensor<2x4xf32>
  %0 = dfg.mul %x, %w {dist.place = #dist.place<@d0, by = "test">} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %loss = dfg.reduce %0 {dims = array<i64: 0, 1>, kind = #dfg.reduce_kind<sum>, dist.place = #dist.place<@d1, by = "test">}
      : (tensor<2x4xf32>) -> tensor<f32>
  dfg.return %loss, %0 : tensor<f32>, tensor<2x4xf32>
}
