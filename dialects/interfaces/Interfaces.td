// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What an operator says about itself: how it may be divided, what it costs, what it means in linalg, and its value
// when all operands are known. No stage looks at an operator's kind; all ask these interfaces.

#ifndef CLEAVE_DIALECTS_INTERFACES_INTERFACES
#define CLEAVE_DIALECTS_INTERFACES_INTERFACES

include "mlir/IR/OpBase.td"

def SplitInterface : OpInterface<"SplitInterface"> {
  let cppNamespace = "::cleave";
  let description = [{
    The operator's factors (named iteration dimensions such as `batch`, `out_channel`, `k`), the kind of each, and the
    map from the dimensions of operands and results to them.
  }];
  let methods = [
    InterfaceMethod<"The operator's split rule on its present shapes.", "::cleave::SplitRule", "getSplitRule">,
    InterfaceMethod<[{
      Builds what one device computes when factors are cut, and returns its parts of the results (partial ones where a
      reduction factor is cut). By default the operator itself on the parts of its operands; operators whose attributes
      speak of sizes or positions along factors that can be cut answer for themselves.
    }], "::llvm::FailureOr<::llvm::SmallVector<::mlir::Value>>", "localize",
                    (ins "::mlir::OpBuilder &":$builder, "const ::cleave::LocalInstance &":$instance), [{}], [{
      return ::cleave::localizeByCloning($_op.getOperation(), builder, instance);
    }]>];
}

def DecomposeInterface : OpInterface<"DecomposeInterface"> {
  let cppNamespace = "::cleave";
  let description = [{
    Operators that consist of simpler ones. They are taken apart where a factor is cut that only the simpler ones can
    have cut: a softmax along its dimension becomes two reductions, whose partial results are small.
  }];
  let methods = [InterfaceMethod<
      "Builds the simpler operators on `operands` and returns one value a result.",
      "::llvm::SmallVector<::mlir::Value>", "decompose",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$operands)>];
}

def CostInterface : OpInterface<"CostInterface"> {
  let cppNamespace = "::cleave";
  let description = [{
    Floating-point operations and bytes of the operator on its present (local) shapes. The default counts every
    operand and result once and one operation per result element.
  }];
  let methods = [InterfaceMethod<"The operator's work.", "::cleave::OpCost", "getCost", (ins), [{}], [{
    return ::cleave::elementwiseCost($_op.getOperation(), 1.0);
  }]>];
}

def LowerInterface : OpInterface<"LowerInterface"> {
  let cppNamespace = "::cleave";
  let description = [{
    The operator's reference meaning: linalg, tensor and arith operations on tensors that compute the results from
    `operands`. The new operations are created at `builder`'s insertion point; the operator itself stays.
  }];
  let methods = [InterfaceMethod<
      "Builds the reference meaning and returns one value a result; fails without a trace where there is none.",
      "::llvm::FailureOr<::llvm::SmallVector<::mlir::Value>>", "lowerToLinalg",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$operands)>];
}

def ElementwiseInterface : OpInterface<"ElementwiseInterface"> {
  let cppNamespace = "::cleave";
  let description = [{
    Operators that compute each result element from one element of every operand, operands being broadcast to the
    result's shape by NumPy's rule.
  }];
  let methods = [InterfaceMethod<
      "Builds the computation of one element with arith and math operations. `elements` holds one scalar an operand.",
      "::mlir::Value", "buildElement", (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$elements)>];
}

def DifferentiateInterface : OpInterface<"DifferentiateInterface"> {
  let cppNamespace = "::cleave";
  let description = [{
    The operator's part of the gradient of a scalar in reverse mode: from the cotangents of its results (the scalar's
    derivative by each of their elements) to those of its operands. An operator whose results do not depend smoothly on
    an operand (positions, comparisons, rounding) answers null for it; one without this interface cannot be trained
    through, and is refused by its node's name.
  }];
  let methods = [InterfaceMethod<[{
      Builds dfg operators at `builder`'s insertion point, behind the operator, from its operands, its results and
      `request.cotangents`. Returns one value an operand, of the operand's type: null where it is not needed, or zero
      everywhere. Fails, with a diagnostic on the operator, for a variant that has no gradient.
    }], "::llvm::FailureOr<::llvm::SmallVector<::mlir::Value>>", "differentiate",
      (ins "::mlir::OpBuilder &":$builder, "const ::cleave::GradientRequest &":$request)>];
}

def EvaluateInterface : OpInterface<"EvaluateInterface"> {
  let cppNamespace = "::cleave";
  let description = [{
    The operator's value on known operands, computed in the compiler: shape arithmetic and weights written as
    computations fold with it.
  }];
  let methods = [InterfaceMethod<
      "One tensor a result; fails without a trace where the operator cannot be evaluated on these operands.",
      "::llvm::FailureOr<::llvm::SmallVector<::cleave::HostTensor>>", "evaluate",
      (ins "::llvm::ArrayRef<::cleave::HostTensor>":$operands)>];
}

def PrecisionInterface : OpInterface<"PrecisionInterface"> {
  let cppNamespace = "::cleave";
  let description = [{
    How an operator on f32 takes to bfloat16 in training and inference of mixed precision. Every operator computes and
    adds up in f32 whatever its operands are; what is asked is where values may be rounded.
  }];
  let methods = [
    InterfaceMethod<[{
      Whether the operator is to be given bfloat16, may be, or must not be. By default contractions gain from it, and
      all others follow their operands.
    }], "::cleave::Precision", "getPrecision", (ins), [{}], [{
      return ::cleave::precisionByCost($_op.getOperation());
    }]>,
    InterfaceMethod<"Whether an operand stays f32 though the operator computes on bfloat16: a statistic, a scale.",
                    "bool", "keepsWide", (ins "unsigned":$operand), [{}], [{ return false; }]>,
    InterfaceMethod<[{
      Builds the operator on the same bfloat16 operands with its sums in f32, not rounded; null where it cannot give
      them.
    }], "::mlir::Value", "buildWide", (ins "::mlir::OpBuilder &":$builder), [{}], [{ return nullptr; }]>];
}

def LibraryInterface : OpInterface<"LibraryInterface"> {
  let cppNamespace = "::cleave";
  let description = [{
    Operators that a kernel library computes, as one of its routines or fused behind one.
  }];
  let methods = [
    InterfaceMethod<"The routine that computes the operator; fails without a trace where there is none.",
                    "::llvm::FailureOr<::cleave::LibraryCall>", "getLibraryCall", (ins), [{}],
                    [{ return ::mlir::failure(); }]>,
    InterfaceMethod<"The operator as an epilogue of the routine whose result is operand `chained`.",
                    "::llvm::FailureOr<::cleave::LibraryEpilogue>", "getLibraryEpilogue", (ins "unsigned":$chained),
                    [{}], [{ return ::mlir::failure(); }]>];
}

#endif // CLEAVE_DIALECTS_INTERFACES_INTERFACES
