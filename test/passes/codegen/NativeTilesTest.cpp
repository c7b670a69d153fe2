// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tiles of products in registers, against those of BLIS's kernels for the same registers (Van Zee, van de Geijn 2015).
// A tile that is never chosen changes no number: kernels are only slower.

#include "passes/codegen/NativeTiles.h"
#include "passes/codegen/NativeNests.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace cleave;

namespace {

constexpr VectorRegisters avx2 = {32, 16}, avx512 = {64, 32};

class NativeTiles : public testing::Test {
protected:
  NativeTiles() {
    context.loadDialect<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::linalg::LinalgDialect,
                        mlir::tensor::TensorDialect>();
  }

  /// Of C[i, j] = the sum of A[i, k] * B[k, j]; loops 0 to 2 are i, j, k.
  std::optional<TileChoice> choose(const std::string &product, int64_t rows, int64_t columns, const std::string &type,
                                   const VectorRegisters &registers, std::optional<unsigned> fixed = {}) {
    std::string m = std::to_string(rows), n = std::to_string(columns), a = "tensor<" + m + "x8x" + type + ">",
                b = "tensor<8x" + n + "x" + type + ">", c = "tensor<" + m + "x" + n + "x" + type + ">";
    auto module = mlir::parseSourceString<mlir::ModuleOp>(
        "#a = affine_map<(i, j, k) -> (i, k)>\n#b = affine_map<(i, j, k) -> (k, j)>\n"
        "#c = affine_map<(i, j, k) -> (i, j)>\nfunc.func @kernel(%a: " +
            a + ", %b: " + b + ") -> " + c + " {\n%e = tensor.empty() : " + c +
            "\n%r = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = "
            "[\"parallel\", \"parallel\", \"reduction\"]} ins(%a, %b : " +
            a + ", " + b + ") outs(%e : " + c + ") {\n^bb0(%x: " + type + ", %y: " + type + ", %z: " + type +
            "):\n%p = " + product + " %x, %y : " + type + "\n%s = arith.addf %z, %p : " + type +
            "\nlinalg.yield %s : " + type + "\n} -> " + c + "\nreturn %r : " + c + "\n}",
        &context);
    if (!module) {
      ADD_FAILURE() << "the kernel does not parse";
      return std::nullopt;
    }
    mlir::Block &block = (*module->getOps<mlir::func::FuncOp>().begin()).getBody().front();
    Storage storage(block);
    std::vector<Nest> nests = findNests(block, storage);
    return chooseTile(nests.back(), registers, [&](unsigned loop) { return loop == fixed; });
  }

  mlir::MLIRContext context;
};

void expectTile(const std::optional<TileChoice> &tile, int64_t rows, int64_t width, int64_t vectors) {
  ASSERT_TRUE(tile);
  EXPECT_EQ(tile->lanes, 1u);
  EXPECT_EQ(tile->vectors, 1u);
  EXPECT_EQ(tile->width, width);
  EXPECT_EQ(tile->vectorsAlongLanes, vectors);
  ASSERT_EQ(tile->copies.size(), 1u);
  EXPECT_EQ(tile->copies[0].loop, 0u);
  EXPECT_EQ(tile->copies[0].count, rows);
}

// Six rows of two vectors of eight: bli_sgemm_haswell_asm_6x16.
TEST_F(NativeTiles, FillSixteenRegisters) { expectTile(choose("arith.mulf", 12, 16, "f32", avx2), 6, 8, 2); }

// Fourteen of two vectors of eight: bli_dgemm_skx_asm_16x14.
TEST_F(NativeTiles, FillThirtyTwoRegisters) { expectTile(choose("arith.mulf", 28, 16, "f64", avx512), 14, 8, 2); }

// A loop that must stay whole has no copies.
TEST_F(NativeTiles, LeaveFixedLoops) {
  std::optional<TileChoice> tile = choose("arith.mulf", 12, 16, "f32", avx2, 0);
  ASSERT_TRUE(tile);
  EXPECT_EQ(tile->lanes, 1u);
  EXPECT_TRUE(tile->copies.empty());
}

TEST_F(NativeTiles, AreForSumsOfProducts) {
  EXPECT_FALSE(choose("arith.maximumf", 12, 16, "f32", avx2));
  EXPECT_FALSE(choose("arith.mulf", 12, 12, "f32", avx2)) << "no loop of whole vectors";
}

} // namespace
