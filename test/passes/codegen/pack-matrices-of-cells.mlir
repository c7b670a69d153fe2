// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --codegen-select-library-kernels --cse | FileCheck %s

module attributes {dist.devices = [{name = "cpu0", driver = "cpu", cores = 1 : i64, memory = 0 : i64}]} {
dist.mesh @d0 <[], devices = [0]>

// A matrix that changes in every step, and that 16 cells read one after the other: packed once, for all of them.
// CHECK-LABEL: dist.program @cells
// CHECK: %[[PACKED:.*]] = plan.launch @onednn.reorder
// CHECK-NOT: plan.launch @onednn.reorder
// CHECK-COUNT-16: plan.launch @onednn.matmul.{{[0-9]+}}(%{{[^,]*}}, %[[PACKED]])
// CHECK: dist.return
dist.program @cells(%x: tensor<4x64xf32>, %w: tensor<64x64xf32>) -> tensor<4x64xf32> attributes {mesh = @d0} {
  %0 = dfg.dot_general %x, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %1 = dfg.dot_general %0, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %2 = dfg.dot_general %1, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %3 = dfg.dot_general %2, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %4 = dfg.dot_general %3, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %5 = dfg.dot_general %4, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %6 = dfg.dot_general %5, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %7 = dfg.dot_general %6, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %8 = dfg.dot_general %7, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %9 = dfg.dot_general %8, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %10 = dfg.dot_general %9, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %11 = dfg.dot_general %10, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %12 = dfg.dot_general %11, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %13 = dfg.dot_general %12, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %14 = dfg.dot_general %13, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %15 = dfg.dot_general %14, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  dist.return %15 : tensor<4x64xf32>
}

// Few cells: each packs it by itself.
// CHECK-LABEL: dist.program @few
// CHECK-NOT: plan.launch @onednn.reorder
// CHECK: dist.return
dist.program @few(%x: tensor<4x64xf32>, %w: tensor<64x64xf32>) -> tensor<4x64xf32> attributes {mesh = @d0} {
  %0 = dfg.dot_general %x, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %1 = dfg.dot_general %0, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %2 = dfg.dot_general %1, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  dist.return %2 : tensor<4x64xf32>
}

// As many products that need nothing of each other, as microbatches of a dense layer.
// CHECK-LABEL: dist.program @microbatches
// CHECK-NOT: plan.launch @onednn.reorder
// CHECK: dist.return
dist.program @microbatches(%x: tensor<4x64xf32>, %w: tensor<64x64xf32>) -> tensor<4x64xf32> attributes {mesh = @d0} {
  %s0 = dfg.relu %x : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %c0 = dfg.constant dense<0.0> : tensor<4x64xf32>
  %x0 = dfg.add %x, %c0 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %y0 = dfg.dot_general %x0, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %s1 = dfg.add %s0, %y0 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %c1 = dfg.constant dense<1.0> : tensor<4x64xf32>
  %x1 = dfg.add %x, %c1 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %y1 = dfg.dot_general %x1, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %s2 = dfg.add %s1, %y1 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %c2 = dfg.constant dense<2.0> : tensor<4x64xf32>
  %x2 = dfg.add %x, %c2 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %y2 = dfg.dot_general %x2, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %s3 = dfg.add %s2, %y2 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %c3 = dfg.constant dense<3.0> : tensor<4x64xf32>
  %x3 = dfg.add %x, %c3 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %y3 = dfg.dot_general %x3, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %s4 = dfg.add %s3, %y3 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %c4 = dfg.constant dense<4.0> : tensor<4x64xf32>
  %x4 = dfg.add %x, %c4 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %y4 = dfg.dot_general %x4, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %s5 = dfg.add %s4, %y4 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %c5 = dfg.constant dense<5.0> : tensor<4x64xf32>
  %x5 = dfg.add %x, %c5 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %y5 = dfg.dot_general %x5, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %s6 = dfg.add %s5, %y5 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %c6 = dfg.constant dense<6.0> : tensor<4x64xf32>
  %x6 = dfg.add %x, %c6 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %y6 = dfg.dot_general %x6, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %s7 = dfg.add %s6, %y6 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %c7 = dfg.constant dense<7.0> : tensor<4x64xf32>
  %x7 = dfg.add %x, %c7 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %y7 = dfg.dot_general %x7, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %s8 = dfg.add %s7, %y7 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %c8 = dfg.constant dense<8.0> : tensor<4x64xf32>
  %x8 = dfg.add %x, %c8 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %y8 = dfg.dot_general %x8, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %s9 = dfg.add %s8, %y8 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %c9 = dfg.constant dense<9.0> : tensor<4x64xf32>
  %x9 = dfg.add %x, %c9 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %y9 = dfg.dot_general %x9, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %s10 = dfg.add %s9, %y9 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %c10 = dfg.constant dense<10.0> : tensor<4x64xf32>
  %x10 = dfg.add %x, %c10 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %y10 = dfg.dot_general %x10, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %s11 = dfg.add %s10, %y10 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %c11 = dfg.constant dense<11.0> : tensor<4x64xf32>
  %x11 = dfg.add %x, %c11 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %y11 = dfg.dot_general %x11, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %s12 = dfg.add %s11, %y11 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %c12 = dfg.constant dense<12.0> : tensor<4x64xf32>
  %x12 = dfg.add %x, %c12 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %y12 = dfg.dot_general %x12, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %s13 = dfg.add %s12, %y12 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %c13 = dfg.constant dense<13.0> : tensor<4x64xf32>
  %x13 = dfg.add %x, %c13 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %y13 = dfg.dot_general %x13, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %s14 = dfg.add %s13, %y13 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %c14 = dfg.constant dense<14.0> : tensor<4x64xf32>
  %x14 = dfg.add %x, %c14 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %y14 = dfg.dot_general %x14, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %s15 = dfg.add %s14, %y14 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %c15 = dfg.constant dense<15.0> : tensor<4x64xf32>
  %x15 = dfg.add %x, %c15 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %y15 = dfg.dot_general %x15, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %s16 = dfg.add %s15, %y15 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  dist.return %s16 : tensor<4x64xf32>
}
}
