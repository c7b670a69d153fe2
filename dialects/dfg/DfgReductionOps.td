// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reductions, and the normalizations that are made of them.

#ifndef CLEAVE_DIALECTS_DFG_REDUCTIONOPS
#define CLEAVE_DIALECTS_DFG_REDUCTIONOPS

include "dialects/dfg/DfgAttributes.td"

def Dfg_ReduceOp : Dfg_Operator<"reduce", [DeclareOpInterfaceMethods<CostInterface, ["getCost"]>,
                                           DeclareOpInterfaceMethods<EvaluateInterface>, Dfg_OwnPrecision]> {
  let summary = "joins the elements along some dimensions";
  let description = [{
    The reduced dimensions stay with size one where `keep_dims` is set, else they go. Empty dimensions give the
    kind's neutral element.

    ```mlir
    %0 = dfg.reduce %x {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>, keep_dims} : (tensor<4x8xf32>) -> tensor<4x1xf32>
    ```
  }];
  let arguments = (ins Dfg_Tensor:$input, Dfg_ReduceKind:$kind, DenseI64ArrayAttr:$dims, UnitAttr:$keep_dims);
  let results = (outs Dfg_Tensor:$result);
  let hasFolder = 1;
}

def Dfg_ArgReduceOp : Dfg_Operator<"arg_reduce", [DeclareOpInterfaceMethods<CostInterface, ["getCost"]>]> {
  let summary = "the position of the largest or smallest element along a dimension";
  let description = [{
    Positions are `i64`. Among equal elements the first counts, or with `last` the last.

    ```mlir
    %0 = dfg.arg_reduce %x {kind = #dfg.arg_kind<max>, dim = 1 : i64, keep_dims} : (tensor<4x8xf32>) -> tensor<4x1xi64>
    ```
  }];
  let arguments = (ins Dfg_NumberTensor:$input, Dfg_ArgKind:$kind, I64Attr:$dim, UnitAttr:$keep_dims,
                       UnitAttr:$last);
  let results = (outs Dfg_IndexTensor:$result);
}

def Dfg_SoftmaxOp : Dfg_Operator<"softmax", [DeclareOpInterfaceMethods<DecomposeInterface>, DeclareOpInterfaceMethods<LibraryInterface, ["getLibraryCall"]>,
    DeclareOpInterfaceMethods<CostInterface, ["getCost"]>]> {
  let summary = "exponentials along a dimension, divided by their sum";
  let description = [{
    `e^(x - max) / sum(e^(x - max))` along `dim`.

    ```mlir
    %0 = dfg.softmax %x {dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Dfg_FloatTensor:$input, I64Attr:$dim);
  let results = (outs Dfg_Tensor:$result);
}

def Dfg_LogSoftmaxOp : Dfg_Operator<"log_softmax", [DeclareOpInterfaceMethods<DecomposeInterface>, DeclareOpInterfaceMethods<LibraryInterface, ["getLibraryCall"]>,
    DeclareOpInterfaceMethods<CostInterface, ["getCost"]>, Dfg_OwnPrecision]> {
  let summary = "the logarithm of softmax";
  let description = [{
    `(x - max) - log(sum(e^(x - max)))` along `dim`.

    ```mlir
    %0 = dfg.log_softmax %x {dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Dfg_FloatTensor:$input, I64Attr:$dim);
  let results = (outs Dfg_Tensor:$result);
}

def Dfg_LayerNormOp : Dfg_Operator<"layer_norm", [DeclareOpInterfaceMethods<DecomposeInterface>, DeclareOpInterfaceMethods<LibraryInterface, ["getLibraryCall"]>,
    DeclareOpInterfaceMethods<CostInterface, ["getCost"]>]> {
  let summary = "shifts and scales to mean zero and variance one";
  let description = [{
    `(x - mean) / sqrt(variance + epsilon)` over the dimensions `dims` together; the variance is the biased one. Scale
    and bias are separate operators. Instance normalization is the same over the spatial dimensions.

    ```mlir
    %0 = dfg.layer_norm %x {dims = array<i64: 2>, epsilon = 1.0e-5 : f64} : (tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
    ```
  }];
  let arguments = (ins Dfg_FloatTensor:$input, DenseI64ArrayAttr:$dims, F64Attr:$epsilon);
  let results = (outs Dfg_Tensor:$result);
}

def Dfg_BatchNormOp : Dfg_Operator<"batch_norm", [DeclareOpInterfaceMethods<LibraryInterface, ["getLibraryCall"]>,
    DeclareOpInterfaceMethods<CostInterface, ["getCost"]>, DeclareOpInterfaceMethods<PrecisionInterface, ["keepsWide"]>]> {
  let summary = "batch normalization with given statistics";
  let description = [{
    `scale * (x - mean) / sqrt(variance + epsilon) + bias`, channel by channel (dimension 1). In training the statistics
    are those of the batch (`--train-normalize-by-batch`); of the given ones, `momentum` says how much of themselves they
    keep (0.9 where it is missing).

    ```mlir
    %0 = dfg.batch_norm %x, %scale, %bias, %mean, %variance {epsilon = 1.0e-5 : f64}
         : (tensor<1x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<1x8x4x4xf32>
    ```
  }];
  let arguments = (ins Dfg_FloatTensor:$input, Dfg_FloatTensor:$scale, Dfg_FloatTensor:$bias, Dfg_FloatTensor:$mean,
                       Dfg_FloatTensor:$variance, F64Attr:$epsilon, OptionalAttr<F64Attr>:$momentum);
  let results = (outs Dfg_Tensor:$result);
}

def Dfg_LrnOp : Dfg_Operator<"lrn", [DeclareOpInterfaceMethods<LibraryInterface, ["getLibraryCall"]>,
    DeclareOpInterfaceMethods<CostInterface, ["getCost"]>]> {
  let summary = "local response normalization across channels";
  let description = [{
    `x / (k + alpha / size * s)^beta`, with `s` the sum of squares over the channels from `c - (size - 1) / 2` to
    `c + size / 2` (integer divisions; channels outside are zero). Source: Krizhevsky, Sutskever, Hinton, 2012.

    ```mlir
    %0 = dfg.lrn %x {size = 5 : i64, alpha = 1.0e-4 : f64, beta = 0.75 : f64, k = 1.0 : f64}
         : (tensor<1x96x55x55xf32>) -> tensor<1x96x55x55xf32>
    ```
  }];
  let arguments = (ins Dfg_FloatTensor:$input, I64Attr:$size, F64Attr:$alpha, F64Attr:$beta, F64Attr:$k);
  let results = (outs Dfg_Tensor:$result);
  let extraClassDeclaration = Dfg_Localize;
}

#endif // CLEAVE_DIALECTS_DFG_REDUCTIONOPS
