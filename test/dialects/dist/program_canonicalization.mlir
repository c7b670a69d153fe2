// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --canonicalize --cse | FileCheck %s

dist.mesh @d0 <[], devices = [0]>
dist.mesh @d1 <[], devices = [1]>

// Transfers stay, though nobody reads a value, and equal ones are not joined: each has its other end.
// CHECK-LABEL: dist.program @transfers
// CHECK: dist.receive from @d1 channel 0
// CHECK: dist.receive from @d1 channel 1
// CHECK: dist.send %{{.*}} to @d1 channel 2
// CHECK: dist.send %{{.*}} to @d1 channel 3
dist.program @transfers(%x: tensor<4xf32>) attributes {mesh = @d0} {
  %0 = dist.receive from @d1 channel 0 : tensor<4xf32>
  %1 = dist.receive from @d1 channel 1 : tensor<4xf32>
  dist.send %x to @d1 channel 2 : tensor<4xf32>
  dist.send %x to @d1 channel 3 : tensor<4xf32>
  dist.return
}

// Unused operators and reads go.
// CHECK-LABEL: dist.program @unused
// CHECK-NEXT: dist.return
dist.program @unused(%x: tensor<4xf32>) attributes {mesh = @d0} {
  %0 = dfg.relu %x : (tensor<4xf32>) -> tensor<4xf32>
  dist.return
}
