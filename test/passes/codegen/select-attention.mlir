// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --codegen-select-attention --canonicalize | FileCheck %s
// RUN: cleave-opt %s --codegen-select-attention 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

module attributes {dist.devices = [{chip = "sm_90", cores = 1 : i64, driver = "cuda", memory = 0 : i64, name = "gpu0"},
                                   {cores = 1 : i64, driver = "cpu", memory = 0 : i64, name = "cpu0"},
                                   {chip = "sm_70", cores = 1 : i64, driver = "cuda", memory = 0 : i64, name = "gpu1"}]} {
dist.mesh @d0 <[], devices = [0]>
dist.mesh @d1 <[], devices = [1]>
dist.mesh @d2 <[], devices = [2]>
dfg.parameter @seen : tensor<128x256xi1> = #dfg.file<"w", offset = 0> {dfg.score_mask = #dfg.score_mask<kind = seen, lower = 0, exact = true>}
dfg.parameter @hidden : tensor<1x1x128x256xi1> = #dfg.file<"w", offset = 0> {dfg.score_mask = #dfg.score_mask<kind = hidden, lower = 0, exact = true>}
dfg.parameter @added : tensor<128x256xf32> = #dfg.file<"w", offset = 0> {dfg.score_mask = #dfg.score_mask<kind = added, lower = 0, exact = true>}
dfg.parameter @any : tensor<128x256xi1> = #dfg.file<"w", offset = 0>

// Where queries lie with positions before heads all do, and no transpose is left: of keys that are multiplied transposed
// neither. The scale is one number, and -inf behind the diagonal is a causal mask.
// CHECK-LABEL: dist.program @positions_first
// CHECK-SAME: (%[[Q:[^ :]*]]: tensor<3x128x2x64xbf16>, %[[K:[^ :]*]]: tensor<3x256x2x64xbf16>, %[[V:[^ :]*]]: tensor<3x256x2x64xbf16>)
// CHECK-NEXT: %[[R:[^ :]*]] = plan.launch @[[CAUSAL:cudnn.attention.[0-9]+]](%[[Q]], %[[K]], %[[V]])
// CHECK-NEXT: dist.return %[[R]]
dist.program @positions_first(%q: tensor<3x128x2x64xbf16>, %k: tensor<3x256x2x64xbf16>, %v: tensor<3x256x2x64xbf16>) -> tensor<3x128x2x64xbf16> attributes {mesh = @d0} {
  %scale = dfg.constant dense<8.0> : tensor<bf16>
  %low = dfg.constant dense<0xFF80> : tensor<bf16>
  %mask = dfg.read @seen : tensor<128x256xi1>
  %0 = dfg.transpose %q {permutation = array<i64: 0, 2, 1, 3>} : (tensor<3x128x2x64xbf16>) -> tensor<3x2x128x64xbf16>
  %1 = dfg.transpose %k {permutation = array<i64: 0, 2, 3, 1>} : (tensor<3x256x2x64xbf16>) -> tensor<3x2x64x256xbf16>
  %2 = dfg.transpose %v {permutation = array<i64: 0, 2, 1, 3>} : (tensor<3x256x2x64xbf16>) -> tensor<3x2x256x64xbf16>
  %3 = dfg.dot_general %0, %1 {lhs_batch = array<i64: 0, 1>, lhs_contracting = array<i64: 3>, rhs_batch = array<i64: 0, 1>, rhs_contracting = array<i64: 2>} : (tensor<3x2x128x64xbf16>, tensor<3x2x64x256xbf16>) -> tensor<3x2x128x256xbf16>
  %4 = dfg.div %3, %scale : (tensor<3x2x128x256xbf16>, tensor<bf16>) -> tensor<3x2x128x256xbf16>
  %5 = dfg.select %mask, %4, %low : (tensor<128x256xi1>, tensor<3x2x128x256xbf16>, tensor<bf16>) -> tensor<3x2x128x256xbf16>
  %6 = dfg.softmax %5 {dim = 3 : i64} : (tensor<3x2x128x256xbf16>) -> tensor<3x2x128x256xbf16>
  %7 = dfg.dot_general %6, %2 {lhs_batch = array<i64: 0, 1>, lhs_contracting = array<i64: 3>, rhs_batch = array<i64: 0, 1>, rhs_contracting = array<i64: 2>} : (tensor<3x2x128x256xbf16>, tensor<3x2x256x64xbf16>) -> tensor<3x2x128x64xbf16>
  %8 = dfg.transpose %7 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<3x2x128x64xbf16>) -> tensor<3x128x2x64xbf16>
  dist.return %8 : tensor<3x128x2x64xbf16>
}

