// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --plan-schedule --split-input-file | FileCheck %s

// What is urgent is for the machine to say. A sum of 16 bytes takes two messages, a gathering of which a device receives
// 256 KiB takes one. At 100 us a message and 100 GB/s the sum takes 200 us and the gathering 103 us: what leads to the
// sum comes first, though it stands behind.
// CHECK-LABEL: plan.program @urgent on @pair
// CHECK: plan.body {
// CHECK: plan.call @small(
// CHECK: plan.call @large(
module {
  dist.machine @machine {device_kinds = {gpu = {bandwidth = "1 TB/s", peak = {f32 = "10 TFLOP/s"}}},
    hosts = [{devices = [{kind = "gpu", count = "2"}], links = [{between = "devices", bandwidth = "100 GB/s", latency = "100 us"}]}]}
  dist.mesh @pair <["a" = 2], devices = [0, 1]>
  plan.library_kernel @small "test" "small" {} : (tensor<4xf32>) -> tensor<4xf32>
  plan.library_kernel @large "test" "large" {} : (tensor<65536xf32>) -> tensor<65536xf32>
  dist.program @urgent(%x: tensor<4xf32> {dist.input = 0 : i64}, %y: tensor<65536xf32> {dist.input = 1 : i64})
      -> (tensor<4xf32> {dist.output = 0 : i64}, tensor<131072xf32> {dist.output = 1 : i64}) attributes {mesh = @pair} {
    %large = plan.launch @large(%y) : (tensor<65536xf32>) -> tensor<65536xf32>
    %small = plan.launch @small(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %0 = dist.all_reduce %small from <[4], partial sum ["a"]> to <[4]> : tensor<4xf32> -> tensor<4xf32>
    %1 = dist.all_gather %large from <[131072 by ["a"]]> to <[131072]> : tensor<65536xf32> -> tensor<131072xf32>
    dist.return %0, %1 : tensor<4xf32>, tensor<131072xf32>
  }
}

// -----

// At 1 us a message and 1 GB/s the sum takes 2 us and the gathering 263 us.
// CHECK-LABEL: plan.program @urgent on @pair
// CHECK: plan.body {
// CHECK: plan.call @large(
// CHECK: plan.call @small(
module {
  dist.machine @machine {device_kinds = {gpu = {bandwidth = "1 TB/s", peak = {f32 = "10 TFLOP/s"}}},
    hosts = [{devices = [{kind = "gpu", count = "2"}], links = [{between = "devices", bandwidth = "1 GB/s", latency = "1 us"}]}]}
  dist.mesh @pair <["a" = 2], devices = [0, 1]>
  plan.library_kernel @small "test" "small" {} : (tensor<4xf32>) -> tensor<4xf32>
  plan.library_kernel @large "test" "large" {} : (tensor<65536xf32>) -> tensor<65536xf32>
  dist.program @urgent(%x: tensor<4xf32> {dist.input = 0 : i64}, %y: tensor<65536xf32> {dist.input = 1 : i64})
      -> (tensor<4xf32> {dist.output = 0 : i64}, tensor<131072xf32> {dist.output = 1 : i64}) attributes {mesh = @pair} {
    %small = plan.launch @small(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %large = plan.launch @large(%y) : (tensor<65536xf32>) -> tensor<65536xf32>
    %0 = dist.all_reduce %small from <[4], partial sum ["a"]> to <[4]> : tensor<4xf32> -> tensor<4xf32>
    %1 = dist.all_gather %large from <[131072 by ["a"]]> to <[131072]> : tensor<65536xf32> -> tensor<131072xf32>
    dist.return %0, %1 : tensor<4xf32>, tensor<131072xf32>
  }
}

// -----

// Of two sums of equal size the one is urgent behind which more is to be computed: a product of 2 Gflop, or a copy of
// 64 MiB. At 1 TFLOP/s and 1 TB/s the product takes 2 ms and the copy 0.13 ms, besides giving out as many bytes.
// CHECK-LABEL: plan.program @compute on @pair
// CHECK: plan.body {
// CHECK: plan.call @before_product(
// CHECK: plan.call @before_copy(
module {
  dist.machine @machine {device_kinds = {gpu = {bandwidth = "1 TB/s", peak = {f32 = "1 TFLOP/s"}}},
    hosts = [{devices = [{kind = "gpu", count = "2"}], links = [{between = "devices", bandwidth = "10 GB/s", latency = "1 us"}]}]}
  dist.mesh @pair <["a" = 2], devices = [0, 1]>
  plan.library_kernel @before_product "test" "one" {} : (tensor<4xf32>) -> tensor<4xf32>
  plan.library_kernel @before_copy "test" "other" {} : (tensor<4xf32>) -> tensor<4xf32>
  plan.library_kernel @product "test" "matmul" {} : (tensor<1000x1000xf32>, tensor<4xf32>) -> tensor<1000x1000xf32>
  plan.library_kernel @copy "test" "reorder" {} : (tensor<16777216xf32>, tensor<4xf32>) -> tensor<16777216xf32>
  dist.program @compute(%x: tensor<4xf32> {dist.input = 0 : i64}, %y: tensor<4xf32> {dist.input = 1 : i64},
                        %m: tensor<1000x1000xf32> {dist.input = 2 : i64}, %v: tensor<16777216xf32> {dist.input = 3 : i64})
      -> (tensor<1000x1000xf32> {dist.output = 0 : i64}, tensor<16777216xf32> {dist.output = 1 : i64}) attributes {mesh = @pair} {
    %c = plan.launch @before_copy(%y) : (tensor<4xf32>) -> tensor<4xf32>
    %p = plan.launch @before_product(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %0 = dist.all_reduce %p from <[4], partial sum ["a"]> to <[4]> : tensor<4xf32> -> tensor<4xf32>
    %1 = dist.all_reduce %c from <[4], partial sum ["a"]> to <[4]> : tensor<4xf32> -> tensor<4xf32>
    %2 = plan.launch @product(%m, %0) : (tensor<1000x1000xf32>, tensor<4xf32>) -> tensor<1000x1000xf32>
    %3 = plan.launch @copy(%v, %1) : (tensor<16777216xf32>, tensor<4xf32>) -> tensor<16777216xf32>
    dist.return %2, %3 : tensor<1000x1000xf32>, tensor<16777216xf32>
  }
}

// -----

// At 1 PFLOP/s and 10 GB/s the product takes 0.8 ms, for its bytes, and the copy 13 ms.
// CHECK-LABEL: plan.program @compute on @pair
// CHECK: plan.body {
// CHECK: plan.call @before_copy(
// CHECK: plan.call @before_product(
module {
  dist.machine @machine {device_kinds = {gpu = {bandwidth = "10 GB/s", peak = {f32 = "1 PFLOP/s"}}},
    hosts = [{devices = [{kind = "gpu", count = "2"}], links = [{between = "devices", bandwidth = "10 GB/s", latency = "1 us"}]}]}
  dist.mesh @pair <["a" = 2], devices = [0, 1]>
  plan.library_kernel @before_product "test" "one" {} : (tensor<4xf32>) -> tensor<4xf32>
  plan.library_kernel @before_copy "test" "other" {} : (tensor<4xf32>) -> tensor<4xf32>
  plan.library_kernel @product "test" "matmul" {} : (tensor<1000x1000xf32>, tensor<4xf32>) -> tensor<1000x1000xf32>
  plan.library_kernel @copy "test" "reorder" {} : (tensor<16777216xf32>, tensor<4xf32>) -> tensor<16777216xf32>
  dist.program @compute(%x: tensor<4xf32> {dist.input = 0 : i64}, %y: tensor<4xf32> {dist.input = 1 : i64},
                        %m: tensor<1000x1000xf32> {dist.input = 2 : i64}, %v: tensor<16777216xf32> {dist.input = 3 : i64})
      -> (tensor<1000x1000xf32> {dist.output = 0 : i64}, tensor<16777216xf32> {dist.output = 1 : i64}) attributes {mesh = @pair} {
    %p = plan.launch @before_product(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %c = plan.launch @before_copy(%y) : (tensor<4xf32>) -> tensor<4xf32>
    %0 = dist.all_reduce %p from <[4], partial sum ["a"]> to <[4]> : tensor<4xf32> -> tensor<4xf32>
    %1 = dist.all_reduce %c from <[4], partial sum ["a"]> to <[4]> : tensor<4xf32> -> tensor<4xf32>
    %2 = plan.launch @product(%m, %0) : (tensor<1000x1000xf32>, tensor<4xf32>) -> tensor<1000x1000xf32>
    %3 = plan.launch @copy(%v, %1) : (tensor<16777216xf32>, tensor<4xf32>) -> tensor<16777216xf32>
    dist.return %2, %3 : tensor<1000x1000xf32>, tensor<16777216xf32>
  }
}
