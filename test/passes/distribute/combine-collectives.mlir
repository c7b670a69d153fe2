// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// RUN: cleave-opt %s --dist-combine-collectives --split-input-file | FileCheck %s

// Gradients share a message that stands behind the last of them, whoever needs which first; a write waits for it.
dist.mesh @pair <["data" = 2], devices = [0, 1]>
dfg.parameter @w1 : tensor<8x256xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 7>
dist.program @gradients(%x: tensor<8x256xf32>, %y: tensor<4xf32>) -> (tensor<8x256xf32>, tensor<4xf32>) attributes {mesh = @pair} {
  %g1 = dfg.softmax %x {dim = 1 : i64} : (tensor<8x256xf32>) -> tensor<8x256xf32>
  %g2 = dfg.softmax %y {dim = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %h = dfg.neg %x : (tensor<8x256xf32>) -> tensor<8x256xf32>
  %0 = dist.all_reduce %g1 from <[8, 256], partial sum ["data"]> to <[8, 256]> : tensor<8x256xf32> -> tensor<8x256xf32>
  dist.write @w1 <[8, 256]>, %0 : tensor<8x256xf32>
  %1 = dfg.add %0, %h : (tensor<8x256xf32>, tensor<8x256xf32>) -> tensor<8x256xf32>
  %2 = dist.all_reduce %g2 from <[4], partial sum ["data"]> to <[4]> : tensor<4xf32> -> tensor<4xf32>
  %3 = dfg.relu %2 : (tensor<4xf32>) -> tensor<4xf32>
  dist.return %1, %3 : tensor<8x256xf32>, tensor<4xf32>
}
// CHECK-LABEL: dist.program @gradients(
// CHECK: %[[A:.*]] = dfg.softmax
// CHECK-NEXT: %[[B:.*]] = dfg.softmax
// CHECK-NEXT: %[[R:.*]]:2 = dist.all_reduce %[[A]], %[[B]] from <[8, 256], partial sum ["data"]>, <[4], partial sum ["data"]> to <[8, 256]>, <[4]>
// CHECK-NEXT: dfg.neg
// CHECK-NEXT: dist.write @w1 <[8, 256]>, %[[R]]#0
// CHECK-NEXT: dfg.add %[[R]]#0
// CHECK-NEXT: dfg.relu %[[R]]#1

// -----

// What becomes ready only after something that needs the first one's result begins a bucket of its own.
dist.mesh @pair <["data" = 2], devices = [0, 1]>
dist.program @chain(%x: tensor<4xf32>) -> (tensor<4xf32>) attributes {mesh = @pair} {
  %0 = dist.all_reduce %x from <[4], partial sum ["data"]> to <[4]> : tensor<4xf32> -> tensor<4xf32>
  %1 = dfg.exp %0 : (tensor<4xf32>) -> tensor<4xf32>
  %2 = dist.all_reduce %1 from <[4], partial sum ["data"]> to <[4]> : tensor<4xf32> -> tensor<4xf32>
  dist.return %2 : tensor<4xf32>
}
// CHECK-LABEL: dist.program @chain(
// CHECK: dist.all_reduce %{{.*}} : tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT: dfg.exp
// CHECK-NEXT: dist.all_reduce %{{.*}} : tensor<4xf32> -> tensor<4xf32>

// -----

// Other devices, another element type or another combiner: another message.
dist.mesh @grid <["data" = 2, "model" = 2], devices = [0, 1, 2, 3]>
dist.program @kinds(%x: tensor<4xf32>, %y: tensor<4xi32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi32>, tensor<2xf32>, tensor<2xf32>)
    attributes {mesh = @grid} {
  %0 = dist.all_reduce %x from <[4], partial sum ["data"]> to <[4]> : tensor<4xf32> -> tensor<4xf32>
  %1 = dist.all_reduce %x from <[4], partial sum ["model"]> to <[4]> : tensor<4xf32> -> tensor<4xf32>
  %2 = dist.all_reduce %x from <[4], partial max ["data"]> to <[4]> : tensor<4xf32> -> tensor<4xf32>
  %3 = dist.all_reduce %y from <[4], partial sum ["data"]> to <[4]> : tensor<4xi32> -> tensor<4xi32>
  %4 = dist.reduce_scatter %x from <[4], partial sum ["data"]> to <[4 by ["data"]]> : tensor<4xf32> -> tensor<2xf32>
  %5 = dist.reduce_scatter %x from <[4], partial sum ["data"]> to <[4 by ["data"]]> : tensor<4xf32> -> tensor<2xf32>
  dist.return %0, %1, %2, %3, %4, %5 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi32>, tensor<2xf32>, tensor<2xf32>
}
// CHECK-LABEL: dist.program @kinds(
// CHECK-COUNT-4: = dist.all_reduce %{{[a-z0-9]+}} from
// CHECK: :2 = dist.reduce_scatter %[[X:.*]], %[[X]] from
// CHECK-NOT: dist.reduce_scatter

// -----

// Parts of parameters can be gathered at any time: they are, together, before the first of them is needed.
dist.mesh @pair <["data" = 2], devices = [0, 1]>
dfg.parameter @w1 : tensor<8xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 7>
dfg.parameter @w2 : tensor<4xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 7>
dist.program @gather(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<4xf32>) attributes {mesh = @pair} {
  %h = dfg.neg %x : (tensor<8xf32>) -> tensor<8xf32>
  %0 = dist.shard_of @w1 <[8 by ["data"]]> : tensor<4xf32>
  %1 = dist.all_gather %0 from <[8 by ["data"]]> to <[8]> : tensor<4xf32> -> tensor<8xf32>
  %2 = dfg.add %h, %1 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %3 = dist.shard_of @w2 <[4 by ["data"]]> : tensor<2xf32>
  %4 = dist.all_gather %3 from <[4 by ["data"]]> to <[4]> : tensor<2xf32> -> tensor<4xf32>
  %5 = dfg.exp %4 : (tensor<4xf32>) -> tensor<4xf32>
  dist.return %2, %5 : tensor<8xf32>, tensor<4xf32>
}
// CHECK-LABEL: dist.program @gather(
// CHECK: dfg.neg
// CHECK-NEXT: %[[W1:.*]] = dist.shard_of @w1
// CHECK-NEXT: %[[W2:.*]] = dist.shard_of @w2
// CHECK-NEXT: %[[G:.*]]:2 = dist.all_gather %[[W1]], %[[W2]]
// CHECK-NEXT: dfg.add %{{.*}}, %[[G]]#0
// CHECK-NEXT: dfg.exp %[[G]]#1

// -----

// The gradient of the next microbatch is added to that of the first one: it does not wait for it.
dist.mesh @pair <["data" = 2], devices = [0, 1]>
dist.program @sums(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<2xf32>) attributes {dist.ordered, mesh = @pair} {
  %0 = dist.reduce_scatter %x from <[4], partial sum ["data"]> to <[4 by ["data"]]> : tensor<4xf32> -> tensor<2xf32>
  %1 = dist.reduce_scatter %y from <[4], partial sum ["data"]> to <[4 by ["data"]]> : tensor<4xf32> -> tensor<2xf32>
  %2 = dfg.add %0, %1 {dist.accumulates} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  dist.return %2 : tensor<2xf32>
}
// CHECK-LABEL: dist.program @sums(
// CHECK-COUNT-2: = dist.reduce_scatter %{{[a-z0-9]+}} from

// -----

// What is the same in every step is gathered once, and does not share a message with what is not.
dist.mesh @pair <["data" = 2], devices = [0, 1]>
dfg.parameter @w1 : tensor<4xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 7>
dfg.parameter @w2 : tensor<4xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 7>
dist.program @frozen() -> (tensor<4xf32>, tensor<4xf32>) attributes {mesh = @pair} {
  %0 = dist.shard_of @w1 <[4 by ["data"]]> : tensor<2xf32>
  %1 = dist.shard_of @w2 <[4 by ["data"]]> {dist.changes} : tensor<2xf32>
  %2 = dist.all_gather %0 from <[4 by ["data"]]> to <[4]> : tensor<2xf32> -> tensor<4xf32>
  %3 = dist.all_gather %1 from <[4 by ["data"]]> to <[4]> : tensor<2xf32> -> tensor<4xf32>
  dist.return %2, %3 : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: dist.program @frozen(
// CHECK-COUNT-2: = dist.all_gather %{{[a-z0-9]+}} from

// -----

// An optimizer scales gradients when all are there; the collective begins as soon as its gradient is.
dist.mesh @pair <["data" = 2], devices = [0, 1]>
dist.program @scaled(%x: tensor<4xf32>, %w: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {mesh = @pair} {
  %g = dfg.softmax %x {dim = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %rest = dfg.softmax %w {dim = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %rate = dfg.constant dense<0.5> : tensor<f32>
  %half = dfg.neg %rate : (tensor<f32>) -> tensor<f32>
  %s = dfg.mul %g, %half : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %0 = dist.all_reduce %s from <[4], partial sum ["data"]> to <[4]> : tensor<4xf32> -> tensor<4xf32>
  dist.return %0, %rest : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: dist.program @scaled(
// CHECK-NEXT: %[[G:.*]] = dfg.softmax
// CHECK-NEXT: dfg.constant
// CHECK-NEXT: dfg.neg
// CHECK-NEXT: dfg.mul %[[G]]
// CHECK-NEXT: dist.all_reduce
// CHECK-NEXT: dfg.softmax

// -----

// What only leads to the next value of a parameter can follow later: it does not keep the next one out.
dist.mesh @pair <["data" = 2], devices = [0, 1]>
dfg.parameter @mean : tensor<4xf32> = #dfg.fill<value = 0.0>
dist.program @late(%x: tensor<4xf32>) -> (tensor<4xf32>) attributes {mesh = @pair} {
  %0 = dist.all_reduce %x from <[4], partial sum ["data"]> to <[4]> : tensor<4xf32> -> tensor<4xf32>
  %1 = dfg.neg %0 : (tensor<4xf32>) -> tensor<4xf32>
  dist.write @mean <[4]>, %1 : tensor<4xf32>
  %g = dfg.softmax %x {dim = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = dist.all_reduce %g from <[4], partial sum ["data"]> to <[4]> : tensor<4xf32> -> tensor<4xf32>
  dist.return %2 : tensor<4xf32>
}
// CHECK-LABEL: dist.program @late(
// CHECK-NEXT: %[[G:.*]] = dfg.softmax
// CHECK-NEXT: %[[R:.*]]:2 = dist.all_reduce %{{.*}}, %[[G]] from
// CHECK-NEXT: %[[N:.*]] = dfg.neg %[[R]]#0
// CHECK-NEXT: dist.write @mean <[4]>, %[[N]]

// -----

// A scalar is soon computed, but not before the collective that brings what it needs.
dist.mesh @pair <["data" = 2], devices = [0, 1]>
dist.program @scalars() -> (tensor<f32>) attributes {mesh = @pair} {
  %0 = dfg.constant dense<0.5> : tensor<f32>
  %1 = dist.all_reduce %0 from <[], partial sum ["data"]> to <[]> : tensor<f32> -> tensor<f32>
  %2 = dfg.neg %1 : (tensor<f32>) -> tensor<f32>
  %3 = dist.all_reduce %2 from <[], partial sum ["data"]> to <[]> : tensor<f32> -> tensor<f32>
  dist.return %3 : tensor<f32>
}
// CHECK-LABEL: dist.program @scalars(
// CHECK: %[[FIRST:.*]] = dist.all_reduce %{{[a-z0-9]+}} from
// CHECK-NEXT: %[[NEGATED:.*]] = dfg.neg %[[FIRST]]
// CHECK-NEXT: dist.all_reduce %[[NEGATED]] from

// -----

// Parts of parameters that change save memory: a bucket that gathers them is full at the bytes of the largest, and has no
// part twice.
dist.mesh @pair <["data" = 2], devices = [0, 1]>
dfg.parameter @w1 : tensor<16xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 7>
dfg.parameter @w2 : tensor<4xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 7>
dfg.parameter @w3 : tensor<4xf32> = #dfg.normal<mean = 0.0, stddev = 0.01, seed = 7>
dist.program @parts() -> (tensor<16xf32>, tensor<4xf32>) attributes {dist.ordered, mesh = @pair} {
  %0 = dist.shard_of @w1 <[16 by ["data"]]> {dist.changes} : tensor<8xf32>
  %1 = dist.shard_of @w2 <[4 by ["data"]]> {dist.changes} : tensor<2xf32>
  %2 = dist.shard_of @w3 <[4 by ["data"]]> {dist.changes} : tensor<2xf32>
  %3 = dist.all_gather %0 from <[16 by ["data"]]> to <[16]> {dist.again = 0 : i64} : tensor<8xf32> -> tensor<16xf32>
  %4 = dfg.softmax %3 {dim = 0 : i64} : (tensor<16xf32>) -> tensor<16xf32>
  %5 = dist.all_gather %1 from <[4 by ["data"]]> to <[4]> {dist.again = 1 : i64} : tensor<2xf32> -> tensor<4xf32>
  %6 = dist.all_gather %2 from <[4 by ["data"]]> to <[4]> {dist.again = 2 : i64} : tensor<2xf32> -> tensor<4xf32>
  %7 = dfg.add %5, %6 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %8 = dist.all_gather %2 from <[4 by ["data"]]> to <[4]> {dist.again = 3 : i64} : tensor<2xf32> -> tensor<4xf32>
  %9 = dfg.add %7, %8 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  dist.return %4, %9 : tensor<16xf32>, tensor<4xf32>
}
// CHECK-LABEL: dist.program @parts(
// CHECK: = dist.all_gather %{{[a-z0-9]+}} from {{.*}} {dist.again = 0 : i64}
// CHECK: dfg.softmax
// CHECK: :2 = dist.all_gather %{{.*}}, %{{.*}} from {{.*}} {dist.again = 1 : i64}
// CHECK: dfg.add
// CHECK: = dist.all_gather %{{[a-z0-9]+}} from {{.*}} {dist.again = 3 : i64}

// -----

// What another mesh sends may be the same in every step, and is then joined once: it does not travel with what changes.
dist.mesh @pair <["data" = 2], devices = [0, 1]>
dist.mesh @other <["data" = 1], devices = [2]>
dist.program @received(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {mesh = @pair} {
  %r = dist.receive from @other channel 0 : tensor<4xf32>
  %g = dfg.neg %r : (tensor<4xf32>) -> tensor<4xf32>
  %0 = dist.all_reduce %g from <[4], partial sum ["data"]> to <[4]> : tensor<4xf32> -> tensor<4xf32>
  %1 = dist.all_reduce %x from <[4], partial sum ["data"]> to <[4]> : tensor<4xf32> -> tensor<4xf32>
  dist.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
dfg.parameter @w : tensor<4xf32> = #dfg.fill<value = 1.0>
dist.program @sent() attributes {mesh = @other} {
  %w = dfg.read @w : tensor<4xf32>
  dist.send %w to @pair channel 0 : tensor<4xf32>
  dist.return
}
// CHECK-LABEL: dist.program @received(
// CHECK: dist.all_reduce %{{[^,]*}} from <[4], partial sum ["data"]> to <[4]>
// CHECK: dist.all_reduce %{{[^,]*}} from <[4], partial sum ["data"]> to <[4]>
