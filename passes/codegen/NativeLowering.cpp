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

#include <limits>

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

/// Builds functions of f32.
class FloatBuilder : public dfg::ElementBuilder {
public:
  using ElementBuilder::ElementBuilder;

  Value number(double value) const { return constant(getBuilder().getF32Type(), value); }
  Value fma(Value a, Value b, Value c) const { return math::FmaOp::create(getBuilder(), getLocation(), a, b, c); }
  /// The coefficients from the highest power on.
  Value polynomial(Value x, ArrayRef<double> coefficients) const {
    Value sum = number(coefficients.front());
    for (double coefficient : coefficients.drop_front())
      sum = fma(sum, x, number(coefficient));
    return sum;
  }
};

/// e^x of f32: x = n log 2 + r with |r| at most half of log 2 (Cody and Waite: Software Manual for the Elementary
/// Functions, 1980), e^r = 1 + r + r^2 q(r) with the q of degree 4 that makes the largest relative error least, 3e-9,
/// and n added to the exponent. Numbers below the smallest normal one become 0. Within 1.01 units in the last place.
class ExpPolynomial : public OpRewritePattern<math::ExpOp> {
public:
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(math::ExpOp op, PatternRewriter &rewriter) const override {
    if (!op.getType().isF32())
      return failure();
    Location location = op.getLoc();
    Type integer = rewriter.getI32Type();
    FloatBuilder e(rewriter, location);
    auto bitsOf = [&](Value value) { return arith::BitcastOp::create(rewriter, location, integer, value).getResult(); };
    // Of numbers near 1.5 * 2^23 the last bit stands for 1: n, rounded to nearest, is in the lowest bits.
    constexpr double atUnits = 12582912.0;
    Value x = op.getOperand();
    Value shifted = e.fma(x, e.number(1.4426950408889634), e.number(atUnits));
    Value n = e.sub(shifted, e.number(atUnits));
    Value r = e.fma(n, e.number(1.9046542121259336e-09), e.fma(n, e.number(-0.693147182464599609375), x));
    Value q = e.polynomial(
        r, {0.001381459878757596, 0.008368716575205326, 0.04166838899254799, 0.1666652113199234, 0.4999999403953552});
    Value power = e.add(e.fma(e.mul(r, r), q, r), e.number(1));
    Value places = arith::ConstantOp::create(rewriter, location, rewriter.getIntegerAttr(integer, 23));
    Value exponent = arith::ShLIOp::create(rewriter, location, bitsOf(shifted), places);
    Value scaled = arith::AddIOp::create(rewriter, location, bitsOf(power), exponent);
    Value result = arith::BitcastOp::create(rewriter, location, op.getType(), scaled);
    // What is too large, or no number, stays that.
    constexpr double least = -87.33654, most = 88.72283;
    Value infinite = e.add(x, e.number(std::numeric_limits<double>::infinity()));
    Value isBeyond = arith::CmpFOp::create(rewriter, location, arith::CmpFPredicate::UGT, x, e.number(most));
    result = e.select(isBeyond, infinite, result);
    rewriter.replaceOp(op, e.select(e.less(x, e.number(least)), e.number(0), result));
    return success();
  }
};

/// tanh of f32: near zero an odd polynomial, Chebyshev's approximation of (tanh(x) - x) / x^3 in x^2 up to 0.625;
/// beyond, 1 - 2 / (e^2|x| + 1), which loses nothing there and does not overflow. Within 2 units in the last place.
class TanhPolynomial : public OpRewritePattern<math::TanhOp> {
public:
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(math::TanhOp op, PatternRewriter &rewriter) const override {
    if (!op.getType().isF32())
      return failure();
    FloatBuilder e(rewriter, op.getLoc());
    Value x = op.getOperand(), square = e.mul(x, x);
    Value polynomial = e.polynomial(square, {-0.0060960231348872185, 0.020996704697608948, -0.05385081097483635,
                                             0.1333276927471161, -0.333333283662796});
    Value near = e.fma(e.mul(x, square), polynomial, x);
    Value magnitude = e.abs(x);
    Value power = e.exp(e.add(magnitude, magnitude));
    Value far = e.sub(e.number(1), e.div(e.number(2), e.add(power, e.number(1))));
    far = math::CopySignOp::create(rewriter, op.getLoc(), far, x);
    rewriter.replaceOp(op, e.select(e.less(magnitude, e.number(0.625)), near, far));
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
    // In front of the one of MLIR, which takes twice as many operations.
    patterns.add<ExpPolynomial>(module.getContext(), /*benefit=*/2);
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
