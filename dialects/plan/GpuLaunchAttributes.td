// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is decided about the launches of a kernel for GPUs, in the IR between deciding and writing them.

#ifndef CLEAVE_DIALECTS_PLAN_GPULAUNCHATTRIBUTES
#define CLEAVE_DIALECTS_PLAN_GPULAUNCHATTRIBUTES

include "mlir/IR/EnumAttr.td"

def Plan_ThreadsAlongEnum : I32EnumAttr<"ThreadsAlong", "the levels along which neighbouring threads are neighbours", [
    I32EnumAttrCase<"Outer", 0, "outer">, I32EnumAttrCase<"Inner", 1, "inner">]> {
  let cppNamespace = "::cleave::plan";
  let genSpecializedAttr = 0;
}

def Plan_GpuSquaresAttr : Plan_Attr<"GpuSquares", "gpu_squares"> {
  let summary = "the squares in which a launch reads operands that lie across";
  let description = [{
    Written only inside of `#plan.gpu_mapping`. Blocks compute squares of `side` by `side` iterations, of outer level
    `across` and the last one. What steps name as `staged` comes through shared memory, where a row of a square takes
    `padding` elements more than it has, so that those of a column lie in different banks.

    ```mlir
    squares = <across = 0, side = 32, padding = 1>
    ```
  }];
  let parameters = (ins "unsigned":$across, "int64_t":$side, DefaultValuedParameter<"int64_t", "0">:$padding);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Plan_GpuMappingAttr : Plan_Attr<"GpuMapping", "gpu_mapping"> {
  let summary = "how the iterations of a launch on a GPU are divided among blocks and threads";
  let description = [{
    One a launch, in `mappings` of a kernel. `outer` are the sizes of the levels whose iterations are independent of each
    other, each a *group*; `inner` those of the levels that each group joins. The last of either varies fastest.

    A block has `groups` groups side by side and `lanes` threads a group, which divide the group's inner iterations.
    Neighbouring threads take neighbouring iterations of the last level that they go `along`, each thread `width` of them
    at once, so that they are one access to memory where they lie side by side. `splits` blocks share a group: each has a
    part of the inner iterations. Where these are joined, it leaves what it has joined in memory, and the next launch
    `combines` the parts: its inner level are the splits.

    A thread's iterations are a loop, which has `ahead` of them under way at once (a number a phase, 1 without), or are
    all written out (`unrolled`), so that their values stay in registers from phase to phase. With `squares`, blocks
    compute squares. A launch that is `beside` the one before runs at the same time, in further blocks of the same size.

    ```mlir
    #plan.gpu_mapping<outer = [65536], blocks = 64, groups = 256, width = 4>
    #plan.gpu_mapping<outer = [64], inner = [1024], blocks = 64, lanes = 256, along = inner, width = 4, unrolled = true>
    #plan.gpu_mapping<inner = [1048576], blocks = 128, lanes = 256, along = inner, width = 4, splits = 128, ahead = [2]>
    #plan.gpu_mapping<inner = [128], blocks = 1, lanes = 128, along = inner, combines = true>
    #plan.gpu_mapping<outer = [128, 64], blocks = 8, groups = 256, squares = <across = 0, side = 32, padding = 1>>
    ```
  }];
  let parameters = (ins OptionalArrayRefParameter<"int64_t">:$outer, OptionalArrayRefParameter<"int64_t">:$inner,
                        "int64_t":$blocks, DefaultValuedParameter<"int64_t", "1">:$groups,
                        DefaultValuedParameter<"int64_t", "1">:$lanes,
                        DefaultValuedParameter<"ThreadsAlong", "ThreadsAlong::Outer">:$along,
                        DefaultValuedParameter<"int64_t", "1">:$width, DefaultValuedParameter<"int64_t", "1">:$splits,
                        DefaultValuedParameter<"bool", "false">:$combines,
                        DefaultValuedParameter<"bool", "false">:$unrolled,
                        OptionalArrayRefParameter<"int64_t">:$ahead, OptionalParameter<"GpuSquaresAttr">:$squares,
                        DefaultValuedParameter<"bool", "false">:$beside);
  let assemblyFormat = [{
    `<` struct(custom<Bracketed>($outer), custom<Bracketed>($inner), $blocks, $groups, $lanes, $along, $width, $splits,
               custom<Flag>($combines), custom<Flag>($unrolled), custom<Bracketed>($ahead), $squares,
               custom<Flag>($beside)) `>`
  }];
}

def Plan_GpuStepAttr : Plan_Attr<"GpuStep", "gpu_step"> {
  let summary = "what an operation computes in a launch on a GPU";
  let description = [{
    On the operations of a kernel's `loops`, a list of them as `plan.steps`. An operation may be a step of several launches,
    as a sum that is divided among blocks, and of several phases of one, which is cheaper than to bring its values
    through memory; an empty list is that of a fill whose value all that read it know, and of what has no elements.

    `outer` and `inner` are the operation's loops that each level of launch number `launch` consists of, `<0, 1>` loops 0
    and 1 as one. A step without inner levels is computed once for each group, others for each inner iteration; reductions
    join these. A launch goes through its phases in order, in each through its steps without inner levels, then through
    the inner iterations of the others.

    `stores` are the results that go to memory; of all others only the launch knows. `staged` are the operands that come
    through squares of shared memory. `aligned` is the operand whose addresses the launch is divided by into accesses of
    `width` elements, where its rows begin anywhere; those of others are as far from multiples. With `reads_fill`, a sum
    begins with what a fill has written to memory, and otherwise with the value itself.

    ```mlir
    plan.steps = [#plan.gpu_step<launch = 0, outer = [<0>], inner = [<1>], phase = 1, stores = [0]>]
    ```
  }];
  let parameters = (ins "unsigned":$launch, OptionalArrayRefParameter<"LoopLevelAttr">:$outer,
                        OptionalArrayRefParameter<"LoopLevelAttr">:$inner, DefaultValuedParameter<"unsigned", "0">:$phase,
                        OptionalArrayRefParameter<"unsigned">:$stores, OptionalArrayRefParameter<"unsigned">:$staged,
                        DefaultValuedParameter<"int64_t", "-1">:$aligned,
                        DefaultValuedParameter<"bool", "false">:$reads_fill);
  let assemblyFormat = [{
    `<` struct($launch, custom<Bracketed>($outer), custom<Bracketed>($inner), $phase, custom<Bracketed>($stores),
               custom<Bracketed>($staged), $aligned, custom<Flag>($reads_fill)) `>`
  }];
}

#endif // CLEAVE_DIALECTS_PLAN_GPULAUNCHATTRIBUTES
