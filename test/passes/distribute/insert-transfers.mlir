// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --split-input-file --dist-insert-transfers | FileCheck %s

dist.mesh @d0 <[], devices = [0]>
dist.mesh @d1 <[], devices = [1]>
dist.mesh @d2 <[], devices = [2]>

// A value used on two other devices is sent twice, straight from its producer; two uses on one device are one receive.
// CHECK-LABEL: dfg.graph @two_readers
// CHECK: dist.place = #dist.place<@d0, by = "test">
// CHECK: dist.program @two_readers.d0(%[[X:.*]]: tensor<4xf32> {dist.input = 0 : i64}) attributes {mesh = @d0} {
// CHECK-NEXT: %[[A:.*]] = dfg.relu %[[X]] : (tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT: dist.send %[[A]] to @d1 channel 0 : tensor<4xf32>
// CHECK-NEXT: dist.send %[[A]] to @d2 channel 1 : tensor<4xf32>
// CHECK-NEXT: dist.return
// CHECK: dist.program @two_readers.d1() -> (tensor<4xf32> {dist.output = 0 : i64}) attributes {mesh = @d1} {
// CHECK-NEXT: %[[A1:.*]] = dist.receive from @d0 channel 0 : tensor<4xf32>
// CHECK-NEXT: %[[E:.*]] = dfg.exp %[[A1]]
// CHECK-NEXT: %[[S:.*]] = dfg.add %[[A1]], %[[E]]
// CHECK-NEXT: dist.return %[[S]] : tensor<4xf32>
// CHECK: dist.program @two_readers.d2() -> (tensor<4xf32> {dist.output = 1 : i64}) attributes {mesh = @d2} {
// CHECK-NEXT: %[[A2:.*]] = dist.receive from @d0 channel 1 : tensor<4xf32>
// CHECK-NEXT: %[[T:.*]] = dfg.tanh %[[A2]]
// CHECK-NEXT: dist.return %[[T]] : tensor<4xf32>
dfg.graph @two_readers(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = dfg.relu %x {dist.place = #dist.place<@d0, by = "test">} : (tensor<4xf32>) -> tensor<4xf32>
  %e = dfg.exp %a {dist.place = #dist.place<@d1, by = "test">} : (tensor<4xf32>) -> tensor<4xf32>
  %t = dfg.tanh %a {dist.place = #dist.place<@d2, by = "test">} : (tensor<4xf32>) -> tensor<4xf32>
  %s = dfg.add %a, %e {dist.place = #dist.place<@d1, by = "test">} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  dfg.return %s, %t : tensor<4xf32>, tensor<4xf32>
}

// -----

dist.mesh @d0 <[], devices = [0]>
dist.mesh @d1 <[], devices = [1]>
dfg.parameter @w : tensor<4xf32> = #dfg.fill<value = 1.0 : f64>

// Reads, constants and inputs are copied to every program that uses them, and to no other.
// CHECK-LABEL: dist.program @leaves.d0
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32> {dist.input = 0 : i64}) -> (tensor<4xf32> {dist.output = 0 : i64})
// CHECK-NEXT: %[[W:.*]] = dfg.read @w
// CHECK-NEXT: %[[S:.*]] = dfg.add %[[X]], %[[W]]
// CHECK-NEXT: dist.return %[[S]]
// CHECK-LABEL: dist.program @leaves.d1
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32> {dist.input = 0 : i64}, %[[Y:.*]]: tensor<4xf32> {dist.input = 1 : i64})
// CHECK-NEXT: %[[W:.*]] = dfg.read @w
// CHECK-NEXT: %[[C:.*]] = dfg.constant dense<2.000000e+00>
// CHECK-NEXT: %[[P:.*]] = dfg.mul %[[Y]], %[[W]]
// CHECK-NEXT: %[[Q:.*]] = dfg.mul %[[X]], %[[C]]
// CHECK-NEXT: dist.return %[[P]], %[[Q]]
dfg.graph @leaves(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %w = dfg.read @w : tensor<4xf32>
  %c = dfg.constant dense<2.0> : tensor<4xf32>
  %unused = dfg.constant dense<3.0> : tensor<4xf32>
  %0 = dfg.add %x, %w {dist.place = #dist.place<@d0, by = "test">} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = dfg.mul %y, %w {dist.place = #dist.place<@d1, by = "test">} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = dfg.mul %x, %c {dist.place = #dist.place<@d1, by = "test">} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

dist.mesh @d0 <[], devices = [0]>
dist.mesh @d1 <[], devices = [1]>
dfg.parameter @w : tensor<4xf32> = #dfg.fill<value = 1.0 : f64>

// Outputs that no operator computes are given out by the first program in use; an output twice is two results.
// CHECK-LABEL: dist.program @outputs.d1
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32> {dist.input = 0 : i64})
// CHECK-SAME: -> (tensor<4xf32> {dist.output = 0 : i64}, tensor<4xf32> {dist.output = 1 : i64},
// CHECK-SAME:     tensor<4xf32> {dist.output = 2 : i64}, tensor<i64> {dist.output = 3 : i64},
// CHECK-SAME:     tensor<4xf32> {dist.output = 4 : i64}) attributes {mesh = @d1}
// CHECK-NEXT: %[[W:.*]] = dfg.read @w
// CHECK-NEXT: %[[C:.*]] = dfg.constant dense<7>
// CHECK-NEXT: %[[R:.*]] = dfg.relu %[[X]]
// CHECK-NEXT: dist.return %[[R]], %[[X]], %[[W]], %[[C]], %[[R]]
dfg.graph @outputs(%x: tensor<4xf32>, %unused: tensor<2xf32>)
    -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<i64>, tensor<4xf32>) {
  %w = dfg.read @w : tensor<4xf32>
  %c = dfg.constant dense<7> : tensor<i64>
  %0 = dfg.relu %x {dist.place = #dist.place<@d1, by = "test">} : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0, %x, %w, %c, %0 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<i64>, tensor<4xf32>
}

// -----

dist.mesh @d0 <[], devices = [0]>
dist.mesh @d1 <[], devices = [1]>

// A graph without operators still gives its outputs.
// CHECK-LABEL: dist.program @nothing.d0
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32> {dist.input = 0 : i64}) -> (tensor<4xf32> {dist.output = 0 : i64})
// CHECK-NEXT: dist.return %[[X]]
// CHECK-NOT: @nothing.d1
dfg.graph @nothing(%x: tensor<4xf32>) -> tensor<4xf32> {
  dfg.return %x : tensor<4xf32>
}

// -----

dist.mesh @d0 <[], devices = [0]>
dist.mesh @d1 <[], devices = [1]>

// Receives stand in the order of the channels, though the value of channel 1 is used first.
// CHECK-LABEL: dist.program @order.d0
// CHECK: dist.send %{{.*}} to @d1 channel 0
// CHECK: dist.send %{{.*}} to @d1 channel 1
// CHECK-LABEL: dist.program @order.d1
// CHECK-NEXT: %[[A:.*]] = dist.receive from @d0 channel 0
// CHECK-NEXT: %[[C:.*]] = dist.receive from @d0 channel 1
// CHECK-NEXT: %[[T:.*]] = dfg.tanh %[[C]]
// CHECK-NEXT: dfg.add %[[A]], %[[T]]
dfg.graph @order(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = dfg.relu %x {dist.place = #dist.place<@d0, by = "test">} : (tensor<4xf32>) -> tensor<4xf32>
  %c = dfg.exp %a {dist.place = #dist.place<@d0, by = "test">} : (tensor<4xf32>) -> tensor<4xf32>
  %t = dfg.tanh %c {dist.place = #dist.place<@d1, by = "test">} : (tensor<4xf32>) -> tensor<4xf32>
  %s = dfg.add %a, %t {dist.place = #dist.place<@d1, by = "test">} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  dfg.return %s : tensor<4xf32>
}

// -----

dist.mesh @d0 <[], devices = [0]>
dist.mesh @d1 <[], devices = [1]>

// Two devices that send to each other do not both send first: the second receives before it sends.
// CHECK-LABEL: dist.program @exchange.d0
// CHECK: dfg.relu
// CHECK-NEXT: dist.send %{{.*}} to @d1 channel 0
// CHECK-NEXT: dist.receive from @d1 channel 1
// CHECK-NEXT: dfg.add
// CHECK-LABEL: dist.program @exchange.d1
// CHECK-NEXT: dist.receive from @d0 channel 0
// CHECK-NEXT: dfg.exp
// CHECK-NEXT: dist.send %{{.*}} to @d0 channel 1
// CHECK-NEXT: dfg.add
dfg.graph @exchange(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = dfg.relu %x {dist.place = #dist.place<@d0, by = "test">} : (tensor<4xf32>) -> tensor<4xf32>
  %b = dfg.exp %x {dist.place = #dist.place<@d1, by = "test">} : (tensor<4xf32>) -> tensor<4xf32>
  %0 = dfg.add %a, %b {dist.place = #dist.place<@d0, by = "test">} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = dfg.add %a, %b {dist.place = #dist.place<@d1, by = "test">} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----

dist.mesh @d0 <[], devices = [0]>
dist.mesh @d1 <[], devices = [1]>
dist.mesh @d2 <[], devices = [2]>

// A long skip goes straight from its producer to its consumer, not through the device between.
// CHECK-LABEL: dist.program @skip.d0
// CHECK: dist.send %{{.*}} to @d1 channel 0
// CHECK-NEXT: dist.send %{{.*}} to @d2 channel 1
// CHECK-LABEL: dist.program @skip.d1
// CHECK-NEXT: dist.receive from @d0 channel 0
// CHECK-NEXT: dfg.exp
// CHECK-NEXT: dist.send %{{.*}} to @d2 channel 2
// CHECK-NEXT: dist.return
// CHECK-LABEL: dist.program @skip.d2
// CHECK-NEXT: dist.receive from @d0 channel 1
// CHECK-NEXT: dist.receive from @d1 channel 2
dfg.graph @skip(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = dfg.relu %x {dist.place = #dist.place<@d0, by = "test">} : (tensor<4xf32>) -> tensor<4xf32>
  %b = dfg.exp %a {dist.place = #dist.place<@d1, by = "test">} : (tensor<4xf32>) -> tensor<4xf32>
  %0 = dfg.add %b, %a {dist.place = #dist.place<@d2, by = "test">} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  dfg.return %0 : tensor<4xf32>
}

// -----

dist.mesh @d0 <[], devices = [0]>
dist.mesh @d1 <[], devices = [1]>

// Channels of several graphs are distinct.
// CHECK-LABEL: dist.program @one.d0
// CHECK: channel 0
// CHECK-LABEL: dist.program @other.d0
// CHECK: channel 1
dfg.graph @one(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = dfg.relu %x {dist.place = #dist.place<@d0, by = "test">} : (tensor<4xf32>) -> tensor<4xf32>
  %b = dfg.exp %a {dist.place = #dist.place<@d1, by = "test">} : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return %b : tensor<4xf32>
}
dfg.graph @other(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = dfg.relu %x {dist.place = #dist.place<@d0, by = "test">} : (tensor<4xf32>) -> tensor<4xf32>
  %b = dfg.exp %a {dist.place = #dist.place<@d1, by = "test">} : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return %b : tensor<4xf32>
}

// -----

dist.mesh @d0 <[], devices = [0]>
dist.mesh @d1 <[], devices = [1]>

// Fusions go with their regions.
// CHECK-LABEL: dist.program @fusion.d1
// CHECK: dist.receive from @d0 channel 0
// CHECK-NEXT: dfg.fusion
// CHECK: dfg.yield
dfg.graph @fusion(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = dfg.relu %x {dist.place = #dist.place<@d0, by = "test">} : (tensor<4xf32>) -> tensor<4xf32>
  %b = dfg.fusion %a {dist.place = #dist.place<@d1, by = "test">} : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%y: tensor<4xf32>):
    %1 = dfg.exp %y : (tensor<4xf32>) -> tensor<4xf32>
    dfg.yield %1 : tensor<4xf32>
  }
  dfg.return %b : tensor<4xf32>
}

// -----

// Programs that are there already keep their channels: new transfers take the next one.
dist.mesh @d0 <[], devices = [0]>
dist.mesh @d1 <[], devices = [1]>
dist.program @early.d0(%x: tensor<4xf32>) attributes {mesh = @d0} {
  dist.send %x to @d1 channel 0 : tensor<4xf32>
  dist.return
}
dist.program @early.d1() attributes {mesh = @d1} {
  %0 = dist.receive from @d0 channel 0 : tensor<4xf32>
  dist.return
}
dfg.graph @later(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dfg.exp %x {dist.place = #dist.place<@d0, by = "test">} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = dfg.neg %0 {dist.place = #dist.place<@d1, by = "test">} : (tensor<4xf32>) -> tensor<4xf32>
  dfg.return %1 : tensor<4xf32>
}
// CHECK-LABEL: dist.program @later.d0(
// CHECK: dist.send %{{.*}} to @d1 channel 1 :
// CHECK-LABEL: dist.program @later.d1(
// CHECK: dist.receive from @d0 channel 1 :
