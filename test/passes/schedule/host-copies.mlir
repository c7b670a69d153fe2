// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --plan-schedule | FileCheck %s

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
