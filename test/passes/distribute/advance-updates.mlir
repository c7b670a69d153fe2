// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// RUN: cleave-opt %s --dist-advance-updates --split-input-file | FileCheck %s

// Updates come behind the beginning of the next message, and the last ones at the end; what they replace nobody reads
// any more. Gradients and what joins them stay where they are.
dist.mesh @pair <["data" = 2], devices = [0, 1]>
dfg.parameter @w1 : tensor<4xf32> = #dfg.fill<value = 0.0>
dfg.parameter @w2 : tensor<4xf32> = #dfg.fill<value = 0.0>
dist.program @overlap(%x: tensor<4xf32>) -> (tensor<4xf32>) attributes {dist.ordered, mesh = @pair} {
  %w1 = dfg.read @w1 {dist.changes} : tensor<4xf32>
  %w2 = dfg.read @w2 {dist.changes} : tensor<4xf32>
  %g2 = dfg.softmax %x {dim = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %r2 = dist.all_reduce %g2 from <[4], partial sum ["data"]> to <[4]> : tensor<4xf32> -> tensor<4xf32>
  %g1 = dfg.softmax %w2 {dim = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %r1 = dist.all_reduce %g1 from <[4], partial sum ["data"]> to <[4]> : tensor<4xf32> -> tensor<4xf32>
  %h = dfg.softmax %g1 {dim = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %u1 = dfg.sub %w1, %r1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  dist.write @w1 <[4]>, %u1 : tensor<4xf32>
  %u2 = dfg.sub %w2, %r2 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  dist.write @w2 <[4]>, %u2 : tensor<4xf32>
  dist.return %h : tensor<4xf32>
}
// CHECK-LABEL: dist.program @overlap(
// CHECK: %[[R2:.*]] = dist.all_reduce
// CHECK-NEXT: dfg.softmax
// CHECK-NEXT: %[[R1:.*]] = dist.all_reduce
// CHECK-NEXT: dfg.sub %{{.*}}, %[[R2]]
// CHECK-NEXT: dist.write @w2
// CHECK-NEXT: dfg.softmax
// CHECK-NEXT: dfg.sub %{{.*}}, %[[R1]]
// CHECK-NEXT: dist.write @w1

// -----

// Without messages, an update comes behind its gradient and the last reader of the parameter, here the second one.
dist.mesh @one <["d" = 1], devices = [0]>
dfg.parameter @w : tensor<4xf32> = #dfg.fill<value = 0.0>
dist.program @readers(%x: tensor<4xf32>) -> (tensor<4xf32>) attributes {dist.ordered, mesh = @one} {
  %w = dfg.read @w {dist.changes} : tensor<4xf32>
  %g = dfg.softmax %x {dim = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %0 = dfg.add %g, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = dfg.softmax %0 {dim = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %s = dfg.neg %g : (tensor<4xf32>) -> tensor<4xf32>
  %u = dfg.add %w, %s : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  dist.write @w <[4]>, %u : tensor<4xf32>
  dist.return %1 : tensor<4xf32>
}
// CHECK-LABEL: dist.program @readers(
// CHECK: %[[G:.*]] = dfg.softmax
// CHECK-NEXT: dfg.add
// CHECK-NEXT: %[[S:.*]] = dfg.neg %[[G]]
// CHECK-NEXT: dfg.add %{{.*}}, %[[S]]
// CHECK-NEXT: dist.write
// CHECK-NEXT: dfg.softmax

// -----

// A limit on all gradients together needs all of them: what follows from it stays behind the last one.
dist.mesh @one <["d" = 1], devices = [0]>
dfg.parameter @w1 : tensor<4xf32> = #dfg.fill<value = 0.0>
dist.program @limit(%x: tensor<4xf32>) -> (tensor<f32>) attributes {dist.ordered, mesh = @one} {
  %w1 = dfg.read @w1 {dist.changes} : tensor<4xf32>
  %g1 = dfg.softmax %x {dim = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %n1 = dfg.reduce %g1 {dims = array<i64: 0>, kind = #dfg.reduce_kind<sum>} : (tensor<4xf32>) -> tensor<f32>
  %g2 = dfg.softmax %g1 {dim = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %n2 = dfg.reduce %g2 {dims = array<i64: 0>, kind = #dfg.reduce_kind<sum>} : (tensor<4xf32>) -> tensor<f32>
  %n = dfg.add %n1, %n2 : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %l = dfg.mul %g1, %n : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %u1 = dfg.sub %w1, %l : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  dist.write @w1 <[4]>, %u1 : tensor<4xf32>
  dist.return %n2 : tensor<f32>
}
// CHECK-LABEL: dist.program @limit(
// CHECK: = dfg.reduce %
// CHECK: = dfg.reduce %
// CHECK-NEXT: dfg.add
// CHECK-NEXT: dfg.mul
// CHECK-NEXT: dfg.sub
// CHECK-NEXT: dist.write

// -----

// Replicas that share an update gather what it makes as soon as they have it. The gather is no message that the rest of
// the step needs: the other update does not stand right behind it.
dist.mesh @pair <["data" = 2], devices = [0, 1]>
dfg.parameter @w1 : tensor<4xf32> = #dfg.fill<value = 0.0>
dfg.parameter @w2 : tensor<4xf32> = #dfg.fill<value = 0.0>
dfg.parameter @w3 : tensor<4xf32> = #dfg.fill<value = 0.0>
dist.program @shared(%x: tensor<4xf32>) -> (tensor<4xf32>) attributes {dist.ordered, mesh = @pair} {
  %w1 = dfg.read @w1 {dist.changes} : tensor<4xf32>
  %w2 = dfg.read @w2 {dist.changes} : tensor<4xf32>
  %g1 = dfg.softmax %x {dim = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %r1 = dist.reduce_scatter %g1 from <[4], partial sum ["data"]> to <[4 by ["data"]]> : tensor<4xf32> -> tensor<2xf32>
  %g2 = dfg.softmax %g1 {dim = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %r2 = dist.reduce_scatter %g2 from <[4], partial sum ["data"]> to <[4 by ["data"]]> : tensor<4xf32> -> tensor<2xf32>
  %g3 = dfg.softmax %g2 {dim = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %p1 = dist.slice %w1 from <[4]> to <[4 by ["data"]]> : tensor<4xf32> -> tensor<2xf32>
  %u1 = dfg.sub %p1, %r1 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %a1 = dist.all_gather %u1 from <[4 by ["data"]]> to <[4]> : tensor<2xf32> -> tensor<4xf32>
  dist.write @w1 <[4]>, %a1 : tensor<4xf32>
  %p2 = dist.slice %w2 from <[4]> to <[4 by ["data"]]> : tensor<4xf32> -> tensor<2xf32>
  %u2 = dfg.sub %p2, %r2 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %a2 = dist.all_gather %u2 from <[4 by ["data"]]> to <[4]> : tensor<2xf32> -> tensor<4xf32>
  dist.write @w2 <[4]>, %a2 : tensor<4xf32>
  dist.return %g3 : tensor<4xf32>
}
// CHECK-LABEL: dist.program @shared(
// CHECK: dist.reduce_scatter
// CHECK-NEXT: dfg.softmax
// CHECK-NEXT: dist.reduce_scatter
// CHECK-NEXT: dist.slice
// CHECK-NEXT: dfg.sub
// CHECK-NEXT: dist.all_gather
// CHECK-NEXT: dist.write @w1
// CHECK-NEXT: dfg.softmax
// CHECK-NEXT: dist.slice
// CHECK-NEXT: dfg.sub
// CHECK-NEXT: dist.all_gather
// CHECK-NEXT: dist.write @w2

// -----

// What another mesh waits for goes first.
dist.mesh @one <["d" = 1], devices = [0]>
dist.mesh @two <["d" = 1], devices = [1]>
dfg.parameter @w : tensor<4xf32> = #dfg.fill<value = 0.0>
dist.program @sends(%x: tensor<4xf32>) attributes {dist.ordered, mesh = @one} {
  %w = dfg.read @w {dist.changes} : tensor<4xf32>
  %g = dfg.softmax %x {dim = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %0 = dfg.softmax %g {dim = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  dist.send %0 to @two channel 0 : tensor<4xf32>
  %1 = dfg.softmax %0 {dim = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %u = dfg.sub %w, %g : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  dist.write @w <[4]>, %u : tensor<4xf32>
  dist.return
}
dist.program @receives() -> (tensor<4xf32>) attributes {dist.ordered, mesh = @two} {
  %0 = dist.receive from @one channel 0 : tensor<4xf32>
  dist.return %0 : tensor<4xf32>
}
// CHECK-LABEL: dist.program @sends(
// CHECK: dist.send
// CHECK-NEXT: dfg.sub
// CHECK-NEXT: dist.write
// CHECK-NEXT: dfg.softmax

// -----

// A sum over microbatches that is added up before the next value is sent stays there: what it adds need not wait.
dist.mesh @one <["d" = 1], devices = [0]>
dist.mesh @two <["d" = 1], devices = [1]>
dfg.parameter @w : tensor<4xf32> = #dfg.fill<value = 0.0>
dist.program @sums(%x: tensor<4xf32>) attributes {dist.ordered, mesh = @one} {
  %w = dfg.read @w {dist.changes} : tensor<4xf32>
  %g1 = dfg.softmax %x {dim = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %g2 = dfg.softmax %g1 {dim = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %s = dfg.add %g1, %g2 {dist.accumulates} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %0 = dfg.softmax %g2 {dim = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  dist.send %0 to @two channel 0 : tensor<4xf32>
  %1 = dfg.softmax %0 {dim = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %u = dfg.sub %w, %s : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  dist.write @w <[4]>, %u : tensor<4xf32>
  dist.return
}
dist.program @receives() -> (tensor<4xf32>) attributes {dist.ordered, mesh = @two} {
  %0 = dist.receive from @one channel 0 : tensor<4xf32>
  dist.return %0 : tensor<4xf32>
}
// CHECK-LABEL: dist.program @sums(
// CHECK: dfg.softmax
// CHECK-NEXT: dfg.softmax
// CHECK-NEXT: dfg.add
// CHECK-NEXT: dfg.softmax
// CHECK-NEXT: dist.send
// CHECK-NEXT: dfg.sub
// CHECK-NEXT: dist.write

// -----

// A kernel that ends with the update of what it reads before others do moves behind them; one that does not lead to the
// update alone stays.
dist.mesh @one <["d" = 1], devices = [0]>
dfg.parameter @w : tensor<4xf32> = #dfg.fill<value = 0.0>
plan.native_kernel @softmax_sub {
^bb0(%x: tensor<4xf32>, %w: tensor<4xf32>):
  %0 = dfg.softmax %x {dim = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = dfg.sub %w, %0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  plan.yield %1 : tensor<4xf32>
}
dist.program @kernels(%x: tensor<4xf32>) -> (tensor<4xf32>) attributes {dist.ordered, mesh = @one} {
  %w = dfg.read @w {dist.changes} : tensor<4xf32>
  %u = plan.launch @softmax_sub(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  dist.write @w <[4]>, %u : tensor<4xf32>
  %0 = plan.launch @softmax_sub(%w, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  dist.return %0 : tensor<4xf32>
}
// CHECK-LABEL: dist.program @kernels(
// CHECK: plan.launch @softmax_sub(%[[W:.*]], %{{.*}})
// CHECK-NEXT: %[[U:.*]] = plan.launch @softmax_sub(%{{.*}}, %[[W]])
// CHECK-NEXT: dist.write @w <[4]>, %[[U]]

// -----

// Behind the last message there is no other one to wait for: its update comes at the end, when the sum has had the most
// time to arrive.
dist.mesh @pair <["data" = 2], devices = [0, 1]>
dfg.parameter @w : tensor<4xf32> = #dfg.fill<value = 0.0>
dist.program @last(%x: tensor<4xf32>) -> (tensor<4xf32>) attributes {dist.ordered, mesh = @pair} {
  %w = dfg.read @w {dist.changes} : tensor<4xf32>
  %r = dist.all_reduce %x from <[4], partial sum ["data"]> to <[4]> : tensor<4xf32> -> tensor<4xf32>
  %u = dfg.sub %w, %r : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  dist.write @w <[4]>, %u : tensor<4xf32>
  %0 = dfg.softmax %x {dim = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = dfg.softmax %0 {dim = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  dist.return %1 : tensor<4xf32>
}
// CHECK-LABEL: dist.program @last(
// CHECK: dist.all_reduce
// CHECK-NEXT: dfg.softmax
// CHECK-NEXT: dfg.softmax
// CHECK-NEXT: dfg.sub
// CHECK-NEXT: dist.write
