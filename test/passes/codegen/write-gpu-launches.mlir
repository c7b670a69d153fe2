// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --codegen-write-gpu-launches | FileCheck %s
// RUN: sed -e 's/outer = \[<0>, <1>\], stores = \[0\]>\]/outer = [<1>, <0>], stores = [0]>]/' -e 's/outer = \[48, 80\], blocks = 60/outer = [80, 48], blocks = 60/' %s | cleave-opt --codegen-write-gpu-launches | FileCheck %s --check-prefix=TURNED
// RUN: cleave-opt %s --codegen-write-gpu-launches | FileCheck %s --check-prefix=MEMORY

// Launches are written as attributes say, which people can change: nothing is decided here.

#all = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
#turned = affine_map<(i, j) -> (j, i)>
#one = affine_map<(i) -> (i)>
#none = affine_map<(i) -> ()>

// The last level varies fastest: of 48 rows and 80 columns, thread by thread columns, or rows. Blocks of 64 threads, which
// nothing would choose.
// CHECK-LABEL: llvm.func @order.launch_0(
// CHECK-SAME: nvvm.reqntid = array<i32: 64>
// CHECK: arith.constant 80 : i32
// CHECK: arith.remui
// CHECK: llvm.load {{.*}} : !llvm.ptr<1> -> f32
// CHECK: llvm.store {{.*}} : f32, !llvm.ptr<1>
// TURNED-LABEL: llvm.func @order.launch_0(
// TURNED: arith.constant 48 : i32
// TURNED: arith.remui
plan.native_kernel @order attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48, 80], blocks = 60, groups = 64>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>, <1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.negf %in : f32
    linalg.yield %1 : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// Both loops as one, two elements a thread: one access of eight bytes. 3840 / 2 / 96 are 20 blocks.
// CHECK-LABEL: llvm.func @width.launch_0(
// CHECK-SAME: nvvm.reqntid = array<i32: 96>
// CHECK-NOT: arith.divui
// CHECK: llvm.load {{.*}} {alignment = 8 : i64} : !llvm.ptr<1> -> vector<2xf32>
// CHECK-COUNT-2: arith.negf
// CHECK: llvm.store {{.*}} {alignment = 8 : i64} : vector<2xf32>, !llvm.ptr<1>
// CHECK: llvm.return
plan.native_kernel @width attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [3840], blocks = 20, groups = 96, width = 2>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0, 1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.negf %in : f32
    linalg.yield %1 : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// Four lanes a row exchange their sums in two steps, with those whose numbers differ by two and by one. The loop goes from
// lane to lane of 80 columns, three of a thread's at once and the rest one by one. The value that the sum begins with is no
// step.
// CHECK-LABEL: llvm.func @lanes.launch_0(
// CHECK-SAME: nvvm.reqntid = array<i32: 32>
// CHECK: scf.for %{{.*}} step %c12{{[_i0-9]*}} iter_args
// CHECK-COUNT-3: llvm.load
// CHECK: scf.for %{{.*}} step %c4{{[_i0-9]*}} iter_args
// CHECK: llvm.load
// CHECK-NOT: llvm.load
// CHECK: arith.constant 2 : i32
// CHECK: nvvm.shfl.sync {{ *}}bfly
// CHECK: arith.constant 1 : i32
// CHECK: nvvm.shfl.sync {{ *}}bfly
// CHECK-NOT: nvvm.shfl.sync
// CHECK-NOT: nvvm.barrier
// CHECK: llvm.return
plan.native_kernel @lanes attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48], inner = [80], blocks = 6, groups = 8, lanes = 4, along = inner, ahead = [3]>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<48x80xf32>) -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48xf32>
  %f = linalg.fill {plan.steps = []} ins(%zero : f32) outs(%e : tensor<48xf32>) -> tensor<48xf32>
  %0 = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<48x80xf32>) outs(%f : tensor<48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.addf %out, %in : f32
    linalg.yield %1 : f32
  } -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
}

