// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --plan-schedule --split-input-file | FileCheck %s

// Two devices: weights are loaded once, a queue for each direction that is used, waits across queues only.
// CHECK-LABEL: plan.program @main.d0 on @d0 queues ["compute", "send"] arena 384 live 384
// CHECK-DAG: %[[W:.*]] = plan.buffer "w" offset 0 bytes 256 : <tensor<8x8xf32>>
// CHECK-DAG: %[[X:.*]] = plan.buffer "x" offset {{[0-9]+}} bytes 32
// CHECK-DAG: %[[Y:.*]] = plan.buffer "fc" offset {{[0-9]+}} bytes 32
// CHECK: plan.prepare {
// CHECK-NEXT: plan.load_parameter @w -> %[[W]] {order = 0 : i64, queue = 0 : i64}
// CHECK-NEXT: {{^ *}$}}
// CHECK-NEXT: plan.body {
// CHECK-NEXT: plan.load_input 0 -> %[[X]] {order = 1 : i64, queue = 0 : i64}
// CHECK-NEXT: plan.call @fc(%[[X]], %[[W]]) -> (%[[Y]]) {order = 2 : i64, queue = 0 : i64}
// CHECK-NEXT: plan.send %[[Y]] to @d1 {channel = 0 : i64, order = 3 : i64, queue = 1 : i64, waits = [#plan.wait<queue = 0, value = 2>]}
// CHECK-NEXT: {{^ *}$}}
// CHECK-LABEL: plan.program @main.d1 on @d1 queues ["compute", "receive"] arena 128 live 128
// CHECK: plan.body {
// CHECK-NEXT: plan.receive %[[R:.*]] from @d0 {channel = 0 : i64, order = 3 : i64, queue = 1 : i64}
// CHECK-NEXT: plan.call @relu(%[[R]]) -> (%[[Z:.*]]) {order = 4 : i64, queue = 0 : i64, waits = [#plan.wait<queue = 1, value = 1>]}
// CHECK-NEXT: plan.store_output %[[Z]] -> 0 {order = 5 : i64, queue = 0 : i64}
module attributes {dist.devices = [{name = "cpu0", driver = "cpu", cores = 1 : i64, memory = 0 : i64},
                                   {name = "cpu1", driver = "cpu", cores = 1 : i64, memory = 0 : i64}]} {
  dist.mesh @d0 <[], devices = [0]>
  dist.mesh @d1 <[], devices = [1]>
  dfg.parameter @w : tensor<8x8xf32> = #dfg.fill<value = 1.0 : f64>
  plan.library_kernel @fc "onednn" "matmul" {} : (tensor<1x8xf32>, tensor<8x8xf32>) -> tensor<1x8xf32>
  plan.library_kernel @relu "onednn" "eltwise" {} : (tensor<1x8xf32>) -> tensor<1x8xf32>
  dist.program @main.d0(%x: tensor<1x8xf32> {dist.input = 0 : i64} loc("x"("Input"))) attributes {mesh = @d0} {
    %w = dfg.read @w : tensor<8x8xf32> loc("w"("Parameter"))
    %0 = plan.launch @fc(%x, %w) : (tensor<1x8xf32>, tensor<8x8xf32>) -> tensor<1x8xf32> loc("fc"("Gemm"))
    dist.send %0 to @d1 channel 0 : tensor<1x8xf32> loc("fc"("Gemm"))
    dist.return
  }
  dist.program @main.d1() -> (tensor<1x8xf32> {dist.output = 0 : i64}) attributes {mesh = @d1} {
    %0 = dist.receive from @d0 channel 0 : tensor<1x8xf32> loc("fc"("Gemm"))
    %1 = plan.launch @relu(%0) : (tensor<1x8xf32>) -> tensor<1x8xf32> loc("act"("Relu"))
    dist.return %1 : tensor<1x8xf32>
  }
}

// -----

