// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What training adds: parameters that are written, and values that are computed again.

#ifndef CLEAVE_DIALECTS_DFG_TRAININGOPS
#define CLEAVE_DIALECTS_DFG_TRAININGOPS

include "dialects/dfg/DfgAttributes.td"

def Dfg_WriteOp : Dfg_Op<"write", [DeclareOpInterfaceMethods<SymbolUserOpInterface>,
                                   DeclareOpInterfaceMethods<SplitInterface>,
                                   MemoryEffects<[MemWrite]>]> {
  let summary = "gives a parameter its value for the next step";
  let description = [{
    All reads of a graph see the value from before the step; a parameter is written once in a graph. Its split, and that
    of the parameter's placed read, say in which parts the devices keep it.

    ```mlir
    dfg.write @fc1.weight, %new : tensor<512x2048xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$parameter, Dfg_Tensor:$value);
  let assemblyFormat = "$parameter `,` $value attr-dict `:` type($value)";
}

def Dfg_BarrierOp : Dfg_Op<"barrier", [Pure, InferTypeOpAdaptor, DeclareOpInterfaceMethods<SplitInterface>,
                                       DeclareOpInterfaceMethods<LowerInterface>,
                                       DeclareOpInterfaceMethods<CostInterface, ["getCost"]>]> {
  let summary = "the input, which nothing is simplified across";
  let description = [{
    What is computed again in the backward pass hangs on barriers, so that it is not joined with the first computation.
    Barriers of different `number` are different values.

    ```mlir
    %0 = dfg.barrier %x {number = 3 : i64} : (tensor<8xf32>) -> tensor<8xf32>
    ```
  }];
  let arguments = (ins Dfg_Tensor:$input, I64Attr:$number);
  let results = (outs Dfg_Tensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

#endif // CLEAVE_DIALECTS_DFG_TRAININGOPS