// The same across rows: 16 rows side by side, whose two lanes join by shared memory, a place of four bytes for each of 32
// threads. All 40 iterations of a lane are written out. The fill is a launch before it.
// MEMORY-DAG: llvm.mlir.global internal @across.launch_1_shared() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<128 x i8>
// CHECK-LABEL: llvm.func @across.launch_0(
// CHECK-SAME: nvvm.reqntid = array<i32: 16>
// CHECK: llvm.store
// CHECK: llvm.func @across.launch_1(
// CHECK-SAME: nvvm.reqntid = array<i32: 32>
// CHECK-NOT: scf.for
// CHECK-COUNT-40: arith.addf
// CHECK: nvvm.barrier
// CHECK-COUNT-2: llvm.load {{.*}} : !llvm.ptr<3> -> f32
// CHECK: llvm.return
plan.native_kernel @across attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48], blocks = 3, groups = 16>,
    #plan.gpu_mapping<outer = [48], inner = [80], blocks = 3, groups = 16, lanes = 2, unrolled = true>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<48x80xf32>) -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48xf32>
  %f = linalg.fill {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], stores = [0]>]} ins(%zero : f32) outs(%e : tensor<48xf32>) -> tensor<48xf32>
  %0 = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<48x80xf32>) outs(%f : tensor<48xf32>)
      attrs = {plan.steps = [#plan.gpu_step<launch = 1, outer = [<0>], inner = [<1>], stores = [0], reads_fill = true>]} {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.addf %out, %in : f32
    linalg.yield %1 : f32
  } -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
}

// Four blocks of two elements a thread join 4096 elements in parts and leave these in memory, 64 bytes of it; two lanes of a
// second launch join four. Only these store the result.
// MEMORY-DAG: plan.native_kernel @splits attributes {driver = "cuda", scratch_bytes = 64 : i64}
// CHECK-LABEL: llvm.func @splits.launch_0(
// CHECK-SAME: %{{[^,]*}}, {{.*}}, %[[SCRATCH:[^:]*]]: !llvm.ptr<1> {llvm.align = 64 : i64, llvm.noalias})
// CHECK: %[[PLACE:.*]] = llvm.getelementptr inbounds %[[SCRATCH]]
// CHECK: scf.for
// CHECK: nvvm.barrier
// CHECK: %[[MINE:.*]] = llvm.getelementptr inbounds %[[PLACE]]
// CHECK: llvm.store %{{.*}}, %[[MINE]]
// CHECK-NOT: llvm.store
// CHECK: llvm.func @splits.launch_1(
// CHECK-NOT: scf.for
// CHECK: nvvm.shfl.sync {{ *}}bfly
// CHECK-NOT: nvvm.shfl.sync {{ *}}bfly
// CHECK: llvm.store
// CHECK: llvm.return
plan.native_kernel @splits attributes {driver = "cuda", mappings = [
    #plan.gpu_mapping<inner = [4096], blocks = 4, lanes = 64, along = inner, width = 2, splits = 4>,
    #plan.gpu_mapping<inner = [4], blocks = 1, groups = 16, lanes = 2, along = inner, combines = true, unrolled = true>]} {
^bb0(%x: tensor<4096xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 0>} : (tensor<4096xf32>) -> tensor<f32>
  plan.yield %0 : tensor<f32>
} loops {
^bb0(%x: tensor<4096xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<f32>
  %f = linalg.fill {plan.steps = []} ins(%zero : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %0 = linalg.generic {indexing_maps = [#one, #none], iterator_types = ["reduction"]} ins(%x : tensor<4096xf32>) outs(%f : tensor<f32>)
      attrs = {plan.steps = [#plan.gpu_step<launch = 0, inner = [<0>]>, #plan.gpu_step<launch = 1, stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.addf %out, %in : f32
    linalg.yield %1 : f32
  } -> tensor<f32>
  plan.yield %0 : tensor<f32>
}

// Squares of 16 with rows of 19 in shared memory, 16 x 19 x 4 = 1216 bytes, by 64 threads: four rows of each at once, so that
// four loads fill it and four stores follow. 48 x 80 are 3 x 5 squares without a rest.
// MEMORY-DAG: llvm.mlir.global internal @squares.launch_0_shared() {{.*}} : !llvm.array<1216 x i8>
// CHECK-LABEL: llvm.func @squares.launch_0(
// CHECK-SAME: nvvm.reqntid = array<i32: 64>
// CHECK-COUNT-4: llvm.load {{.*}} : !llvm.ptr<1> -> f32
// CHECK-NOT: !llvm.ptr<1> -> f32
// CHECK: nvvm.barrier
// CHECK-COUNT-4: llvm.store {{.*}} : f32, !llvm.ptr<1>
// CHECK: llvm.return
plan.native_kernel @squares attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [80, 48], blocks = 15, groups = 64, squares = <across = 0, side = 16, padding = 3>>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.transpose %x {permutation = array<i64: 1, 0>} : (tensor<48x80xf32>) -> tensor<80x48xf32>
  plan.yield %0 : tensor<80x48xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<80x48xf32>
  %0 = linalg.generic {indexing_maps = [#turned, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<80x48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>, <1>], stores = [0], staged = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<80x48xf32>
  plan.yield %0 : tensor<80x48xf32>
}

// Two launches beside each other are one function of 60 + 30 blocks, of which those from 60 on are the second's.
// CHECK-LABEL: llvm.func @beside.launch_0(
// CHECK: %[[BLOCK:.*]] = nvvm.read.ptx.sreg.ctaid.x
// CHECK: arith.constant 60 : i32
// CHECK: scf.if
// CHECK: arith.negf
// CHECK: } else {
// CHECK: arith.constant -60 : i32
// CHECK: math.absf
// CHECK-NOT: llvm.func @beside
// CHECK-LABEL: llvm.func @again.launch_0(
plan.native_kernel @beside attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [3840], blocks = 60, groups = 64>, #plan.gpu_mapping<outer = [3840], blocks = 30, groups = 64, width = 2, beside = true>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  %1 = dfg.abs %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0, %1 : tensor<48x80xf32>, tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0, 1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.negf %in : f32
    linalg.yield %2 : f32
  } -> tensor<48x80xf32>
  %1 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 1, outer = [<0, 1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %2 = math.absf %in : f32
    linalg.yield %2 : f32
  } -> tensor<48x80xf32>
  plan.yield %0, %1 : tensor<48x80xf32>, tensor<48x80xf32>
}

// In two phases of a lane a row, what both need is computed in each: two exponentials in two loops, none of which is stored.
// CHECK: scf.for
// CHECK: math.exp
// CHECK: arith.addf
// CHECK-NOT: llvm.store
// CHECK: scf.for
// CHECK: math.exp
// CHECK: arith.divf
// CHECK: llvm.store
plan.native_kernel @again attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48], inner = [80], blocks = 1, groups = 64>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.exp %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  %1 = dfg.reduce %0 {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>, keep_dims} : (tensor<48x80xf32>) -> tensor<48x1xf32>
  %2 = dfg.div %0, %1 : (tensor<48x80xf32>, tensor<48x1xf32>) -> tensor<48x80xf32>
  plan.yield %2 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48x80xf32>
  %s = tensor.empty() : tensor<48xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>)
      attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>]>, #plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>], phase = 1>]} {
  ^bb0(%in: f32, %out: f32):
    %3 = math.exp %in : f32
    linalg.yield %3 : f32
  } -> tensor<48x80xf32>
  %f = linalg.fill {plan.steps = []} ins(%zero : f32) outs(%s : tensor<48xf32>) -> tensor<48xf32>
  %1 = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]} ins(%0 : tensor<48x80xf32>) outs(%f : tensor<48xf32>)
      attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>]>]} {
  ^bb0(%in: f32, %out: f32):
    %3 = arith.addf %out, %in : f32
    linalg.yield %3 : f32
  } -> tensor<48xf32>
  %2 = linalg.generic {indexing_maps = [#all, #rows, #all], iterator_types = ["parallel", "parallel"]} ins(%0, %1 : tensor<48x80xf32>, tensor<48xf32>) outs(%e : tensor<48x80xf32>)
      attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>], phase = 1, stores = [0]>]} {
  ^bb0(%in: f32, %sum: f32, %out: f32):
    %3 = arith.divf %in, %sum : f32
    linalg.yield %3 : f32
  } -> tensor<48x80xf32>
  plan.yield %2 : tensor<48x80xf32>
}

