// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: cleave-opt %s --split-input-file --verify-diagnostics --codegen-write-gpu-launches

// Launches that cannot be, or that would compute something else, are refused at the operation, or, for blocks and threads, at
// the kernel.

// Launches have been decided before.
// expected-error @+1 {{expects launches, found none; run --codegen-choose-gpu-launches before}}
plan.native_kernel @k attributes {driver = "cuda"} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// Every operation says where it is computed.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [3840], blocks = 15, groups = 256>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects a list of its steps in 'plan.steps', found none}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// Nothing is computed of nothing.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [0], blocks = 0>]} {
^bb0(%x: tensor<0x80xf32>):
  %0 = dfg.neg %x : (tensor<0x80xf32>) -> tensor<0x80xf32>
  plan.yield %0 : tensor<0x80xf32>
} loops {
^bb0(%x: tensor<0x80xf32>):
  %e = tensor.empty() : tensor<0x80xf32>
  // expected-error @+1 {{expects no steps, as it has no elements}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<0x80xf32>) outs(%e : tensor<0x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0, 1>]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<0x80xf32>
  plan.yield %0 : tensor<0x80xf32>
}

// -----

// There is one launch.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [3840], blocks = 15, groups = 256>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects steps of 1 launches, got launch 1}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 1, outer = [<0, 1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// Groups of a launch are those of all its steps.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [3840], blocks = 15, groups = 256>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects 1 outer levels as its launch has, got 2}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>, <1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// Of as many iterations.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [80, 48], blocks = 15, groups = 256>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects outer level 0 of 80 iterations as its launch has, got 48}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>, <1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// Only loops of processors have parts.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [3840], blocks = 15, groups = 256>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects levels that are whole, got one that is squares}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0, 1 : squares>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// There are two loops.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [3840], blocks = 15, groups = 256>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects levels of 2 loops, got loop 2}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0, 2>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// There is one result.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [3840], blocks = 15, groups = 256>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects to store some of 1 results, got result 1}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0, 1>], stores = [1]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// Without squares nothing comes through shared memory.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [3840], blocks = 15, groups = 256>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects staged operands to be tensors that a launch in squares reads, got operand 0}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0, 1>], stores = [0], staged = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// Results do not come through shared memory.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [80, 48], blocks = 6, groups = 256, squares = <across = 0, side = 32>>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects staged operands to be tensors that a launch in squares reads, got operand 1}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<1>, <0>], stores = [0], staged = [1]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// There are two operands.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48], inner = [80], blocks = 24, groups = 2, lanes = 16, along = inner, width = 2>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects a tensor to divide rows by, got operand 2}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>], stores = [0], aligned = 2>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// Rows are divided one way.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48], inner = [80], blocks = 24, groups = 2, lanes = 16, along = inner, width = 2>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  %1 = dfg.exp %0 : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %1 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>], aligned = 0>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  // expected-error @+1 {{expects one operand to divide the rows of a launch by, got another one}}
  %1 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>], aligned = 0, stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = math.exp %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  plan.yield %1 : tensor<48x80xf32>
}

// -----

// Each split joins a part.
#all = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
// expected-error @+1 {{expects a launch after launch 0 that combines what its splits have joined}}
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48], inner = [80], blocks = 4, groups = 48, splits = 4>]} {
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
    %b = arith.addf %out, %in : f32
    linalg.yield %b : f32
  } -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
}

// -----

// What splits have joined is combined.
#all = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
#one = affine_map<(i) -> (i)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48], inner = [80], blocks = 4, groups = 48, splits = 4>,
    #plan.gpu_mapping<outer = [48], inner = [4], blocks = 1, groups = 48, combines = true>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<48x80xf32>) -> tensor<48xf32>
  %1 = dfg.neg %0 : (tensor<48xf32>) -> tensor<48xf32>
  plan.yield %1 : tensor<48xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48xf32>
  %f = linalg.fill {plan.steps = []} ins(%zero : f32) outs(%e : tensor<48xf32>) -> tensor<48xf32>
  // expected-error @+1 {{expects to combine in launch 1 what the splits of launch 0 have joined}}
  %0 = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<48x80xf32>) outs(%f : tensor<48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.addf %out, %in : f32
    linalg.yield %b : f32
  } -> tensor<48xf32>
  %1 = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]}
      ins(%0 : tensor<48xf32>) outs(%e : tensor<48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 1, outer = [<0>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48xf32>
  plan.yield %1 : tensor<48xf32>
}

// -----

// It is combined without what it was joined from.
#all = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48], inner = [80], blocks = 4, groups = 48, splits = 4>,
    #plan.gpu_mapping<outer = [48], inner = [4], blocks = 1, groups = 48, combines = true>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<48x80xf32>) -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48xf32>
  %f = linalg.fill {plan.steps = []} ins(%zero : f32) outs(%e : tensor<48xf32>) -> tensor<48xf32>
  // expected-error @+1 {{expects no inner levels in a launch that combines, got 1}}
  %0 = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<48x80xf32>) outs(%f : tensor<48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>]>, #plan.gpu_step<launch = 1, outer = [<0>], inner = [<1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.addf %out, %in : f32
    linalg.yield %b : f32
  } -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
}

// -----

// Parts lie in the order of the groups that have left them, here columns.
#all = affine_map<(i, j, k) -> (i, j, k)>
#rows = affine_map<(i, j, k) -> (i, j)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [8, 4], inner = [80], blocks = 4, groups = 32, splits = 4>,
    #plan.gpu_mapping<outer = [32], inner = [4], blocks = 1, groups = 32, combines = true>]} {
