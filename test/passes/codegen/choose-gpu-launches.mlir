// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --codegen-choose-gpu-launches | FileCheck %s
// RUN: cleave-opt %s --codegen-choose-gpu-launches=reference | FileCheck %s --check-prefix=REFERENCE

// What shares a launch, in which phases, what goes through memory between, and how sums are divided. On a GPU of 20
// multiprocessors: enough threads to keep the memory busy are 20 x 256.
dist.machine @machine {device_kinds = {gpu = {driver = "cuda", chip = "sm_90", bandwidth = "1 TB/s", efficiency = {contraction = {units = "20", tiles = [{rows = "128", columns = "128"}]}}}},
                         hosts = [{devices = [{kind = "gpu"}]}]}

// Three phases of one launch: the largest element of each row, the exponentials and their sum, the quotients. Only these are
// stored. The values that the joins begin with are no steps; in the reference each is a launch, and what reads it reads
// memory.
// CHECK-LABEL: plan.native_kernel @softmax
// CHECK-SAME: mappings = [#plan.gpu_mapping<outer = [64], inner = [1024],
// CHECK-NOT: #plan.gpu_mapping
// CHECK: linalg.fill {plan.steps = []}
// CHECK: linalg.generic {{.*}}"reduction"{{.*}}plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>]>]
// CHECK: arith.maximumf
// CHECK: plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>], phase = 1>]
// CHECK: math.exp
// CHECK: linalg.fill {plan.steps = []}
// CHECK: linalg.generic {{.*}}"reduction"{{.*}}plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>], phase = 1>]
// CHECK: arith.addf
// CHECK: plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>], phase = 2, stores = [0]>]
// CHECK: arith.divf
// REFERENCE-LABEL: plan.native_kernel @softmax
// REFERENCE-SAME: mappings = [#plan.gpu_mapping<outer = [64], blocks = 1, groups = 128>, #plan.gpu_mapping<outer = [64], inner = [1024], blocks = 1, groups = 128>,
// REFERENCE: linalg.fill {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], stores = [0], reads_fill = true>]}
// REFERENCE: plan.steps = [#plan.gpu_step<launch = 1, outer = [<0>], inner = [<1>], stores = [0], reads_fill = true>]
plan.native_kernel @softmax attributes {driver = "cuda"} {
^bb0(%x: tensor<64x1024xf32>):
  %0 = dfg.softmax %x {dim = 1 : i64} : (tensor<64x1024xf32>) -> tensor<64x1024xf32>
  plan.yield %0 : tensor<64x1024xf32>
}

