// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --split-input-file --plan-schedule | FileCheck %s

// A sum is made where the operand lies that has no other reader: not in that of the output, and the input is read again.
// CHECK-LABEL: plan.program @sum
// CHECK-DAG: %[[X:.*]] = plan.buffer "x"
// CHECK-DAG: %[[P:.*]] = plan.buffer "product"
// CHECK-NOT: plan.buffer "sum"
// CHECK: plan.body {
// CHECK: plan.call @product(%[[X]]) -> (%[[P]])
// CHECK: plan.call @add(%[[X]], %[[P]]) -> (%[[P]])
// CHECK: plan.call @product(%[[X]]) -> (%[[Q:.*]]) {
// CHECK: plan.call @add(%[[Q]], %[[P]]) -> (%[[P]])
module {
  dist.mesh @d0 <[], devices = [0]>
  plan.library_kernel @product "onednn" "matmul" {} : (tensor<8xf32>) -> tensor<8xf32>
  plan.native_kernel @add {
  ^bb0(%a: tensor<8xf32>, %b: tensor<8xf32>):
    %0 = dfg.add %a, %b : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    plan.yield %0 : tensor<8xf32>
  }
  dist.program @sum(%x: tensor<8xf32> {dist.input = 0 : i64} loc("x"("Input"))) -> (tensor<8xf32> {dist.output = 0 : i64}, tensor<8xf32> {dist.output = 1 : i64}) attributes {mesh = @d0} {
    %p = plan.launch @product(%x) : (tensor<8xf32>) -> tensor<8xf32> loc("product"("Gemm"))
    %s = plan.launch @add(%x, %p) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> loc("sum"("Add"))
    %q = plan.launch @product(%x) : (tensor<8xf32>) -> tensor<8xf32> loc("other"("Gemm"))
    %t = plan.launch @add(%q, %s) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> loc("sums"("Add"))
    dist.return %t, %q : tensor<8xf32>, tensor<8xf32>
  }
}

// -----

// What is made once, before the first step, is there for all steps; and so is a parameter.
// CHECK-LABEL: plan.program @once
// CHECK-DAG: %[[W:.*]] = plan.buffer "w"
// CHECK-DAG: %[[P:.*]] = plan.buffer "product"
// CHECK-DAG: %[[S:.*]] = plan.buffer "sum"
// CHECK-DAG: %[[T:.*]] = plan.buffer "sums"
// CHECK: plan.prepare {
// CHECK: plan.call @product(%[[W]]) -> (%[[P]])
// CHECK: plan.body {
// CHECK: plan.call @add(%[[X:.*]], %[[P]]) -> (%[[S]])
// CHECK: plan.call @add(%[[X]], %{{.*}}) -> (%[[T]])
module {
  dist.mesh @d0 <[], devices = [0]>
  dfg.parameter @w : tensor<8xf32> = #dfg.fill<value = 1.0 : f64>
  dfg.parameter @v : tensor<8xf32> = #dfg.fill<value = 1.0 : f64>
  plan.library_kernel @product "onednn" "matmul" {} : (tensor<8xf32>) -> tensor<8xf32>
  plan.native_kernel @add {
  ^bb0(%a: tensor<8xf32>, %b: tensor<8xf32>):
    %0 = dfg.add %a, %b : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    plan.yield %0 : tensor<8xf32>
  }
  dist.program @once(%x: tensor<8xf32> {dist.input = 0 : i64} loc("x"("Input"))) -> (tensor<8xf32> {dist.output = 0 : i64}, tensor<8xf32> {dist.output = 1 : i64}, tensor<8xf32> {dist.output = 2 : i64}) attributes {mesh = @d0} {
    %w = dfg.read @w : tensor<8xf32> loc("w"("Parameter"))
    %v = dfg.read @v : tensor<8xf32> loc("v"("Parameter"))
    %p = plan.launch @product(%w) : (tensor<8xf32>) -> tensor<8xf32> loc("product"("Gemm"))
    %s = plan.launch @add(%x, %p) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> loc("sum"("Add"))
    %t = plan.launch @add(%x, %v) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> loc("sums"("Add"))
    dist.return %s, %t, %x : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
  }
}

// -----

// A kernel that reads an element for others, or in another order, or writes more than one result, keeps its operand; so
// does one for GPUs.
// CHECK-LABEL: plan.program @kept
// CHECK-DAG: %[[P:.*]] = plan.buffer "product"
// CHECK-DAG: %[[T:.*]] = plan.buffer "turned"
// CHECK-DAG: %[[M:.*]] = plan.buffer "mean"
// CHECK-DAG: %[[G:.*]] = plan.buffer "gpu"
// CHECK-DAG: %[[N:.*]] = plan.buffer "two" {{.*}} bytes 256
// CHECK: plan.call @turned(%[[P]]) -> (%[[T]])
// CHECK: plan.call @mean(%[[T]]) -> (%[[M]])
// CHECK: plan.call @gpu(%[[M]]) -> (%[[G]])
// CHECK: plan.call @two(%[[G]]) -> (%[[N]], %{{.*}})
module {
  dist.mesh @d0 <[], devices = [0]>
  plan.library_kernel @product "onednn" "matmul" {} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  plan.native_kernel @turned {
  ^bb0(%a: tensor<8x8xf32>):
    %0 = dfg.transpose %a {permutation = array<i64: 1, 0>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    plan.yield %0 : tensor<8x8xf32>
  }
  plan.native_kernel @mean {
  ^bb0(%a: tensor<8x8xf32>):
    %0 = dfg.reduce %a {dims = array<i64: 1>, keep_dims, kind = #dfg.reduce_kind<sum>} : (tensor<8x8xf32>) -> tensor<8x1xf32>
    %1 = dfg.sub %a, %0 : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x8xf32>
    plan.yield %1 : tensor<8x8xf32>
  }
  plan.native_kernel @two {
  ^bb0(%a: tensor<8x8xf32>):
    %0 = dfg.neg %a : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = dfg.reduce %0 {dims = array<i64: 1>, kind = #dfg.reduce_kind<sum>} : (tensor<8x8xf32>) -> tensor<8xf32>
    plan.yield %0, %1 : tensor<8x8xf32>, tensor<8xf32>
  }
  plan.native_kernel @gpu attributes {driver = "cuda"} {
  ^bb0(%a: tensor<8x8xf32>):
    %0 = dfg.neg %a : (tensor<8x8xf32>) -> tensor<8x8xf32>
    plan.yield %0 : tensor<8x8xf32>
  }
  dist.program @kept(%x: tensor<8x8xf32> {dist.input = 0 : i64} loc("x"("Input"))) -> (tensor<8x8xf32> {dist.output = 0 : i64}, tensor<8xf32> {dist.output = 1 : i64}) attributes {mesh = @d0} {
    %p = plan.launch @product(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32> loc("product"("Gemm"))
    %t = plan.launch @turned(%p) : (tensor<8x8xf32>) -> tensor<8x8xf32> loc("turned"("Transpose"))
    %m = plan.launch @mean(%t) : (tensor<8x8xf32>) -> tensor<8x8xf32> loc("mean"("Sub"))
    %g = plan.launch @gpu(%m) : (tensor<8x8xf32>) -> tensor<8x8xf32> loc("gpu"("Neg"))
    %n:2 = plan.launch @two(%g) : (tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>) loc("two"("Neg"))
    dist.return %n#0, %n#1 : tensor<8x8xf32>, tensor<8xf32>
  }
}