^bb0(%x: tensor<4x8x80xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 2>} : (tensor<4x8x80xf32>) -> tensor<4x8xf32>
  plan.yield %0 : tensor<4x8xf32>
} loops {
^bb0(%x: tensor<4x8x80xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %f = linalg.fill {plan.steps = []} ins(%zero : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @+1 {{expects a level of loops along which what splits leave lies as one, got loops 0 and 1}}
  %0 = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x : tensor<4x8x80xf32>) outs(%f : tensor<4x8xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<1>, <0>], inner = [<2>]>, #plan.gpu_step<launch = 1, outer = [<0, 1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.addf %out, %in : f32
    linalg.yield %b : f32
  } -> tensor<4x8xf32>
  plan.yield %0 : tensor<4x8xf32>
}

// -----

// What is joined already is not joined again.
#all = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48], inner = [80], blocks = 4, groups = 48, splits = 4>,
    #plan.gpu_mapping<outer = [48, 80], inner = [4], blocks = 15, groups = 256, combines = true>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<48x80xf32>) -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48xf32>
  %f = linalg.fill {plan.steps = []} ins(%zero : f32) outs(%e : tensor<48xf32>) -> tensor<48xf32>
  // expected-error @+1 {{expects loop 1 of 80 iterations in no level of a launch that combines, got it in 1}}
  %0 = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<48x80xf32>) outs(%f : tensor<48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>]>, #plan.gpu_step<launch = 1, outer = [<0>, <1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.addf %out, %in : f32
    linalg.yield %b : f32
  } -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
}

// -----

// Splits do not wait for each other.
#all = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48], inner = [80], blocks = 4, groups = 48, splits = 4>,
    #plan.gpu_mapping<outer = [48], inner = [4], blocks = 1, groups = 48, combines = true>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<48x80xf32>) -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48xf32>
  %f = linalg.fill {plan.steps = []} ins(%zero : f32) outs(%e : tensor<48xf32>) -> tensor<48xf32>
  // expected-error @+1 {{expects phase 0 in a launch whose splits are combined by the next one, got 1}}
  %0 = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<48x80xf32>) outs(%f : tensor<48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>], phase = 1>, #plan.gpu_step<launch = 1, outer = [<0>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.addf %out, %in : f32
    linalg.yield %b : f32
  } -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
}

// -----

// A part is no result.
#all = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48], inner = [80], blocks = 4, groups = 48, splits = 4>,
    #plan.gpu_mapping<outer = [48], inner = [4], blocks = 1, groups = 48, combines = true>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<48x80xf32>) -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48xf32>
  %f = linalg.fill {plan.steps = []} ins(%zero : f32) outs(%e : tensor<48xf32>) -> tensor<48xf32>
  // expected-error @+1 {{expects the launch that combines to store result 0}}
  %0 = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<48x80xf32>) outs(%f : tensor<48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>], stores = [0]>, #plan.gpu_step<launch = 1, outer = [<0>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.addf %out, %in : f32
    linalg.yield %b : f32
  } -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
}

// -----

// Every launch computes something.
#all = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
// expected-error @+1 {{expects launch 0 to have steps, got none}}
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48], inner = [80], blocks = 4, groups = 48, splits = 4>,
    #plan.gpu_mapping<outer = [48], inner = [4], blocks = 1, groups = 48, combines = true>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<48x80xf32>) -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48xf32>
  %f = linalg.fill {plan.steps = []} ins(%zero : f32) outs(%e : tensor<48xf32>) -> tensor<48xf32>
  %0 = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<48x80xf32>) outs(%f : tensor<48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 1, outer = [<0>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.addf %out, %in : f32
    linalg.yield %b : f32
  } -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
}

// -----

// The launch of a sum has loops that others lack.
#all = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
#one = affine_map<(i) -> (i)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48], inner = [80], blocks = 4, groups = 48, splits = 4>,
    #plan.gpu_mapping<outer = [48], inner = [4], blocks = 1, groups = 48, combines = true>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<48x80xf32>) -> tensor<48xf32>
  %1 = dfg.neg %0 : (tensor<48xf32>) -> tensor<48xf32>
  plan.yield %1 : tensor<48xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48xf32>
  %f = linalg.fill {plan.steps = []} ins(%zero : f32) outs(%e : tensor<48xf32>) -> tensor<48xf32>
  %0 = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<48x80xf32>) outs(%f : tensor<48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 1, outer = [<0>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.addf %out, %in : f32
    linalg.yield %b : f32
  } -> tensor<48xf32>
  // expected-error @+1 {{expects levels of 1 loops, got loop 1}}
  %1 = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]}
      ins(%0 : tensor<48xf32>) outs(%e : tensor<48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48xf32>
  plan.yield %1 : tensor<48xf32>
}

// -----

// There is something to combine.
#all = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
// expected-error @+1 {{expects launch 1 to combine what splits of the one before have joined, got none}}
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48], inner = [80], blocks = 1, groups = 48>,
    #plan.gpu_mapping<outer = [48], inner = [4], blocks = 1, groups = 48, combines = true>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<48x80xf32>) -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48xf32>
  %f = linalg.fill {plan.steps = []} ins(%zero : f32) outs(%e : tensor<48xf32>) -> tensor<48xf32>
  %0 = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<48x80xf32>) outs(%f : tensor<48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>]>, #plan.gpu_step<launch = 1, outer = [<0>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.addf %out, %in : f32
    linalg.yield %b : f32
  } -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
}

// -----