// Heads before positions, as they lie; scores are scaled by a product, in float32.
// CHECK-LABEL: dist.program @heads_first
// CHECK-SAME: (%[[Q:[^ :]*]]: tensor<6x128x64xbf16>, %[[K:[^ :]*]]: tensor<6x256x64xbf16>, %[[V:[^ :]*]]: tensor<6x256x64xbf16>)
// CHECK-DAG: %[[Q4:[^ :]*]] = dfg.reshape %[[Q]] : (tensor<6x128x64xbf16>) -> tensor<1x6x128x64xbf16>
// CHECK-DAG: %[[K4:[^ :]*]] = dfg.reshape %[[K]] : (tensor<6x256x64xbf16>) -> tensor<1x6x256x64xbf16>
// CHECK-DAG: %[[V4:[^ :]*]] = dfg.reshape %[[V]] : (tensor<6x256x64xbf16>) -> tensor<1x6x256x64xbf16>
// CHECK: %[[R:[^ :]*]] = plan.launch @[[PLAIN:cudnn.attention.[0-9]+]](%[[Q4]], %[[K4]], %[[V4]])
// CHECK: dfg.reshape %[[R]] : (tensor<1x6x128x64xbf16>) -> tensor<6x128x64xbf16>
// CHECK-NOT: dfg.softmax
dist.program @heads_first(%q: tensor<6x128x64xbf16>, %k: tensor<6x256x64xbf16>, %v: tensor<6x256x64xbf16>) -> tensor<6x128x64xbf16> attributes {mesh = @d0} {
  %scale = dfg.constant dense<0.5> : tensor<1xf32>
  %0 = dfg.dot_general %q, %k {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 2>, wide} : (tensor<6x128x64xbf16>, tensor<6x256x64xbf16>) -> tensor<6x128x256xf32>
  %1 = dfg.mul %0, %scale : (tensor<6x128x256xf32>, tensor<1xf32>) -> tensor<6x128x256xf32>
  %2 = dfg.cast %1 {to = bf16} : (tensor<6x128x256xf32>) -> tensor<6x128x256xbf16>
  %3 = dfg.softmax %2 {dim = 2 : i64} : (tensor<6x128x256xbf16>) -> tensor<6x128x256xbf16>
  %4 = dfg.dot_general %3, %v {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 1>} : (tensor<6x128x256xbf16>, tensor<6x256x64xbf16>) -> tensor<6x128x64xbf16>
  dist.return %4 : tensor<6x128x64xbf16>
}

