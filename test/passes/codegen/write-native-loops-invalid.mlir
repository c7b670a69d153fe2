// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --split-input-file --verify-diagnostics --codegen-write-native-loops

// Loops that cannot be, or that would compute something else, are refused at the operation.

// Every operation has its loops.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {common = #plan.common_loops<>} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects its loops in 'plan.nest', found none}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.negf %in : f32
    linalg.yield %1 : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// A loop that no nest has leaves elements out.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {common = #plan.common_loops<>} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects loop 1 of 80 iterations in one level, got it in 0}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.nest = #plan.nest<inner = [<0>]>} {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.negf %in : f32
    linalg.yield %1 : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// One that runs twice computes too many.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {common = #plan.common_loops<>} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects loop 0 of 48 iterations in one level, got it in 2}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.nest = #plan.nest<inner = [<0>, <1>, <0>]>} {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.negf %in : f32
    linalg.yield %1 : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// There are two loops.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {common = #plan.common_loops<>} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects levels of 2 loops, got loop 2}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.nest = #plan.nest<inner = [<0>, <1>, <2>]>} {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.negf %in : f32
    linalg.yield %1 : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// A row continues where the last one ends, and a column does not.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {common = #plan.common_loops<>} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects a level of loops that go through memory as one, got loops 1 and 0}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.nest = #plan.nest<inner = [<1, 0>]>} {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.negf %in : f32
    linalg.yield %1 : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// Parts of a loop are of one size.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {common = #plan.common_loops<>} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects a number that divides the 80 iterations of loop 1, got 32}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.nest = #plan.nest<splits = [<1 by 32>], inner = [<0>, <1>, <2>]>} {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.negf %in : f32
    linalg.yield %1 : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// Nothing can be divided by 0.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {common = #plan.common_loops<>} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects a number that divides the 80 iterations of loop 1, got 0}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.nest = #plan.nest<splits = [<1 by 0>], inner = [<0>, <1>, <2>]>} {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.negf %in : f32
    linalg.yield %1 : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// Splits know the loops that those before them have made, and no others.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {common = #plan.common_loops<>} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects to split one of 2 loops, got loop 3}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.nest = #plan.nest<splits = [<3 by 2>], inner = [<0>, <1>, <2>]>} {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.negf %in : f32
    linalg.yield %1 : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// What is left of a loop is not split again.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {common = #plan.common_loops<>} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects loop 1 to be split once; the inner one can be split again}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.nest = #plan.nest<splits = [<1 by 4>, <1 by 2>], inner = [<0>, <1>, <2>, <3>]>} {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.negf %in : f32
    linalg.yield %1 : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// Common loops run over all that a call is asked for.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {common = #plan.common_loops<sizes = [48]>} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects outer levels that are whole, got one that is divided}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.nest = #plan.nest<outer = [<0 : divided>], inner = [<1>]>} {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.negf %in : f32
    linalg.yield %1 : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// The side of a square needs a square around it.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {common = #plan.common_loops<>} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects a level in squares inside of squares of the same loops, got loop 1}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.nest = #plan.nest<inner = [<0>, <1>, <1 : in_square>]>} {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.negf %in : f32
    linalg.yield %1 : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// Squares that nothing walks are not computed.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {common = #plan.common_loops<>} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects a level in squares for each level of squares, got none of loop 1}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.nest = #plan.nest<inner = [<0>, <1 : squares>]>} {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.negf %in : f32
    linalg.yield %1 : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// The same of squares of the loop outside.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {common = #plan.common_loops<sizes = [3], squared = 0, square = 16>} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects a level in squares for each level of squares, got none of loop 0}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.nest = #plan.nest<outer = [<0>], inner = [<1>]>} {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.negf %in : f32
    linalg.yield %1 : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// The kernel says how many iterations threads divide.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {common = #plan.common_loops<sizes = [40]>} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects outer level 0 of 40 iterations as its kernel has, got 48}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.nest = #plan.nest<outer = [<0>], inner = [<1>]>} {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.negf %in : f32
    linalg.yield %1 : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// In squares of 32 these are two of 48 rows.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {common = #plan.common_loops<sizes = [3], squared = 0, square = 32>} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects outer level 0 of 3 iterations as its kernel has, got 48}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.nest = #plan.nest<outer = [<0>], inner = [<1 : squares>, <0 : in_square>, <1 : in_square>]>} {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.negf %in : f32
    linalg.yield %1 : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// A common loop runs in all operations.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {common = #plan.common_loops<sizes = [48]>} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects 1 outer levels as its kernel has, got 0}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.nest = #plan.nest<inner = [<0>, <1>]>} {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.negf %in : f32
    linalg.yield %1 : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// Squares go along a common loop.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {common = #plan.common_loops<sizes = [48], squared = 1, square = 16>} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects squares along one of 1 common loops, got loop 1 and size 16}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.nest = #plan.nest<outer = [<0>], inner = [<1>]>} {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.negf %in : f32
    linalg.yield %1 : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// There are not as many operations in blocks.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {common = #plan.common_loops<blocks = 80, operations_in_blocks = 2>} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects blocks around some of 1 operations, got 2}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.nest = #plan.nest<outer = [<1>], inner = [<0>]>} {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.negf %in : f32
    linalg.yield %1 : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// Of 80 columns, as many blocks are not 40.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {common = #plan.common_loops<blocks = 40, operations_in_blocks = 1>} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects 40 blocks as its kernel has, got 80}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.nest = #plan.nest<outer = [<1>], inner = [<0>]>} {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.negf %in : f32
    linalg.yield %1 : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// Threads divide loops outside or one inside.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {common = #plan.common_loops<sizes = [48], divided = 80>} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects either loops around all operations or a divided one inside, got both}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.nest = #plan.nest<outer = [<0>], inner = [<1 : divided>]>} {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.negf %in : f32
    linalg.yield %1 : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// Chunks are parts of a divided loop.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {common = #plan.common_loops<sizes = [48], chunk = 16>} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects chunks of a divided loop, got 16}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.nest = #plan.nest<outer = [<0>], inner = [<1>]>} {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.negf %in : f32
    linalg.yield %1 : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// Threads would all compute everything, and none would be told to.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {common = #plan.common_loops<divided = 80>} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects 1 divided levels, got 0}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.nest = #plan.nest<inner = [<0>, <1>]>} {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.negf %in : f32
    linalg.yield %1 : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// The kernel would be divided as if it had one iteration.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {common = #plan.common_loops<>} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects 0 divided levels, got 1}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.nest = #plan.nest<inner = [<0>, <1 : divided>]>} {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.negf %in : f32
    linalg.yield %1 : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// Threads would leave out the last half of the columns.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {common = #plan.common_loops<divided = 40>} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects a divided level of 40 iterations as its kernel has, got 80}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.nest = #plan.nest<inner = [<0>, <1 : divided>]>} {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.negf %in : f32
    linalg.yield %1 : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// A result of the kernel has a place outside.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {common = #plan.common_loops<sizes = [48]>} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects on the stack a part of a temporary that all see under one shape, got [0, 80] of result 0}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.nest = #plan.nest<outer = [<0>], inner = [<1>], stack = [[0, 80]]>} {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.negf %in : f32
    linalg.yield %1 : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// There is one result.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {common = #plan.common_loops<sizes = [48]>} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects a list on the stack for each of 1 results, got 2}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.nest = #plan.nest<outer = [<0>], inner = [<1>], stack = [[0, 80], [0, 80]]>} {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.negf %in : f32
    linalg.yield %1 : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// A row is read whole: half of it does not suffice.
