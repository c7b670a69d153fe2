// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operators that compute each result element from one element of every operand.

#ifndef CLEAVE_DIALECTS_DFG_ELEMENTWISEOPS
#define CLEAVE_DIALECTS_DFG_ELEMENTWISEOPS

include "dialects/dfg/DfgAttributes.td"

/// Each operator writes `buildElement`; all else is the same for all (Answers.h). `linear` is SplitRule::linear.
class Dfg_Elementwise<string mnemonic, list<Trait> traits = [], code elementType = "nullptr", code linear = "{}">
    : Dfg_Operator<mnemonic, !listconcat([
          DeclareOpInterfaceMethods<ElementwiseInterface>, DeclareOpInterfaceMethods<EvaluateInterface>,
          DeclareOpInterfaceMethods<CostInterface>], traits)> {
  let hasFolder = 1;
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::inferReturnTypes(::mlir::MLIRContext *context,
                                                      std::optional<::mlir::Location> location, Adaptor adaptor,
                                                      ::llvm::SmallVectorImpl<::mlir::Type> &types) {
      return ::cleave::dfg::inferElementwise(location, $cppClass::getOperationName(), adaptor.getOperands(),
                                             }] # elementType # [{, types);
    }
    ::cleave::SplitRule $cppClass::getSplitRule() { return ::cleave::dfg::elementwiseSplitRule(*this, }] # linear # [{); }
    ::llvm::FailureOr<::llvm::SmallVector<::mlir::Value>>
    $cppClass::lowerToLinalg(::mlir::OpBuilder &builder, ::mlir::ValueRange operands) {
      return ::cleave::dfg::lowerElementwise(*this, builder, operands);
    }
    ::llvm::FailureOr<::llvm::SmallVector<::cleave::HostTensor>>
    $cppClass::evaluate(::llvm::ArrayRef<::cleave::HostTensor> operands) {
      return ::cleave::dfg::evaluateElementwise(*this, operands);
    }
    ::mlir::OpFoldResult $cppClass::fold(FoldAdaptor adaptor) {
      return ::cleave::dfg::foldElementwise(*this, adaptor.getOperands());
    }
  }];
}

class Dfg_Unary<string mnemonic, Type type, list<Trait> traits = [], code linear = "{}">
    : Dfg_Elementwise<mnemonic, traits, "nullptr", linear> {
  let arguments = (ins type:$input);
  let results = (outs Dfg_Tensor:$result);
}

class Dfg_Binary<string mnemonic, Type type, list<Trait> traits = [], code linear = "{}">
    : Dfg_Elementwise<mnemonic, traits, "nullptr", linear> {
  let arguments = (ins type:$lhs, type:$rhs);
  let results = (outs Dfg_Tensor:$result);
}

