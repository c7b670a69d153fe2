// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cleave's mlir-opt: runs passes on textual IR, for tests and for people who look at one stage.

#include "dialects/dfg/Dfg.h"
#include "dialects/dist/Dist.h"
#include "dialects/plan/Plan.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<cleave::dfg::DfgDialect, cleave::dist::DistDialect, cleave::plan::PlanDialect,
                  mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::linalg::LinalgDialect,
                  mlir::math::MathDialect, mlir::tensor::TensorDialect>();
  mlir::registerTransformsPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Cleave's optimizer driver\n", registry));
}