#all = affine_map<(i, j) -> (i, j)>
#turned = affine_map<(i, j) -> (j, i)>
plan.native_kernel @k attributes {common = #plan.common_loops<sizes = [64]>} {
^bb0(%x: tensor<64x64xf32>):
  %0 = dfg.neg %x : (tensor<64x64xf32>) -> tensor<64x64xf32>
  plan.yield %0 : tensor<64x64xf32>
} loops {
^bb0(%x: tensor<64x64xf32>):
  %e = tensor.empty() : tensor<64x64xf32>
  // expected-error @+1 {{expects on the stack what an iteration of the common loops needs of dimension 1 of result 0, got 32 elements}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<64x64xf32>) outs(%e : tensor<64x64xf32>) attrs = {plan.nest = #plan.nest<outer = [<0>], inner = [<1>], stack = [[0, 32]]>} {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.negf %in : f32
    linalg.yield %2 : f32
  } -> tensor<64x64xf32>
  %1 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<64x64xf32>) outs(%e : tensor<64x64xf32>) attrs = {plan.nest = #plan.nest<outer = [<0>], inner = [<1>]>} {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.negf %in : f32
    linalg.yield %2 : f32
  } -> tensor<64x64xf32>
  plan.yield %1 : tensor<64x64xf32>
}

// -----

