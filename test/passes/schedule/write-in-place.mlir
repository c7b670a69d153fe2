// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --split-input-file --plan-schedule | FileCheck %s

// A step of momentum: the new momentum is computed where the old one lies, although the new weight is computed from it;
// so is the new weight, when the old one has been read. A parameter whose new value is another one's is copied.
// CHECK-LABEL: plan.program @step
// CHECK-DAG: %[[M:.*]] = plan.buffer "m"
// CHECK-DAG: %[[W:.*]] = plan.buffer "w"
// CHECK-DAG: %[[C:.*]] = plan.buffer "copy"
// CHECK-DAG: %[[G:.*]] = plan.buffer "gradient"
// CHECK: plan.body {
// CHECK: plan.call @product(%{{.*}}, %[[W]]) -> (%[[G]])
// CHECK: plan.call @momentum(%[[M]], %[[G]]) -> (%[[M]])
// CHECK: plan.call @update(%[[W]], %[[M]]) -> (%[[W]])
// CHECK: plan.copy %[[M]] -> %[[C]]
// CHECK-NOT: plan.copy
module {
  dist.mesh @d0 <[], devices = [0]>
  dfg.parameter @w : tensor<8xf32> = #dfg.fill<value = 1.0 : f64>
  dfg.parameter state @m : tensor<8xf32> = #dfg.fill<value = 0.0 : f64>
  dfg.parameter state @copy : tensor<8xf32> = #dfg.fill<value = 0.0 : f64>
  plan.library_kernel @product "onednn" "matmul" {} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  plan.native_kernel @momentum {
  ^bb0(%m: tensor<8xf32>, %g: tensor<8xf32>):
    %0 = dfg.add %m, %g : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    plan.yield %0 : tensor<8xf32>
  }
  plan.native_kernel @update {
  ^bb0(%w: tensor<8xf32>, %m: tensor<8xf32>):
    %0 = dfg.sub %w, %m : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    plan.yield %0 : tensor<8xf32>
  }
  dist.program @step(%x: tensor<8xf32> {dist.input = 0 : i64} loc("x"("Input"))) attributes {mesh = @d0} {
    %w = dfg.read @w : tensor<8xf32> loc("w"("Parameter"))
    %m = dfg.read @m : tensor<8xf32> loc("m"("Parameter"))
    %c = dfg.read @copy : tensor<8xf32> loc("copy"("Parameter"))
    %g = plan.launch @product(%x, %w) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> loc("gradient"("Gemm"))
    %nm = plan.launch @momentum(%m, %g) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> loc("momentum"("momentum"))
    %nw = plan.launch @update(%w, %nm) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> loc("update"("momentum"))
    dist.write @m <[8]>, %nm : tensor<8xf32> loc("momentum"("momentum"))
    dist.write @w <[8]>, %nw : tensor<8xf32> loc("update"("momentum"))
    dist.write @copy <[8]>, %nm : tensor<8xf32> loc("copy"("momentum"))
    dist.return
  }
}

// -----

// What is computed from the old weight when the new one is there already may be computed behind it.
// CHECK-LABEL: plan.program @needed_later
// CHECK-DAG: %[[W:.*]] = plan.buffer "w"
// CHECK-DAG: %[[U:.*]] = plan.buffer "update
// CHECK: plan.call @update(%[[W]], %{{.*}}) -> (%[[U]]
// CHECK: plan.copy %[[U]]{{.*}} -> %[[W]]
module {
  dist.mesh @d0 <[], devices = [0]>
  dfg.parameter @w : tensor<8xf32> = #dfg.fill<value = 1.0 : f64>
  plan.native_kernel @update {
  ^bb0(%w: tensor<8xf32>, %g: tensor<8xf32>):
    %0 = dfg.sub %w, %g : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %1 = dfg.mul %w, %g : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    plan.yield %0, %1 : tensor<8xf32>, tensor<8xf32>
  }
  dist.program @needed_later(%x: tensor<8xf32> {dist.input = 0 : i64} loc("x"("Input"))) -> (tensor<8xf32> {dist.output = 0 : i64}) attributes {mesh = @d0} {
    %w = dfg.read @w : tensor<8xf32> loc("w"("Parameter"))
    %u:2 = plan.launch @update(%w, %x) : (tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) loc("update"("momentum"))
    dist.write @w <[8]>, %u#0 : tensor<8xf32> loc("update"("momentum"))
    dist.return %u#1 : tensor<8xf32>
  }
}

// -----

// An element of the old weight is read for many others.
// CHECK-LABEL: plan.program @broadcast
// CHECK-DAG: %[[W:.*]] = plan.buffer "w"
// CHECK-DAG: %[[U:.*]] = plan.buffer "update
// CHECK: plan.call @update(%[[W]], %{{.*}}) -> (%[[U]]
// CHECK: plan.copy %[[U]]{{.*}} -> %[[W]]
module {
  dist.mesh @d0 <[], devices = [0]>
  dfg.parameter @w : tensor<8xf32> = #dfg.fill<value = 1.0 : f64>
  plan.native_kernel @update {
  ^bb0(%w: tensor<8xf32>, %g: tensor<8xf32>):
    %2 = dfg.broadcast %w : (tensor<8xf32>) -> tensor<4x8xf32>
    %0 = dfg.sub %w, %g : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %1 = dfg.neg %2 : (tensor<4x8xf32>) -> tensor<4x8xf32>
    plan.yield %0, %1 : tensor<8xf32>, tensor<4x8xf32>
  }
  dist.program @broadcast(%x: tensor<8xf32> {dist.input = 0 : i64} loc("x"("Input"))) -> (tensor<4x8xf32> {dist.output = 0 : i64}) attributes {mesh = @d0} {
    %w = dfg.read @w : tensor<8xf32> loc("w"("Parameter"))
    %u:2 = plan.launch @update(%w, %x) : (tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<4x8xf32>) loc("update"("momentum"))
    dist.write @w <[8]>, %u#0 : tensor<8xf32> loc("update"("momentum"))
    dist.return %u#1 : tensor<4x8xf32>
  }
}

// -----

// A program may write a parameter that it does not read, whole or in parts.
// CHECK-LABEL: plan.program @writes_alone
// CHECK-DAG: %[[W:.*]] = plan.buffer "w"
// CHECK-DAG: %[[V:.*]] = plan.buffer "v"
// CHECK-DAG: %[[X:.*]] = plan.buffer "x"
// CHECK: plan.state @w in %[[W]]
// CHECK-DAG: plan.copy %[[X]] -> %[[W]]
// CHECK-DAG: plan.copy %[[X]] -> %[[V]]
module {
  dist.mesh @pair <["x" = 2], devices = [0, 1]>
  dfg.parameter state @w : tensor<8xf32> = #dfg.fill<value = 0.0 : f64>
  dfg.parameter state @v : tensor<16xf32> = #dfg.fill<value = 0.0 : f64>
  dist.program @writes_alone(%x: tensor<8xf32> {dist.input = 0 : i64} loc("x"("Input"))) attributes {mesh = @pair} {
    dist.write @w <[8]>, %x : tensor<8xf32> loc("w"("State"))
    dist.write @v <[16 by ["x"]]>, %x : tensor<8xf32> loc("v"("State"))
    dist.return
  }
}