// What depends on parameters and constants alone runs once: the reordered weight keeps its bytes, the weight as it was
// loaded does not, and so the input takes its place.
// CHECK-LABEL: plan.program @prepared on @d0 queues ["compute"] arena 192 live 192
// CHECK-DAG: plan.buffer "w" offset [[TEMPORARY:[0-9]+]] bytes 32
// CHECK-DAG: plan.buffer "folded" offset [[LASTING:[0-9]+]] bytes 32
// CHECK-DAG: plan.buffer "x" offset [[TEMPORARY]] bytes 32
// CHECK: plan.prepare {
// CHECK-NEXT: plan.load_parameter @w ->
// CHECK-NEXT: plan.load_constant dense<2.000000e+00> : tensor<8xf32> ->
// CHECK-NEXT: plan.call @add(
// CHECK-NEXT: {{^ *}$}}
// CHECK-NEXT: plan.body {
// CHECK-NEXT: plan.load_input 0 ->
// CHECK-NEXT: plan.call @add(
// CHECK-NEXT: plan.store_output
// CHECK-NEXT: {{^ *}$}}
module {
  dist.mesh @d0 <[], devices = [0]>
  dfg.parameter @w : tensor<8xf32> = #dfg.fill<value = 1.0 : f64>
  dfg.parameter @unused : tensor<8xf32> = #dfg.fill<value = 1.0 : f64>
  plan.library_kernel @add "onednn" "binary" {} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  dist.program @prepared(%x: tensor<8xf32> loc("x"("Input"))) -> tensor<8xf32> attributes {mesh = @d0} {
    %u = dfg.read @unused : tensor<8xf32>
    %w = dfg.read @w : tensor<8xf32> loc("w"("Parameter"))
    %c = dfg.constant dense<2.0> : tensor<8xf32>
    %0 = plan.launch @add(%w, %c) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> loc("folded"("Add"))
    %1 = plan.launch @add(%x, %0) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> loc("sum"("Add"))
    dist.return %1 : tensor<8xf32>
  }
}

// -----

// A view is another buffer over the same bytes; an input may be an output; scratch memory is a buffer of the call.
// CHECK-LABEL: plan.program @views on @d0
// CHECK: %[[X:.*]] = plan.buffer "x" offset [[O:[0-9]+]] bytes 32 : <tensor<2x4xf32>>
// CHECK-NEXT: %[[V:.*]] = plan.buffer "flat" offset [[O]] bytes 32 of %[[X]] : !plan.buffer<tensor<2x4xf32>> : <tensor<8xf32>>
// CHECK: %[[S:.*]] = plan.buffer "scratch" offset {{[0-9]+}} bytes 100 : <tensor<100xi8>>
// CHECK: plan.load_input 1 -> %[[X]]
// CHECK-NEXT: plan.store_output %[[X]] -> 1
// CHECK-NEXT: plan.call @softmax(%[[V]]) -> (%[[Y:.*]]) scratch(%[[S]] : !plan.buffer<tensor<100xi8>>)
// CHECK-NEXT: plan.store_output %[[Y]] -> 0
module {
  dist.mesh @d0 <[], devices = [0]>
  plan.library_kernel @softmax "onednn" "softmax" {} {scratch_bytes = 100 : i64} : (tensor<8xf32>) -> tensor<8xf32>
  dist.program @views(%x: tensor<2x4xf32> {dist.input = 1 : i64} loc("x"("Input"))) -> (tensor<8xf32>, tensor<2x4xf32>) attributes {mesh = @d0} {
    %0 = dfg.reshape %x : (tensor<2x4xf32>) -> tensor<8xf32> loc("flat"("Flatten"))
    %1 = plan.launch @softmax(%0) : (tensor<8xf32>) -> tensor<8xf32> loc("prob"("Softmax"))
    dist.return %1, %x : tensor<8xf32>, tensor<2x4xf32>
  }
}

// -----