// Rows that run inside are all there.
#all = affine_map<(i, j) -> (i, j)>
#turned = affine_map<(i, j) -> (j, i)>
plan.native_kernel @k attributes {common = #plan.common_loops<>} {
^bb0(%x: tensor<64x64xf32>):
  %0 = dfg.neg %x : (tensor<64x64xf32>) -> tensor<64x64xf32>
  plan.yield %0 : tensor<64x64xf32>
} loops {
^bb0(%x: tensor<64x64xf32>):
  %e = tensor.empty() : tensor<64x64xf32>
  // expected-error @+1 {{expects on the stack what an iteration of the common loops needs of dimension 0 of result 0, got 0 elements}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<64x64xf32>) outs(%e : tensor<64x64xf32>) attrs = {plan.nest = #plan.nest<inner = [<0>, <1>], stack = [[0, 64]]>} {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.negf %in : f32
    linalg.yield %2 : f32
  } -> tensor<64x64xf32>
  %1 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<64x64xf32>) outs(%e : tensor<64x64xf32>) attrs = {plan.nest = #plan.nest<inner = [<0>, <1>]>} {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.negf %in : f32
    linalg.yield %2 : f32
  } -> tensor<64x64xf32>
  plan.yield %1 : tensor<64x64xf32>
}

// -----

// A temporary has two dimensions.
#all = affine_map<(i, j) -> (i, j)>
#turned = affine_map<(i, j) -> (j, i)>
plan.native_kernel @k attributes {common = #plan.common_loops<sizes = [64]>} {
^bb0(%x: tensor<64x64xf32>):
  %0 = dfg.neg %x : (tensor<64x64xf32>) -> tensor<64x64xf32>
  plan.yield %0 : tensor<64x64xf32>
} loops {
^bb0(%x: tensor<64x64xf32>):
  %e = tensor.empty() : tensor<64x64xf32>
  // expected-error @+1 {{expects on the stack a part of a temporary that all see under one shape, got [64] of result 0}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<64x64xf32>) outs(%e : tensor<64x64xf32>) attrs = {plan.nest = #plan.nest<outer = [<0>], inner = [<1>], stack = [[64]]>} {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.negf %in : f32
    linalg.yield %2 : f32
  } -> tensor<64x64xf32>
  %1 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<64x64xf32>) outs(%e : tensor<64x64xf32>) attrs = {plan.nest = #plan.nest<outer = [<0>], inner = [<1>]>} {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.negf %in : f32
    linalg.yield %2 : f32
  } -> tensor<64x64xf32>
  plan.yield %1 : tensor<64x64xf32>
}

// -----

// Operations that share rows cannot share them with columns: the second one would read what is not there yet.
#all = affine_map<(i, j) -> (i, j)>
#turned = affine_map<(i, j) -> (j, i)>
plan.native_kernel @k attributes {common = #plan.common_loops<sizes = [64]>} {
^bb0(%x: tensor<64x64xf32>):
  %0 = dfg.neg %x : (tensor<64x64xf32>) -> tensor<64x64xf32>
  plan.yield %0 : tensor<64x64xf32>
} loops {
^bb0(%x: tensor<64x64xf32>):
  %e = tensor.empty() : tensor<64x64xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<64x64xf32>) outs(%e : tensor<64x64xf32>) attrs = {plan.nest = #plan.nest<outer = [<0>], inner = [<1>]>} {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.negf %in : f32
    linalg.yield %2 : f32
  } -> tensor<64x64xf32>
  // expected-error @+1 {{expects a loop that all operations share, in the same place of each, got loop 1}}
  %1 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<64x64xf32>) outs(%e : tensor<64x64xf32>) attrs = {plan.nest = #plan.nest<outer = [<1>], inner = [<0>]>} {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.negf %in : f32
    linalg.yield %2 : f32
  } -> tensor<64x64xf32>
  plan.yield %1 : tensor<64x64xf32>
}

// -----

// The same of loops that threads divide.
#all = affine_map<(i, j) -> (i, j)>
#turned = affine_map<(i, j) -> (j, i)>
plan.native_kernel @k attributes {common = #plan.common_loops<divided = 64>} {
^bb0(%x: tensor<64x64xf32>):
  %0 = dfg.neg %x : (tensor<64x64xf32>) -> tensor<64x64xf32>
  plan.yield %0 : tensor<64x64xf32>
} loops {
^bb0(%x: tensor<64x64xf32>):
  %e = tensor.empty() : tensor<64x64xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<64x64xf32>) outs(%e : tensor<64x64xf32>) attrs = {plan.nest = #plan.nest<inner = [<0>, <1 : divided>]>} {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.negf %in : f32
    linalg.yield %2 : f32
  } -> tensor<64x64xf32>
  // expected-error @+1 {{expects a loop that all operations share, in the same place of each, got loop 0}}
  %1 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<64x64xf32>) outs(%e : tensor<64x64xf32>) attrs = {plan.nest = #plan.nest<inner = [<0 : divided>, <1>]>} {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.negf %in : f32
    linalg.yield %2 : f32
  } -> tensor<64x64xf32>
  plan.yield %1 : tensor<64x64xf32>
}

