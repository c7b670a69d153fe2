// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrix products, convolutions and pooling. Data is laid out batch, channel, then the spatial dimensions.

#ifndef CLEAVE_DIALECTS_DFG_CONTRACTIONOPS
#define CLEAVE_DIALECTS_DFG_CONTRACTIONOPS

include "dialects/dfg/DfgAttributes.td"

def Dfg_DotGeneralOp : Dfg_Operator<"dot_general", [DeclareOpInterfaceMethods<LibraryInterface, ["getLibraryCall"]>,
    DeclareOpInterfaceMethods<CostInterface, ["getCost"]>, Dfg_WideResult]> {
  let summary = "the product of two tensors over chosen dimensions";
  let description = [{
    Sums over the contracting dimensions, pairs up the batch dimensions. The result's dimensions: batch, the free ones
    of `lhs`, the free ones of `rhs`, each in order. With `wide`, the sums of f16 and bf16 are given in f32, not rounded,
    and those of integers of 8 bits, signed or not on either side, in i32.

    ```mlir
    %0 = dfg.dot_general %a, %b {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>,
           lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 1>}
         : (tensor<8x64x32xf32>, tensor<8x32x16xf32>) -> tensor<8x64x16xf32>
    ```
  }];
  let arguments = (ins Dfg_NumberTensor:$lhs, Dfg_NumberTensor:$rhs, DenseI64ArrayAttr:$lhs_batch,
                       DenseI64ArrayAttr:$rhs_batch, DenseI64ArrayAttr:$lhs_contracting,
                       DenseI64ArrayAttr:$rhs_contracting, UnitAttr:$wide);
  let results = (outs Dfg_Tensor:$result);
  let extraClassDeclaration = [{
    /// Dimensions of an operand that are neither batch nor contracting, in order.
    ::llvm::SmallVector<int64_t> getLhsFree();
    ::llvm::SmallVector<int64_t> getRhsFree();
  }];
}

def Dfg_ConvOp : Dfg_Operator<"conv", [DeclareOpInterfaceMethods<LibraryInterface, ["getLibraryCall"]>,
    DeclareOpInterfaceMethods<CostInterface, ["getCost"]>]> {
  let summary = "convolution (cross-correlation)";
  let description = [{
    `input` is N×C×spatial, `filter` O×C/groups×window, the result N×O×spatial. `pads` holds the zeros before each
    spatial dimension, then those after each. With `wide`, the sums of integers of 8 bits, signed or not on either side,
    are given in i32.

    ```mlir
    %0 = dfg.conv %x, %w {strides = array<i64: 2, 2>, pads = array<i64: 3, 3, 3, 3>, dilations = array<i64: 1, 1>,
           groups = 1 : i64} : (tensor<1x3x224x224xf32>, tensor<64x3x7x7xf32>) -> tensor<1x64x112x112xf32>
    ```
  }];
  let arguments = (ins Dfg_NumberTensor:$input, Dfg_NumberTensor:$filter, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations,
                       DefaultValuedAttr<I64Attr, "1">:$groups, UnitAttr:$wide);
  let results = (outs Dfg_Tensor:$result);
  let hasCanonicalizer = 1;
  let extraClassDeclaration = Dfg_Localize;
}

def Dfg_ConvTransposeOp : Dfg_Operator<"conv_transpose", [DeclareOpInterfaceMethods<LibraryInterface, ["getLibraryCall"]>,
    DeclareOpInterfaceMethods<CostInterface, ["getCost"]>]> {
  let summary = "transposed convolution";
  let description = [{
    The adjoint of `dfg.conv`: every input element adds its multiple of the window to the result. `filter` is
    C×O/groups×window; a spatial size of the result is
    `(in - 1) * stride + dilation * (window - 1) + 1 - pad_before - pad_after + output_padding`.

    ```mlir
    %0 = dfg.conv_transpose %x, %w {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>,
           dilations = array<i64: 1, 1>, output_padding = array<i64: 0, 0>, groups = 1 : i64}
         : (tensor<1x8x4x4xf32>, tensor<8x3x2x2xf32>) -> tensor<1x3x8x8xf32>
    ```
  }];
  let arguments = (ins Dfg_FloatTensor:$input, Dfg_FloatTensor:$filter, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$output_padding,
                       DefaultValuedAttr<I64Attr, "1">:$groups);
  let results = (outs Dfg_Tensor:$result);
  let extraClassDeclaration = Dfg_Localize;
}

