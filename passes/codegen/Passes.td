// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The pass that shows what operators mean.

#ifndef CLEAVE_PASSES_CODEGEN_PASSES
#define CLEAVE_PASSES_CODEGEN_PASSES

include "mlir/Pass/PassBase.td"

def LowerToLinalgPass : Pass<"codegen-lower-to-linalg"> {
  let summary = "Replace operators by their reference meaning in linalg";
  let description = [{
    Every operator with a LowerInterface becomes the linalg, tensor and arith operations that define it, and every
    `dfg.constant` an `arith.constant`; fusions are opened. What has no reference meaning is refused by name. Native
    kernels are compiled from the same lowering.

    Before:
    ```mlir
    %0 = dfg.relu %x : (tensor<8xf32>) -> tensor<8xf32>
    ```
    After:
    ```mlir
    %e = tensor.empty() : tensor<8xf32>
    %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
           ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %zero = arith.constant 0.0 : f32
      %1 = arith.maximumf %in, %zero : f32
      linalg.yield %1 : f32
    } -> tensor<8xf32>
    ```
    Requires: operators of the dfg dialect on static shapes.
    Guarantees: no operator of the dfg dialect is left in functions, or the pass fails and names the one that has no
    reference meaning.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect",
                           "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect"];
}

#endif // CLEAVE_PASSES_CODEGEN_PASSES