// All of it, and no more.
#all = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
// expected-error @+1 {{expects launch 1 to have one inner level of 4 splits that it combines, got 8 iterations in 1}}
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48], inner = [80], blocks = 4, groups = 48, splits = 4>,
    #plan.gpu_mapping<outer = [48], inner = [8], blocks = 1, groups = 48, combines = true>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<48x80xf32>) -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48xf32>
  %f = linalg.fill {plan.steps = []} ins(%zero : f32) outs(%e : tensor<48xf32>) -> tensor<48xf32>
  %0 = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<48x80xf32>) outs(%f : tensor<48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>]>, #plan.gpu_step<launch = 1, outer = [<0>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.addf %out, %in : f32
    linalg.yield %b : f32
  } -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
}

// -----

// No block is without work.
#all = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
// expected-error @+1 {{expects launch 0 to have iterations for each of 81 splits, got 80 for parts of 1}}
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48], inner = [80], blocks = 81, groups = 48, splits = 81>,
    #plan.gpu_mapping<outer = [48], inner = [4], blocks = 1, groups = 48, combines = true>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<48x80xf32>) -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48xf32>
  %f = linalg.fill {plan.steps = []} ins(%zero : f32) outs(%e : tensor<48xf32>) -> tensor<48xf32>
  %0 = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<48x80xf32>) outs(%f : tensor<48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>]>, #plan.gpu_step<launch = 1, outer = [<0>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.addf %out, %in : f32
    linalg.yield %b : f32
  } -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
}

// -----

// One launch has all parts.
#all = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
// expected-error @+1 {{expects launch 1 to combine splits without splits of its own, got 2}}
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48], inner = [80], blocks = 4, groups = 48, splits = 4>,
    #plan.gpu_mapping<outer = [48], inner = [4], blocks = 2, groups = 48, splits = 2, combines = true>,
    #plan.gpu_mapping<outer = [48], inner = [2], blocks = 1, groups = 48, combines = true>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<48x80xf32>) -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48xf32>
  %f = linalg.fill {plan.steps = []} ins(%zero : f32) outs(%e : tensor<48xf32>) -> tensor<48xf32>
  %0 = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<48x80xf32>) outs(%f : tensor<48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>]>, #plan.gpu_step<launch = 1, outer = [<0>]>, #plan.gpu_step<launch = 2, outer = [<0>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.addf %out, %in : f32
    linalg.yield %b : f32
  } -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
}

// -----

// A loop that no step runs leaves elements out.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48], blocks = 1, groups = 48>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects loop 1 of 80 iterations in one level, got it in 0}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// One that runs twice computes too many.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48, 48, 80], blocks = 720, groups = 256>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects loop 0 of 48 iterations in one level, got it in 2}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>, <0>, <1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// A row continues where the last one ends, and a column does not.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [3840], blocks = 15, groups = 256>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects a level of loops that go through memory as one, got loops 1 and 0}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<1, 0>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// Groups do not know of each other: their sums would be lost.
#all = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48, 80], blocks = 15, groups = 256>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<48x80xf32>) -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48xf32>
  %f = linalg.fill {plan.steps = []} ins(%zero : f32) outs(%e : tensor<48xf32>) -> tensor<48xf32>
  // expected-error @+1 {{expects loops of a reduction in inner levels, got loop 1 in an outer one}}
  %0 = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<48x80xf32>) outs(%f : tensor<48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>, <1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.addf %out, %in : f32
    linalg.yield %b : f32
  } -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
}

// -----

// Rows are not joined.
#all = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<inner = [48, 80], blocks = 1>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<48x80xf32>) -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48xf32>
  %f = linalg.fill {plan.steps = []} ins(%zero : f32) outs(%e : tensor<48xf32>) -> tensor<48xf32>
  // expected-error @+1 {{expects inner levels of loops that it joins alone, got loop 0}}
  %0 = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<48x80xf32>) outs(%f : tensor<48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, inner = [<0>, <1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.addf %out, %in : f32
    linalg.yield %b : f32
  } -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
}

// -----

// A difference depends on the order.
#all = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48], inner = [80], blocks = 1, groups = 64, lanes = 4>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<48x80xf32>) -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48xf32>
  %f = linalg.fill {plan.steps = []} ins(%zero : f32) outs(%e : tensor<48xf32>) -> tensor<48xf32>
  // expected-error @+1 {{expects one thread a group that goes through single elements in order, as it is no sum, product, minimum or maximum}}
  %0 = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<48x80xf32>) outs(%f : tensor<48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.subf %out, %in : f32
    linalg.yield %b : f32
  } -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
}

// -----

