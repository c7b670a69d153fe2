// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --split-input-file --dist-insert-transfers --dist-combine-collectives | FileCheck %s

// What is cheap is for the machine to say: the same programs get other communication on other links.

// From rows by x and columns by y to rows by y and columns by x, 4 MiB over 4 x 4 devices. Where messages cost little,
// every device gets its 256 KiB straight from those that have them, in at most 15 messages: 41 us, where a gathering and
// an all-to-all of 768 KiB each would take 163 us.
dist.machine @machine {device_kinds = {gpu = {bandwidth = "1 TB/s", peak = {f32 = "10 TFLOP/s"}}},
  hosts = [{devices = [{kind = "gpu", count = "16"}], links = [{between = "devices", bandwidth = "10 GB/s", latency = "1 us"}]}]}
dist.mesh @grid <["x" = 4, "y" = 4], devices = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]>
dfg.graph @fast(%a: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
  %0 = dfg.relu %a {dist.place = #dist.place<@grid, by = "t", split = <{d0 = ["x"], d1 = ["y"]}>>} : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %1 = dfg.exp %0 {dist.place = #dist.place<@grid, by = "t", split = <{d0 = ["y"], d1 = ["x"]}>>} : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  dfg.return %1 : tensor<1024x1024xf32>
}
// CHECK-LABEL: dist.program @fast.grid(
// CHECK: dfg.relu
// CHECK-NEXT: dist.permute %{{.*}} from <[1024 by ["x"], 1024 by ["y"]]> to <[1024 by ["y"], 1024 by ["x"]]>
// CHECK-NEXT: dfg.exp

// -----

// At 100 us a message, 15 of them take longer than 3 of a gathering and 3 of an all-to-all, whatever the bytes.
dist.machine @machine {device_kinds = {gpu = {bandwidth = "1 TB/s", peak = {f32 = "10 TFLOP/s"}}},
  hosts = [{devices = [{kind = "gpu", count = "16"}], links = [{between = "devices", bandwidth = "10 GB/s", latency = "100 us"}]}]}
dist.mesh @grid <["x" = 4, "y" = 4], devices = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]>
dfg.graph @slow(%a: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
  %0 = dfg.relu %a {dist.place = #dist.place<@grid, by = "t", split = <{d0 = ["x"], d1 = ["y"]}>>} : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %1 = dfg.exp %0 {dist.place = #dist.place<@grid, by = "t", split = <{d0 = ["y"], d1 = ["x"]}>>} : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  dfg.return %1 : tensor<1024x1024xf32>
}
// CHECK-LABEL: dist.program @slow.grid(
// CHECK: dfg.relu
// CHECK-NEXT: dist.all_gather
// CHECK-NEXT: dist.all_to_all
// CHECK-NEXT: dist.slice
// CHECK-NEXT: dfg.exp

// -----

// Three gradients of 8 KiB: one message where it costs 20 us, as much as 200 KiB at 10 GB/s.
dist.machine @machine {device_kinds = {gpu = {bandwidth = "1 TB/s", peak = {f32 = "10 TFLOP/s"}}},
  hosts = [{devices = [{kind = "gpu", count = "2"}], links = [{between = "devices", bandwidth = "10 GB/s", latency = "10 us"}]}]}
dist.mesh @pair <["data" = 2], devices = [0, 1]>
dist.program @gradients(%x: tensor<8x256xf32>, %y: tensor<8x256xf32>, %z: tensor<8x256xf32>) -> (tensor<8x256xf32>, tensor<8x256xf32>, tensor<8x256xf32>) attributes {mesh = @pair} {
  %0 = dist.all_reduce %x from <[8, 256], partial sum ["data"]> to <[8, 256]> : tensor<8x256xf32> -> tensor<8x256xf32>
  %1 = dist.all_reduce %y from <[8, 256], partial sum ["data"]> to <[8, 256]> : tensor<8x256xf32> -> tensor<8x256xf32>
  %2 = dist.all_reduce %z from <[8, 256], partial sum ["data"]> to <[8, 256]> : tensor<8x256xf32> -> tensor<8x256xf32>
  dist.return %0, %1, %2 : tensor<8x256xf32>, tensor<8x256xf32>, tensor<8x256xf32>
}
// CHECK-LABEL: dist.program @gradients(
// CHECK: = dist.all_reduce %{{.*}}, %{{.*}}, %{{.*}} from
// CHECK-NOT: dist.all_reduce

// -----

// Each by itself where a message costs as much as 20 bytes: a bucket is full at sqrt(24 KiB x 20 B) = 700 bytes.
dist.machine @machine {device_kinds = {gpu = {bandwidth = "1 TB/s", peak = {f32 = "10 TFLOP/s"}}},
  hosts = [{devices = [{kind = "gpu", count = "2"}], links = [{between = "devices", bandwidth = "10 GB/s", latency = "1 ns"}]}]}
dist.mesh @pair <["data" = 2], devices = [0, 1]>
dist.program @gradients(%x: tensor<8x256xf32>, %y: tensor<8x256xf32>, %z: tensor<8x256xf32>) -> (tensor<8x256xf32>, tensor<8x256xf32>, tensor<8x256xf32>) attributes {mesh = @pair} {
  %0 = dist.all_reduce %x from <[8, 256], partial sum ["data"]> to <[8, 256]> : tensor<8x256xf32> -> tensor<8x256xf32>
  %1 = dist.all_reduce %y from <[8, 256], partial sum ["data"]> to <[8, 256]> : tensor<8x256xf32> -> tensor<8x256xf32>
  %2 = dist.all_reduce %z from <[8, 256], partial sum ["data"]> to <[8, 256]> : tensor<8x256xf32> -> tensor<8x256xf32>
  dist.return %0, %1, %2 : tensor<8x256xf32>, tensor<8x256xf32>, tensor<8x256xf32>
}
// CHECK-LABEL: dist.program @gradients(
// CHECK-COUNT-3: = dist.all_reduce %{{[^,]*}} from