// -----

// The same of blocks.
#all = affine_map<(i, j) -> (i, j)>
#turned = affine_map<(i, j) -> (j, i)>
plan.native_kernel @k attributes {common = #plan.common_loops<blocks = 64, operations_in_blocks = 2>} {
^bb0(%x: tensor<64x64xf32>):
  %0 = dfg.neg %x : (tensor<64x64xf32>) -> tensor<64x64xf32>
  plan.yield %0 : tensor<64x64xf32>
} loops {
^bb0(%x: tensor<64x64xf32>):
  %e = tensor.empty() : tensor<64x64xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<64x64xf32>) outs(%e : tensor<64x64xf32>) attrs = {plan.nest = #plan.nest<outer = [<0>], inner = [<1>]>} {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.negf %in : f32
    linalg.yield %2 : f32
  } -> tensor<64x64xf32>
  // expected-error @+1 {{expects a loop that all operations share, in the same place of each, got loop 1}}
  %1 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<64x64xf32>) outs(%e : tensor<64x64xf32>) attrs = {plan.nest = #plan.nest<outer = [<1>], inner = [<0>]>} {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.negf %in : f32
    linalg.yield %2 : f32
  } -> tensor<64x64xf32>
  plan.yield %1 : tensor<64x64xf32>
}

// -----

// Parts of a loop that all share are of one size for all.
#all = affine_map<(i, j) -> (i, j)>
#turned = affine_map<(i, j) -> (j, i)>
plan.native_kernel @k attributes {common = #plan.common_loops<sizes = [16]>} {
^bb0(%x: tensor<64x64xf32>):
  %0 = dfg.neg %x : (tensor<64x64xf32>) -> tensor<64x64xf32>
  plan.yield %0 : tensor<64x64xf32>
} loops {
^bb0(%x: tensor<64x64xf32>):
  %e = tensor.empty() : tensor<64x64xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<64x64xf32>) outs(%e : tensor<64x64xf32>) attrs = {plan.nest = #plan.nest<splits = [<0 by 4>], outer = [<0>], inner = [<2>, <1>]>} {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.negf %in : f32
    linalg.yield %2 : f32
  } -> tensor<64x64xf32>
  // expected-error @+1 {{expects a loop that all operations share, in the same place of each, got loop 1}}
  %1 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<64x64xf32>) outs(%e : tensor<64x64xf32>) attrs = {plan.nest = #plan.nest<splits = [<1 by 4>], outer = [<1>], inner = [<2>, <0>]>} {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.negf %in : f32
    linalg.yield %2 : f32
  } -> tensor<64x64xf32>
  plan.yield %1 : tensor<64x64xf32>
}

// -----

