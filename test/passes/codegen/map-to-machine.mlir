// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --split-input-file --codegen-choose-gpu-launches --codegen-compile-gpu-kernels | FileCheck %s

// Threads and blocks are for as many multiprocessors as the machine's GPUs have. A sum of everything is divided among
// four blocks for each of 20, and a thread takes four elements of a tensor that has enough for all of them.
// CHECK-LABEL: plan.native_kernel @sum
// CHECK-SAME: blocks = 80, threads = 256
// CHECK-LABEL: plan.native_kernel @relu
// CHECK-SAME: blocks = 64, threads = 256
dist.machine @machine {device_kinds = {gpu = {driver = "cuda", chip = "sm_90", bandwidth = "1 TB/s", efficiency = {contraction = {units = "20", tiles = [{rows = "128", columns = "128"}]}}}},
                         hosts = [{devices = [{kind = "gpu"}]}]}
plan.native_kernel @sum attributes {driver = "cuda"} {
^bb0(%x: tensor<4194304xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 0>} : (tensor<4194304xf32>) -> tensor<f32>
  plan.yield %0 : tensor<f32>
}
plan.native_kernel @relu attributes {driver = "cuda"} {
^bb0(%x: tensor<65536xf32>):
  %0 = dfg.relu %x : (tensor<65536xf32>) -> tensor<65536xf32>
  plan.yield %0 : tensor<65536xf32>
}

// -----

// For 120 there are 480 blocks of the sum, and a thread of the other kernel takes one element.
// CHECK-LABEL: plan.native_kernel @sum
// CHECK-SAME: blocks = 480, threads = 256
// CHECK-LABEL: plan.native_kernel @relu
// CHECK-SAME: blocks = 256, threads = 256
dist.machine @machine {device_kinds = {gpu = {driver = "cuda", chip = "sm_90", bandwidth = "1 TB/s", efficiency = {contraction = {units = "120", tiles = [{rows = "128", columns = "128"}]}}}},
                         hosts = [{devices = [{kind = "gpu"}]}]}
plan.native_kernel @sum attributes {driver = "cuda"} {
^bb0(%x: tensor<4194304xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 0>} : (tensor<4194304xf32>) -> tensor<f32>
  plan.yield %0 : tensor<f32>
}
plan.native_kernel @relu attributes {driver = "cuda"} {
^bb0(%x: tensor<65536xf32>):
  %0 = dfg.relu %x : (tensor<65536xf32>) -> tensor<65536xf32>
  plan.yield %0 : tensor<65536xf32>
}
