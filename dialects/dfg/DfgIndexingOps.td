// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operators whose reads or writes depend on the positions that an operand holds, and those that find positions.

#ifndef CLEAVE_DIALECTS_DFG_INDEXINGOPS
#define CLEAVE_DIALECTS_DFG_INDEXINGOPS

include "dialects/dfg/DfgAttributes.td"

class Dfg_Indexing<string mnemonic, list<Trait> traits = []>
    : Dfg_Operator<mnemonic, !listconcat([DeclareOpInterfaceMethods<CostInterface, ["getCost"]>,
                                          DeclareOpInterfaceMethods<EvaluateInterface>], traits)> {
  let hasFolder = 1;
  let extraClassDefinition = [{
    ::mlir::OpFoldResult $cppClass::fold(FoldAdaptor adaptor) {
      return ::cleave::dfg::foldByEvaluation(*this, adaptor.getOperands());
    }
  }];
}

def Dfg_GatherElementsOp : Dfg_Indexing<"gather_elements"> {
  let summary = "takes one element a position, line by line along a dimension";
  let description = [{
    Result element `(…, i, …)` is input element `(…, indices(…, i, …), …)`, `i` being the index of dimension `dim`. In
    the other dimensions `indices` has the input's size, or one, where all lines take the same. Negative indices count
    from the end; indices outside the dimension are moved to its nearest element.

    ```mlir
    %0 = dfg.gather_elements %x, %i {dim = 1 : i64} : (tensor<4x9xf32>, tensor<4x2xi64>) -> tensor<4x2xf32>
    ```
  }];
  let arguments = (ins Dfg_Tensor:$input, Dfg_IndexTensor:$indices, I64Attr:$dim);
  let results = (outs Dfg_Tensor:$result);
}

def Dfg_ScatterElementsOp : Dfg_Indexing<"scatter_elements"> {
  let summary = "puts one element a position, line by line along a dimension";
  let description = [{
    The input, in which element `updates(…, i, …)` replaces the one at `(…, indices(…, i, …), …)`, `i` being the index
    of dimension `dim`; with `reduction` both are joined. Updates of one element follow each other in the order of `i`:
    without a reduction the last one counts. In the other dimensions `updates` has the input's size, and `indices` has
    it too, or one, where all lines put at the same positions. Negative indices count from the end; updates outside the
    dimension are dropped.

    ```mlir
    %0 = dfg.scatter_elements %x, %i, %u {dim = 1 : i64, reduction = #dfg.reduce_kind<sum>}
         : (tensor<4x9xf32>, tensor<4x2xi64>, tensor<4x2xf32>) -> tensor<4x9xf32>
    ```
  }];
  let arguments = (ins Dfg_Tensor:$input, Dfg_IndexTensor:$indices, Dfg_Tensor:$updates, I64Attr:$dim,
                       OptionalAttr<Dfg_ReduceKind>:$reduction);
  let results = (outs Dfg_Tensor:$result);
}

def Dfg_CumulativeSumOp : Dfg_Indexing<"cumulative_sum", [Dfg_OwnPrecision]> {
  let summary = "the sum of all elements up to each position along a dimension";
  let description = [{
    With `exclusive` the element at the position itself does not count.

    ```mlir
    %0 = dfg.cumulative_sum %x {dim = 1 : i64} : (tensor<4x9xf32>) -> tensor<4x9xf32>
    %1 = dfg.cumulative_sum %x {dim = 1 : i64, exclusive} : (tensor<4x9xf32>) -> tensor<4x9xf32>
    ```
  }];
  let arguments = (ins Dfg_NumberTensor:$input, I64Attr:$dim, UnitAttr:$exclusive);
  let results = (outs Dfg_Tensor:$result);
}

def Dfg_ArgSortOp : Dfg_Indexing<"arg_sort"> {
  let summary = "the positions of the elements along a dimension in the order of their values";
  let description = [{
    From the smallest to the largest, with `descending` the other way round. Equal elements stay in their order. NaN
    counts as larger than every number.

    ```mlir
    %0 = dfg.arg_sort %x {dim = 1 : i64, descending} : (tensor<4x9xf32>) -> tensor<4x9xi64>
    ```
  }];
  let arguments = (ins Dfg_NumberTensor:$input, I64Attr:$dim, UnitAttr:$descending);
  let results = (outs Dfg_IndexTensor:$result);
}

#endif // CLEAVE_DIALECTS_DFG_INDEXINGOPS