// What one thread computes no other one knows.
#all = affine_map<(i, j) -> (i, j)>
#turned = affine_map<(i, j) -> (j, i)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48, 48], blocks = 9, groups = 256>]} {
^bb0(%x: tensor<48x48xf32>):
  %0 = dfg.neg %x : (tensor<48x48xf32>) -> tensor<48x48xf32>
  %1 = dfg.transpose %0 {permutation = array<i64: 1, 0>} : (tensor<48x48xf32>) -> tensor<48x48xf32>
  plan.yield %1 : tensor<48x48xf32>
} loops {
^bb0(%x: tensor<48x48xf32>):
  %e = tensor.empty() : tensor<48x48xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x48xf32>) outs(%e : tensor<48x48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>, <1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x48xf32>
  // expected-error @+1 {{expects operand 0 to be what the same iterations of the launch's earlier steps have written, got others}}
  %1 = linalg.generic {indexing_maps = [#turned, #all], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<48x48xf32>) outs(%e : tensor<48x48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>, <1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = math.absf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x48xf32>
  plan.yield %1 : tensor<48x48xf32>
}

// -----

// A launch reads what earlier ones have written.
#all = affine_map<(i, j) -> (i, j)>
#turned = affine_map<(i, j) -> (j, i)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48, 48], blocks = 9, groups = 256>,
    #plan.gpu_mapping<outer = [48, 48], blocks = 9, groups = 256>]} {
^bb0(%x: tensor<48x48xf32>):
  %0 = dfg.neg %x : (tensor<48x48xf32>) -> tensor<48x48xf32>
  %1 = dfg.transpose %0 {permutation = array<i64: 1, 0>} : (tensor<48x48xf32>) -> tensor<48x48xf32>
  plan.yield %1 : tensor<48x48xf32>
} loops {
^bb0(%x: tensor<48x48xf32>):
  %e = tensor.empty() : tensor<48x48xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x48xf32>) outs(%e : tensor<48x48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 1, outer = [<0>, <1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x48xf32>
  // expected-error @+1 {{expects launch 1 or a later one, which computes what it reads, got launch 0}}
  %1 = linalg.generic {indexing_maps = [#turned, #all], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<48x48xf32>) outs(%e : tensor<48x48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>, <1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = math.absf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x48xf32>
  plan.yield %1 : tensor<48x48xf32>
}

// -----

// Not what those beside it are writing.
#all = affine_map<(i, j) -> (i, j)>
#turned = affine_map<(i, j) -> (j, i)>
// expected-error @+1 {{expects launch 1 beside others that it does not need and of threads that do not wait for each other}}
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48, 48], blocks = 9, groups = 256>,
    #plan.gpu_mapping<outer = [48, 48], blocks = 9, groups = 256, beside = true>]} {
^bb0(%x: tensor<48x48xf32>):
  %0 = dfg.neg %x : (tensor<48x48xf32>) -> tensor<48x48xf32>
  %1 = dfg.transpose %0 {permutation = array<i64: 1, 0>} : (tensor<48x48xf32>) -> tensor<48x48xf32>
  plan.yield %1 : tensor<48x48xf32>
} loops {
^bb0(%x: tensor<48x48xf32>):
  %e = tensor.empty() : tensor<48x48xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x48xf32>) outs(%e : tensor<48x48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>, <1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x48xf32>
  %1 = linalg.generic {indexing_maps = [#turned, #all], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<48x48xf32>) outs(%e : tensor<48x48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 1, outer = [<0>, <1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = math.absf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x48xf32>
  plan.yield %1 : tensor<48x48xf32>
}

// -----

// What another launch reads is in memory.
#all = affine_map<(i, j) -> (i, j)>
#turned = affine_map<(i, j) -> (j, i)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48, 48], blocks = 9, groups = 256>,
    #plan.gpu_mapping<outer = [48, 48], blocks = 9, groups = 256>]} {
^bb0(%x: tensor<48x48xf32>):
  %0 = dfg.neg %x : (tensor<48x48xf32>) -> tensor<48x48xf32>
  %1 = dfg.transpose %0 {permutation = array<i64: 1, 0>} : (tensor<48x48xf32>) -> tensor<48x48xf32>
  plan.yield %1 : tensor<48x48xf32>
} loops {
^bb0(%x: tensor<48x48xf32>):
  %e = tensor.empty() : tensor<48x48xf32>
  // expected-error @+1 {{expects to store result 0, which is read where no thread has it in registers}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x48xf32>) outs(%e : tensor<48x48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>, <1>]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x48xf32>
  %1 = linalg.generic {indexing_maps = [#turned, #all], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<48x48xf32>) outs(%e : tensor<48x48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 1, outer = [<0>, <1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = math.absf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x48xf32>
  plan.yield %1 : tensor<48x48xf32>
}

// -----

// A sum is known after all of it.
#all = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48], inner = [80], blocks = 1, groups = 64>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>, keep_dims} : (tensor<48x80xf32>) -> tensor<48x1xf32>
  %1 = dfg.mul %x, %0 : (tensor<48x80xf32>, tensor<48x1xf32>) -> tensor<48x80xf32>
  plan.yield %1 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48xf32>
  %g = tensor.empty() : tensor<48x80xf32>
  %f = linalg.fill {plan.steps = []} ins(%zero : f32) outs(%e : tensor<48xf32>) -> tensor<48xf32>
  %0 = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<48x80xf32>) outs(%f : tensor<48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.addf %out, %in : f32
    linalg.yield %b : f32
  } -> tensor<48xf32>
  // expected-error @+1 {{expects phase 1 or a later one, as it needs what phase 0 computes, got 0}}
  %1 = linalg.generic {indexing_maps = [#all, #rows, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x, %0 : tensor<48x80xf32>, tensor<48xf32>) outs(%g : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>], stores = [0]>]} {
  ^bb0(%in: f32, %sum: f32, %out: f32):
    %b = arith.mulf %in, %sum : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  plan.yield %1 : tensor<48x80xf32>
}

// -----

// What goes through iterations in order has its launch to itself.
#all = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48], inner = [80], blocks = 1, groups = 64>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>, keep_dims} : (tensor<48x80xf32>) -> tensor<48x1xf32>
  %1 = dfg.mul %x, %0 : (tensor<48x80xf32>, tensor<48x1xf32>) -> tensor<48x80xf32>
  plan.yield %1 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48xf32>
  %g = tensor.empty() : tensor<48x80xf32>
  %f = linalg.fill {plan.steps = []} ins(%zero : f32) outs(%e : tensor<48xf32>) -> tensor<48xf32>
  // expected-error @+1 {{expects no other inner iterations in a launch that goes through its own in order}}
  %0 = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<48x80xf32>) outs(%f : tensor<48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.subf %out, %in : f32
    linalg.yield %b : f32
  } -> tensor<48xf32>
  %1 = linalg.generic {indexing_maps = [#all, #rows, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x, %0 : tensor<48x80xf32>, tensor<48xf32>) outs(%g : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>], phase = 1, stores = [0]>]} {
  ^bb0(%in: f32, %sum: f32, %out: f32):
    %b = arith.mulf %in, %sum : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  plan.yield %1 : tensor<48x80xf32>
}

// -----

// A sum is not computed twice.
#all = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
#one = affine_map<(i) -> (i)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48], inner = [80], blocks = 1, groups = 64>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<48x80xf32>) -> tensor<48xf32>
  %1 = dfg.neg %0 : (tensor<48xf32>) -> tensor<48xf32>
  plan.yield %1 : tensor<48xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48xf32>
  %f = linalg.fill {plan.steps = []} ins(%zero : f32) outs(%e : tensor<48xf32>) -> tensor<48xf32>
  // expected-error @+1 {{expects to be computed again in later phases, for each inner iteration}}
  %0 = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<48x80xf32>) outs(%f : tensor<48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>]>, #plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>], phase = 1>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.addf %out, %in : f32
    linalg.yield %b : f32
  } -> tensor<48xf32>
  %1 = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]}
      ins(%0 : tensor<48xf32>) outs(%e : tensor<48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], phase = 2, stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48xf32>
  plan.yield %1 : tensor<48xf32>
}

