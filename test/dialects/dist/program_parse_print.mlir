// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --mlir-print-op-generic | cleave-opt | FileCheck %s

dist.mesh @d0 <[], devices = [0]>
dist.mesh @d1 <[], devices = [1]>

// A program that takes an input of the graph and sends.
// CHECK: dist.program @main.d0(%[[X:.*]]: tensor<4xf32> {dist.input = 1 : i64}) attributes {mesh = @d0} {
// CHECK-NEXT: %[[Y:.*]] = dfg.relu %[[X]]
// CHECK-NEXT: dist.send %[[Y]] to @d1 channel 3 : tensor<4xf32>
// CHECK-NEXT: dist.return
dist.program @main.d0(%x: tensor<4xf32> {dist.input = 1 : i64}) attributes {mesh = @d0} {
  %0 = dfg.relu %x : (tensor<4xf32>) -> tensor<4xf32>
  dist.send %0 to @d1 channel 3 : tensor<4xf32>
  dist.return
}

// A program that receives and gives an output.
// CHECK: dist.program @main.d1() -> (tensor<4xf32> {dist.output = 0 : i64}) attributes {mesh = @d1} {
// CHECK-NEXT: %[[Y:.*]] = dist.receive from @d0 channel 3 : tensor<4xf32>
// CHECK-NEXT: dist.return %[[Y]] : tensor<4xf32>
dist.program @main.d1() -> (tensor<4xf32> {dist.output = 0 : i64}) attributes {mesh = @d1} {
  %0 = dist.receive from @d0 channel 3 : tensor<4xf32>
  dist.return %0 : tensor<4xf32>
}
