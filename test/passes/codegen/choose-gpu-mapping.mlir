// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --codegen-choose-gpu-launches | FileCheck %s
// RUN: cleave-opt %s --codegen-choose-gpu-launches=reference | FileCheck %s --check-prefix=REFERENCE

// Which thread computes what. On a GPU of 20 multiprocessors, which 20 x 512 = 10240 threads keep busy; a warp has 32
// threads, a thread loads at most 16 bytes at once, and a block declares at most 48 KiB of shared memory.
dist.machine @machine {device_kinds = {gpu = {driver = "cuda", chip = "sm_90", bandwidth = "1 TB/s", efficiency = {contraction = {units = "20", tiles = [{rows = "128", columns = "128"}]}}}},
                         hosts = [{devices = [{kind = "gpu"}]}]}

// Four elements are 16 bytes, and 65536 / 4 = 16384 threads enough; the reference has a thread an element.
// CHECK-LABEL: plan.native_kernel @elementwise
// CHECK-SAME: mappings = [#plan.gpu_mapping<outer = [65536], blocks = 64, groups = 256, width = 4>]
// REFERENCE-LABEL: plan.native_kernel @elementwise
// REFERENCE-SAME: mappings = [#plan.gpu_mapping<outer = [65536], blocks = 512, groups = 128>]
plan.native_kernel @elementwise attributes {driver = "cuda"} {
^bb0(%x: tensor<65536xf32>):
  %0 = dfg.relu %x : (tensor<65536xf32>) -> tensor<65536xf32>
  plan.yield %0 : tensor<65536xf32>
}

// Eight elements of two bytes are 16.
// CHECK-LABEL: plan.native_kernel @of_two_bytes
// CHECK-SAME: mappings = [#plan.gpu_mapping<outer = [131072], blocks = 64, groups = 256, width = 8>]
plan.native_kernel @of_two_bytes attributes {driver = "cuda"} {
^bb0(%x: tensor<131072xbf16>):
  %0 = dfg.relu %x : (tensor<131072xbf16>) -> tensor<131072xbf16>
  plan.yield %0 : tensor<131072xbf16>
}

// 32768 / 4 = 8192 threads would be too few, 16384 with two elements each are not.
// CHECK-LABEL: plan.native_kernel @of_fewer
// CHECK-SAME: mappings = [#plan.gpu_mapping<outer = [32768], blocks = 64, groups = 256, width = 2>]
plan.native_kernel @of_fewer attributes {driver = "cuda"} {
^bb0(%x: tensor<32768xf32>):
  %0 = dfg.relu %x : (tensor<32768xf32>) -> tensor<32768xf32>
  plan.yield %0 : tensor<32768xf32>
}

// No vector divides 65537 elements.
// CHECK-LABEL: plan.native_kernel @of_odd_size
// CHECK-SAME: mappings = [#plan.gpu_mapping<outer = [65537], blocks = 257, groups = 256>]
plan.native_kernel @of_odd_size attributes {driver = "cuda"} {
^bb0(%x: tensor<65537xf32>):
  %0 = dfg.relu %x : (tensor<65537xf32>) -> tensor<65537xf32>
  plan.yield %0 : tensor<65537xf32>
}

// A thread an element is less than enough: smaller blocks reach more multiprocessors. 1000 / 128 are 8.
// CHECK-LABEL: plan.native_kernel @of_little
// CHECK-SAME: mappings = [#plan.gpu_mapping<outer = [1000], blocks = 8, groups = 128>]
plan.native_kernel @of_little attributes {driver = "cuda"} {
^bb0(%x: tensor<1000xf32>):
  %0 = dfg.relu %x : (tensor<1000xf32>) -> tensor<1000xf32>
  plan.yield %0 : tensor<1000xf32>
}

// Rows: neighbouring threads go along them. A lane of a warp has 1024 / 32 = 32 elements, all that may be written out, and two
// tensors that later phases need are 64 registers of at most 96. 512 warps are enough, four in a block.
// CHECK-LABEL: plan.native_kernel @many_rows
// CHECK-SAME: mappings = [#plan.gpu_mapping<outer = [512], inner = [1024], blocks = 128, groups = 4, lanes = 32, along = inner, width = 4, unrolled = true>]
plan.native_kernel @many_rows attributes {driver = "cuda"} {
^bb0(%x: tensor<512x1024xf32>):
  %0 = dfg.softmax %x {dim = 1 : i64} : (tensor<512x1024xf32>) -> tensor<512x1024xf32>
  plan.yield %0 : tensor<512x1024xf32>
}