// Rows of 83 begin anywhere between multiples of two: the ends of each by itself, what is between them two at once.
// CHECK-LABEL: llvm.func @ragged.launch_0(
// CHECK: llvm.load {{.*}} : !llvm.ptr<1> -> f32
// CHECK: scf.if
// CHECK: llvm.store {{.*}} : f32, !llvm.ptr<1>
// CHECK: scf.for
// CHECK: llvm.load {{.*}} {alignment = 8 : i64} : !llvm.ptr<1> -> vector<2xf32>
// CHECK: llvm.store {{.*}} {alignment = 8 : i64} : vector<2xf32>, !llvm.ptr<1>
// CHECK: llvm.return
plan.native_kernel @ragged attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48], inner = [83], blocks = 24, groups = 2, lanes = 8, along = inner, width = 2>]} {
^bb0(%x: tensor<48x83xf32>):
  %0 = dfg.neg %x : (tensor<48x83xf32>) -> tensor<48x83xf32>
  plan.yield %0 : tensor<48x83xf32>
} loops {
^bb0(%x: tensor<48x83xf32>):
  %e = tensor.empty() : tensor<48x83xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x83xf32>) outs(%e : tensor<48x83xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>], stores = [0], aligned = 0>]} {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.negf %in : f32
    linalg.yield %1 : f32
  } -> tensor<48x83xf32>
  plan.yield %0 : tensor<48x83xf32>
}
