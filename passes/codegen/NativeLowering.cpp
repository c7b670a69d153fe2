// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers loops, arithmetic and mathematical functions to the LLVM dialect.

#include "passes/codegen/NativeLowering.h"

#include "dialects/dfg/LowerElements.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Transforms/DialectConversion.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace cleave {

namespace {

/// Calls the function of libm; `name` is that for f64.
template <typename Op> class LibmCall : public OpConversionPattern<Op> {
public:
  LibmCall(const TypeConverter &converter, MLIRContext *context, StringRef name)
      : OpConversionPattern<Op>(converter, context, /*benefit=*/10), name(name) {}

  LogicalResult matchAndRewrite(Op op, typename Op::Adaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    Type type = op.getType();
    if (!type.isF32() && !type.isF64())
      return failure();
    std::string symbol = (name + (type.isF32() ? "f" : "")).str();
    auto module = op->template getParentOfType<ModuleOp>();
    if (!module.template lookupSymbol<LLVM::LLVMFuncOp>(symbol)) {
      OpBuilder::InsertionGuard guard(rewriter);
      rewriter.setInsertionPointToStart(module.getBody());
      SmallVector<Type> arguments(adaptor.getOperands().size(), type);
      LLVM::LLVMFuncOp::create(rewriter, module.getLoc(), symbol, LLVM::LLVMFunctionType::get(type, arguments));
    }
    rewriter.replaceOpWithNewOp<LLVM::CallOp>(op, type, SymbolRefAttr::get(op.getContext(), symbol),
                                              adaptor.getOperands());
    return success();
  }

private:
  StringRef name;
};

/// tanh of f32: near zero an odd polynomial, Chebyshev's approximation of (tanh(x) - x) / x^3 in x^2 up to 0.625;
/// beyond, 1 - 2 / (e^2|x| + 1), which loses nothing there and does not overflow. Within 2 units in the last place.
class TanhPolynomial : public OpRewritePattern<math::TanhOp> {
public:
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(math::TanhOp op, PatternRewriter &rewriter) const override {
    if (!op.getType().isF32())
      return failure();
    dfg::ElementBuilder e(rewriter, op.getLoc());
    auto number = [&](double value) { return e.constant(op.getType(), value); };
    auto fma = [&](Value a, Value b, Value c) {
      return math::FmaOp::create(rewriter, op.getLoc(), a, b, c).getResult();
    };
    Value x = op.getOperand(), square = e.mul(x, x), polynomial = number(-0.0060960231348872185);
    for (double coefficient : {0.020996704697608948, -0.05385081097483635, 0.1333276927471161, -0.333333283662796})
      polynomial = fma(polynomial, square, number(coefficient));
    Value near = fma(e.mul(x, square), polynomial, x);
    Value magnitude = e.abs(x);
    Value power = e.exp(e.add(magnitude, magnitude));
    Value far = e.sub(number(1), e.div(number(2), e.add(power, number(1))));
    far = math::CopySignOp::create(rewriter, op.getLoc(), far, x);
    rewriter.replaceOp(op, e.select(e.less(magnitude, number(0.625)), near, far));
    return success();
  }
};

} // namespace

/// Functions of f32 as polynomials; roundings to bf16 as integer arithmetic, as a call would be slow and the
/// processor's instruction drops small numbers.
static void expandFunctions(ModuleOp module, bool exactFunctions) {
  RewritePatternSet patterns(module.getContext());
  arith::populateExpandBFloat16Patterns(patterns);
  if (!exactFunctions) {
    patterns.add<TanhPolynomial>(module.getContext());
    populateMathPolynomialApproximationPatterns(patterns, [](StringRef name) {
      return llvm::is_contained({math::ExpOp::getOperationName(), math::ExpM1Op::getOperationName(),
                                 math::LogOp::getOperationName(), math::Log1pOp::getOperationName(),
                                 math::ErfOp::getOperationName()},
                                name);
    });
  }
  GreedyRewriteConfig config;
  config.setUseTopDownTraversal(true);
  config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
  (void)applyPatternsGreedily(module, std::move(patterns), config);
}

LogicalResult lowerToLlvmDialect(ModuleOp module, bool exactFunctions) {
  expandFunctions(module, exactFunctions);
  MLIRContext *context = module.getContext();
  LLVMTypeConverter converter(context);
  RewritePatternSet patterns(context);
  populateSCFToControlFlowConversionPatterns(patterns);
  cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
  arith::populateArithToLLVMConversionPatterns(converter, patterns);
  populateMathToLLVMConversionPatterns(converter, patterns);
  patterns.add<LibmCall<math::AcosOp>>(converter, context, "acos");
  patterns.add<LibmCall<math::AcoshOp>>(converter, context, "acosh");
  patterns.add<LibmCall<math::AsinOp>>(converter, context, "asin");
  patterns.add<LibmCall<math::AsinhOp>>(converter, context, "asinh");
  patterns.add<LibmCall<math::AtanOp>>(converter, context, "atan");
  patterns.add<LibmCall<math::AtanhOp>>(converter, context, "atanh");
  patterns.add<LibmCall<math::CoshOp>>(converter, context, "cosh");
  patterns.add<LibmCall<math::SinhOp>>(converter, context, "sinh");
  patterns.add<LibmCall<math::ErfOp>>(converter, context, "erf");
  patterns.add<LibmCall<math::ExpM1Op>>(converter, context, "expm1");
  patterns.add<LibmCall<math::Log1pOp>>(converter, context, "log1p");
  patterns.add<LibmCall<math::TanhOp>>(converter, context, "tanh");
  LLVMConversionTarget target(*context);
  target.addLegalOp<ModuleOp>();
  return applyFullConversion(module, target, std::move(patterns));
}

} // namespace cleave
