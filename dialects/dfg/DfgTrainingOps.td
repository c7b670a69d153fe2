// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What training adds: parameters that are written, values that are computed again, and gradients that no other operator
// computes.

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
                                       DeclareOpInterfaceMethods<DifferentiateInterface>,
                                       DeclareOpInterfaceMethods<CostInterface, ["getCost"]>, PrecisionInterface]> {
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

def Dfg_OffloadOp : Dfg_Op<"offload", [Pure, InferTypeOpAdaptor, DeclareOpInterfaceMethods<SplitInterface>]> {
  let summary = "the input, kept in the host's memory";
  let description = [{
    Nothing but `dfg.fetch` reads the result, unless it is the next value of a parameter that lies there. Each device
    keeps its own part, in the memory of its own host.

    ```mlir
    %0 = dfg.offload %x : (tensor<8xf32>) -> tensor<8xf32>
    %1 = dfg.fetch %0 : (tensor<8xf32>) -> tensor<8xf32>
    ```
  }];
  let arguments = (ins Dfg_Tensor:$input);
  let results = (outs Dfg_Tensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Dfg_FetchOp : Dfg_Op<"fetch", [Pure, InferTypeOpAdaptor, DeclareOpInterfaceMethods<SplitInterface>]> {
  let summary = "what is kept in the host's memory, back on the device";
  let description = [{
    It comes back as late as it can without being waited for, so that it takes the device's memory for a short time.
    A parameter that steps write and that nothing but `dfg.fetch` reads lies in the host's memory.

    ```mlir
    %1 = dfg.fetch %0 : (tensor<8xf32>) -> tensor<8xf32>
    ```
  }];
  let arguments = (ins Dfg_Tensor:$input);
  let results = (outs Dfg_Tensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Dfg_ConvFilterGradientOp : Dfg_ShapedOperator<"conv_filter_gradient",
    [DeclareOpInterfaceMethods<LibraryInterface, ["getLibraryCall"]>,
     DeclareOpInterfaceMethods<CostInterface, ["getCost"]>, Dfg_WideResult]> {
  let summary = "the gradient of a convolution by its filter";
  let description = [{
    For `dfg.conv` of `input` (N×C×spatial) with these attributes and a filter of the result's type: filter element
    `(o, c, k)` gets the sum of all products of an input element and the element of `cotangent` (of the convolution's
    type) to which the filter element carries it. Of f16 and bf16 the sum may also be given in f32, not rounded.

    ```mlir
    %0 = dfg.conv_filter_gradient %x, %dy {strides = array<i64: 2, 2>, pads = array<i64: 3, 3, 3, 3>,
           dilations = array<i64: 1, 1>, groups = 1 : i64}
         : (tensor<1x3x224x224xf32>, tensor<1x64x112x112xf32>) -> tensor<64x3x7x7xf32>
    ```
  }];
  let arguments = (ins Dfg_FloatTensor:$input, Dfg_FloatTensor:$cotangent, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations,
                       DefaultValuedAttr<I64Attr, "1">:$groups);
  let results = (outs Dfg_Tensor:$result);
  let extraClassDeclaration = Dfg_Localize;
}

def Dfg_PoolGradientOp : Dfg_ShapedOperator<"pool_gradient",
    [DeclareOpInterfaceMethods<LibraryInterface, ["getLibraryCall"]>,
     DeclareOpInterfaceMethods<CostInterface, ["getCost"]>]> {
  let summary = "the gradient of a pooling by its input";
  let description = [{
    For `dfg.pool` with these attributes and an input of the result's type: each element of `cotangent` (of the pooling's
    type) goes back to its window. `max` needs `input`: the first largest element of the window gets all of it, NaN
    counting as larger than every number. `average` needs none: every element of the window gets its share; what falls
    on padding is lost.

    ```mlir
    %0 = dfg.pool_gradient %dy, %x {kind = #dfg.pool_kind<max>, window = array<i64: 2, 2>, strides = array<i64: 2, 2>,
           pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
         : (tensor<1x8x14x14xf32>, tensor<1x8x28x28xf32>) -> tensor<1x8x28x28xf32>
    %1 = dfg.pool_gradient %dy {kind = #dfg.pool_kind<average>, window = array<i64: 2, 2>,
           strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
         : (tensor<1x8x14x14xf32>) -> tensor<1x8x28x28xf32>
    ```
  }];
  let arguments = (ins Dfg_FloatTensor:$cotangent, Optional<Dfg_FloatTensor>:$input, Dfg_PoolKind:$kind,
                       DenseI64ArrayAttr:$window, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads,
                       DenseI64ArrayAttr:$dilations, UnitAttr:$count_include_pad);
  let results = (outs Dfg_Tensor:$result);
}

def Dfg_GatherGradientOp : Dfg_ShapedOperator<"gather_gradient",
    [DeclareOpInterfaceMethods<CostInterface, ["getCost"]>, Dfg_OwnPrecision]> {
  let summary = "the gradient of a gather by its input";
  let description = [{
    For `dfg.gather` of an input of the result's type: every slice of `cotangent` (of the gather's type) is added to the
    position of dimension `dim` that it was taken from; equal positions are summed in the order of `indices`. Negative
    indices count from the end; indices outside the dimension are moved to its nearest element.

    ```mlir
    %0 = dfg.gather_gradient %dy, %ids {dim = 0 : i64} : (tensor<2x8x64xf32>, tensor<2x8xi64>) -> tensor<1000x64xf32>
    ```
  }];
  let arguments = (ins Dfg_FloatTensor:$cotangent, Dfg_IndexTensor:$indices, I64Attr:$dim);
  let results = (outs Dfg_Tensor:$result);
  let extraClassDeclaration = Dfg_Localize;
}

#endif // CLEAVE_DIALECTS_DFG_TRAININGOPS
