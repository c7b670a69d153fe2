// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is decided about the loops of a kernel for processors, in the IR between deciding and writing them.

#ifndef CLEAVE_DIALECTS_PLAN_NESTATTRIBUTES
#define CLEAVE_DIALECTS_PLAN_NESTATTRIBUTES

include "mlir/IR/EnumAttr.td"

def Plan_LoopRangeEnum : I32EnumAttr<"LoopRange", "which iterations a level runs over", [
    I32EnumAttrCase<"Whole", 0, "whole">, I32EnumAttrCase<"Divided", 1, "divided">,
    I32EnumAttrCase<"Squares", 2, "squares">, I32EnumAttrCase<"InSquare", 3, "in_square">]> {
  let cppNamespace = "::cleave::plan";
  let genSpecializedAttr = 0;
}

def Plan_LoopSplitAttr : Plan_Attr<"LoopSplit", "loop_split"> {
  let summary = "a loop that becomes two";
  let description = [{
    Written only inside of `#plan.nest`, as `<1 by 16>`: loop 1 keeps its number and goes in steps of 16; a new loop, of the
    next free number, has the 16 iterations inside of a step.
  }];
  let parameters = (ins "unsigned":$loop, "int64_t":$unit);
  let assemblyFormat = "`<` $loop `by` $unit `>`";
}

def Plan_LoopLevelAttr : Plan_Attr<"LoopLevel", "loop_level"> {
  let summary = "a loop that is written out";
  let description = [{
    Written only inside of `#plan.nest`: `<2>` is loop 2, `<0, 1>` loops 0 and 1 as one, the last varying fastest. A level
    runs over all of its iterations, or

    - `<0 : divided>`: over the part of them that a thread gets;
    - `<1 : squares>`: from one square to the next, of the size that `#plan.common_loops` says;
    - `<1 : in_square>`: over the side of a square, where a level `squares`, or a common loop, of the same loops stands.
  }];
  let parameters = (ins ArrayRefParameter<"unsigned">:$loops,
                        DefaultValuedParameter<"LoopRange", "LoopRange::Whole">:$range);
  let assemblyFormat = "`<` $loops (`:` $range^)? `>`";
}

def Plan_RegisterTileAttr : Plan_Attr<"RegisterTile", "register_tile"> {
  let summary = "sums that stay in registers side by side";
  let description = [{
    Written only inside of `#plan.nest`, of a sum of products. All iterations of the loop `lanes` are one vector; each of
    those of the loops `copies` has a sum of its own, the last varying fastest. Input `vectors` is read a vector at a time;
    the other one too, where `lanes` is a loop of the sum, else an element for all lanes.

    ```mlir
    tile = <lanes = 5, copies = [3, 4], vectors = 1>
    ```
  }];
  let parameters = (ins "unsigned":$lanes, OptionalParameter<"::mlir::DenseI64ArrayAttr">:$copies, "unsigned":$vectors);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Plan_NestAttr : Plan_Attr<"Nest", "nest"> {
  let summary = "the loops of one operation of a kernel";
  let description = [{
    On the operations of a kernel's `loops`, as `plan.nest`. Loops are numbered as the operation's, then those that `splits`
    make, in order. `outer` are the loops that the operation shares with the others of the kernel, in the order of
    `#plan.common_loops`, and then that over blocks; `inner` its own, from the outermost to the innermost. Inside of all
    stands the `tile`, or one iteration.

    `stack` has a list for each result. Where it is not empty, the result lies on the stack and holds what one iteration of
    the common loops needs: as many elements along each dimension; 0 where that dimension runs outside altogether.

    ```mlir
    #plan.nest<splits = [<0 by 6>, <1 by 16>, <4 by 8>], outer = [<0>, <1>], inner = [<2>],
               tile = <lanes = 5, copies = [3, 4], vectors = 1>>
    #plan.nest<outer = [<0, 1>], inner = [<2>], stack = [[0, 0, 64]]>
    ```
  }];
  let parameters = (ins OptionalArrayRefParameter<"LoopSplitAttr">:$splits,
                        OptionalArrayRefParameter<"LoopLevelAttr">:$outer,
                        OptionalArrayRefParameter<"LoopLevelAttr">:$inner,
                        OptionalParameter<"RegisterTileAttr">:$tile,
                        OptionalArrayRefParameter<"::mlir::DenseI64ArrayAttr">:$stack);
  let assemblyFormat = [{
    `<` struct(custom<Bracketed>($splits), custom<Bracketed>($outer), custom<Bracketed>($inner), $tile,
               custom<Bracketed>($stack)) `>`
  }];
}

def Plan_BandAttr : Plan_Attr<"Band", "band"> {
  let summary = "which blocks of columns a kernel's rows need";
  let description = [{
    Written only inside of `#plan.common_loops`, of a kernel with blocks. Each iteration of loop `level` around all operations
    has `unit` rows, each block `columns` columns. Where all of them have a row less a column below `lower` or above
    `upper`, the block is passed over: it gives what its sums begin with. With one bound alone the rows of that loop are
    taken from both ends in turn, so that any part of them is as much to do.

    ```mlir
    band = <level = 1, unit = 64, columns = 512, lower = 0>
    ```
  }];
  let parameters = (ins "unsigned":$level, "int64_t":$unit, "int64_t":$columns,
                        OptionalParameter<"std::optional<int64_t>">:$lower,
                        OptionalParameter<"std::optional<int64_t>">:$upper);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Plan_CommonLoopsAttr : Plan_Attr<"CommonLoops", "common_loops"> {
  let summary = "the loops that all operations of a kernel share";
  let description = [{
    `sizes` are the iterations of the loops around all operations, the outermost first; threads divide their product. With
    a `square`, loop `squared` of them goes from one square of memory that is read across to the next, of that many
    elements along each side. `blocks` are the iterations of one more loop, around the first `operations_in_blocks` alone;
    a `band` says which of them the rows of one of the common loops need.

    Where the only loop that operations share is the innermost of each, it stays there: threads divide the `divided`
    iterations of it, and where there is a `chunk`, all operations run over that many of them before the next chunk.

    ```mlir
    #plan.common_loops<sizes = [64, 4]>
    #plan.common_loops<sizes = [64, 8], squared = 1, square = 32>
    #plan.common_loops<sizes = [8, 64], blocks = 8, operations_in_blocks = 7>
    #plan.common_loops<sizes = [8, 64], blocks = 8, operations_in_blocks = 7,
                       band = <level = 1, unit = 64, columns = 512, lower = 0>>
    #plan.common_loops<divided = 65536, chunk = 512>
    ```
  }];
  let parameters = (ins OptionalArrayRefParameter<"int64_t">:$sizes, DefaultValuedParameter<"unsigned", "0">:$squared,
                        DefaultValuedParameter<"int64_t", "0">:$square, DefaultValuedParameter<"int64_t", "0">:$blocks,
                        DefaultValuedParameter<"unsigned", "0">:$operations_in_blocks,
                        DefaultValuedParameter<"int64_t", "0">:$divided, DefaultValuedParameter<"int64_t", "0">:$chunk,
                        OptionalParameter<"BandAttr">:$band);
  let assemblyFormat = [{
    `<` struct(custom<Bracketed>($sizes), $squared, $square, $blocks, $operations_in_blocks, $divided, $chunk,
               $band) `>`
  }];
}

#endif // CLEAVE_DIALECTS_PLAN_NESTATTRIBUTES
