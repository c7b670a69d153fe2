// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Inverse trigonometric, hyperbolic and inverse hyperbolic functions, element by element.

#ifndef CLEAVE_DIALECTS_DFG_TRIGONOMETRICOPS
#define CLEAVE_DIALECTS_DFG_TRIGONOMETRICOPS

include "dialects/dfg/DfgElementwiseOps.td"

def Dfg_AsinOp : Dfg_Unary<"asin", Dfg_FloatTensor, [Dfg_OwnPrecision]> {
  let summary = "the inverse sine";
  let description = [{
    In radians, from -pi/2 to pi/2; NaN outside -1 to 1.

    ```mlir
    %0 = dfg.asin %a : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
}

def Dfg_AcosOp : Dfg_Unary<"acos", Dfg_FloatTensor, [Dfg_OwnPrecision]> {
  let summary = "the inverse cosine";
  let description = [{
    In radians, from 0 to pi; NaN outside -1 to 1.

    ```mlir
    %0 = dfg.acos %a : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
}

def Dfg_AtanOp : Dfg_Unary<"atan", Dfg_FloatTensor> {
  let summary = "the inverse tangent";
  let description = [{
    In radians, from -pi/2 to pi/2.

    ```mlir
    %0 = dfg.atan %a : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
}

def Dfg_SinhOp : Dfg_Unary<"sinh", Dfg_FloatTensor, [Dfg_OwnPrecision]> {
  let summary = "the hyperbolic sine";
  let description = [{
    `(e^x - e^-x) / 2`.

    ```mlir
    %0 = dfg.sinh %a : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
}

def Dfg_CoshOp : Dfg_Unary<"cosh", Dfg_FloatTensor, [Dfg_OwnPrecision]> {
  let summary = "the hyperbolic cosine";
  let description = [{
    `(e^x + e^-x) / 2`.

    ```mlir
    %0 = dfg.cosh %a : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
}

def Dfg_AsinhOp : Dfg_Unary<"asinh", Dfg_FloatTensor> {
  let summary = "the inverse hyperbolic sine";
  let description = [{
    `log(x + sqrt(x^2 + 1))`.

    ```mlir
    %0 = dfg.asinh %a : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
}

def Dfg_AcoshOp : Dfg_Unary<"acosh", Dfg_FloatTensor> {
  let summary = "the inverse hyperbolic cosine";
  let description = [{
    `log(x + sqrt(x^2 - 1))`; NaN below 1.

    ```mlir
    %0 = dfg.acosh %a : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
}

def Dfg_AtanhOp : Dfg_Unary<"atanh", Dfg_FloatTensor> {
  let summary = "the inverse hyperbolic tangent";
  let description = [{
    `log((1 + x) / (1 - x)) / 2`; NaN outside -1 to 1.

    ```mlir
    %0 = dfg.atanh %a : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
}

#endif // CLEAVE_DIALECTS_DFG_TRIGONOMETRICOPS
