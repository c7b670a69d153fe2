// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --codegen-choose-gpu-launches --codegen-compile-gpu-kernels | FileCheck %s
// RUN: cleave-opt %s --codegen-choose-gpu-launches --codegen-compile-gpu-kernels=chip=sm_90 | FileCheck %s --check-prefix=CHIP
// RUN: cleave-opt %s --codegen-choose-gpu-launches --codegen-compile-gpu-kernels=threads=1 > %t.one
// RUN: cleave-opt %s --codegen-choose-gpu-launches --codegen-compile-gpu-kernels=threads=3 | diff %t.one -
// RUN: cleave-opt %s --codegen-choose-gpu-launches | cleave-opt --codegen-compile-gpu-kernels | diff %t.one -

// The oldest GPU among the devices; a device that names none counts as the oldest that there is.
module attributes {dist.devices = [{name = "gpu0", driver = "cuda", cores = 1 : i64, memory = 0 : i64, chip = "sm_90"},
                                   {name = "gpu1", driver = "cuda", cores = 1 : i64, memory = 0 : i64, chip = "sm_86"},
                                   {name = "cpu0", driver = "cpu", cores = 1 : i64, memory = 0 : i64}]} {

// An operator on each element is one launch, with no memory of its own.
// CHECK: plan.native_kernel @relu attributes {driver = "cuda", launches = [#plan.gpu_launch<"[[RELU:[A-Za-z0-9_]*]]", blocks = 8, threads = 128, shared_bytes = 0>], object = @gpu}
plan.native_kernel @relu attributes {driver = "cuda"} {
^bb0(%x: tensor<1000xf32>):
  %0 = dfg.relu %x : (tensor<1000xf32>) -> tensor<1000xf32>
  plan.yield %0 : tensor<1000xf32>
}

// Rows of a softmax stay in the registers of a block.
// CHECK: plan.native_kernel @softmax attributes {driver = "cuda", launches = [#plan.gpu_launch<"[[SOFTMAX:[A-Za-z0-9_]*]]", blocks = 64, threads = 256, shared_bytes = 0>], object = @gpu}
plan.native_kernel @softmax attributes {driver = "cuda"} {
^bb0(%x: tensor<64x1024xf32>):
  %0 = dfg.softmax %x {dim = 1 : i64} : (tensor<64x1024xf32>) -> tensor<64x1024xf32>
  plan.yield %0 : tensor<64x1024xf32>
}

// Rows that begin anywhere between two multiples of a vector: all but their ends are read and written in vectors, several of
// a thread under way at once.
// CHECK: plan.native_kernel @ragged attributes {driver = "cuda", launches = [#plan.gpu_launch<"[[RAGGED:[A-Za-z0-9_]*]]", blocks = 1024, threads = 512, shared_bytes = 0>], object = @gpu}
plan.native_kernel @ragged attributes {driver = "cuda"} {
^bb0(%x: tensor<1024x50257xbf16>):
  %0 = dfg.log_softmax %x {dim = 1 : i64} : (tensor<1024x50257xbf16>) -> tensor<1024x50257xbf16>
  plan.yield %0 : tensor<1024x50257xbf16>
}

// A sum of everything: blocks leave partial results in memory, which a second launch joins.
// CHECK: plan.native_kernel @sum attributes {driver = "cuda", launches = [#plan.gpu_launch<"[[FIRST:[A-Za-z0-9_]*]]", {{.*}}>, #plan.gpu_launch<"[[SECOND:[A-Za-z0-9_]*]]", blocks = 1, {{.*}}>], object = @gpu, scratch_bytes = {{[1-9][0-9]*}} : i64}
plan.native_kernel @sum attributes {driver = "cuda"} {
^bb0(%x: tensor<1048576xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 0>} : (tensor<1048576xf32>) -> tensor<f32>
  plan.yield %0 : tensor<f32>
}

// The first largest element of each window in a byte, and a thread for each position of the input, which reads the windows
// that cover it; no padded copies.
// CHECK: plan.native_kernel @pool_gradient attributes {driver = "cuda", launches = [#plan.gpu_launch<"{{[A-Za-z0-9_]*}}", blocks = 784, threads = 256, shared_bytes = 0>, #plan.gpu_launch<"{{[A-Za-z0-9_]*}}", blocks = 3136, threads = 256, shared_bytes = 0>], object = @gpu, scratch_bytes = 200704 : i64}
plan.native_kernel @pool_gradient attributes {driver = "cuda"} {
^bb0(%dy: tensor<1x64x56x56xf32>, %x: tensor<1x64x112x112xf32>):
  %0 = dfg.pool_gradient %dy, %x {kind = #dfg.pool_kind<max>, window = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<1x64x56x56xf32>, tensor<1x64x112x112xf32>) -> tensor<1x64x112x112xf32>
  plan.yield %0 : tensor<1x64x112x112xf32>
}

// What is empty is not launched.
// CHECK: plan.native_kernel @empty attributes {driver = "cuda", launches = [], object = @gpu}
plan.native_kernel @empty attributes {driver = "cuda"} {
^bb0(%x: tensor<0x3xf32>):
  %0 = dfg.relu %x : (tensor<0x3xf32>) -> tensor<0x3xf32>
  plan.yield %0 : tensor<0x3xf32>
}

// Kernels of processors are left to their own pass.
// CHECK: plan.native_kernel @processor {
plan.native_kernel @processor {
^bb0(%x: tensor<8xf32>):
  %0 = dfg.relu %x : (tensor<8xf32>) -> tensor<8xf32>
  plan.yield %0 : tensor<8xf32>
}

// CHECK: plan.object @gpu triple = "nvptx64-nvidia-cuda" cpu = "sm_86" features = [] image = "{{.*}}.target sm_86
// CHECK-SAME: .visible .entry [[RELU]](
// CHECK-SAME: .reqntid 128
// CHECK-SAME: .visible .entry [[SOFTMAX]](
// CHECK-SAME: ld.global.nc.v4.b32
// CHECK-SAME: shfl.sync.bfly
// CHECK-SAME: bar.sync
// CHECK-SAME: .visible .entry [[RAGGED]](
// CHECK-SAME: ld.global.nc.b16
// CHECK-SAME: ld.global.nc.v4.b32
// CHECK-SAME: ld.global.nc.v4.b32
// CHECK-SAME: st.global.v4.b32
// CHECK-SAME: .visible .entry [[FIRST]](
// CHECK-SAME: .visible .entry [[SECOND]](
// CHIP: plan.object @gpu triple = "nvptx64-nvidia-cuda" cpu = "sm_90" features = [] image = "{{.*}}.target sm_90
}