// 64 warps are too few: a block a row, with a vector of four for each of 256 threads.
// CHECK-LABEL: plan.native_kernel @few_rows
// CHECK-SAME: mappings = [#plan.gpu_mapping<outer = [64], inner = [1024], blocks = 64, lanes = 256, along = inner, width = 4, unrolled = true>]
plan.native_kernel @few_rows attributes {driver = "cuda"} {
^bb0(%x: tensor<64x1024xf32>):
  %0 = dfg.softmax %x {dim = 1 : i64} : (tensor<64x1024xf32>) -> tensor<64x1024xf32>
  plan.yield %0 : tensor<64x1024xf32>
}

// 20 elements are five vectors: eight lanes, the next power of two, as lanes exchange values with those whose number differs in
// one bit. 128 / 8 = 16 rows a block.
// CHECK-LABEL: plan.native_kernel @short_rows
// CHECK-SAME: mappings = [#plan.gpu_mapping<outer = [512], inner = [20], blocks = 32, groups = 16, lanes = 8, along = inner, width = 4, unrolled = true>]
plan.native_kernel @short_rows attributes {driver = "cuda"} {
^bb0(%x: tensor<512x20xf32>):
  %0 = dfg.softmax %x {dim = 1 : i64} : (tensor<512x20xf32>) -> tensor<512x20xf32>
  plan.yield %0 : tensor<512x20xf32>
}

// With three elements a row there is nothing to divide: a thread a row.
// CHECK-LABEL: plan.native_kernel @rows_of_three
// CHECK-SAME: mappings = [#plan.gpu_mapping<outer = [4096], inner = [3], blocks = 32, groups = 128, unrolled = true>]
plan.native_kernel @rows_of_three attributes {driver = "cuda"} {
^bb0(%x: tensor<4096x3xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<4096x3xf32>) -> tensor<4096xf32>
  plan.yield %0 : tensor<4096xf32>
}

// 40000 / 4 / 1024 = 10 vectors of 4 are more than 32 elements a thread: a loop, with loads of 32 bytes under way, two vectors of
// float32. The second phase moves along two tensors, the row and the exponentials that it makes: one vector of each. 64
// rows are more than two for each multiprocessor: blocks of 512 let one load while another waits.
// CHECK-LABEL: plan.native_kernel @long_rows
// CHECK-SAME: mappings = [#plan.gpu_mapping<outer = [64], inner = [40000], blocks = 64, lanes = 512, along = inner, width = 4, ahead = [2, 1, 2]>]
plan.native_kernel @long_rows attributes {driver = "cuda"} {
^bb0(%x: tensor<64x40000xf32>):
  %0 = dfg.softmax %x {dim = 1 : i64} : (tensor<64x40000xf32>) -> tensor<64x40000xf32>
  plan.yield %0 : tensor<64x40000xf32>
}

// Two rows leave multiprocessors idle anyway: the largest blocks.
// CHECK-LABEL: plan.native_kernel @few_long_rows
// CHECK-SAME: mappings = [#plan.gpu_mapping<outer = [2], inner = [40000], blocks = 2, lanes = 1024, along = inner, width = 4, ahead = [2, 1, 2]>]
plan.native_kernel @few_long_rows attributes {driver = "cuda"} {
^bb0(%x: tensor<2x40000xf32>):
  %0 = dfg.softmax %x {dim = 1 : i64} : (tensor<2x40000xf32>) -> tensor<2x40000xf32>
  plan.yield %0 : tensor<2x40000xf32>
}

