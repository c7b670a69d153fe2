// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --split-input-file --plan-schedule | FileCheck %s

// What moves to the host's memory has bytes there, a queue there and a queue back. Between, another value has its bytes of
// the arena, which waits until it has gone.
// CHECK: plan.program @main.d0 on @d0 queues ["compute", "send", "receive"] arena 12288 live 12288 host 4096 {
// CHECK: %[[A:.*]] = plan.buffer "a" offset [[AT:[0-9]+]] bytes 4096
// CHECK: %[[KEPT:.*]] = plan.buffer "a" host offset 0 bytes 4096 : <tensor<1024xf32>>
// CHECK: %[[C:.*]] = plan.buffer "c" offset [[AT]] bytes 4096
// CHECK: plan.body {
// CHECK: plan.call @relu({{.*}}) -> (%[[A]])
// CHECK: plan.offload %[[A]] -> %[[KEPT]] {order = {{[0-9]+}} : i64, queue = 1 : i64, waits = [#plan.wait<queue = 0, value = 2>]} : <tensor<1024xf32>>
// CHECK: plan.call @relu({{.*}}) -> (%[[C]]) {order = {{[0-9]+}} : i64, queue = 0 : i64, waits = [#plan.wait<queue = 1, value = 1>]}
// CHECK: plan.fetch %[[KEPT]] -> %{{.*}} {order = {{[0-9]+}} : i64, queue = 2 : i64, waits = [{{.*}}#plan.wait<queue = 1, value = 1>]} : <tensor<1024xf32>>
module attributes {dist.devices = [{name = "cpu0", driver = "cpu", cores = 1 : i64, memory = 0 : i64}]} {
  dist.mesh @d0 <[], devices = [0]>
  plan.library_kernel @relu "onednn" "eltwise" {} : (tensor<1024xf32>) -> tensor<1024xf32>
  plan.library_kernel @add "onednn" "binary" {} : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  dist.program @main.d0(%x: tensor<1024xf32> {dist.input = 0 : i64} loc("x"("Input")))
      -> (tensor<1024xf32> {dist.output = 0 : i64}) attributes {mesh = @d0, dist.ordered} {
    %a = plan.launch @relu(%x) : (tensor<1024xf32>) -> tensor<1024xf32> loc("a"("Relu"))
    %kept = dfg.offload %a : (tensor<1024xf32>) -> tensor<1024xf32> loc("a"("Relu"))
    %b = plan.launch @relu(%a) : (tensor<1024xf32>) -> tensor<1024xf32> loc("b"("Relu"))
    %c = plan.launch @relu(%b) : (tensor<1024xf32>) -> tensor<1024xf32> loc("c"("Relu"))
    %d = plan.launch @relu(%c) : (tensor<1024xf32>) -> tensor<1024xf32> loc("d"("Relu"))
    %back = dfg.fetch %kept : (tensor<1024xf32>) -> tensor<1024xf32> loc("back"("Relu"))
    %y = plan.launch @add(%d, %back) : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32> loc("y"("Add"))
    dist.return %y : tensor<1024xf32>
  }
}

// -----

// A step of momentum whose state lies in the host's memory: it is loaded there once, the new momentum is computed where the
// old one was brought, and goes back to where that lies.
// CHECK-LABEL: plan.program @step
// CHECK-SAME: host 64 {
// CHECK-DAG: %[[M:.*]] = plan.buffer "m" host offset 0 bytes 32
// CHECK-DAG: %[[OLD:.*]] = plan.buffer "fetched" offset
// CHECK-DAG: plan.state @m in %[[M]]
// CHECK: plan.prepare {
// CHECK: plan.load_parameter @m -> %[[M]]
// CHECK: plan.body {
// CHECK-DAG: plan.fetch %[[M]] -> %[[OLD]]
// CHECK: plan.call @momentum(%[[OLD]], %{{.*}}) -> (%[[OLD]])
// CHECK: plan.offload %[[OLD]] -> %[[M]]
// CHECK-NOT: plan.copy
module attributes {dist.devices = [{name = "cpu0", driver = "cpu", cores = 1 : i64, memory = 0 : i64}]} {
  dist.mesh @d0 <[], devices = [0]>
  dfg.parameter state @m : tensor<8xf32> = #dfg.fill<value = 0.0 : f64>
  plan.native_kernel @momentum {
  ^bb0(%m: tensor<8xf32>, %g: tensor<8xf32>):
    %0 = dfg.add %m, %g : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    plan.yield %0 : tensor<8xf32>
  }
  dist.program @step(%x: tensor<8xf32> {dist.input = 0 : i64} loc("x"("Input"))) attributes {mesh = @d0, dist.ordered} {
    %m = dfg.read @m {dist.changes} : tensor<8xf32> loc("m"("Parameter"))
    %old = dfg.fetch %m : (tensor<8xf32>) -> tensor<8xf32> loc("fetched"("State"))
    %nm = plan.launch @momentum(%old, %x) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> loc("momentum"("momentum"))
    %kept = dfg.offload %nm : (tensor<8xf32>) -> tensor<8xf32> loc("offloaded"("State"))
    dist.write @m <[8]>, %kept : tensor<8xf32> loc("momentum"("momentum"))
    dist.return
  }
}