// -----

// Again is later.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48], inner = [80], blocks = 1, groups = 64>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  %1 = dfg.exp %0 : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %1 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects to be computed again in later phases, for each inner iteration}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>], phase = 1>, #plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  %1 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>], phase = 1, stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = math.exp %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  plan.yield %1 : tensor<48x80xf32>
}

// -----

// What a body reads by itself any thread may have written.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [3840], blocks = 15, groups = 256>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  %1 = dfg.mul %x, %0 : (tensor<48x80xf32>, tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %1 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %c0 = arith.constant 0 : index
  %e = tensor.empty() : tensor<48x80xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0, 1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  // expected-error @+1 {{expects a launch of its own, as elements at indices of a body's own are other threads'}}
  %1 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0, 1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %a = tensor.extract %0[%c0, %c0] : tensor<48x80xf32>
    %b = arith.mulf %in, %a : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  plan.yield %1 : tensor<48x80xf32>
}

// -----

// Everything is computed.
#all = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
#one = affine_map<(i) -> (i)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48], blocks = 1, groups = 48>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<48x80xf32>) -> tensor<48xf32>
  %1 = dfg.neg %0 : (tensor<48xf32>) -> tensor<48xf32>
  plan.yield %1 : tensor<48xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48xf32>
  %f = linalg.fill {plan.steps = []} ins(%zero : f32) outs(%e : tensor<48xf32>) -> tensor<48xf32>
  // expected-error @+1 {{expects a step in some launch, got none}}
  %0 = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<48x80xf32>) outs(%f : tensor<48xf32>) attrs = {plan.steps = []} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.addf %out, %in : f32
    linalg.yield %b : f32
  } -> tensor<48xf32>
  %1 = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]}
      ins(%0 : tensor<48xf32>) outs(%e : tensor<48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48xf32>
  plan.yield %1 : tensor<48xf32>
}

// -----

// A fill that is read from memory, too.
#all = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48], inner = [80], blocks = 1, groups = 48>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<48x80xf32>) -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48xf32>
  // expected-error @+1 {{expects a step in some launch, got none}}
  %f = linalg.fill {plan.steps = []} ins(%zero : f32) outs(%e : tensor<48xf32>) -> tensor<48xf32>
  %0 = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<48x80xf32>) outs(%f : tensor<48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>], stores = [0], reads_fill = true>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.addf %out, %in : f32
    linalg.yield %b : f32
  } -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
}

// -----

