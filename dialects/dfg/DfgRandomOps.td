// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random numbers by counter, and dropout, which is made of them.

#ifndef CLEAVE_DIALECTS_DFG_RANDOMOPS
#define CLEAVE_DIALECTS_DFG_RANDOMOPS

include "dialects/dfg/DfgElementwiseOps.td"

def Dfg_RandomOp : Dfg_Elementwise<"random", [DeclareOpInterfaceMethods<DifferentiateInterface>],
                                   "::mlir::Float32Type::get(context)"> {
  let summary = "a uniformly distributed number that a counter and a key determine";
  let description = [{
    One of the numbers `i / 2^24`, `0 <= i < 2^24`: the high bits of the first word of Philox 2x32 in ten rounds, whose
    counter's words are the low and the high half of `counter`, and whose key is the low half of `key`. Numbers depend
    on nothing else, so that each device of a split computes the same. Source: Salmon, Moraes, Dror, Shaw: Parallel
    random numbers: as easy as 1, 2, 3, 2011.

    ```mlir
    %0 = dfg.random %counter, %key : (tensor<4x8xi64>, tensor<i64>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins StaticShapeTensorOf<[I64]>:$counter, StaticShapeTensorOf<[I64]>:$key);
  let results = (outs Dfg_Tensor:$result);
}

def Dfg_DropoutOp : Dfg_Op<"dropout", [
    Pure, InferTypeOpAdaptor, DeclareOpInterfaceMethods<SplitInterface>, DeclareOpInterfaceMethods<LowerInterface>,
    DeclareOpInterfaceMethods<DifferentiateInterface>, DeclareOpInterfaceMethods<CostInterface, ["getCost"]>,
    PrecisionInterface]> {
  let summary = "in training zero with a probability, else the input";
  let description = [{
    Training replaces it (`--train-expand-dropout`): an element becomes zero with the probability `ratio`, and is else
    divided by `1 - ratio`. Everywhere else it is its input. Source: Srivastava et al.: Dropout, 2014.

    ```mlir
    %0 = dfg.dropout %x {ratio = 0.5 : f64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Dfg_FloatTensor:$input, F64Attr:$ratio);
  let results = (outs Dfg_Tensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

#endif // CLEAVE_DIALECTS_DFG_RANDOMOPS