def Dfg_NegOp : Dfg_Unary<"neg", Dfg_NumberTensor, [], "{{0}}"> {
  let summary = "the negative";
  let description = [{
    `-x`.

    ```mlir
    %0 = dfg.neg %a : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
}

def Dfg_AbsOp : Dfg_Unary<"abs", Dfg_NumberTensor> {
  let summary = "the absolute value";
  let description = [{
    `|x|`.

    ```mlir
    %0 = dfg.abs %a : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
}

def Dfg_SignOp : Dfg_Unary<"sign", Dfg_NumberTensor> {
  let summary = "the sign";
  let description = [{
    -1, 0 or 1; NaN stays NaN.

    ```mlir
    %0 = dfg.sign %a : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
}

def Dfg_ExpOp : Dfg_Unary<"exp", Dfg_FloatTensor, [Dfg_OwnPrecision]> {
  let summary = "the exponential";
  let description = [{
    `e^x`.

    ```mlir
    %0 = dfg.exp %a : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
}

def Dfg_LogOp : Dfg_Unary<"log", Dfg_FloatTensor, [Dfg_OwnPrecision]> {
  let summary = "the natural logarithm";
  let description = [{
    NaN below zero.

    ```mlir
    %0 = dfg.log %a : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
}

def Dfg_SqrtOp : Dfg_Unary<"sqrt", Dfg_FloatTensor, [Dfg_OwnPrecision]> {
  let summary = "the square root";
  let description = [{
    NaN below zero.

    ```mlir
    %0 = dfg.sqrt %a : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
}

def Dfg_ReciprocalOp : Dfg_Unary<"reciprocal", Dfg_FloatTensor, [Dfg_OwnPrecision]> {
  let summary = "the reciprocal";
  let description = [{
    `1 / x`.

    ```mlir
    %0 = dfg.reciprocal %a : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
}

def Dfg_FloorOp : Dfg_Unary<"floor", Dfg_FloatTensor> {
  let summary = "rounds down";
  let description = [{
    The largest integer not above x.

    ```mlir
    %0 = dfg.floor %a : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
}

def Dfg_CeilOp : Dfg_Unary<"ceil", Dfg_FloatTensor> {
  let summary = "rounds up";
  let description = [{
    The smallest integer not below x.

    ```mlir
    %0 = dfg.ceil %a : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
}

def Dfg_RoundOp : Dfg_Unary<"round", Dfg_FloatTensor, [DeclareOpInterfaceMethods<LibraryInterface, ["getLibraryCall", "getLibraryEpilogue"]>]> {
  let summary = "rounds to the nearest integer";
  let description = [{
    Halves go to the even neighbour.

    ```mlir
    %0 = dfg.round %a : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
}

def Dfg_SinOp : Dfg_Unary<"sin", Dfg_FloatTensor> {
  let summary = "the sine";
  let description = [{
    x in radians.

    ```mlir
    %0 = dfg.sin %a : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
}

def Dfg_CosOp : Dfg_Unary<"cos", Dfg_FloatTensor> {
  let summary = "the cosine";
  let description = [{
    x in radians.

    ```mlir
    %0 = dfg.cos %a : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
}

def Dfg_TanhOp : Dfg_Unary<"tanh", Dfg_FloatTensor, [DeclareOpInterfaceMethods<LibraryInterface, ["getLibraryCall", "getLibraryEpilogue"]>]> {
  let summary = "the hyperbolic tangent";
  let description = [{
    `(e^x - e^-x) / (e^x + e^-x)`.

    ```mlir
    %0 = dfg.tanh %a : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
}

def Dfg_ErfOp : Dfg_Unary<"erf", Dfg_FloatTensor> {
  let summary = "the error function";
  let description = [{
    `2/sqrt(pi)` times the integral of `e^(-t^2)` from 0 to x.

    ```mlir
    %0 = dfg.erf %a : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
}

def Dfg_ReluOp : Dfg_Unary<"relu", Dfg_NumberTensor, [DeclareOpInterfaceMethods<LibraryInterface, ["getLibraryCall", "getLibraryEpilogue"]>]> {
  let summary = "the rectifier";
  let description = [{
    `max(x, 0)`; NaN stays NaN.

    ```mlir
    %0 = dfg.relu %a : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
}

def Dfg_SigmoidOp : Dfg_Unary<"sigmoid", Dfg_FloatTensor, [DeclareOpInterfaceMethods<LibraryInterface, ["getLibraryCall", "getLibraryEpilogue"]>]> {
  let summary = "the logistic function";
  let description = [{
    `1 / (1 + e^-x)`.

    ```mlir
    %0 = dfg.sigmoid %a : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
}

def Dfg_SoftplusOp : Dfg_Unary<"softplus", Dfg_FloatTensor, [Dfg_OwnPrecision]> {
  let summary = "the smooth rectifier";
  let description = [{
    `log(1 + e^x)`, computed without overflow.

    ```mlir
    %0 = dfg.softplus %a : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
}

def Dfg_NotOp : Dfg_Unary<"not", Dfg_BitsTensor> {
  let summary = "logical negation";
  let description = [{
    True where the input is false; of integers, bit by bit.

    ```mlir
    %0 = dfg.not %a : (tensor<4xi1>) -> tensor<4xi1>
    ```
  }];
}

def Dfg_LeakyReluOp : Dfg_Elementwise<"leaky_relu", [DeclareOpInterfaceMethods<LibraryInterface, ["getLibraryCall", "getLibraryEpilogue"]>]> {
  let summary = "the rectifier with a slope below zero";
  let description = [{
    `x` where `x >= 0`, else `alpha * x`.

    ```mlir
    %0 = dfg.leaky_relu %a {alpha = 0.01 : f64} : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Dfg_FloatTensor:$input, F64Attr:$alpha);
  let results = (outs Dfg_Tensor:$result);
}

def Dfg_EluOp : Dfg_Elementwise<"elu", [DeclareOpInterfaceMethods<LibraryInterface, ["getLibraryCall", "getLibraryEpilogue"]>]> {
  let summary = "the exponential linear unit";
  let description = [{
    `x` where `x >= 0`, else `alpha * (e^x - 1)`.

    ```mlir
    %0 = dfg.elu %a {alpha = 1.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Dfg_FloatTensor:$input, F64Attr:$alpha);
  let results = (outs Dfg_Tensor:$result);
}

def Dfg_GeluOp : Dfg_Elementwise<"gelu", [DeclareOpInterfaceMethods<LibraryInterface, ["getLibraryCall", "getLibraryEpilogue"]>]> {
  let summary = "the Gaussian error linear unit";
  let description = [{
    `x/2 * (1 + erf(x / sqrt 2))`, or with `approximate`
    `x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))`.

    ```mlir
    %0 = dfg.gelu %a : (tensor<4xf32>) -> tensor<4xf32>
    %1 = dfg.gelu %a {approximate} : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Dfg_FloatTensor:$input, UnitAttr:$approximate);
  let results = (outs Dfg_Tensor:$result);
}

def Dfg_ClampOp : Dfg_Elementwise<"clamp", [DeclareOpInterfaceMethods<LibraryInterface, ["getLibraryCall", "getLibraryEpilogue"]>]> {
  let summary = "limits values to an interval";
  let description = [{
    `min(max(x, low), high)`; NaN stays NaN.

    ```mlir
    %0 = dfg.clamp %a {low = 0.0 : f64, high = 6.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Dfg_NumberTensor:$input, F64Attr:$low, F64Attr:$high);
  let results = (outs Dfg_Tensor:$result);
}

def Dfg_CastOp : Dfg_Elementwise<"cast", [Dfg_OwnPrecision, DeclareOpInterfaceMethods<LibraryInterface, ["getLibraryEpilogue"]>], "adaptor.getTo()", "::cleave::dfg::linearCast(*this)"> {
  let summary = "converts the element type";
  let description = [{
    Floats to integers truncate towards zero, saturating outside the target's range, NaN becomes 0; to `i1`, zero is
    false and all else true; integers narrow by dropping high bits; floats round to nearest, ties to even. What loses
    nothing, from a float to a wider one, is linear.

    ```mlir
    %0 = dfg.cast %a {to = i64} : (tensor<4xf32>) -> tensor<4xi64>
    ```
  }];
  let arguments = (ins Dfg_Tensor:$input, TypeAttr:$to);
  let results = (outs Dfg_Tensor:$result);
}

def Dfg_AddOp : Dfg_Binary<"add", Dfg_NumberTensor, [Commutative, DeclareOpInterfaceMethods<LibraryInterface, ["getLibraryCall", "getLibraryEpilogue"]>], "{{0, 1}}"> {
  let summary = "the sum";
  let description = [{
    `a + b`; integers wrap.

    ```mlir
    %0 = dfg.add %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
}

def Dfg_SubOp : Dfg_Binary<"sub", Dfg_NumberTensor, [], "{{0, 1}}"> {
  let summary = "the difference";
  let description = [{
    `a - b`; integers wrap.

    ```mlir
    %0 = dfg.sub %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
}

def Dfg_MulOp : Dfg_Binary<"mul", Dfg_NumberTensor, [Commutative, DeclareOpInterfaceMethods<LibraryInterface, ["getLibraryCall", "getLibraryEpilogue"]>], "{{0}, {1}}"> {
  let summary = "the product";
  let description = [{
    `a * b`; integers wrap.

    ```mlir
    %0 = dfg.mul %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
}

def Dfg_DivOp : Dfg_Binary<"div", Dfg_NumberTensor> {
  let summary = "the quotient";
  let description = [{
    `a / b`; integers truncate towards zero, and an integer division by zero gives 0.

    ```mlir
    %0 = dfg.div %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
}

def Dfg_PowOp : Dfg_Binary<"pow", Dfg_NumberTensor, [Dfg_OwnPrecision]> {
  let summary = "the power";
  let description = [{
    `a ^ b`; both operands have one element type.

    ```mlir
    %0 = dfg.pow %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
}

def Dfg_MaxOp : Dfg_Binary<"max", Dfg_NumberTensor, [Commutative, DeclareOpInterfaceMethods<LibraryInterface, ["getLibraryCall", "getLibraryEpilogue"]>]> {
  let summary = "the larger";
  let description = [{
    NaN if either is NaN.

    ```mlir
    %0 = dfg.max %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
}

def Dfg_MinOp : Dfg_Binary<"min", Dfg_NumberTensor, [Commutative, DeclareOpInterfaceMethods<LibraryInterface, ["getLibraryCall", "getLibraryEpilogue"]>]> {
  let summary = "the smaller";
  let description = [{
    NaN if either is NaN.

    ```mlir
    %0 = dfg.min %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
}

def Dfg_AndOp : Dfg_Binary<"and", Dfg_BitsTensor, [Commutative]> {
  let summary = "logical conjunction";
  let description = [{
    True where both are; of integers, bit by bit.

    ```mlir
    %0 = dfg.and %a, %b : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
    ```
  }];
}

def Dfg_OrOp : Dfg_Binary<"or", Dfg_BitsTensor, [Commutative]> {
  let summary = "logical disjunction";
  let description = [{
    True where one of both is; of integers, bit by bit.

    ```mlir
    %0 = dfg.or %a, %b : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
    ```
  }];
}

def Dfg_XorOp : Dfg_Binary<"xor", Dfg_BitsTensor, [Commutative]> {
  let summary = "logical exclusion";
  let description = [{
    True where just one of both is; of integers, bit by bit.

    ```mlir
    %0 = dfg.xor %a, %b : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
    ```
  }];
}

def Dfg_ShiftLeftOp : Dfg_Binary<"shift_left", Dfg_IntegerTensor> {
  let summary = "bits moved towards the highest";
  let description = [{
    `a * 2^b`, wrapped; 0 where `b` is negative or not below the number of bits.

    ```mlir
    %0 = dfg.shift_left %a, %b : (tensor<4xui8>, tensor<4xui8>) -> tensor<4xui8>
    ```
  }];
}

def Dfg_ShiftRightOp : Dfg_Binary<"shift_right", Dfg_IntegerTensor> {
  let summary = "bits moved towards the lowest";
  let description = [{
    `floor(a / 2^b)`; where `b` is negative or not below the number of bits 0, or -1 of a negative `a`.

    ```mlir
    %0 = dfg.shift_right %a, %b : (tensor<4xui8>, tensor<4xui8>) -> tensor<4xui8>
    ```
  }];
}

def Dfg_ModOp : Dfg_Elementwise<"mod"> {
  let summary = "the remainder";
  let description = [{
    `a - b * floor(a / b)`, with the divisor's sign; with `truncated` `a - b * trunc(a / b)`, with the dividend's sign
    (C's `fmod`). An integer remainder by zero gives 0.

    ```mlir
    %0 = dfg.mod %a, %b {truncated} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Dfg_NumberTensor:$lhs, Dfg_NumberTensor:$rhs, UnitAttr:$truncated);
  let results = (outs Dfg_Tensor:$result);
}

def Dfg_CompareOp : Dfg_Elementwise<"compare", [], "::mlir::IntegerType::get(context, 1)"> {
  let summary = "compares two numbers";
  let description = [{
    Every comparison with NaN is false. `i1` operands compare as 0 and 1.

    ```mlir
    %0 = dfg.compare %a, %b {comparison = #dfg.comparison<less>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
    ```
  }];
  let arguments = (ins Dfg_Tensor:$lhs, Dfg_Tensor:$rhs, Dfg_Comparison:$comparison);
  let results = (outs Dfg_BoolTensor:$result);
}

def Dfg_SelectOp : Dfg_Elementwise<"select", [], "nullptr", "{{1, 2}}"> {
  let summary = "chooses between two values";
  let description = [{
    `a` where the condition is true, else `b`.

    ```mlir
    %0 = dfg.select %p, %a, %b : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Dfg_BoolTensor:$condition, Dfg_Tensor:$lhs, Dfg_Tensor:$rhs);
  let results = (outs Dfg_Tensor:$result);
}

#endif // CLEAVE_DIALECTS_DFG_ELEMENTWISEOPS