// A tile has lanes.
#a = affine_map<(i, j, k) -> (i, k)>
#b = affine_map<(i, j, k) -> (k, j)>
#c = affine_map<(i, j, k) -> (i, j)>
plan.native_kernel @k attributes {common = #plan.common_loops<>} {
^bb0(%x: tensor<6x8xf32>, %y: tensor<8x16xf32>):
  %0 = dfg.dot_general %x, %y {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<6x8xf32>, tensor<8x16xf32>) -> tensor<6x16xf32>
  plan.yield %0 : tensor<6x16xf32>
} loops {
^bb0(%x: tensor<6x8xf32>, %y: tensor<8x16xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<6x16xf32>
  %f = linalg.fill {plan.nest = #plan.nest<inner = [<0, 1>]>} ins(%zero : f32) outs(%e : tensor<6x16xf32>) -> tensor<6x16xf32>
  // expected-error @+1 {{expects a tile of its 3 loops, got #plan.register_tile<lanes = 7, vectors = 1>}}
  %0 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %y : tensor<6x8xf32>, tensor<8x16xf32>) outs(%f : tensor<6x16xf32>)
      attrs = {plan.nest = #plan.nest<inner = [<0>, <1>, <2>], tile = <lanes = 7, vectors = 1>>} {
  ^bb0(%p: f32, %q: f32, %out: f32):
    %1 = arith.mulf %p, %q : f32
    %2 = arith.addf %out, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<6x16xf32>
  plan.yield %0 : tensor<6x16xf32>
}

// -----

// There are two inputs.
#a = affine_map<(i, j, k) -> (i, k)>
#b = affine_map<(i, j, k) -> (k, j)>
#c = affine_map<(i, j, k) -> (i, j)>
plan.native_kernel @k attributes {common = #plan.common_loops<>} {
^bb0(%x: tensor<6x8xf32>, %y: tensor<8x16xf32>):
  %0 = dfg.dot_general %x, %y {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<6x8xf32>, tensor<8x16xf32>) -> tensor<6x16xf32>
  plan.yield %0 : tensor<6x16xf32>
} loops {
^bb0(%x: tensor<6x8xf32>, %y: tensor<8x16xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<6x16xf32>
  %f = linalg.fill {plan.nest = #plan.nest<inner = [<0, 1>]>} ins(%zero : f32) outs(%e : tensor<6x16xf32>) -> tensor<6x16xf32>
  // expected-error @+1 {{expects input 0 or 1 of a tile in vectors, got 2}}
  %0 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %y : tensor<6x8xf32>, tensor<8x16xf32>) outs(%f : tensor<6x16xf32>)
      attrs = {plan.nest = #plan.nest<inner = [<0>, <2>], tile = <lanes = 1, vectors = 2>>} {
  ^bb0(%p: f32, %q: f32, %out: f32):
    %1 = arith.mulf %p, %q : f32
    %2 = arith.addf %out, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<6x16xf32>
  plan.yield %0 : tensor<6x16xf32>
}

// -----

// Along rows elements lie apart.
#a = affine_map<(i, j, k) -> (i, k)>
#b = affine_map<(i, j, k) -> (k, j)>
#c = affine_map<(i, j, k) -> (i, j)>
plan.native_kernel @k attributes {common = #plan.common_loops<>} {
^bb0(%x: tensor<6x8xf32>, %y: tensor<8x16xf32>):
  %0 = dfg.dot_general %x, %y {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<6x8xf32>, tensor<8x16xf32>) -> tensor<6x16xf32>
  plan.yield %0 : tensor<6x16xf32>
} loops {
^bb0(%x: tensor<6x8xf32>, %y: tensor<8x16xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<6x16xf32>
  %f = linalg.fill {plan.nest = #plan.nest<inner = [<0, 1>]>} ins(%zero : f32) outs(%e : tensor<6x16xf32>) -> tensor<6x16xf32>
  // expected-error @+1 {{expects lanes along which input 0 and the result, or both inputs of a sum, lie side by side, got loop 0}}
  %0 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %y : tensor<6x8xf32>, tensor<8x16xf32>) outs(%f : tensor<6x16xf32>)
      attrs = {plan.nest = #plan.nest<inner = [<1>, <2>], tile = <lanes = 0, vectors = 0>>} {
  ^bb0(%p: f32, %q: f32, %out: f32):
    %1 = arith.mulf %p, %q : f32
    %2 = arith.addf %out, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<6x16xf32>
  plan.yield %0 : tensor<6x16xf32>
}

// -----

// Along the sum only one input lies side by side.
#a = affine_map<(i, j, k) -> (i, k)>
#b = affine_map<(i, j, k) -> (k, j)>
#c = affine_map<(i, j, k) -> (i, j)>
plan.native_kernel @k attributes {common = #plan.common_loops<>} {
^bb0(%x: tensor<6x8xf32>, %y: tensor<8x16xf32>):
  %0 = dfg.dot_general %x, %y {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<6x8xf32>, tensor<8x16xf32>) -> tensor<6x16xf32>
  plan.yield %0 : tensor<6x16xf32>
} loops {
^bb0(%x: tensor<6x8xf32>, %y: tensor<8x16xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<6x16xf32>
  %f = linalg.fill {plan.nest = #plan.nest<inner = [<0, 1>]>} ins(%zero : f32) outs(%e : tensor<6x16xf32>) -> tensor<6x16xf32>
  // expected-error @+1 {{expects lanes along which input 0 and the result, or both inputs of a sum, lie side by side, got loop 2}}
  %0 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %y : tensor<6x8xf32>, tensor<8x16xf32>) outs(%f : tensor<6x16xf32>)
      attrs = {plan.nest = #plan.nest<inner = [<0>, <1>], tile = <lanes = 2, vectors = 0>>} {
  ^bb0(%p: f32, %q: f32, %out: f32):
    %1 = arith.mulf %p, %q : f32
    %2 = arith.addf %out, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<6x16xf32>
  plan.yield %0 : tensor<6x16xf32>
}

// -----

// Sums of one element cannot stand side by side: the last would be the result.
#a = affine_map<(i, j, k) -> (i, k)>
#b = affine_map<(i, j, k) -> (k, j)>
#c = affine_map<(i, j, k) -> (i, j)>
plan.native_kernel @k attributes {common = #plan.common_loops<>} {
^bb0(%x: tensor<6x8xf32>, %y: tensor<8x16xf32>):
  %0 = dfg.dot_general %x, %y {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<6x8xf32>, tensor<8x16xf32>) -> tensor<6x16xf32>
  plan.yield %0 : tensor<6x16xf32>
} loops {
^bb0(%x: tensor<6x8xf32>, %y: tensor<8x16xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<6x16xf32>
  %f = linalg.fill {plan.nest = #plan.nest<inner = [<0, 1>]>} ins(%zero : f32) outs(%e : tensor<6x16xf32>) -> tensor<6x16xf32>
  // expected-error @+1 {{expects copies along which the result moves, got loop 2}}
  %0 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %y : tensor<6x8xf32>, tensor<8x16xf32>) outs(%f : tensor<6x16xf32>)
      attrs = {plan.nest = #plan.nest<inner = [<0>], tile = <lanes = 1, copies = [2], vectors = 1>>} {
  ^bb0(%p: f32, %q: f32, %out: f32):
    %1 = arith.mulf %p, %q : f32
    %2 = arith.addf %out, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<6x16xf32>
  plan.yield %0 : tensor<6x16xf32>
}

// -----

// A loop of the tile is not written out besides.
#a = affine_map<(i, j, k) -> (i, k)>
#b = affine_map<(i, j, k) -> (k, j)>
#c = affine_map<(i, j, k) -> (i, j)>
plan.native_kernel @k attributes {common = #plan.common_loops<>} {
^bb0(%x: tensor<6x8xf32>, %y: tensor<8x16xf32>):
  %0 = dfg.dot_general %x, %y {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<6x8xf32>, tensor<8x16xf32>) -> tensor<6x16xf32>
  plan.yield %0 : tensor<6x16xf32>
} loops {
^bb0(%x: tensor<6x8xf32>, %y: tensor<8x16xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<6x16xf32>
  %f = linalg.fill {plan.nest = #plan.nest<inner = [<0, 1>]>} ins(%zero : f32) outs(%e : tensor<6x16xf32>) -> tensor<6x16xf32>
  // expected-error @+1 {{expects loop 1 of 16 iterations in one level, got it in 2}}
  %0 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %y : tensor<6x8xf32>, tensor<8x16xf32>) outs(%f : tensor<6x16xf32>)
      attrs = {plan.nest = #plan.nest<inner = [<0>, <1>, <2>], tile = <lanes = 1, vectors = 1>>} {
  ^bb0(%p: f32, %q: f32, %out: f32):
    %1 = arith.mulf %p, %q : f32
    %2 = arith.addf %out, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<6x16xf32>
  plan.yield %0 : tensor<6x16xf32>
}

// -----

// Other sums are not what a tile computes.
#a = affine_map<(i, j, k) -> (i, k)>
#b = affine_map<(i, j, k) -> (k, j)>
#c = affine_map<(i, j, k) -> (i, j)>
plan.native_kernel @k attributes {common = #plan.common_loops<>} {
^bb0(%x: tensor<6x8xf32>, %y: tensor<8x16xf32>):
  %0 = dfg.dot_general %x, %y {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<6x8xf32>, tensor<8x16xf32>) -> tensor<6x16xf32>
  plan.yield %0 : tensor<6x16xf32>
} loops {
^bb0(%x: tensor<6x8xf32>, %y: tensor<8x16xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<6x16xf32>
  %f = linalg.fill {plan.nest = #plan.nest<inner = [<0, 1>]>} ins(%zero : f32) outs(%e : tensor<6x16xf32>) -> tensor<6x16xf32>
  // expected-error @+1 {{expects a tile of sums of products alone}}
  %0 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %y : tensor<6x8xf32>, tensor<8x16xf32>) outs(%f : tensor<6x16xf32>)
      attrs = {plan.nest = #plan.nest<inner = [<0>, <2>], tile = <lanes = 1, vectors = 1>>} {
  ^bb0(%p: f32, %q: f32, %out: f32):
    %1 = arith.mulf %p, %q : f32
    %2 = arith.subf %out, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<6x16xf32>
  plan.yield %0 : tensor<6x16xf32>
}

// -----

// What is no join of elements depends on their order.
#all = affine_map<(i, j, k) -> (i, j, k)>
#rows = affine_map<(i, j, k) -> (i)>
plan.native_kernel @k attributes {common = #plan.common_loops<>} {
^bb0(%x: tensor<48x8x16xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<max>, dims = array<i64: 1, 2>} : (tensor<48x8x16xf32>) -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
} loops {
^bb0(%x: tensor<48x8x16xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48xf32>
  %f = linalg.fill {plan.nest = #plan.nest<inner = [<0>]>} ins(%zero : f32) outs(%e : tensor<48xf32>) -> tensor<48xf32>
  // expected-error @+1 {{expects the loops of a reduction that is no sum, product, minimum or maximum in order, got loop 1 too late}}
  %0 = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction", "reduction"]}
      ins(%x : tensor<48x8x16xf32>) outs(%f : tensor<48xf32>) attrs = {plan.nest = #plan.nest<inner = [<0>, <2>, <1>]>} {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.subf %in, %out : f32
    linalg.yield %1 : f32
  } -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
}

// -----

// Also within rows.
#all = affine_map<(i, j, k) -> (i, j, k)>
#rows = affine_map<(i, j, k) -> (i)>
plan.native_kernel @k attributes {common = #plan.common_loops<>} {
^bb0(%x: tensor<48x8x16xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<max>, dims = array<i64: 1, 2>} : (tensor<48x8x16xf32>) -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
} loops {
^bb0(%x: tensor<48x8x16xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48xf32>
  %f = linalg.fill {plan.nest = #plan.nest<inner = [<0>]>} ins(%zero : f32) outs(%e : tensor<48xf32>) -> tensor<48xf32>
  // expected-error @+1 {{expects the loops of a reduction that is no sum, product, minimum or maximum in order, got loop 1 in parts}}
  %0 = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction", "reduction"]}
      ins(%x : tensor<48x8x16xf32>) outs(%f : tensor<48xf32>) attrs = {plan.nest = #plan.nest<splits = [<1 by 2>], inner = [<0>, <1>, <3>, <2>]>} {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.subf %in, %out : f32
    linalg.yield %1 : f32
  } -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
}

// -----

// Loops are decided before they are written.
// expected-error @+1 {{expects loops, found none; run --codegen-choose-native-loops before}}
plan.native_kernel @k {
^bb0(%x: tensor<8xf32>):
  %0 = dfg.neg %x : (tensor<8xf32>) -> tensor<8xf32>
  plan.yield %0 : tensor<8xf32>
}

// -----

// What writes the same memory knows it as one: the sum goes on in the place of the fill.
#all = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
#one = affine_map<(i) -> (i)>
plan.native_kernel @k attributes {common = #plan.common_loops<sizes = [48]>} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<48x80xf32>) -> tensor<48xf32>
  %1 = dfg.neg %0 : (tensor<48xf32>) -> tensor<48xf32>
  plan.yield %1 : tensor<48xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48xf32>
  %f = linalg.fill {plan.nest = #plan.nest<outer = [<0>], stack = [[0]]>} ins(%zero : f32) outs(%e : tensor<48xf32>) -> tensor<48xf32>
  // expected-error @+1 {{expects result 0 to lie as what is in the same memory, got [48] and [0] on the stack}}
  %0 = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<48x80xf32>) outs(%f : tensor<48xf32>) attrs = {plan.nest = #plan.nest<outer = [<0>], inner = [<1>], stack = [[48]]>} {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.addf %out, %in : f32
    linalg.yield %2 : f32
  } -> tensor<48xf32>
  %1 = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]}
      ins(%0 : tensor<48xf32>) outs(%e : tensor<48xf32>) attrs = {plan.nest = #plan.nest<outer = [<0>]>} {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.negf %in : f32
    linalg.yield %2 : f32
  } -> tensor<48xf32>
  plan.yield %1 : tensor<48xf32>
}

// -----

// Rows of a band are those of a loop around all.
#elements = affine_map<(i, j, k) -> (i, j, k)>
#blocks = affine_map<(i, j, k) -> (i, j)>
#sums = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
plan.native_kernel @k attributes {common = #plan.common_loops<sizes = [8], blocks = 4, operations_in_blocks = 2, band = <level = 1, unit = 1, columns = 16, lower = 0>>} {
^bb0(%x: tensor<8x4x16xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1, 2>} : (tensor<8x4x16xf32>) -> tensor<8xf32>
  plan.yield %0 : tensor<8xf32>
} loops {
^bb0(%x: tensor<8x4x16xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x4xf32>
  %r = tensor.empty() : tensor<8xf32>
  // expected-error @+1 {{expects a band of one of 1 common loops in a kernel with blocks, got loop 1}}
  %0 = linalg.fill {plan.nest = #plan.nest<outer = [<0>, <1>]>} ins(%zero : f32) outs(%e : tensor<8x4xf32>) -> tensor<8x4xf32>
  %1 = linalg.generic {indexing_maps = [#elements, #blocks], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x : tensor<8x4x16xf32>) outs(%0 : tensor<8x4xf32>) attrs = {plan.nest = #plan.nest<outer = [<0>, <1>], inner = [<2>]>} {
  ^bb0(%in: f32, %out: f32):
    %4 = arith.addf %out, %in : f32
    linalg.yield %4 : f32
  } -> tensor<8x4xf32>
  %2 = linalg.fill {plan.nest = #plan.nest<outer = [<0>]>} ins(%zero : f32) outs(%r : tensor<8xf32>) -> tensor<8xf32>
  %3 = linalg.generic {indexing_maps = [#sums, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%1 : tensor<8x4xf32>) outs(%2 : tensor<8xf32>) attrs = {plan.nest = #plan.nest<outer = [<0>], inner = [<1>]>} {
  ^bb0(%in: f32, %out: f32):
    %4 = arith.addf %out, %in : f32
    linalg.yield %4 : f32
  } -> tensor<8xf32>
  plan.yield %3 : tensor<8xf32>
}

// -----

// As many rows an iteration as there are.
#elements = affine_map<(i, j, k) -> (i, j, k)>
#blocks = affine_map<(i, j, k) -> (i, j)>
#sums = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
plan.native_kernel @k attributes {common = #plan.common_loops<sizes = [8], blocks = 4, operations_in_blocks = 2, band = <level = 0, unit = 2, columns = 16, lower = 0>>} {
^bb0(%x: tensor<8x4x16xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1, 2>} : (tensor<8x4x16xf32>) -> tensor<8xf32>
  plan.yield %0 : tensor<8xf32>
} loops {
^bb0(%x: tensor<8x4x16xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x4xf32>
  %r = tensor.empty() : tensor<8xf32>
  // expected-error @+1 {{expects rows of a band in one loop, 1 an iteration, got 2}}
  %0 = linalg.fill {plan.nest = #plan.nest<outer = [<0>, <1>]>} ins(%zero : f32) outs(%e : tensor<8x4xf32>) -> tensor<8x4xf32>
  %1 = linalg.generic {indexing_maps = [#elements, #blocks], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x : tensor<8x4x16xf32>) outs(%0 : tensor<8x4xf32>) attrs = {plan.nest = #plan.nest<outer = [<0>, <1>], inner = [<2>]>} {
  ^bb0(%in: f32, %out: f32):
    %4 = arith.addf %out, %in : f32
    linalg.yield %4 : f32
  } -> tensor<8x4xf32>
  %2 = linalg.fill {plan.nest = #plan.nest<outer = [<0>]>} ins(%zero : f32) outs(%r : tensor<8xf32>) -> tensor<8xf32>
  %3 = linalg.generic {indexing_maps = [#sums, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%1 : tensor<8x4xf32>) outs(%2 : tensor<8xf32>) attrs = {plan.nest = #plan.nest<outer = [<0>], inner = [<1>]>} {
  ^bb0(%in: f32, %out: f32):
    %4 = arith.addf %out, %in : f32
    linalg.yield %4 : f32
  } -> tensor<8xf32>
  plan.yield %3 : tensor<8xf32>
}

// -----

// A block that is passed over would leave what was there before.
#elements = affine_map<(i, j, k) -> (i, j, k)>
#blocks = affine_map<(i, j, k) -> (i, j)>
#sums = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
plan.native_kernel @k attributes {common = #plan.common_loops<sizes = [8], blocks = 4, operations_in_blocks = 2, band = <level = 0, unit = 1, columns = 16, lower = 0>>} {
^bb0(%x: tensor<8x4x16xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1, 2>} : (tensor<8x4x16xf32>) -> tensor<8xf32>
  plan.yield %0 : tensor<8xf32>
} loops {
^bb0(%x: tensor<8x4x16xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x4xf32>
  %r = tensor.empty() : tensor<8xf32>
  // expected-error @+1 {{expects what blocks of a band give to begin with a fill}}
  %0 = linalg.generic {indexing_maps = [#sums], iterator_types = ["parallel", "parallel"]}
      outs(%e : tensor<8x4xf32>) attrs = {plan.nest = #plan.nest<outer = [<0>, <1>]>} {
  ^bb0(%out: f32):
    linalg.yield %zero : f32
  } -> tensor<8x4xf32>
  %1 = linalg.generic {indexing_maps = [#elements, #blocks], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x : tensor<8x4x16xf32>) outs(%0 : tensor<8x4xf32>) attrs = {plan.nest = #plan.nest<outer = [<0>, <1>], inner = [<2>]>} {
  ^bb0(%in: f32, %out: f32):
    %4 = arith.addf %out, %in : f32
    linalg.yield %4 : f32
  } -> tensor<8x4xf32>
  %2 = linalg.fill {plan.nest = #plan.nest<outer = [<0>]>} ins(%zero : f32) outs(%r : tensor<8xf32>) -> tensor<8xf32>
  %3 = linalg.generic {indexing_maps = [#sums, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%1 : tensor<8x4xf32>) outs(%2 : tensor<8xf32>) attrs = {plan.nest = #plan.nest<outer = [<0>], inner = [<1>]>} {
  ^bb0(%in: f32, %out: f32):
    %4 = arith.addf %out, %in : f32
    linalg.yield %4 : f32
  } -> tensor<8xf32>
  plan.yield %3 : tensor<8xf32>
}
