// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operators that move elements and compute nothing.

#ifndef CLEAVE_DIALECTS_DFG_MOVEMENTOPS
#define CLEAVE_DIALECTS_DFG_MOVEMENTOPS

include "dialects/dfg/DfgAttributes.td"

defvar Dfg_MovementTraits = [DeclareOpInterfaceMethods<CostInterface, ["getCost"]>, DeclareOpInterfaceMethods<EvaluateInterface>];

class Dfg_Movement<string mnemonic, list<Trait> traits = []>
    : Dfg_Operator<mnemonic, !listconcat(Dfg_MovementTraits, traits)> {
  let hasFolder = 1;
  let extraClassDefinition = [{
    ::cleave::OpCost $cppClass::getCost() { return ::cleave::dfg::movementCost(*this); }
  }];
}
class Dfg_ShapedMovement<string mnemonic, list<Trait> traits = []>
    : Dfg_ShapedOperator<mnemonic, !listconcat(Dfg_MovementTraits, traits)> {
  let hasFolder = 1;
  let extraClassDefinition = [{
    ::cleave::OpCost $cppClass::getCost() { return ::cleave::dfg::movementCost(*this); }
  }];
}

def Dfg_ReshapeOp : Dfg_ShapedMovement<"reshape"> {
  let summary = "the same elements in row-major order under another shape";
  let description = [{
    ```mlir
    %0 = dfg.reshape %x : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
    ```
  }];
  let arguments = (ins Dfg_Tensor:$input);
  let results = (outs Dfg_Tensor:$result);
}

def Dfg_TransposeOp : Dfg_Movement<"transpose"> {
  let summary = "permutes the dimensions";
  let description = [{
    Result dimension `i` is operand dimension `permutation[i]`.

    ```mlir
    %0 = dfg.transpose %x {permutation = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
    ```
  }];
  let arguments = (ins Dfg_Tensor:$input, DenseI64ArrayAttr:$permutation);
  let results = (outs Dfg_Tensor:$result);
}

def Dfg_BroadcastOp : Dfg_ShapedMovement<"broadcast"> {
  let summary = "repeats elements by NumPy's rule";
  let description = [{
    Shapes are aligned at the last dimension; a dimension of size one, or a missing one, repeats.

    ```mlir
    %0 = dfg.broadcast %x : (tensor<3x1xf32>) -> tensor<2x3x4xf32>
    ```
  }];
  let arguments = (ins Dfg_Tensor:$input);
  let results = (outs Dfg_Tensor:$result);
}

def Dfg_ConcatOp : Dfg_Movement<"concat", [DeclareOpInterfaceMethods<LibraryInterface, ["getLibraryCall"]>]> {
  let summary = "joins tensors along a dimension";
  let description = [{
    ```mlir
    %0 = dfg.concat %a, %b {dim = 1 : i64} : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<2x7xf32>
    ```
  }];
  let arguments = (ins Variadic<Dfg_Tensor>:$inputs, I64Attr:$dim);
  let results = (outs Dfg_Tensor:$result);
}

def Dfg_SliceOp : Dfg_Movement<"slice"> {
  let summary = "every stride-th element of a range in each dimension";
  let description = [{
    Elements `start, start + stride, …` below `limit`; `0 <= start <= limit <= size`, `stride >= 1`. Backward slices are
    a `dfg.reverse` before.

    ```mlir
    %0 = dfg.slice %x {starts = array<i64: 0, 2>, limits = array<i64: 2, 8>, strides = array<i64: 1, 2>}
         : (tensor<2x8xf32>) -> tensor<2x3xf32>
    ```
  }];
  let arguments = (ins Dfg_Tensor:$input, DenseI64ArrayAttr:$starts, DenseI64ArrayAttr:$limits,
                       DenseI64ArrayAttr:$strides);
  let results = (outs Dfg_Tensor:$result);
  let extraClassDeclaration = Dfg_Localize;
}

def Dfg_ReverseOp : Dfg_Movement<"reverse"> {
  let summary = "reverses the order along some dimensions";
  let description = [{
    ```mlir
    %0 = dfg.reverse %x {dims = array<i64: 1>} : (tensor<2x8xf32>) -> tensor<2x8xf32>
    ```
  }];
  let arguments = (ins Dfg_Tensor:$input, DenseI64ArrayAttr:$dims);
  let results = (outs Dfg_Tensor:$result);
}

def Dfg_PadOp : Dfg_Movement<"pad"> {
  let summary = "surrounds a tensor with a value";
  let description = [{
    `low` elements before and `high` after each dimension, all of `value` (a scalar); neither is negative.

    ```mlir
    %0 = dfg.pad %x, %zero {low = array<i64: 0, 1>, high = array<i64: 0, 1>}
         : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x10xf32>
    ```
  }];
  let arguments = (ins Dfg_Tensor:$input, Dfg_Tensor:$value, DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high);
  let results = (outs Dfg_Tensor:$result);
}

def Dfg_GatherOp : Dfg_Movement<"gather"> {
  let summary = "takes slices at given positions of a dimension";
  let description = [{
    The result's shape is the input's with dimension `dim` replaced by the shape of `indices`. Negative indices count
    from the end; indices outside the dimension are moved to its nearest element.

    ```mlir
    %0 = dfg.gather %table, %ids {dim = 0 : i64} : (tensor<1000x64xf32>, tensor<2x8xi64>) -> tensor<2x8x64xf32>
    ```
  }];
  let arguments = (ins Dfg_Tensor:$input, Dfg_IndexTensor:$indices, I64Attr:$dim);
  let results = (outs Dfg_Tensor:$result);
  let extraClassDeclaration = Dfg_Localize;
  let extraClassDefinition = "";
}

def Dfg_IotaOp : Dfg_ShapedMovement<"iota"> {
  let summary = "the position along a dimension";
  let description = [{
    ```mlir
    %0 = dfg.iota {dim = 1 : i64} : () -> tensor<2x3xi64>
    ```
  }];
  let arguments = (ins I64Attr:$dim);
  let results = (outs Dfg_NumberTensor:$result);
  let extraClassDeclaration = Dfg_Localize;
}

def Dfg_MaskOp : Dfg_Operator<"mask", [DeclareOpInterfaceMethods<CostInterface>]> {
  let summary = "replaces the elements beyond given extents";
  let description = [{
    Each extent (an `i64` scalar) bounds a factor of a dimension: an element at index i of dimension `dims[k]` is beyond
    it where `(i / inner[k]) % sizes[k] >= extents[k]`. Those elements become `fill`, infinities being the smallest and
    largest value of integers. Devices mask the padding of their parts with it before they join along it.

    ```mlir
    %0 = dfg.mask %x, %rows {dims = array<i64: 0>, inner = array<i64: 1>, sizes = array<i64: 4>, fill = 0.0 : f64}
         : (tensor<4x8xf32>, tensor<i64>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Dfg_Tensor:$input, Variadic<0DTensorOf<[I64]>>:$extents, DenseI64ArrayAttr:$dims,
                       DenseI64ArrayAttr:$inner, DenseI64ArrayAttr:$sizes, F64Attr:$fill);
  let results = (outs Dfg_Tensor:$result);
}

#endif // CLEAVE_DIALECTS_DFG_MOVEMENTOPS
