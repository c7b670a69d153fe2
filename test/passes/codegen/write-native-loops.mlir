// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --codegen-write-native-loops | FileCheck %s
// RUN: sed -e 's/inner = \[<0>, <1>\]/inner = [<1>, <0>]/' %s | cleave-opt --codegen-write-native-loops | FileCheck %s --check-prefix=TURNED
// RUN: cleave-opt %s --codegen-write-native-loops='reference' | FileCheck %s --check-prefix=REFERENCE

// Loops are written as attributes say, which people can change: nothing is decided here.

#rows = affine_map<(i, j) -> (i)>
#columns = affine_map<(i, j) -> (j)>
#all = affine_map<(i, j) -> (i, j)>
#a = affine_map<(i, j, k) -> (i, k)>
#b = affine_map<(i, j, k) -> (k, j)>
#c = affine_map<(i, j, k) -> (i, j)>
#elements = affine_map<(i, j, k) -> (i, j, k)>

// CHECK: #[[UNROLL:.*]] = #llvm.loop_unroll<disable = true>
// CHECK: #[[ROLLED:.*]] = #llvm.loop_annotation<unroll = #[[UNROLL]]>

// The order is that of the levels: of 48 rows and 80 columns, rows outside, or columns.
// CHECK-LABEL: llvm.func internal @order.entry.loops
// CHECK: scf.for %{{.*}} = %{{.*}} to %c48{{[_0-9]*}} step %c1{{[_0-9]*}} {
// CHECK: scf.for %{{.*}} = %{{.*}} to %c80{{[_0-9]*}} step %c1{{[_0-9]*}} {
// CHECK-NOT: scf.for
// CHECK: llvm.func @order.entry(
// TURNED-LABEL: llvm.func internal @order.entry.loops
// TURNED: scf.for %{{.*}} = %{{.*}} to %c80{{[_0-9]*}} step
// TURNED: scf.for %{{.*}} = %{{.*}} to %c48{{[_0-9]*}} step
// TURNED: llvm.func @order.entry(
plan.native_kernel @order attributes {common = #plan.common_loops<>} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.nest = #plan.nest<inner = [<0>, <1>]>} {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.negf %in : f32
    linalg.yield %1 : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// Loops that run as one are one loop of 3840; threads have what lies between the entry's last two arguments.
// CHECK-LABEL: llvm.func internal @divided.entry.loops
// CHECK-SAME: %[[FIRST:[^:]*]]: i64, %[[LAST:[^:]*]]: i64)
// CHECK: %[[BEGIN:.*]] = arith.index_cast %[[FIRST]]
// CHECK: %[[END:.*]] = arith.index_cast %[[LAST]]
// CHECK: scf.for %{{.*}} = %[[BEGIN]] to %[[END]]
// CHECK-NOT: scf.for
// CHECK: llvm.func @divided.entry(
plan.native_kernel @divided attributes {common = #plan.common_loops<divided = 3840>} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.nest = #plan.nest<inner = [<0, 1 : divided>]>} {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.negf %in : f32
    linalg.yield %1 : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// A chunk that nothing would choose: both operations run over 24 rows before the next 24.
// CHECK-LABEL: llvm.func internal @chunks.entry.loops
// CHECK: scf.for %[[START:[^ ]*]] = %{{.*}} to %{{.*}} step %c24{{[_0-9]*}} {
// CHECK: %[[STOP:.*]] = arith.minsi
// CHECK: scf.for %{{.*}} = %[[START]] to %[[STOP]]
// CHECK: scf.for %{{.*}} = %[[START]] to %[[STOP]]
// CHECK: scf.for
// The sum is added to in a register, in any order but in the reference.
// CHECK: arith.addf {{.*}} fastmath<reassoc>
// REFERENCE-LABEL: llvm.func internal @chunks.entry.loops
// REFERENCE: arith.addf
// REFERENCE-NOT: reassoc
// REFERENCE: llvm.func @chunks.entry(
plan.native_kernel @chunks attributes {common = #plan.common_loops<divided = 48, chunk = 24>} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<48x80xf32>) -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48xf32>
  %f = linalg.fill {plan.nest = #plan.nest<inner = [<0 : divided>]>} ins(%zero : f32) outs(%e : tensor<48xf32>) -> tensor<48xf32>
  %0 = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<48x80xf32>) outs(%f : tensor<48xf32>) attrs = {plan.nest = #plan.nest<inner = [<0 : divided>, <1>]>} {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.addf %out, %in : f32
    linalg.yield %1 : f32
  } -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
}

// Squares of 16: the loop around goes from row to row of them, the first inside in steps of 16.
// CHECK-LABEL: llvm.func internal @squares.entry.loops
// CHECK: %[[ROW:.*]] = arith.muli %{{.*}}, %c16{{[_0-9]*}} overflow
// CHECK: scf.for %[[COLUMN:[^ ]*]] = %{{.*}} to %{{.*}} step %c16{{[_0-9]*}} {
// CHECK: scf.for %{{.*}} = %[[ROW]] to
// CHECK: scf.for %{{.*}} = %[[COLUMN]] to
plan.native_kernel @squares attributes {common = #plan.common_loops<sizes = [3], square = 16>} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>)
      attrs = {plan.nest = #plan.nest<outer = [<0>], inner = [<1 : squares>, <0 : in_square>, <1 : in_square>]>} {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.negf %in : f32
    linalg.yield %1 : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// A tile of two rows of one vector of 4: two sums, one vector and two elements a step of the sum. Loops 0 and 1 have three
// and four steps.
// CHECK-LABEL: llvm.func internal @tile.entry.loops
// CHECK-COUNT-2: llvm.load %{{.*}} -> vector<4xf32>
// CHECK: scf.for {{.*}} iter_args({{.*}}) -> (vector<4xf32>, vector<4xf32>)
// CHECK-COUNT-1: llvm.load %{{.*}} -> vector<4xf32>
// CHECK: llvm.load %{{.*}} -> f32
// CHECK: arith.mulf %{{.*}} : vector<4xf32>
// CHECK-NOT: llvm.load {{.*}} -> vector
// CHECK: llvm.load %{{.*}} -> f32
// CHECK: scf.yield %{{.*}}, %{{.*}} : vector<4xf32>, vector<4xf32>
// CHECK-COUNT-2: llvm.store %{{.*}} : vector<4xf32>
plan.native_kernel @tile attributes {common = #plan.common_loops<sizes = [3, 4]>} {
^bb0(%x: tensor<6x8xf32>, %y: tensor<8x16xf32>):
  %0 = dfg.dot_general %x, %y {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<6x8xf32>, tensor<8x16xf32>) -> tensor<6x16xf32>
  plan.yield %0 : tensor<6x16xf32>
} loops {
^bb0(%x: tensor<6x8xf32>, %y: tensor<8x16xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<6x16xf32>
  %f = linalg.fill {plan.nest = #plan.nest<splits = [<0 by 2>, <1 by 4>], outer = [<0>, <1>], inner = [<2>, <3>]>}
      ins(%zero : f32) outs(%e : tensor<6x16xf32>) -> tensor<6x16xf32>
  %0 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %y : tensor<6x8xf32>, tensor<8x16xf32>) outs(%f : tensor<6x16xf32>)
      attrs = {plan.nest = #plan.nest<splits = [<0 by 2>, <1 by 4>], outer = [<0>, <1>], inner = [<2>],
                                      tile = <lanes = 4, copies = [3], vectors = 1>>} {
  ^bb0(%p: f32, %q: f32, %out: f32):
    %1 = arith.mulf %p, %q : f32
    %2 = arith.addf %out, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<6x16xf32>
  plan.yield %0 : tensor<6x16xf32>
}

// What is on the stack is the 80 elements of a row.
// CHECK-LABEL: llvm.func internal @stack.entry.loops
// CHECK: %[[ELEMENTS:.*]] = llvm.mlir.constant(80 : i64)
// CHECK: llvm.alloca %[[ELEMENTS]] x f32
plan.native_kernel @stack attributes {common = #plan.common_loops<sizes = [48]>} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>)
      attrs = {plan.nest = #plan.nest<outer = [<0>], inner = [<1>], stack = [[0, 80]]>} {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.negf %in : f32
    linalg.yield %2 : f32
  } -> tensor<48x80xf32>
  %1 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.nest = #plan.nest<outer = [<0>], inner = [<1>]>} {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.negf %in : f32
    linalg.yield %2 : f32
  } -> tensor<48x80xf32>
  plan.yield %1 : tensor<48x80xf32>
}

// The same without: all 3840 elements are a parameter, which the entry takes from its third argument, the scratch memory.
// CHECK-LABEL: llvm.func internal @scratch.entry.loops
// CHECK-SAME: ({{.*}}: !llvm.ptr {llvm.noalias}, {{.*}}: !llvm.ptr {llvm.noalias}, {{.*}}: !llvm.ptr {llvm.noalias},
// CHECK-NOT: llvm.alloca
// CHECK: llvm.func @scratch.entry(
plan.native_kernel @scratch attributes {common = #plan.common_loops<sizes = [48]>} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.nest = #plan.nest<outer = [<0>], inner = [<1>]>} {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.negf %in : f32
    linalg.yield %2 : f32
  } -> tensor<48x80xf32>
  %1 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.nest = #plan.nest<outer = [<0>], inner = [<1>]>} {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.negf %in : f32
    linalg.yield %2 : f32
  } -> tensor<48x80xf32>
  plan.yield %1 : tensor<48x80xf32>
}

// Sixteen sums side by side, to each of which rows add, stay a loop for the vectorizer: written out, they would be sums
// by themselves of what lies sixteen numbers apart. With rows innermost there is one sum at a time.
// CHECK-LABEL: llvm.func internal @lanes.entry.loops
// CHECK: scf.for %{{.*}} to %c100
// CHECK: scf.for %{{.*}} to %c16
// CHECK: {loop_annotation = #[[ROLLED]]}
// CHECK: llvm.func @lanes.entry(
// TURNED-LABEL: llvm.func internal @lanes.entry.loops
// TURNED-NOT: loop_annotation
// TURNED: llvm.func @lanes.entry(
plan.native_kernel @lanes attributes {common = #plan.common_loops<>} {
^bb0(%x: tensor<100x16xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 0>} : (tensor<100x16xf32>) -> tensor<16xf32>
  plan.yield %0 : tensor<16xf32>
} loops {
^bb0(%x: tensor<100x16xf32>):
  %e = tensor.empty() : tensor<16xf32>
  %0 = linalg.generic {indexing_maps = [#all, #columns], iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<100x16xf32>) outs(%e : tensor<16xf32>) attrs = {plan.nest = #plan.nest<inner = [<0>, <1>]>} {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.addf %out, %in : f32
    linalg.yield %1 : f32
  } -> tensor<16xf32>
  plan.yield %0 : tensor<16xf32>
}

// Rows by blocks of columns, of which a band needs some: where a row less any column is below 0, the block gives what its
// sum begins with. Rows are taken from both ends in turn.
// CHECK-LABEL: llvm.func internal @band.entry.loops
// CHECK: scf.for %[[I:[^ ]*]] = {{.*}} {
// CHECK: %[[HALF:[^ ]*]] = arith.divui %[[I]], %{{.*}} : index
// CHECK: %[[ODD:[^ ]*]] = arith.remui %[[I]], %{{.*}} : index
// CHECK: %[[ISEVEN:[^ ]*]] = arith.cmpi eq, %[[ODD]]
// CHECK: %[[FROMEND:[^ ]*]] = arith.subi %c7{{[^ ]*}}, %[[HALF]] : index
// CHECK: %[[ROW:[^ ]*]] = arith.select %[[ISEVEN]], %[[HALF]], %[[FROMEND]] : index
// CHECK: scf.for %[[B:[^ ]*]] = {{.*}} {
// CHECK: arith.muli %[[ROW]], %c1
// CHECK: arith.muli %[[B]], %c16
// CHECK: %[[BELOW:[^ ]*]] = arith.cmpi slt, %{{.*}}, %c0
// CHECK: scf.if %[[BELOW]] {
// CHECK-NOT: scf.for
// CHECK: llvm.store
// CHECK: } else {
// CHECK: llvm.store
// CHECK: scf.for
// CHECK: arith.addf
// CHECK: llvm.func @band.entry(
plan.native_kernel @band attributes {common = #plan.common_loops<sizes = [8], blocks = 4, operations_in_blocks = 2, band = <level = 0, unit = 1, columns = 16, lower = 0>>} {
^bb0(%x: tensor<8x4x16xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1, 2>} : (tensor<8x4x16xf32>) -> tensor<8xf32>
  plan.yield %0 : tensor<8xf32>
} loops {
^bb0(%x: tensor<8x4x16xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x4xf32>
  %r = tensor.empty() : tensor<8xf32>
  %0 = linalg.fill {plan.nest = #plan.nest<outer = [<0>, <1>]>} ins(%zero : f32) outs(%e : tensor<8x4xf32>) -> tensor<8x4xf32>
  %1 = linalg.generic {indexing_maps = [#elements, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x : tensor<8x4x16xf32>) outs(%0 : tensor<8x4xf32>) attrs = {plan.nest = #plan.nest<outer = [<0>, <1>], inner = [<2>]>} {
  ^bb0(%in: f32, %out: f32):
    %4 = arith.addf %out, %in : f32
    linalg.yield %4 : f32
  } -> tensor<8x4xf32>
  %2 = linalg.fill {plan.nest = #plan.nest<outer = [<0>]>} ins(%zero : f32) outs(%r : tensor<8xf32>) -> tensor<8xf32>
  %3 = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%1 : tensor<8x4xf32>) outs(%2 : tensor<8xf32>) attrs = {plan.nest = #plan.nest<outer = [<0>], inner = [<1>]>} {
  ^bb0(%in: f32, %out: f32):
    %4 = arith.addf %out, %in : f32
    linalg.yield %4 : f32
  } -> tensor<8xf32>
  plan.yield %3 : tensor<8xf32>
}

// Between two bounds all rows need about as many blocks: they are taken in order.
// CHECK-LABEL: llvm.func internal @window.entry.loops
// CHECK: scf.for %[[I:[^ ]*]] = {{.*}} {
// CHECK-NOT: arith.select
// CHECK: %[[BELOW:[^ ]*]] = arith.cmpi slt, %{{.*}}, %c-3
// CHECK: %[[ABOVE:[^ ]*]] = arith.cmpi sgt, %{{.*}}, %c20
// CHECK: %[[OUTSIDE:[^ ]*]] = arith.ori %[[BELOW]], %[[ABOVE]] : i1
// CHECK: scf.if %[[OUTSIDE]] {
// CHECK: llvm.func @window.entry(
plan.native_kernel @window attributes {common = #plan.common_loops<sizes = [8], blocks = 4, operations_in_blocks = 2, band = <level = 0, unit = 1, columns = 16, lower = -3, upper = 20>>} {
^bb0(%x: tensor<8x4x16xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1, 2>} : (tensor<8x4x16xf32>) -> tensor<8xf32>
  plan.yield %0 : tensor<8xf32>
} loops {
^bb0(%x: tensor<8x4x16xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x4xf32>
  %r = tensor.empty() : tensor<8xf32>
  %0 = linalg.fill {plan.nest = #plan.nest<outer = [<0>, <1>]>} ins(%zero : f32) outs(%e : tensor<8x4xf32>) -> tensor<8x4xf32>
  %1 = linalg.generic {indexing_maps = [#elements, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x : tensor<8x4x16xf32>) outs(%0 : tensor<8x4xf32>) attrs = {plan.nest = #plan.nest<outer = [<0>, <1>], inner = [<2>]>} {
  ^bb0(%in: f32, %out: f32):
    %4 = arith.addf %out, %in : f32
    linalg.yield %4 : f32
  } -> tensor<8x4xf32>
  %2 = linalg.fill {plan.nest = #plan.nest<outer = [<0>]>} ins(%zero : f32) outs(%r : tensor<8xf32>) -> tensor<8xf32>
  %3 = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%1 : tensor<8x4xf32>) outs(%2 : tensor<8xf32>) attrs = {plan.nest = #plan.nest<outer = [<0>], inner = [<1>]>} {
  ^bb0(%in: f32, %out: f32):
    %4 = arith.addf %out, %in : f32
    linalg.yield %4 : f32
  } -> tensor<8xf32>
  plan.yield %3 : tensor<8xf32>
}