// Positions that are compared are a causal mask, too, but not where a query sees the next one.
// CHECK-LABEL: dist.program @compared
// CHECK: plan.launch @cudnn.attention.{{[0-9]+}}
// CHECK-NOT: dfg.softmax
dist.program @compared(%q: tensor<6x128x64xbf16>, %k: tensor<6x256x64xbf16>, %v: tensor<6x256x64xbf16>) -> tensor<6x128x64xbf16> attributes {mesh = @d0} {
  %low = dfg.constant dense<0xFF80> : tensor<bf16>
  %at = dfg.iota {dim = 0 : i64} : () -> tensor<128x1xi64>
  %key = dfg.iota {dim = 1 : i64} : () -> tensor<1x256xi64>
  %mask = dfg.compare %key, %at {comparison = #dfg.comparison<less_or_equal>} : (tensor<1x256xi64>, tensor<128x1xi64>) -> tensor<128x256xi1>
  %0 = dfg.dot_general %q, %k {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 2>} : (tensor<6x128x64xbf16>, tensor<6x256x64xbf16>) -> tensor<6x128x256xbf16>
  %1 = dfg.select %mask, %0, %low : (tensor<128x256xi1>, tensor<6x128x256xbf16>, tensor<bf16>) -> tensor<6x128x256xbf16>
  %2 = dfg.softmax %1 {dim = 2 : i64} : (tensor<6x128x256xbf16>) -> tensor<6x128x256xbf16>
  %3 = dfg.dot_general %2, %v {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 1>} : (tensor<6x128x256xbf16>, tensor<6x256x64xbf16>) -> tensor<6x128x64xbf16>
  dist.return %3 : tensor<6x128x64xbf16>
}

// CHECK-LABEL: dist.program @compared_beyond
// CHECK: dfg.softmax
dist.program @compared_beyond(%q: tensor<6x128x64xbf16>, %k: tensor<6x256x64xbf16>, %v: tensor<6x256x64xbf16>) -> tensor<6x128x64xbf16> attributes {mesh = @d0} {
  %low = dfg.constant dense<0xFF80> : tensor<bf16>
  %at = dfg.iota {dim = 0 : i64} : () -> tensor<128x1xi64>
  %key = dfg.iota {dim = 1 : i64} : () -> tensor<1x256xi64>
  %one = dfg.constant dense<1> : tensor<i64>
  %row = dfg.add %at, %one : (tensor<128x1xi64>, tensor<i64>) -> tensor<128x1xi64>
  %mask = dfg.compare %key, %row {comparison = #dfg.comparison<less_or_equal>} : (tensor<1x256xi64>, tensor<128x1xi64>) -> tensor<128x256xi1>
  %0 = dfg.dot_general %q, %k {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 2>} : (tensor<6x128x64xbf16>, tensor<6x256x64xbf16>) -> tensor<6x128x256xbf16>
  %1 = dfg.select %mask, %0, %low : (tensor<128x256xi1>, tensor<6x128x256xbf16>, tensor<bf16>) -> tensor<6x128x256xbf16>
  %2 = dfg.softmax %1 {dim = 2 : i64} : (tensor<6x128x256xbf16>) -> tensor<6x128x256xbf16>
  %3 = dfg.dot_general %2, %v {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 1>} : (tensor<6x128x256xbf16>, tensor<6x256x64xbf16>) -> tensor<6x128x64xbf16>
  dist.return %3 : tensor<6x128x64xbf16>
}

// In training the log sums are a second result. One kernel takes the place of the gradient's four products, each of which
// lies in its own way.
// CHECK-LABEL: dist.program @training
// CHECK-SAME: (%[[Q:[^ :]*]]: tensor<3x2x128x64xbf16>, %[[K:[^ :]*]]: tensor<3x2x64x256xbf16>, %[[V:[^ :]*]]: tensor<3x2x256x64xbf16>, %[[D:[^ :]*]]: tensor<3x2x128x64xbf16>)
// CHECK-DAG: %[[KT:[^ :]*]] = dfg.transpose %[[K]] {permutation = array<i64: 0, 1, 3, 2>}
// CHECK: %[[R:[^ :]*]]:2 = plan.launch @[[FORWARD:cudnn.attention.[0-9]+]](%[[Q]], %[[KT]], %[[V]]) : {{.*}} -> (tensor<3x2x128x64xbf16>, tensor<3x2x128x1xf32>)
// CHECK: %[[G:[^ :]*]]:3 = plan.launch @[[GRADIENT:cudnn.attention_gradient.[0-9]+]](%[[Q]], %{{[^ ,]*}}, %[[V]], %[[R]]#0, %[[R]]#1, %[[D]])
// CHECK: %[[GK:[^ :]*]] = dfg.transpose %[[G]]#1 {permutation = array<i64: 0, 1, 3, 2>}
// CHECK: dist.return %[[R]]#0, %[[G]]#0, %[[GK]], %[[G]]#2
dist.program @training(%q: tensor<3x2x128x64xbf16>, %k: tensor<3x2x64x256xbf16>, %v: tensor<3x2x256x64xbf16>, %d: tensor<3x2x128x64xbf16>) -> (tensor<3x2x128x64xbf16>, tensor<3x2x128x64xbf16>, tensor<3x2x64x256xbf16>, tensor<3x2x256x64xbf16>) attributes {mesh = @d0} {
  %scale = dfg.constant dense<8.0> : tensor<bf16>
  %zero = dfg.constant dense<0.0> : tensor<bf16>
  %low = dfg.constant dense<-1.0e10> : tensor<bf16>
  %mask = dfg.read @hidden : tensor<1x1x128x256xi1>
  %0 = dfg.dot_general %q, %k {lhs_batch = array<i64: 0, 1>, lhs_contracting = array<i64: 3>, rhs_batch = array<i64: 0, 1>, rhs_contracting = array<i64: 2>} : (tensor<3x2x128x64xbf16>, tensor<3x2x64x256xbf16>) -> tensor<3x2x128x256xbf16>
  %1 = dfg.div %0, %scale : (tensor<3x2x128x256xbf16>, tensor<bf16>) -> tensor<3x2x128x256xbf16>
  %2 = dfg.select %mask, %low, %1 : (tensor<1x1x128x256xi1>, tensor<bf16>, tensor<3x2x128x256xbf16>) -> tensor<3x2x128x256xbf16>
  %3 = dfg.softmax %2 {dim = 3 : i64} : (tensor<3x2x128x256xbf16>) -> tensor<3x2x128x256xbf16>
  %4 = dfg.dot_general %3, %v {lhs_batch = array<i64: 0, 1>, lhs_contracting = array<i64: 3>, rhs_batch = array<i64: 0, 1>, rhs_contracting = array<i64: 2>} : (tensor<3x2x128x256xbf16>, tensor<3x2x256x64xbf16>) -> tensor<3x2x128x64xbf16>
  %5 = dfg.dot_general %d, %v {lhs_batch = array<i64: 0, 1>, lhs_contracting = array<i64: 3>, rhs_batch = array<i64: 0, 1>, rhs_contracting = array<i64: 3>, wide} : (tensor<3x2x128x64xbf16>, tensor<3x2x256x64xbf16>) -> tensor<3x2x128x256xf32>
  %6 = dfg.dot_general %3, %d {lhs_batch = array<i64: 0, 1>, lhs_contracting = array<i64: 2>, rhs_batch = array<i64: 0, 1>, rhs_contracting = array<i64: 2>} : (tensor<3x2x128x256xbf16>, tensor<3x2x128x64xbf16>) -> tensor<3x2x256x64xbf16>
  %7 = dfg.cast %3 {to = f32} : (tensor<3x2x128x256xbf16>) -> tensor<3x2x128x256xf32>
  %8 = dfg.mul %5, %7 : (tensor<3x2x128x256xf32>, tensor<3x2x128x256xf32>) -> tensor<3x2x128x256xf32>
  %9 = dfg.reduce %8 {dims = array<i64: 3>, keep_dims, kind = #dfg.reduce_kind<sum>} : (tensor<3x2x128x256xf32>) -> tensor<3x2x128x1xf32>
  %10 = dfg.sub %5, %9 : (tensor<3x2x128x256xf32>, tensor<3x2x128x1xf32>) -> tensor<3x2x128x256xf32>
  %11 = dfg.mul %7, %10 : (tensor<3x2x128x256xf32>, tensor<3x2x128x256xf32>) -> tensor<3x2x128x256xf32>
  %12 = dfg.cast %11 {to = bf16} : (tensor<3x2x128x256xf32>) -> tensor<3x2x128x256xbf16>
  %13 = dfg.select %mask, %zero, %12 : (tensor<1x1x128x256xi1>, tensor<bf16>, tensor<3x2x128x256xbf16>) -> tensor<3x2x128x256xbf16>
  %14 = dfg.div %13, %scale : (tensor<3x2x128x256xbf16>, tensor<bf16>) -> tensor<3x2x128x256xbf16>
  %15 = dfg.dot_general %14, %k {lhs_batch = array<i64: 0, 1>, lhs_contracting = array<i64: 3>, rhs_batch = array<i64: 0, 1>, rhs_contracting = array<i64: 3>} : (tensor<3x2x128x256xbf16>, tensor<3x2x64x256xbf16>) -> tensor<3x2x128x64xbf16>
  %16 = dfg.dot_general %q, %14 {lhs_batch = array<i64: 0, 1>, lhs_contracting = array<i64: 2>, rhs_batch = array<i64: 0, 1>, rhs_contracting = array<i64: 2>} : (tensor<3x2x128x64xbf16>, tensor<3x2x128x256xbf16>) -> tensor<3x2x64x256xbf16>
  dist.return %4, %15, %16, %6 : tensor<3x2x128x64xbf16>, tensor<3x2x128x64xbf16>, tensor<3x2x64x256xbf16>, tensor<3x2x256x64xbf16>
}

// A gradient of another scale is none of this attention's.
// CHECK-LABEL: dist.program @other_gradient
// CHECK: dfg.softmax
// REMARK-DAG: program "other_gradient": attention is not one kernel: its gradient is not that of all three operands (softmax)
dist.program @other_gradient(%q: tensor<6x128x64xbf16>, %k: tensor<6x256x64xbf16>, %v: tensor<6x256x64xbf16>, %d: tensor<6x128x64xbf16>) -> (tensor<6x128x64xbf16>, tensor<6x128x64xbf16>, tensor<6x256x64xbf16>, tensor<6x256x64xbf16>) attributes {mesh = @d0} {
  %scale = dfg.constant dense<8.0> : tensor<bf16>
  %other = dfg.constant dense<4.0> : tensor<bf16>
  %0 = dfg.dot_general %q, %k {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 2>} : (tensor<6x128x64xbf16>, tensor<6x256x64xbf16>) -> tensor<6x128x256xbf16>
  %1 = dfg.div %0, %scale : (tensor<6x128x256xbf16>, tensor<bf16>) -> tensor<6x128x256xbf16>
  %3 = dfg.softmax %1 {dim = 2 : i64} : (tensor<6x128x256xbf16>) -> tensor<6x128x256xbf16>
  %4 = dfg.dot_general %3, %v {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 1>} : (tensor<6x128x256xbf16>, tensor<6x256x64xbf16>) -> tensor<6x128x64xbf16>
  %5 = dfg.dot_general %d, %v {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 2>} : (tensor<6x128x64xbf16>, tensor<6x256x64xbf16>) -> tensor<6x128x256xbf16>
  %6 = dfg.dot_general %3, %d {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 1>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 1>} : (tensor<6x128x256xbf16>, tensor<6x128x64xbf16>) -> tensor<6x256x64xbf16>
  %8 = dfg.mul %5, %3 : (tensor<6x128x256xbf16>, tensor<6x128x256xbf16>) -> tensor<6x128x256xbf16>
  %9 = dfg.reduce %8 {dims = array<i64: 2>, keep_dims, kind = #dfg.reduce_kind<sum>} : (tensor<6x128x256xbf16>) -> tensor<6x128x1xbf16>
  %10 = dfg.sub %5, %9 : (tensor<6x128x256xbf16>, tensor<6x128x1xbf16>) -> tensor<6x128x256xbf16>
  %11 = dfg.mul %3, %10 : (tensor<6x128x256xbf16>, tensor<6x128x256xbf16>) -> tensor<6x128x256xbf16>
  %14 = dfg.div %11, %other : (tensor<6x128x256xbf16>, tensor<bf16>) -> tensor<6x128x256xbf16>
  %15 = dfg.dot_general %14, %k {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 1>} : (tensor<6x128x256xbf16>, tensor<6x256x64xbf16>) -> tensor<6x128x64xbf16>
  %16 = dfg.dot_general %14, %q {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 1>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 1>} : (tensor<6x128x256xbf16>, tensor<6x128x64xbf16>) -> tensor<6x256x64xbf16>
  dist.return %4, %15, %16, %6 : tensor<6x128x64xbf16>, tensor<6x128x64xbf16>, tensor<6x256x64xbf16>, tensor<6x256x64xbf16>
}

// A mask of numbers that are added, and one that may hide anything.
// CHECK-LABEL: dist.program @masks
// CHECK: plan.launch @[[CAUSAL_HEADS:cudnn.attention.[0-9]+]]
// CHECK: dfg.softmax
// REMARK-DAG: program "masks": attention is not one kernel: libraries know a scale and a causal mask before the softmax (select)
dist.program @masks(%q: tensor<6x128x64xbf16>, %k: tensor<6x256x64xbf16>, %v: tensor<6x256x64xbf16>) -> (tensor<6x128x64xbf16>, tensor<6x128x64xbf16>) attributes {mesh = @d0} {
  %low = dfg.constant dense<0xFF80> : tensor<bf16>
  %added = dfg.read @added : tensor<128x256xf32>
  %narrow = dfg.cast %added {to = bf16} : (tensor<128x256xf32>) -> tensor<128x256xbf16>
  %any = dfg.read @any : tensor<128x256xi1>
  %0 = dfg.dot_general %q, %k {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 2>} : (tensor<6x128x64xbf16>, tensor<6x256x64xbf16>) -> tensor<6x128x256xbf16>
  %1 = dfg.add %0, %narrow : (tensor<6x128x256xbf16>, tensor<128x256xbf16>) -> tensor<6x128x256xbf16>
  %2 = dfg.softmax %1 {dim = 2 : i64} : (tensor<6x128x256xbf16>) -> tensor<6x128x256xbf16>
  %3 = dfg.dot_general %2, %v {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 1>} : (tensor<6x128x256xbf16>, tensor<6x256x64xbf16>) -> tensor<6x128x64xbf16>
  %4 = dfg.dot_general %q, %k {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 2>} : (tensor<6x128x64xbf16>, tensor<6x256x64xbf16>) -> tensor<6x128x256xbf16>
  %5 = dfg.select %any, %4, %low : (tensor<128x256xi1>, tensor<6x128x256xbf16>, tensor<bf16>) -> tensor<6x128x256xbf16>
  %6 = dfg.softmax %5 {dim = 2 : i64} : (tensor<6x128x256xbf16>) -> tensor<6x128x256xbf16>
  %7 = dfg.dot_general %6, %v {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 1>} : (tensor<6x128x256xbf16>, tensor<6x256x64xbf16>) -> tensor<6x128x64xbf16>
  dist.return %3, %7 : tensor<6x128x64xbf16>, tensor<6x128x64xbf16>
}

// Scores below the mask's number would be the largest of a query.
// CHECK-LABEL: dist.program @mild_mask
// CHECK: dfg.softmax
dist.program @mild_mask(%q: tensor<6x128x64xbf16>, %k: tensor<6x256x64xbf16>, %v: tensor<6x256x64xbf16>) -> tensor<6x128x64xbf16> attributes {mesh = @d0} {
  %low = dfg.constant dense<-1.0e4> : tensor<bf16>
  %seen = dfg.read @seen : tensor<128x256xi1>
  %0 = dfg.dot_general %q, %k {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 2>} : (tensor<6x128x64xbf16>, tensor<6x256x64xbf16>) -> tensor<6x128x256xbf16>
  %1 = dfg.select %seen, %0, %low : (tensor<128x256xi1>, tensor<6x128x256xbf16>, tensor<bf16>) -> tensor<6x128x256xbf16>
  %2 = dfg.softmax %1 {dim = 2 : i64} : (tensor<6x128x256xbf16>) -> tensor<6x128x256xbf16>
  %3 = dfg.dot_general %2, %v {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 1>} : (tensor<6x128x256xbf16>, tensor<6x256x64xbf16>) -> tensor<6x128x64xbf16>
  dist.return %3 : tensor<6x128x64xbf16>
}

// Heads of 60 elements, which the library does not know.
// CHECK-LABEL: dist.program @odd_heads
// CHECK: dfg.softmax
// REMARK-DAG: program "odd_heads": attention is not one kernel: libraries have no kernel for heads of this size (dot_general)
dist.program @odd_heads(%q: tensor<6x128x60xbf16>, %k: tensor<6x256x60xbf16>, %v: tensor<6x256x60xbf16>) -> tensor<6x128x60xbf16> attributes {mesh = @d0} {
  %0 = dfg.dot_general %q, %k {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 2>} : (tensor<6x128x60xbf16>, tensor<6x256x60xbf16>) -> tensor<6x128x256xbf16>
  %2 = dfg.softmax %0 {dim = 2 : i64} : (tensor<6x128x256xbf16>) -> tensor<6x128x256xbf16>
  %3 = dfg.dot_general %2, %v {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 1>} : (tensor<6x128x256xbf16>, tensor<6x256x60xbf16>) -> tensor<6x128x60xbf16>
  dist.return %3 : tensor<6x128x60xbf16>
}

// Values of another size than keys.
// CHECK-LABEL: dist.program @wide_values
// CHECK: dfg.softmax
// REMARK-DAG: program "wide_values": attention is not one kernel: values have another size than keys (dot_general)
dist.program @wide_values(%q: tensor<6x128x64xbf16>, %k: tensor<6x256x64xbf16>, %v: tensor<6x256x32xbf16>) -> tensor<6x128x32xbf16> attributes {mesh = @d0} {
  %0 = dfg.dot_general %q, %k {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 2>} : (tensor<6x128x64xbf16>, tensor<6x256x64xbf16>) -> tensor<6x128x256xbf16>
  %p = dfg.softmax %0 {dim = 2 : i64} : (tensor<6x128x256xbf16>) -> tensor<6x128x256xbf16>
  %r = dfg.dot_general %p, %v {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 1>} : (tensor<6x128x256xbf16>, tensor<6x256x32xbf16>) -> tensor<6x128x32xbf16>
  dist.return %r : tensor<6x128x32xbf16>
}

// Behind a mask a negative factor makes what was hidden the largest, and a small one not low enough.
// CHECK-LABEL: dist.program @turned_mask
// CHECK: dfg.softmax
// REMARK-DAG: program "turned_mask": attention is not one kernel: libraries know a scale and a causal mask before the softmax (mul)
dist.program @turned_mask(%q: tensor<6x128x64xbf16>, %k: tensor<6x256x64xbf16>, %v: tensor<6x256x64xbf16>) -> tensor<6x128x64xbf16> attributes {mesh = @d0} {
  %low = dfg.constant dense<0xFF80> : tensor<bf16>
  %seen = dfg.read @seen : tensor<128x256xi1>
  %factor = dfg.constant dense<-1.0> : tensor<bf16>
  %0 = dfg.dot_general %q, %k {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 2>} : (tensor<6x128x64xbf16>, tensor<6x256x64xbf16>) -> tensor<6x128x256xbf16>
  %1 = dfg.select %seen, %0, %low : (tensor<128x256xi1>, tensor<6x128x256xbf16>, tensor<bf16>) -> tensor<6x128x256xbf16>
  %2 = dfg.mul %1, %factor : (tensor<6x128x256xbf16>, tensor<bf16>) -> tensor<6x128x256xbf16>
  %p = dfg.softmax %2 {dim = 2 : i64} : (tensor<6x128x256xbf16>) -> tensor<6x128x256xbf16>
  %r = dfg.dot_general %p, %v {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 1>} : (tensor<6x128x256xbf16>, tensor<6x256x64xbf16>) -> tensor<6x128x64xbf16>
  dist.return %r : tensor<6x128x64xbf16>
}

// CHECK-LABEL: dist.program @small_factor
// CHECK: dfg.softmax
dist.program @small_factor(%q: tensor<6x128x64xbf16>, %k: tensor<6x256x64xbf16>, %v: tensor<6x256x64xbf16>) -> tensor<6x128x64xbf16> attributes {mesh = @d0} {
  %low = dfg.constant dense<-1.0e9> : tensor<bf16>
  %seen = dfg.read @seen : tensor<128x256xi1>
  %factor = dfg.constant dense<1.0e-6> : tensor<bf16>
  %0 = dfg.dot_general %q, %k {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 2>} : (tensor<6x128x64xbf16>, tensor<6x256x64xbf16>) -> tensor<6x128x256xbf16>
  %1 = dfg.select %seen, %0, %low : (tensor<128x256xi1>, tensor<6x128x256xbf16>, tensor<bf16>) -> tensor<6x128x256xbf16>
  %2 = dfg.mul %1, %factor : (tensor<6x128x256xbf16>, tensor<bf16>) -> tensor<6x128x256xbf16>
  %p = dfg.softmax %2 {dim = 2 : i64} : (tensor<6x128x256xbf16>) -> tensor<6x128x256xbf16>
  %r = dfg.dot_general %p, %v {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 1>} : (tensor<6x128x256xbf16>, tensor<6x256x64xbf16>) -> tensor<6x128x64xbf16>
  dist.return %r : tensor<6x128x64xbf16>
}

// A factor on either side of the mask, and the mask's number rounded to bfloat16.
// CHECK-LABEL: dist.program @both_sides
// CHECK: plan.launch @[[BOTH:cudnn.attention.[0-9]+]]
// CHECK-NOT: dfg.softmax
dist.program @both_sides(%q: tensor<6x128x64xbf16>, %k: tensor<6x256x64xbf16>, %v: tensor<6x256x64xbf16>) -> tensor<6x128x64xbf16> attributes {mesh = @d0} {
  %low = dfg.constant dense<-1.0e9> : tensor<bf16>
  %seen = dfg.read @seen : tensor<128x256xi1>
  %factor = dfg.constant dense<0.5> : tensor<bf16>
  %0 = dfg.dot_general %q, %k {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 2>} : (tensor<6x128x64xbf16>, tensor<6x256x64xbf16>) -> tensor<6x128x256xbf16>
  %1 = dfg.mul %0, %factor : (tensor<6x128x256xbf16>, tensor<bf16>) -> tensor<6x128x256xbf16>
  %2 = dfg.select %seen, %1, %low : (tensor<128x256xi1>, tensor<6x128x256xbf16>, tensor<bf16>) -> tensor<6x128x256xbf16>
  %3 = dfg.mul %2, %factor : (tensor<6x128x256xbf16>, tensor<bf16>) -> tensor<6x128x256xbf16>
  %p = dfg.softmax %3 {dim = 2 : i64} : (tensor<6x128x256xbf16>) -> tensor<6x128x256xbf16>
  %r = dfg.dot_general %p, %v {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 1>} : (tensor<6x128x256xbf16>, tensor<6x256x64xbf16>) -> tensor<6x128x64xbf16>
  dist.return %r : tensor<6x128x64xbf16>
}

// A GPU of an architecture without such kernels.
// CHECK-LABEL: dist.program @older
// CHECK: dfg.softmax
// REMARK-NOT: program "older"
dist.program @older(%q: tensor<6x128x64xbf16>, %k: tensor<6x256x64xbf16>, %v: tensor<6x256x64xbf16>) -> tensor<6x128x64xbf16> attributes {mesh = @d2} {
  %0 = dfg.dot_general %q, %k {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 2>} : (tensor<6x128x64xbf16>, tensor<6x256x64xbf16>) -> tensor<6x128x256xbf16>
  %p = dfg.softmax %0 {dim = 2 : i64} : (tensor<6x128x256xbf16>) -> tensor<6x128x256xbf16>
  %r = dfg.dot_general %p, %v {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 1>} : (tensor<6x128x256xbf16>, tensor<6x256x64xbf16>) -> tensor<6x128x64xbf16>
  dist.return %r : tensor<6x128x64xbf16>
}

// Short sequences, float32 and processors keep their operators, without a remark.
// CHECK-LABEL: dist.program @short
// CHECK: dfg.softmax
// REMARK-NOT: program "short"
dist.program @short(%q: tensor<6x63x64xbf16>, %k: tensor<6x256x64xbf16>, %v: tensor<6x256x64xbf16>) -> tensor<6x63x64xbf16> attributes {mesh = @d0} {
  %0 = dfg.dot_general %q, %k {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 2>} : (tensor<6x63x64xbf16>, tensor<6x256x64xbf16>) -> tensor<6x63x256xbf16>
  %2 = dfg.softmax %0 {dim = 2 : i64} : (tensor<6x63x256xbf16>) -> tensor<6x63x256xbf16>
  %3 = dfg.dot_general %2, %v {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 1>} : (tensor<6x63x256xbf16>, tensor<6x256x64xbf16>) -> tensor<6x63x64xbf16>
  dist.return %3 : tensor<6x63x64xbf16>
}
// CHECK-LABEL: dist.program @on_processor
// CHECK: dfg.softmax
// REMARK-NOT: program "on_processor"
dist.program @on_processor(%q: tensor<6x128x64xbf16>, %k: tensor<6x256x64xbf16>, %v: tensor<6x256x64xbf16>) -> tensor<6x128x64xbf16> attributes {mesh = @d1} {
  %0 = dfg.dot_general %q, %k {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 2>} : (tensor<6x128x64xbf16>, tensor<6x256x64xbf16>) -> tensor<6x128x256xbf16>
  %2 = dfg.softmax %0 {dim = 2 : i64} : (tensor<6x128x256xbf16>) -> tensor<6x128x256xbf16>
  %3 = dfg.dot_general %2, %v {lhs_batch = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contracting = array<i64: 1>} : (tensor<6x128x256xbf16>, tensor<6x256x64xbf16>) -> tensor<6x128x64xbf16>
  dist.return %3 : tensor<6x128x64xbf16>
}

// CHECK-DAG: plan.library_kernel @[[CAUSAL]] "cudnn" "attention" {causal = array<i64: 1>, positions_first = array<i64: 1>, scale = array<f64: 1.250000e-01>}
// CHECK-DAG: plan.library_kernel @[[PLAIN]] "cudnn" "attention" {causal = array<i64: 0>, positions_first = array<i64: 0>, scale = array<f64: 5.000000e-01>}
// CHECK-DAG: plan.library_kernel @[[FORWARD]] "cudnn" "attention" {causal = array<i64: 1>, positions_first = array<i64: 0>, scale = array<f64: 1.250000e-01>}
// CHECK-DAG: plan.library_kernel @[[GRADIENT]] "cudnn" "attention_gradient" {causal = array<i64: 1>, positions_first = array<i64: 0>, scale = array<f64: 1.250000e-01>}
// CHECK-DAG: plan.library_kernel @[[BOTH]] "cudnn" "attention" {causal = array<i64: 1>, positions_first = array<i64: 0>, scale = array<f64: 2.500000e-01>}
// CHECK-DAG: plan.library_kernel @[[CAUSAL_HEADS]] "cudnn" "attention" {causal = array<i64: 1>, positions_first = array<i64: 0>, scale = array<f64: 1.000000e+00>}
}
