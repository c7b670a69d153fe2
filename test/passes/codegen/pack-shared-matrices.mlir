// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --codegen-select-library-kernels --cse | FileCheck %s

module attributes {dist.devices = [{name = "cpu0", driver = "cpu", cores = 1 : i64, memory = 0 : i64}]} {
dist.mesh @d0 <[], devices = [0]>

// A matrix that changes in every step, and that 16 products read alike: packed once, for all of them.
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

// Few products: each packs it by itself.
// CHECK-LABEL: dist.program @few
// CHECK-NOT: plan.launch @onednn.reorder
// CHECK: dist.return
dist.program @few(%x: tensor<4x64xf32>, %w: tensor<64x64xf32>) -> tensor<4x64xf32> attributes {mesh = @d0} {
  %0 = dfg.dot_general %x, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %1 = dfg.dot_general %0, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %2 = dfg.dot_general %1, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  dist.return %2 : tensor<4x64xf32>
}
}