// No vector divides rows of 50257 elements, which are too long for registers: all but their ends are taken in vectors, of as many
// elements as 16 bytes have of the longest type on the way, float32, where the input's rows are multiples.
// CHECK-LABEL: plan.native_kernel @ragged_rows
// CHECK-SAME: mappings = [#plan.gpu_mapping<outer = [1024], inner = [50257], blocks = 1024, lanes = 512, along = inner, width = 4,
// CHECK: plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>], aligned = 0>]
plan.native_kernel @ragged_rows attributes {driver = "cuda"} {
^bb0(%x: tensor<1024x50257xbf16>):
  %0 = dfg.softmax %x {dim = 1 : i64} : (tensor<1024x50257xbf16>) -> tensor<1024x50257xbf16>
  plan.yield %0 : tensor<1024x50257xbf16>
}

// Rows of 4001 stay in registers, where 16 loads of single elements a thread are under way.
// CHECK-LABEL: plan.native_kernel @short_odd_rows
// CHECK-SAME: mappings = [#plan.gpu_mapping<outer = [1024], inner = [4001], blocks = 1024, lanes = 256, along = inner, unrolled = true>]
// CHECK-NOT: aligned
plan.native_kernel @short_odd_rows attributes {driver = "cuda"} {
^bb0(%x: tensor<1024x4001xbf16>):
  %0 = dfg.softmax %x {dim = 1 : i64} : (tensor<1024x4001xbf16>) -> tensor<1024x4001xbf16>
  plan.yield %0 : tensor<1024x4001xbf16>
}

// Columns: neighbouring threads go along the rows, four columns each. 1024 threads are too few: eight lanes divide the rows, of
// which each has 8, and a warp's 32 groups are neighbours.
// CHECK-LABEL: plan.native_kernel @columns
// CHECK-SAME: mappings = [#plan.gpu_mapping<outer = [4096], inner = [64], blocks = 32, groups = 32, lanes = 8, width = 4, unrolled = true>]
plan.native_kernel @columns attributes {driver = "cuda"} {
^bb0(%x: tensor<64x4096xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 0>} : (tensor<64x4096xf32>) -> tensor<4096xf32>
  plan.yield %0 : tensor<4096xf32>
}

// 65536 / 4 = 16384 threads are enough, each with all rows of its columns.
// CHECK-LABEL: plan.native_kernel @many_columns
// CHECK-SAME: mappings = [#plan.gpu_mapping<outer = [65536], inner = [64], blocks = 64, groups = 256, width = 4>]
plan.native_kernel @many_columns attributes {driver = "cuda"} {
^bb0(%x: tensor<64x65536xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 0>} : (tensor<64x65536xf32>) -> tensor<65536xf32>
  plan.yield %0 : tensor<65536xf32>
}