// A sum that lies where %0 does waits for all that read it.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [3840], blocks = 15, groups = 256>,
    #plan.gpu_mapping<outer = [3840], blocks = 15, groups = 256>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  %1 = dfg.exp %0 : (tensor<48x80xf32>) -> tensor<48x80xf32>
  %2 = dfg.add %0, %x : (tensor<48x80xf32>, tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %1, %2 : tensor<48x80xf32>, tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0, 1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  %1 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 1, outer = [<0, 1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = math.exp %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  // expected-error @+1 {{expects launch 1 or a later one, which still needs what it overwrites, got launch 0}}
  %2 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%0 : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0, 1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.addf %in, %out : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  plan.yield %1, %2 : tensor<48x80xf32>, tensor<48x80xf32>
}

// -----

// What another thread still reads is not overwritten.
#all = affine_map<(i, j) -> (i, j)>
#turned = affine_map<(i, j) -> (j, i)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48, 48], blocks = 9, groups = 256>,
    #plan.gpu_mapping<outer = [48, 48], blocks = 9, groups = 256>]} {
^bb0(%x: tensor<48x48xf32>):
  %0 = dfg.neg %x : (tensor<48x48xf32>) -> tensor<48x48xf32>
  %1 = dfg.transpose %0 {permutation = array<i64: 1, 0>} : (tensor<48x48xf32>) -> tensor<48x48xf32>
  %2 = dfg.add %0, %x : (tensor<48x48xf32>, tensor<48x48xf32>) -> tensor<48x48xf32>
  plan.yield %1, %2 : tensor<48x48xf32>, tensor<48x48xf32>
} loops {
^bb0(%x: tensor<48x48xf32>):
  %e = tensor.empty() : tensor<48x48xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x48xf32>) outs(%e : tensor<48x48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>, <1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x48xf32>
  %1 = linalg.generic {indexing_maps = [#turned, #all], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<48x48xf32>) outs(%e : tensor<48x48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 1, outer = [<0>, <1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = math.absf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x48xf32>
  // expected-error @+1 {{expects operand 1 to be what the same iterations of the launch's earlier steps have read, got others}}
  %2 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x48xf32>) outs(%0 : tensor<48x48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 1, outer = [<0>, <1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.addf %in, %out : f32
    linalg.yield %b : f32
  } -> tensor<48x48xf32>
  plan.yield %1, %2 : tensor<48x48xf32>, tensor<48x48xf32>
}

// -----

// No split knows the whole sum.
#all = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
#one = affine_map<(i) -> (i)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48], inner = [80], blocks = 4, groups = 48, splits = 4>,
    #plan.gpu_mapping<outer = [48], inner = [4], blocks = 1, groups = 48, combines = true>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<48x80xf32>) -> tensor<48xf32>
  %1 = dfg.neg %0 : (tensor<48xf32>) -> tensor<48xf32>
  plan.yield %1 : tensor<48xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48xf32>
  %f = linalg.fill {plan.steps = []} ins(%zero : f32) outs(%e : tensor<48xf32>) -> tensor<48xf32>
  %0 = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<48x80xf32>) outs(%f : tensor<48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>]>, #plan.gpu_step<launch = 1, outer = [<0>]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.addf %out, %in : f32
    linalg.yield %b : f32
  } -> tensor<48xf32>
  // expected-error @+1 {{expects phase 1 or a later one, as it needs what phase 0 computes, got 0}}
  %1 = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]}
      ins(%0 : tensor<48xf32>) outs(%e : tensor<48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], stores = [0]>, #plan.gpu_step<launch = 1, outer = [<0>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48xf32>
  plan.yield %1 : tensor<48xf32>
}

// -----

// What is combined has parts.
#all = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48], inner = [80], blocks = 4, groups = 48, splits = 4>,
    #plan.gpu_mapping<outer = [48], inner = [4], blocks = 1, groups = 48, combines = true>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<48x80xf32>) -> tensor<48xf32>
  %1 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<48x80xf32>) -> tensor<48xf32>
  plan.yield %0, %1 : tensor<48xf32>, tensor<48xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48xf32>
  %f = linalg.fill {plan.steps = []} ins(%zero : f32) outs(%e : tensor<48xf32>) -> tensor<48xf32>
  %g = linalg.fill {plan.steps = []} ins(%zero : f32) outs(%e : tensor<48xf32>) -> tensor<48xf32>
  %0 = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<48x80xf32>) outs(%f : tensor<48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>]>, #plan.gpu_step<launch = 1, outer = [<0>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.addf %out, %in : f32
    linalg.yield %b : f32
  } -> tensor<48xf32>
  // expected-error @+1 {{expects to be joined by the splits of launch 0, got no step of it there}}
  %1 = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<48x80xf32>) outs(%g : tensor<48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 1, outer = [<0>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.addf %out, %in : f32
    linalg.yield %b : f32
  } -> tensor<48xf32>
  plan.yield %0, %1 : tensor<48xf32>, tensor<48xf32>
}

// -----

// Nothing is computed twice in vain.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [3840], blocks = 15, groups = 256>,
    #plan.gpu_mapping<outer = [3840], blocks = 15, groups = 256>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  // expected-error @+1 {{expects one launch, but where it follows splits, got launches 0 and 1}}
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0, 1>], stores = [0]>, #plan.gpu_step<launch = 1, outer = [<0, 1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// Levels have iterations.
#all = affine_map<(i, j) -> (i, j)>
// expected-error @+1 {{expects launch 0 to have levels with iterations, got 0}}
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [3840], inner = [0], blocks = 15, groups = 256>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0, 1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// Blocks have threads.
#all = affine_map<(i, j) -> (i, j)>
// expected-error @+1 {{expects launch 0 to have at least one group, lane, split and element a thread, got 0}}
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [3840], blocks = 15, groups = 0>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0, 1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// A block has 1024 threads at most.
#all = affine_map<(i, j) -> (i, j)>
// expected-error @+1 {{expects launch 0 to have at most 1024 threads a block, got 2048 x 1}}
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [3840], blocks = 2, groups = 2048>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0, 1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// Lanes divide inner iterations.
#all = affine_map<(i, j) -> (i, j)>
// expected-error @+1 {{expects launch 0 to have inner iterations for lanes, splits and what is written out, got none}}
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [3840], blocks = 15, groups = 256, lanes = 2>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0, 1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// No access has three elements.
#all = affine_map<(i, j) -> (i, j)>
// expected-error @+1 {{expects launch 0 to have a width that is a power of two and divides the 3840 iterations that neighbouring threads take, got 3}}
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [3840], blocks = 5, groups = 256, width = 3>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0, 1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// Nor one beyond the end.
#all = affine_map<(i, j) -> (i, j)>
// expected-error @+1 {{expects launch 0 to have a width that is a power of two and divides the 3840 iterations that neighbouring threads take, got 512}}
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [3840], blocks = 1, groups = 256, width = 512>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0, 1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// Arguments lie at multiples of 64 bytes.
#all = affine_map<(i, j) -> (i, j)>
// expected-error @+1 {{expects launch 0 to have a width of at most 64 bytes, got 32 elements of 'f32'}}
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [3840], blocks = 1, groups = 256, width = 32>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0, 1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// Rows that begin anywhere are gone through in a loop.
#all = affine_map<(i, j) -> (i, j)>
// expected-error @+1 {{expects launch 0 to go along one inner level, in a loop of several elements at once that lie side by side in the operand that it is aligned by}}
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48], inner = [80], blocks = 24, groups = 2, lanes = 16, along = inner, width = 2, unrolled = true>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>], stores = [0], aligned = 0>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// Each element at the ends of a row has a lane.
#all = affine_map<(i, j) -> (i, j)>
// expected-error @+1 {{expects launch 0 to have two lanes an element of its width and a row of as many elements, got 2 lanes, a width of 2 and rows of 80}}
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48], inner = [80], blocks = 24, groups = 2, lanes = 2, along = inner, width = 2>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>], stores = [0], aligned = 0>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// Lanes exchange values in pairs.
#all = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
// expected-error @+1 {{expects launch 0 to have lanes that are a part of a warp, in whole warps, or whole warps of one group, got 8 groups of 6}}
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48], inner = [80], blocks = 6, groups = 8, lanes = 6, along = inner>]} {
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
    %b = arith.addf %out, %in : f32
    linalg.yield %b : f32
  } -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
}