// Sums of rows and sums of columns have other groups: a launch each. What the second one reads goes through memory.
// CHECK-LABEL: plan.native_kernel @rows_and_columns
// CHECK-SAME: mappings = [#plan.gpu_mapping<outer = [4096], inner = [512], {{[^>]*}}along = inner{{[^>]*}}>, #plan.gpu_mapping<outer = [512], inner = [4096],
// CHECK: arith.divf
// CHECK: linalg.generic {{.*}}"reduction", "parallel"{{.*}}plan.steps = [#plan.gpu_step<launch = 1, outer = [<1>], inner = [<0>]>, #plan.gpu_step<launch = 2, outer = [<1>], stores = [0]>]
plan.native_kernel @rows_and_columns attributes {driver = "cuda"} {
^bb0(%x: tensor<4096x512xf32>):
  %0 = dfg.softmax %x {dim = 1 : i64} : (tensor<4096x512xf32>) -> tensor<4096x512xf32>
  %1 = dfg.reduce %0 {kind = #dfg.reduce_kind<sum>, dims = array<i64: 0>} : (tensor<4096x512xf32>) -> tensor<512xf32>
  plan.yield %1 : tensor<512xf32>
}

// Two rows of 40000 in 1024 threads are 10 vectors of 4 a thread, more than the 32 elements that may be written out: a loop a
// phase. Two phases need the product. To write it and to read it once moves 8 bytes an element, as much as to read its
// two operands once more: it is a step of both phases, and stored in none.
// CHECK-LABEL: plan.native_kernel @computed_again
// CHECK-SAME: mappings = [#plan.gpu_mapping<outer = [2], inner = [40000], blocks = 2, lanes = 1024,
// CHECK: plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>]>, #plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>], phase = 1>]
// CHECK-NEXT: ^bb0
// CHECK-NEXT: arith.mulf
plan.native_kernel @computed_again attributes {driver = "cuda"} {
^bb0(%x: tensor<2x40000xf32>, %y: tensor<2x40000xf32>):
  %0 = dfg.mul %x, %y : (tensor<2x40000xf32>, tensor<2x40000xf32>) -> tensor<2x40000xf32>
  %1 = dfg.softmax %0 {dim = 1 : i64} : (tensor<2x40000xf32>) -> tensor<2x40000xf32>
  plan.yield %1 : tensor<2x40000xf32>
}

// Three operands are 12 bytes: their product is stored.
// CHECK-LABEL: plan.native_kernel @kept_in_memory
// CHECK: plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>], stores = [0]>]
// CHECK-NEXT: ^bb0
// CHECK-NEXT: arith.mulf
plan.native_kernel @kept_in_memory attributes {driver = "cuda"} {
^bb0(%x: tensor<2x40000xf32>, %y: tensor<2x40000xf32>, %z: tensor<2x40000xf32>):
  %0 = dfg.mul %x, %y : (tensor<2x40000xf32>, tensor<2x40000xf32>) -> tensor<2x40000xf32>
  %1 = dfg.mul %0, %z : (tensor<2x40000xf32>, tensor<2x40000xf32>) -> tensor<2x40000xf32>
  %2 = dfg.softmax %1 {dim = 1 : i64} : (tensor<2x40000xf32>) -> tensor<2x40000xf32>
  plan.yield %2 : tensor<2x40000xf32>
}

// One row of 100000, more than 16 for each of 20 x 256 threads, would be one block of 1024 for three phases: it is better cut
// behind the first. The largest element gets launches of its own, which all multiprocessors share.
// CHECK-LABEL: plan.native_kernel @one_long_row
// CHECK-SAME: mappings = [#plan.gpu_mapping<inner = [100000], {{[^>]*}}splits = {{[0-9]+}}{{[^>]*}}>, #plan.gpu_mapping<{{[^>]*}}combines = true
// CHECK: linalg.generic {{.*}}"reduction"{{.*}}plan.steps = [#plan.gpu_step<launch = 0, inner = [<1>]>, #plan.gpu_step<launch = 1, stores = [0]>]
// CHECK: arith.maximumf
// CHECK: plan.steps = [#plan.gpu_step<launch = 2, inner = [<1>], stores = [0]>]
// CHECK: math.exp
plan.native_kernel @one_long_row attributes {driver = "cuda"} {
^bb0(%x: tensor<1x100000xf32>):
  %0 = dfg.softmax %x {dim = 1 : i64} : (tensor<1x100000xf32>) -> tensor<1x100000xf32>
  plan.yield %0 : tensor<1x100000xf32>
}

// One sum of 2^20 elements: four blocks for each of 20 multiprocessors. Each has 2^18 / 80 = 3277 vectors of four
// elements, of which 256 threads have 13 each, two loads of 16 bytes at once. A warp joins the 80 results.
// CHECK-LABEL: plan.native_kernel @sum_of_all
// CHECK-SAME: mappings = [#plan.gpu_mapping<inner = [1048576], blocks = 80, lanes = 256, along = inner, width = 4, splits = 80, ahead = [2]>, #plan.gpu_mapping<inner = [80], blocks = 1, groups = 4, lanes = 32, along = inner, width = 4, combines = true, unrolled = true>]
// CHECK: plan.steps = [#plan.gpu_step<launch = 0, inner = [<0>]>, #plan.gpu_step<launch = 1, stores = [0]>]
plan.native_kernel @sum_of_all attributes {driver = "cuda"} {
^bb0(%x: tensor<1048576xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 0>} : (tensor<1048576xf32>) -> tensor<f32>
  plan.yield %0 : tensor<f32>
}

// 32768 elements are less than the 65536 that are worth a second launch.
// CHECK-LABEL: plan.native_kernel @sum_of_little
// CHECK-SAME: mappings = [#plan.gpu_mapping<inner = [32768], blocks = 1, lanes = 256,
// CHECK-NOT: splits
// CHECK-LABEL: plan.native_kernel @sum_of_many_rows
plan.native_kernel @sum_of_little attributes {driver = "cuda"} {
^bb0(%x: tensor<32768xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 0>} : (tensor<32768xf32>) -> tensor<f32>
  plan.yield %0 : tensor<f32>
}

// 64 rows are 64 blocks, more than two for each multiprocessor: they keep the GPU busy undivided.
// CHECK-SAME: mappings = [#plan.gpu_mapping<outer = [64], inner = [65536], blocks = 64, lanes = 256,
// CHECK-NOT: splits
// CHECK-LABEL: plan.native_kernel @loss
plan.native_kernel @sum_of_many_rows attributes {driver = "cuda"} {
^bb0(%x: tensor<64x65536xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<64x65536xf32>) -> tensor<64xf32>
  plan.yield %0 : tensor<64xf32>
}

// A sum over everything of what is made row by row becomes sums of rows, in the launch that makes them, and the sum of
// those: logarithms of a row stay in registers.
// CHECK: linalg.generic {{.*}}["parallel", "reduction"]} ins(%{{[^:]*}} : tensor<64x1024xf32>{{.*}}) outs(%{{.*}} : tensor<64xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>], phase = 2, stores = [0]>]}
// CHECK: linalg.generic {{.*}}["reduction"]} ins(%{{[^:]*}} : tensor<64xf32>) outs(%{{.*}} : tensor<f32>) attrs = {plan.steps = [#plan.gpu_step<launch = 1, inner = [<0>], stores = [0]>]}
plan.native_kernel @loss attributes {driver = "cuda"} {
^bb0(%x: tensor<64x1024xf32>):
  %0 = dfg.log_softmax %x {dim = 1 : i64} : (tensor<64x1024xf32>) -> tensor<64x1024xf32>
  %1 = dfg.reduce %0 {kind = #dfg.reduce_kind<sum>, dims = array<i64: 0, 1>} : (tensor<64x1024xf32>) -> tensor<f32>
  plan.yield %1 : tensor<f32>
}

// Made element by element it stays one sum.
// CHECK-LABEL: plan.native_kernel @sum_of_elements
// CHECK: linalg.generic {{.*}}["reduction", "reduction"]}
// CHECK-NOT: ["reduction"]
// CHECK-LABEL: plan.native_kernel @parts
plan.native_kernel @sum_of_elements attributes {driver = "cuda"} {
^bb0(%x: tensor<64x1024xf32>):
  %0 = dfg.exp %x : (tensor<64x1024xf32>) -> tensor<64x1024xf32>
  %1 = dfg.reduce %0 {kind = #dfg.reduce_kind<sum>, dims = array<i64: 0, 1>} : (tensor<64x1024xf32>) -> tensor<f32>
  plan.yield %1 : tensor<f32>
}

// The parts of a concatenation do not need each other: further blocks of the same function.
// CHECK-SAME: mappings = [#plan.gpu_mapping<outer = [64, 63], blocks = 32, groups = 128>, #plan.gpu_mapping<outer = [64, 31], blocks = 16, groups = 128, beside = true>]
plan.native_kernel @parts attributes {driver = "cuda"} {
^bb0(%x: tensor<64x63xf32>, %y: tensor<64x31xf32>):
  %0 = dfg.relu %x : (tensor<64x63xf32>) -> tensor<64x63xf32>
  %1 = dfg.neg %y : (tensor<64x31xf32>) -> tensor<64x31xf32>
  %2 = dfg.concat %0, %1 {dim = 1 : i64} : (tensor<64x63xf32>, tensor<64x31xf32>) -> tensor<64x94xf32>
  plan.yield %2 : tensor<64x94xf32>
}

// The second one reads what others of the first have written: it waits for them.
// CHECK-LABEL: plan.native_kernel @one_after_the_other
// CHECK-SAME: mappings = [#plan.gpu_mapping<outer = [4096], {{[^>]*}}>, #plan.gpu_mapping<outer = [64],
// CHECK-NOT: beside
// CHECK-LABEL: plan.native_kernel @running_sum
plan.native_kernel @one_after_the_other attributes {driver = "cuda"} {
^bb0(%x: tensor<4096xf32>):
  %0 = dfg.exp %x : (tensor<4096xf32>) -> tensor<4096xf32>
  %1 = dfg.slice %0 {limits = array<i64: 64>, starts = array<i64: 0>, strides = array<i64: 1>} : (tensor<4096xf32>) -> tensor<64xf32>
  %2 = dfg.neg %1 : (tensor<64xf32>) -> tensor<64xf32>
  plan.yield %0, %2 : tensor<4096xf32>, tensor<64xf32>
}

// A sum that has a result for each element goes through them in order: one thread a row, whatever its length.
// CHECK-SAME: mappings = [#plan.gpu_mapping<outer = [64], inner = [4096], blocks = 1, groups = 128>]
plan.native_kernel @running_sum attributes {driver = "cuda"} {
^bb0(%x: tensor<64x4096xf32>):
  %0 = dfg.cumulative_sum %x {dim = 1 : i64} : (tensor<64x4096xf32>) -> tensor<64x4096xf32>
  plan.yield %0 : tensor<64x4096xf32>
}

// What has no elements has no steps, and its kernel no launches.
// CHECK-LABEL: plan.native_kernel @empty
// CHECK-SAME: mappings = []
// CHECK: plan.steps = []
plan.native_kernel @empty attributes {driver = "cuda"} {
^bb0(%x: tensor<0x3xf32>):
  %0 = dfg.relu %x : (tensor<0x3xf32>) -> tensor<0x3xf32>
  plan.yield %0 : tensor<0x3xf32>
}

// Kernels of processors are left to their own pass.
// CHECK: plan.native_kernel @processor {
// CHECK-NOT: loops
plan.native_kernel @processor {
^bb0(%x: tensor<8xf32>):
  %0 = dfg.relu %x : (tensor<8xf32>) -> tensor<8xf32>
  plan.yield %0 : tensor<8xf32>
}
