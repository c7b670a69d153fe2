// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers loops, arithmetic and mathematical functions to the LLVM dialect.

#include "passes/codegen/NativeLowering.h"

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

} // namespace

/// Functions of f32 as polynomials; roundings to bf16 as integer arithmetic, as a call would be slow and the
/// processor's instruction drops small numbers.
static void expandFunctions(ModuleOp module, bool exactFunctions) {
  RewritePatternSet patterns(module.getContext());
  arith::populateExpandBFloat16Patterns(patterns);
  if (!exactFunctions)
    populateMathPolynomialApproximationPatterns(patterns, [](StringRef name) {
      return llvm::is_contained({math::ExpOp::getOperationName(), math::ExpM1Op::getOperationName(),
                                 math::LogOp::getOperationName(), math::Log1pOp::getOperationName(),
                                 math::TanhOp::getOperationName(), math::ErfOp::getOperationName()},
                                name);
    });
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
  patterns.add<LibmCall<math::ErfOp>>(converter, context, "erf");
  patterns.add<LibmCall<math::ExpM1Op>>(converter, context, "expm1");
  patterns.add<LibmCall<math::Log1pOp>>(converter, context, "log1p");
  patterns.add<LibmCall<math::TanhOp>>(converter, context, "tanh");
  LLVMConversionTarget target(*context);
  target.addLegalOp<ModuleOp>();
  return applyFullConversion(module, target, std::move(patterns));
}

} // namespace cleave