// On a mesh: parts are loaded by tiles, what no step changes once; collectives have a queue and channels behind those of
// the transfers; a sum that nobody else reads lies where it was made, so the arena needs no second place for it.
// CHECK-LABEL: plan.program @main.grid on @grid queues ["compute", "send", "collective"]
// CHECK-DAG: %[[W:.*]] = plan.buffer "w" offset {{[0-9]+}} bytes 64
// CHECK-DAG: %[[X:.*]] = plan.buffer "x" offset {{[0-9]+}} bytes 16
// CHECK-DAG: %[[I:.*]] = plan.buffer "start" offset {{[0-9]+}} bytes 8
// CHECK: plan.prepare {
// CHECK-DAG: plan.load_parameter @w -> %[[W]] {order = {{.*}}, tile = #plan.tile<[8 by [1 of 4], 8 by [0 of 4]]>}
// CHECK-DAG: plan.load_index "start" 0 of <[8 by [1 of 4]]> -> %[[I]]
// CHECK: plan.body {
// CHECK-NEXT: plan.load_input 0 -> %[[X]] {{.*}}tile = #plan.tile<[1, 8 by [1 of 4]]>
// CHECK-NEXT: plan.call @fc(%[[X]], %[[W]], %[[I]]) -> (%[[Y:.*]]) {
// CHECK-NEXT: plan.all_reduce "sum" over [1] %[[Y]] -> %[[Y]] {channel = 5 : i64, order = {{.*}}, queue = 2 : i64, waits = [#plan.wait<queue = 0, value = 2>]}
// CHECK-NEXT: plan.exchange "all_gather" %[[Y]] -> %[[G:.*]] {channel = 6 : i64, {{.*}}source_tiles = [#plan.tile<[1, 8 by [0 of 4]]>]}
// CHECK-NEXT: plan.send %[[Y]] to @d4 {channel = 4 : i64, order = {{.*}}, queue = 1 : i64, source_tile = #plan.tile<[1, 8 by [0 of 4]]>, waits = [#plan.wait<queue = 2, value = 1>]}
// CHECK-NEXT: plan.store_output %[[G]] -> 0 {{.*}}waits = [#plan.wait<queue = 2, value = 2>]
// CHECK-LABEL: plan.program @main.d4 on @d4
// CHECK: plan.receive %{{.*}} from @grid {channel = 4 : i64, {{.*}}source_tile = #plan.tile<[1, 8 by [0 of 4]]>}
module {
  dist.mesh @grid <["a" = 2, "b" = 2], devices = [0, 1, 2, 3]>
  dist.mesh @d4 <[], devices = [4]>
  dfg.parameter @w : tensor<8x8xf32> = #dfg.fill<value = 1.0 : f64>
  plan.library_kernel @fc "test" "fc" {} : (tensor<1x4xf32>, tensor<4x4xf32>, tensor<i64>) -> tensor<1x4xf32>
  dist.program @main.grid(%x: tensor<1x4xf32> {dist.input = 0 : i64, dist.layout = #dist.layout<[1, 8 by ["b"]]>} loc("x"("Input")))
      -> (tensor<1x8xf32> {dist.output = 0 : i64}) attributes {mesh = @grid} {
    %w = dist.shard_of @w <[8 by ["b"], 8 by ["a"]]> : tensor<4x4xf32> loc("w"("Parameter"))
    %i = dist.start <[8 by ["b"]]> dim 0 part 0 : tensor<i64> loc("start"("Start"))
    %0 = plan.launch @fc(%x, %w, %i) : (tensor<1x4xf32>, tensor<4x4xf32>, tensor<i64>) -> tensor<1x4xf32> loc("fc"("Gemm"))
    %1 = dist.all_reduce %0 from <[1, 8 by ["a"]], partial sum ["b"]> to <[1, 8 by ["a"]]> : tensor<1x4xf32> -> tensor<1x4xf32> loc("fc"("Gemm"))
    %2 = dist.all_gather %1 from <[1, 8 by ["a"]]> to <[1, 8]> : tensor<1x4xf32> -> tensor<1x8xf32> loc("fc"("Gemm"))
    dist.send %1 to @d4 channel 4 from <[1, 8 by ["a"]]> to <[1, 8]> : tensor<1x4xf32> loc("fc"("Gemm"))
    dist.return %2 : tensor<1x8xf32>
  }
  dist.program @main.d4() -> (tensor<1x8xf32> {dist.output = 1 : i64}) attributes {mesh = @d4} {
    %0 = dist.receive from @grid channel 4 from <[1, 8 by ["a"]]> to <[1, 8]> : tensor<1x8xf32> loc("fc"("Gemm"))
    dist.return %0 : tensor<1x8xf32>
  }
}

// -----

// What leads to the longest communication comes first. At 5 us a message and 10 GB/s, the sum of 1 MiB takes two messages
// of half of it, 115 us; a device receives 256 KiB of the gathered tensor, 31 us; the sum of 16 bytes takes 10 us.
// CHECK-LABEL: plan.program @urgent on @pair
// CHECK: plan.body {
// CHECK: plan.call @large(
// CHECK: plan.call @middle(
// CHECK: plan.call @small(
module {
  dist.mesh @pair <["a" = 2], devices = [0, 1]>
  plan.library_kernel @small "test" "small" {} : (tensor<4xf32>) -> tensor<4xf32>
  plan.library_kernel @middle "test" "middle" {} : (tensor<65536xf32>) -> tensor<65536xf32>
  plan.library_kernel @large "test" "large" {} : (tensor<262144xf32>) -> tensor<262144xf32>
  dist.program @urgent(%x: tensor<4xf32> {dist.input = 0 : i64}, %y: tensor<65536xf32> {dist.input = 1 : i64},
                       %z: tensor<262144xf32> {dist.input = 2 : i64})
      -> (tensor<4xf32> {dist.output = 0 : i64}, tensor<131072xf32> {dist.output = 1 : i64},
          tensor<262144xf32> {dist.output = 2 : i64}) attributes {mesh = @pair} {
    %0 = plan.launch @small(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = plan.launch @middle(%y) : (tensor<65536xf32>) -> tensor<65536xf32>
    %2 = plan.launch @large(%z) : (tensor<262144xf32>) -> tensor<262144xf32>
    %3 = dist.all_reduce %0 from <[4], partial sum ["a"]> to <[4]> : tensor<4xf32> -> tensor<4xf32>
    %4 = dist.all_gather %1 from <[131072 by ["a"]]> to <[131072]> : tensor<65536xf32> -> tensor<131072xf32>
    %5 = dist.all_reduce %2 from <[262144], partial sum ["a"]> to <[262144]> : tensor<262144xf32> -> tensor<262144xf32>
    dist.return %3, %4, %5 : tensor<4xf32>, tensor<131072xf32>, tensor<262144xf32>
  }
}

// -----

// What one device passes on to the next, and that to the one after it, begins when the device is done with what it had
// before (the load and the first call): no more than two of them are there at a time.
// CHECK-LABEL: plan.program @main.ring
// CHECK: plan.exchange "permute" %[[X:.*]] -> %[[Y:[0-9a-z]+]] {channel = 0 : i64
// CHECK: plan.exchange "permute" %[[Y]] -> %{{.*}} {channel = 1 : i64, {{.*}}target_tiles = [#plan.tile<[12 by [0 of 4 shift 2 of 3], 64]>], waits = [#plan.wait<queue = 0, value = 2>]}
module attributes {dist.devices = [{name = "cpu0", driver = "cpu", cores = 1 : i64, memory = 0 : i64},
                                   {name = "cpu1", driver = "cpu", cores = 1 : i64, memory = 0 : i64},
                                   {name = "cpu2", driver = "cpu", cores = 1 : i64, memory = 0 : i64}]} {
  dist.mesh @ring <["x" = 3], devices = [0, 1, 2]>
  plan.library_kernel @relu "onednn" "eltwise" {} : (tensor<4x64xf32>) -> tensor<4x64xf32>
  dist.program @main.ring(%x: tensor<4x64xf32> {dist.input = 0 : i64, dist.layout = #dist.layout<[12 by ["x"], 64]>})
      -> (tensor<4x64xf32> {dist.output = 0 : i64, dist.layout = #dist.layout<[12 by ["x"], 64]>},
          tensor<4x64xf32> {dist.output = 1 : i64, dist.layout = #dist.layout<[12 by ["x"], 64]>},
          tensor<4x64xf32> {dist.output = 2 : i64, dist.layout = #dist.layout<[12 by ["x"], 64]>}) attributes {mesh = @ring} {
    %1 = dist.permute %x from <[12 by ["x"], 64]> to <[12 by ["x"] shift [1], 64]> : tensor<4x64xf32> -> tensor<4x64xf32> loc("k"("Neg"))
    %a = plan.launch @relu(%x) : (tensor<4x64xf32>) -> tensor<4x64xf32> loc("a"("Relu"))
    %2 = dist.permute %1 from <[12 by ["x"] shift [1], 64]> to <[12 by ["x"] shift [2], 64]> : tensor<4x64xf32> -> tensor<4x64xf32> loc("k"("Neg"))
    %b = plan.launch @relu(%1) : (tensor<4x64xf32>) -> tensor<4x64xf32> loc("b"("Relu"))
    %c = plan.launch @relu(%2) : (tensor<4x64xf32>) -> tensor<4x64xf32> loc("c"("Relu"))
    dist.return %a, %b, %c : tensor<4x64xf32>, tensor<4x64xf32>, tensor<4x64xf32>
  }
}