// -----

// With all threads of a warp.
#all = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
// expected-error @+1 {{expects launch 0 to have lanes that are a part of a warp, in whole warps, or whole warps of one group, got 2 groups of 8}}
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48], inner = [80], blocks = 24, groups = 2, lanes = 8, along = inner>]} {
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
    %b = arith.addf %out, %in : f32
    linalg.yield %b : f32
  } -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
}

// -----

// A block joins those of one group in shared memory.
#all = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
// expected-error @+1 {{expects launch 0 to have lanes that are a part of a warp, in whole warps, or whole warps of one group, got 2 groups of 64}}
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48], inner = [80], blocks = 24, groups = 2, lanes = 64, along = inner>]} {
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
    %b = arith.addf %out, %in : f32
    linalg.yield %b : f32
  } -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
}

// -----

// 1024 threads with 16 sums of four bytes are 64 KiB.
#all = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (j)>
// expected-error @+1 {{expects launch 0 to join in at most 49152 bytes of shared memory, got 65536}}
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [4096], inner = [80], blocks = 4, groups = 64, lanes = 16, width = 16>]} {
^bb0(%x: tensor<80x4096xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 0>} : (tensor<80x4096xf32>) -> tensor<4096xf32>
  plan.yield %0 : tensor<4096xf32>
} loops {
^bb0(%x: tensor<80x4096xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4096xf32>
  %f = linalg.fill {plan.steps = []} ins(%zero : f32) outs(%e : tensor<4096xf32>) -> tensor<4096xf32>
  %0 = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<80x4096xf32>) outs(%f : tensor<4096xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<1>], inner = [<0>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.addf %out, %in : f32
    linalg.yield %b : f32
  } -> tensor<4096xf32>
  plan.yield %0 : tensor<4096xf32>
}

// -----

// Blocks that come late would read what others have overwritten.
#all = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
#one = affine_map<(i) -> (i)>
// expected-error @+1 {{expects launch 1 to have one split, as it overwrites values of groups that all blocks read, got 4}}
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48], blocks = 1, groups = 48>,
    #plan.gpu_mapping<outer = [48], inner = [80], blocks = 4, groups = 48, splits = 4>]} {
^bb0(%x: tensor<48x80xf32>, %y: tensor<48xf32>):
  %0 = dfg.neg %y : (tensor<48xf32>) -> tensor<48xf32>
  %1 = dfg.add %0, %y : (tensor<48xf32>, tensor<48xf32>) -> tensor<48xf32>
  %r = dfg.reshape %1 : (tensor<48xf32>) -> tensor<48x1xf32>
  %2 = dfg.mul %x, %r : (tensor<48x80xf32>, tensor<48x1xf32>) -> tensor<48x80xf32>
  plan.yield %1, %2 : tensor<48xf32>, tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>, %y: tensor<48xf32>):
  %e = tensor.empty() : tensor<48xf32>
  %g = tensor.empty() : tensor<48x80xf32>
  %0 = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]}
      ins(%y : tensor<48xf32>) outs(%e : tensor<48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48xf32>
  %1 = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]}
      ins(%y : tensor<48xf32>) outs(%0 : tensor<48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 1, outer = [<0>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.addf %in, %out : f32
    linalg.yield %b : f32
  } -> tensor<48xf32>
  %2 = linalg.generic {indexing_maps = [#all, #rows, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x, %1 : tensor<48x80xf32>, tensor<48xf32>) outs(%g : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 1, outer = [<0>], inner = [<1>], stores = [0]>]} {
  ^bb0(%in: f32, %factor: f32, %out: f32):
    %b = arith.mulf %in, %factor : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  plan.yield %1, %2 : tensor<48xf32>, tensor<48x80xf32>
}

// -----

// There is one phase.
#all = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
// expected-error @+1 {{expects launch 0 to say for each of its 1 phases what a loop has under way, got 2 numbers}}
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48], inner = [80], blocks = 1, groups = 64, ahead = [2, 2]>]} {
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
    %b = arith.addf %out, %in : f32
    linalg.yield %b : f32
  } -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
}

// -----

// A loop goes on.
#all = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
// expected-error @+1 {{expects launch 0 to have at least one iteration under way, got 0}}
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48], inner = [80], blocks = 1, groups = 64, ahead = [0]>]} {
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
    %b = arith.addf %out, %in : f32
    linalg.yield %b : f32
  } -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
}

// -----