def Dfg_PoolOp : Dfg_Operator<"pool", [DeclareOpInterfaceMethods<LibraryInterface, ["getLibraryCall"]>,
    DeclareOpInterfaceMethods<CostInterface, ["getCost"]>]> {
  let summary = "reduces windows of the spatial dimensions";
  let description = [{
    `max`: the largest element of each window, padding never winning. `average`: the mean of the window's elements
    without the padding, or over the whole window with `count_include_pad`. `pads` as in `dfg.conv`.

    ```mlir
    %0 = dfg.pool %x {kind = #dfg.pool_kind<max>, window = array<i64: 3, 3>, strides = array<i64: 2, 2>,
           pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
         : (tensor<1x64x112x112xf32>) -> tensor<1x64x56x56xf32>
    ```
  }];
  let arguments = (ins Dfg_NumberTensor:$input, Dfg_PoolKind:$kind, DenseI64ArrayAttr:$window,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations,
                       UnitAttr:$count_include_pad);
  let results = (outs Dfg_Tensor:$result);
  let hasCanonicalizer = 1;
  let extraClassDeclaration = Dfg_Localize;
}

def Dfg_GatherDotOp : Dfg_Operator<"gather_dot", [DeclareOpInterfaceMethods<LibraryInterface, ["getLibraryCall"]>,
    DeclareOpInterfaceMethods<CostInterface, ["getCost"]>]> {
  let summary = "the product of each row with the matrix that an index chooses";
  let description = [{
    The products of a mixture of experts, of which every token has its own few. `lhs` is rows×K, `rhs` E×K×N, or E×N×K
    with `transposed`, and `indices` has an element a row: row r of the result (rows×N) is row r of `lhs` times matrix
    `indices(r)`, or zero where there is no such matrix. Rows may have any number of dimensions, those of `indices`; a
    dimension of size one of `lhs` repeats. Only the chosen products are computed. `total` says how many matrices there
    are in all where `rhs` has a part of them, so that other rows are known to be somebody else's; only the cost depends
    on it.

    ```mlir
    %0 = dfg.gather_dot %x, %w, %i : (tensor<5x1x32xf32>, tensor<8x32x64xf32>, tensor<5x2xi64>) -> tensor<5x2x64xf32>
    %1 = dfg.gather_dot %x, %v, %i {transposed}
         : (tensor<5x1x32xf32>, tensor<8x64x32xf32>, tensor<5x2xi64>) -> tensor<5x2x64xf32>
    ```
  }];
  let arguments = (ins Dfg_FloatTensor:$lhs, Dfg_FloatTensor:$rhs, Dfg_IndexTensor:$indices, UnitAttr:$transposed,
                       OptionalAttr<I64Attr>:$total);
  let results = (outs Dfg_Tensor:$result);
  let extraClassDeclaration = Dfg_Localize;
}

def Dfg_ScatterDotOp : Dfg_ShapedOperator<"scatter_dot",
    [DeclareOpInterfaceMethods<LibraryInterface, ["getLibraryCall"]>,
     DeclareOpInterfaceMethods<CostInterface, ["getCost"]>]> {
  let summary = "for each index the sum of the outer products of its rows";
  let description = [{
    The adjoint of `dfg.gather_dot` by its matrices. `lhs` is rows×M, `rhs` rows×N, and `indices` has an element a row:
    matrix e of the result (E×M×N) is the sum, in the order of the rows, of the outer products of those rows of both
    whose index is e. Rows may have any number of dimensions, those of `indices`; a dimension of size one of `lhs` or
    `rhs` repeats. Indices outside of the result choose nothing. `total` as in `dfg.gather_dot`.

    ```mlir
    %0 = dfg.scatter_dot %x, %dy, %i
         : (tensor<5x1x32xf32>, tensor<5x2x64xf32>, tensor<5x2xi64>) -> tensor<8x32x64xf32>
    ```
  }];
  let arguments = (ins Dfg_FloatTensor:$lhs, Dfg_FloatTensor:$rhs, Dfg_IndexTensor:$indices,
                       OptionalAttr<I64Attr>:$total);
  let results = (outs Dfg_Tensor:$result);
  let extraClassDeclaration = Dfg_Localize;
}

#endif // CLEAVE_DIALECTS_DFG_CONTRACTIONOPS