// A product without a library is a sum like others. The result and one matrix lie along its columns, the other one stands still
// there: neighbouring threads go along columns, four a thread. 1024 threads are too few: eight lanes share each sum, 8 terms
// of four sums each, 32 that are written out.
// CHECK-LABEL: plan.native_kernel @small_product
// CHECK-SAME: mappings = [#plan.gpu_mapping<outer = [64, 64], inner = [64], blocks = 32, groups = 32, lanes = 8, width = 4, unrolled = true>]
// CHECK: plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>, <1>], inner = [<2>], stores = [0]>]
plan.native_kernel @small_product attributes {driver = "cuda"} {
^bb0(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>):
  %0 = dfg.dot_general %x, %y {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  plan.yield %0 : tensor<64x64xf32>
}

// 1024 x 1024 / 4 threads are enough, each with all terms of its sums.
// CHECK-LABEL: plan.native_kernel @large_product
// CHECK-SAME: mappings = [#plan.gpu_mapping<outer = [1024, 1024], inner = [1024], blocks = 1024, groups = 256, width = 4>]
// CHECK: plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>, <1>], inner = [<2>], stores = [0]>]
plan.native_kernel @large_product attributes {driver = "cuda"} {
^bb0(%x: tensor<1024x1024xf32>, %y: tensor<1024x1024xf32>):
  %0 = dfg.dot_general %x, %y {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  plan.yield %0 : tensor<1024x1024xf32>
}

// Neighbouring threads would read 128 elements apart: squares of 32 x 32, 4 x 2 of them, whose rows of 33 in shared memory have
// a column in 32 different banks.
// CHECK-LABEL: plan.native_kernel @transpose
// CHECK-SAME: mappings = [#plan.gpu_mapping<outer = [128, 64], blocks = 8, groups = 256, squares = <across = 0, side = 32, padding = 1>>]
// CHECK: plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>, <1>], stores = [0], staged = [0]>]
// REFERENCE-LABEL: plan.native_kernel @transpose
// REFERENCE-NOT: squares
// REFERENCE: plan.native_kernel @transpose_of_odd_sides
plan.native_kernel @transpose attributes {driver = "cuda"} {
^bb0(%x: tensor<64x128xf32>):
  %0 = dfg.transpose %x {permutation = array<i64: 1, 0>} : (tensor<64x128xf32>) -> tensor<128x64xf32>
  plan.yield %0 : tensor<128x64xf32>
}

// Sides that 32 does not divide have a last, narrower square.
// CHECK-LABEL: plan.native_kernel @transpose_of_odd_sides
// CHECK-SAME: mappings = [#plan.gpu_mapping<outer = [100, 50], blocks = 8, groups = 256, squares = <across = 0, side = 32, padding = 1>>]
plan.native_kernel @transpose_of_odd_sides attributes {driver = "cuda"} {
^bb0(%x: tensor<50x100xf32>):
  %0 = dfg.transpose %x {permutation = array<i64: 1, 0>} : (tensor<50x100xf32>) -> tensor<100x50xf32>
  plan.yield %0 : tensor<100x50xf32>
}

// Eight elements are less than half of a square's side.
// CHECK-LABEL: plan.native_kernel @transpose_of_few_rows
// CHECK-SAME: mappings = [#plan.gpu_mapping<outer = [128, 8], blocks = 8, groups = 128>]
// CHECK-NOT: staged
plan.native_kernel @transpose_of_few_rows attributes {driver = "cuda"} {
^bb0(%x: tensor<8x128xf32>):
  %0 = dfg.transpose %x {permutation = array<i64: 1, 0>} : (tensor<8x128xf32>) -> tensor<128x8xf32>
  plan.yield %0 : tensor<128x8xf32>
}

// What does not lie across is read where it lies.
// CHECK-LABEL: plan.native_kernel @one_of_two
// CHECK: plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>, <1>], stores = [0], staged = [0]>]
plan.native_kernel @one_of_two attributes {driver = "cuda"} {
^bb0(%x: tensor<64x128xf32>, %y: tensor<128x64xf32>):
  %0 = dfg.transpose %x {permutation = array<i64: 1, 0>} : (tensor<64x128xf32>) -> tensor<128x64xf32>
  %1 = dfg.add %0, %y : (tensor<128x64xf32>, tensor<128x64xf32>) -> tensor<128x64xf32>
  plan.yield %1 : tensor<128x64xf32>
}

// A square of eight bytes is 32 x 33 x 8 = 8448: five fit into 49152, and the sixth operand is read where it lies. That five
// others lie like the result has neighbouring threads go along these.
// CHECK-LABEL: plan.native_kernel @six_of_eight_bytes
// CHECK: plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>, <1>], stores = [0], staged = [0, 1, 2, 3, 4]>]
plan.native_kernel @six_of_eight_bytes attributes {driver = "cuda"} {
^bb0(%a: tensor<64x128xi64>, %b: tensor<64x128xi64>, %c: tensor<64x128xi64>, %d: tensor<64x128xi64>, %e: tensor<64x128xi64>, %f: tensor<64x128xi64>,
     %u: tensor<128x64xi64>, %v: tensor<128x64xi64>, %w: tensor<128x64xi64>, %x: tensor<128x64xi64>, %y: tensor<128x64xi64>):
  %0 = dfg.add %a, %b : (tensor<64x128xi64>, tensor<64x128xi64>) -> tensor<64x128xi64>
  %1 = dfg.add %0, %c : (tensor<64x128xi64>, tensor<64x128xi64>) -> tensor<64x128xi64>
  %2 = dfg.add %1, %d : (tensor<64x128xi64>, tensor<64x128xi64>) -> tensor<64x128xi64>
  %3 = dfg.add %2, %e : (tensor<64x128xi64>, tensor<64x128xi64>) -> tensor<64x128xi64>
  %4 = dfg.add %3, %f : (tensor<64x128xi64>, tensor<64x128xi64>) -> tensor<64x128xi64>
  %5 = dfg.transpose %4 {permutation = array<i64: 1, 0>} : (tensor<64x128xi64>) -> tensor<128x64xi64>
  %6 = dfg.add %5, %u : (tensor<128x64xi64>, tensor<128x64xi64>) -> tensor<128x64xi64>
  %7 = dfg.add %6, %v : (tensor<128x64xi64>, tensor<128x64xi64>) -> tensor<128x64xi64>
  %8 = dfg.add %7, %w : (tensor<128x64xi64>, tensor<128x64xi64>) -> tensor<128x64xi64>
  %9 = dfg.add %8, %x : (tensor<128x64xi64>, tensor<128x64xi64>) -> tensor<128x64xi64>
  %10 = dfg.add %9, %y : (tensor<128x64xi64>, tensor<128x64xi64>) -> tensor<128x64xi64>
  plan.yield %10 : tensor<128x64xi64>
}

// Six operands that lie across, and a result alone that does not: threads go along the operands, and nothing is staged.
// CHECK-LABEL: plan.native_kernel @six_across
// CHECK-SAME: mappings = [#plan.gpu_mapping<outer = [64, 128],
// CHECK-NOT: staged
// CHECK-LABEL: plan.native_kernel @bias
plan.native_kernel @six_across attributes {driver = "cuda"} {
^bb0(%a: tensor<64x128xi64>, %b: tensor<64x128xi64>, %c: tensor<64x128xi64>, %d: tensor<64x128xi64>, %e: tensor<64x128xi64>, %f: tensor<64x128xi64>):
  %0 = dfg.add %a, %b : (tensor<64x128xi64>, tensor<64x128xi64>) -> tensor<64x128xi64>
  %1 = dfg.add %0, %c : (tensor<64x128xi64>, tensor<64x128xi64>) -> tensor<64x128xi64>
  %2 = dfg.add %1, %d : (tensor<64x128xi64>, tensor<64x128xi64>) -> tensor<64x128xi64>
  %3 = dfg.add %2, %e : (tensor<64x128xi64>, tensor<64x128xi64>) -> tensor<64x128xi64>
  %4 = dfg.add %3, %f : (tensor<64x128xi64>, tensor<64x128xi64>) -> tensor<64x128xi64>
  %5 = dfg.transpose %4 {permutation = array<i64: 1, 0>} : (tensor<64x128xi64>) -> tensor<128x64xi64>
  plan.yield %5 : tensor<128x64xi64>
}

// The bias stands still along rows, and so both levels are their own; a body that asks where it is needs a level for each loop
// that it asks for, where else all is one.
// CHECK-SAME: mappings = [#plan.gpu_mapping<outer = [512, 128],
plan.native_kernel @bias attributes {driver = "cuda"} {
^bb0(%x: tensor<512x128xf32>, %b: tensor<128xf32>):
  %0 = dfg.add %x, %b : (tensor<512x128xf32>, tensor<128xf32>) -> tensor<512x128xf32>
  plan.yield %0 : tensor<512x128xf32>
}

// CHECK-LABEL: plan.native_kernel @indexed
// CHECK-SAME: mappings = [#plan.gpu_mapping<outer = [64, 64],
plan.native_kernel @indexed attributes {driver = "cuda"} {
^bb0(%x: tensor<64x64xi64>):
  %0 = dfg.iota {dim = 1 : i64} : () -> tensor<64x64xi64>
  %1 = dfg.add %x, %0 : (tensor<64x64xi64>, tensor<64x64xi64>) -> tensor<64x64xi64>
  plan.yield %1 : tensor<64x64xi64>
}

// CHECK-LABEL: plan.native_kernel @dense
// CHECK-SAME: mappings = [#plan.gpu_mapping<outer = [4096],
// CHECK: plan.steps = [#plan.gpu_step<launch = 0, outer = [<0, 1>], stores = [0]>]
plan.native_kernel @dense attributes {driver = "cuda"} {
^bb0(%x: tensor<64x64xi64>):
  %0 = dfg.neg %x : (tensor<64x64xi64>) -> tensor<64x64xi64>
  plan.yield %0 : tensor<64x64xi64>
}