// What is under way is written out.
#all = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
// expected-error @+1 {{expects launch 0 to have at most 256 iterations under way, got 257 of 1 elements}}
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48], inner = [80], blocks = 1, groups = 64, ahead = [257]>]} {
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
    %b = arith.addf %out, %in : f32
    linalg.yield %b : f32
  } -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
}

// -----

// So are all iterations of a thread.
#all = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
// expected-error @+1 {{expects launch 0 to have at most 256 iterations of a thread written out, got 257 of 1 elements}}
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [48], inner = [257], blocks = 1, groups = 64, unrolled = true>]} {
^bb0(%x: tensor<48x257xf32>):
  %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<48x257xf32>) -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
} loops {
^bb0(%x: tensor<48x257xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48xf32>
  %f = linalg.fill {plan.steps = []} ins(%zero : f32) outs(%e : tensor<48xf32>) -> tensor<48xf32>
  %0 = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<48x257xf32>) outs(%f : tensor<48xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.addf %out, %in : f32
    linalg.yield %b : f32
  } -> tensor<48xf32>
  plan.yield %0 : tensor<48xf32>
}

// -----

// Squares have two sides.
#all = affine_map<(i, j) -> (i, j)>
// expected-error @+1 {{expects launch 0 to have squares of single elements, of an outer level and the last one, and no inner levels, got level 1}}
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [80, 48], blocks = 6, groups = 256, squares = <across = 1, side = 32>>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<1>, <0>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// Three rows at once do not divide 32.
#all = affine_map<(i, j) -> (i, j)>
// expected-error @+1 {{expects launch 0 to have threads that are whole rows of a square and divide it, got 96 for squares of 32}}
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [80, 48], blocks = 6, groups = 96, squares = <across = 0, side = 32>>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<1>, <0>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// Squares of 64 are too small for 256 threads.
#all = affine_map<(i, j) -> (i, j)>
// expected-error @+1 {{expects launch 0 to have threads that are whole rows of a square and divide it, got 256 for squares of 8}}
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [80, 48], blocks = 60, groups = 256, squares = <across = 0, side = 8>>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<1>, <0>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// 128 x 129 x 4 bytes are too many.
#all = affine_map<(i, j) -> (i, j)>
// expected-error @+1 {{expects launch 0 to have squares in at most 49152 bytes of shared memory, got 66048}}
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [80, 48], blocks = 1, groups = 1024, squares = <across = 0, side = 128, padding = 1>>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<1>, <0>], stores = [0], staged = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// Shared memory has what was there before the launch.
#all = affine_map<(i, j) -> (i, j)>
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [80, 48], blocks = 6, groups = 256, squares = <across = 0, side = 32>>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  %1 = dfg.exp %0 : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %1 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<1>, <0>]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  // expected-error @+1 {{expects staged operands that its launch does not write, got operand 0}}
  %1 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<1>, <0>], stores = [0], staged = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = math.exp %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  plan.yield %1 : tensor<48x80xf32>
}

// -----

// A block that is missing leaves elements out.
#all = affine_map<(i, j) -> (i, j)>
// expected-error @+1 {{expects launch 0 to have 15 blocks for all groups, got 14}}
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [3840], blocks = 14, groups = 256>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0, 1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}

// -----

// A grid has 2^31 - 1 blocks at most.
#all = affine_map<(i) -> (i)>
// expected-error @+1 {{expects launch 0 to have at most 2147483647 blocks, got 3000000000}}
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [3000000000], blocks = 3000000000>]} {
^bb0(%x: tensor<3000000000xf32>):
  %0 = dfg.neg %x : (tensor<3000000000xf32>) -> tensor<3000000000xf32>
  plan.yield %0 : tensor<3000000000xf32>
} loops {
^bb0(%x: tensor<3000000000xf32>):
  %e = tensor.empty() : tensor<3000000000xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel"]}
      ins(%x : tensor<3000000000xf32>) outs(%e : tensor<3000000000xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<3000000000xf32>
  plan.yield %0 : tensor<3000000000xf32>
}

// -----

// Blocks of one function have one size.
#all = affine_map<(i, j) -> (i, j)>
// expected-error @+1 {{expects launch 1 to be beside one before it of as many threads, got 128 beside 256}}
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [3840], blocks = 15, groups = 256>,
    #plan.gpu_mapping<outer = [3840], blocks = 30, groups = 128, beside = true>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  %1 = dfg.exp %0 : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %1 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0, 1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  %1 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 1, outer = [<0, 1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = math.exp %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  plan.yield %1 : tensor<48x80xf32>
}

// -----

// There is one before it.
#all = affine_map<(i, j) -> (i, j)>
// expected-error @+1 {{expects launch 0 to be beside one before it of as many threads, got 256 beside 0}}
plan.native_kernel @k attributes {driver = "cuda", mappings = [#plan.gpu_mapping<outer = [3840], blocks = 15, groups = 256, beside = true>]} {
^bb0(%x: tensor<48x80xf32>):
  %0 = dfg.neg %x : (tensor<48x80xf32>) -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
} loops {
^bb0(%x: tensor<48x80xf32>):
  %e = tensor.empty() : tensor<48x80xf32>
  %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<48x80xf32>) outs(%e : tensor<48x80xf32>) attrs = {plan.steps = [#plan.gpu_step<launch = 0, outer = [<0, 1>], stores = [0]>]} {
  ^bb0(%in: f32, %out: f32):
    %b = arith.negf %in : f32
    linalg.yield %b : f32
  } -> tensor<48x80xf32>
  plan.yield %0 : tensor<48x80xf32>
}
