// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tries all tiles that fit into the registers. With A the operand that is read in vectors:
//
//   lanes     loop of one step in A and the result: C[i, l] += A[l] * B[i]      B is one element for all lanes
//             or of one step in A and B: C[i, j] += sum over l of A[i, l] * B[j, l]
//   columns   a loop along which A moves and B stands still: each has vectors of A of its own
//   rows      a loop along which B moves and A stands still: each has elements of B of its own
//
// A tile of rows x columns loads rows + columns operands for rows * columns products.

#include "passes/codegen/NativeTiles.h"

#include "passes/codegen/NativeNests.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace cleave {

/// Whether `product` is a * b of a block's first two arguments, and `sum` adds it to the third.
template <typename ProductOp, typename SumOp> static bool joins(Block &body, Operation &product, Operation &sum) {
  auto are = [](Operation &binary, Value a, Value b) {
    return (binary.getOperand(0) == a && binary.getOperand(1) == b) ||
           (binary.getOperand(0) == b && binary.getOperand(1) == a);
  };
  return isa<ProductOp>(product) && isa<SumOp>(sum) && are(product, body.getArgument(0), body.getArgument(1)) &&
         are(sum, product.getResult(0), body.getArgument(2));
}

bool isSumOfProducts(linalg::LinalgOp op) {
  if (op.getNumDpsInputs() != 2 || op.getNumDpsInits() != 1)
    return false;
  Block *body = op.getBlock();
  if (!llvm::hasNItems(body->begin(), body->end(), 3))
    return false;
  Operation &product = body->front(), &sum = *std::next(body->begin());
  if (!joins<arith::MulFOp, arith::AddFOp>(*body, product, sum) &&
      !joins<arith::MulIOp, arith::AddIOp>(*body, product, sum))
    return false;
  unsigned bits = sum.getResult(0).getType().getIntOrFloatBitWidth();
  return body->getTerminator()->getOperand(0) == sum.getResult(0) && (bits == 32 || bits == 64);
}

namespace {

class TileSearch {
public:
  TileSearch(const Nest &nest, const VectorRegisters &registers, llvm::function_ref<bool(unsigned loop)> fixed)
      : nest(nest), registers(registers), fixed(fixed) {
    linalg::LinalgOp op = nest.op;
    Type element = cast<RankedTensorType>(op.getDpsInits()[0].getType()).getElementType();
    width = registers.bytes / elementBytes(element);
  }

  std::optional<TileChoice> run() {
    for (unsigned lanes = 0; lanes < nest.sizes.size(); ++lanes)
      for (unsigned vectors : {0u, 1u})
        if (suitsAsLanes(lanes, vectors))
          tryTiles(lanes, vectors);
    return best;
  }

private:
  int64_t step(unsigned operand, unsigned loop) const { return nest.accesses[operand]->coefficients[loop]; }
  bool isFree(unsigned loop) const { return !nest.indexed[loop] && !fixed(loop); }
  bool isSummed(unsigned lanes) const { return nest.reduction[lanes]; }

  bool suitsAsLanes(unsigned loop, unsigned vectors) const {
    if (nest.sizes[loop] % width != 0 || !isFree(loop) || step(vectors, loop) != 1)
      return false;
    return isSummed(loop) ? step(1 - vectors, loop) == 1 && step(2, loop) == 0
                          : step(1 - vectors, loop) == 0 && step(2, loop) == 1;
  }

  /// Loops along which one operand moves with the result and the other stands still, and the counts that divide them;
  /// none with a count of one.
  SmallVector<TileChoice::Copies> copiesOf(unsigned moves, unsigned lanes) const {
    SmallVector<TileChoice::Copies> list = {{lanes, 1}};
    for (unsigned loop = 0; loop < nest.sizes.size(); ++loop) {
      if (loop == lanes || nest.reduction[loop] || !isFree(loop) || step(moves, loop) == 0 ||
          step(1 - moves, loop) != 0 || step(2, loop) == 0)
        continue;
      for (int64_t count = 2; count <= std::min(nest.sizes[loop], registers.count); ++count)
        if (nest.sizes[loop] % count == 0)
          list.push_back({loop, count});
    }
    return list;
  }

  void tryTiles(unsigned lanes, unsigned vectors) {
    auto columns = copiesOf(vectors, lanes), rows = copiesOf(1 - vectors, lanes);
    int64_t most = isSummed(lanes) ? 1 : nest.sizes[lanes] / width;
    for (int64_t along = 1; along <= std::min(most, registers.count); ++along) {
      if (most % along != 0)
        continue;
      for (const TileChoice::Copies &column : columns)
        for (const TileChoice::Copies &row : rows)
          tryTile(lanes, vectors, along, column, row);
    }
  }

  /// Two products and two loads a cycle, each product behind the one that it is added to by four cycles.
  void tryTile(unsigned lanes, unsigned vectors, int64_t along, TileChoice::Copies column, TileChoice::Copies row) {
    int64_t wide = along * column.count, sums = wide * row.count, loads = wide + row.count;
    if (sums + std::min(wide, row.count) + 1 > registers.count || sums < 2)
      return;
    double cycles = std::max(static_cast<double>(std::max(sums, loads)) / 2, 4.0) / static_cast<double>(sums);
    double loaded = static_cast<double>(loads) / static_cast<double>(sums);
    if (best && std::pair(cycles, loaded) >= std::pair(bestCycles, bestLoaded))
      return;
    bestCycles = cycles;
    bestLoaded = loaded;
    best = TileChoice{lanes, width, along, {}, vectors};
    for (const TileChoice::Copies &copies : {row, column})
      if (copies.count > 1)
        best->copies.push_back(copies);
  }

  const Nest &nest;
  const VectorRegisters &registers;
  llvm::function_ref<bool(unsigned loop)> fixed;
  int64_t width = 1;
  std::optional<TileChoice> best;
  double bestCycles = 0, bestLoaded = 0;
};

} // namespace

std::optional<TileChoice> chooseTile(const Nest &nest, const VectorRegisters &registers,
                                     llvm::function_ref<bool(unsigned loop)> fixed) {
  bool isInMemory = llvm::all_of(nest.accesses, [](const auto &access) { return access.has_value(); });
  if (nest.isEmpty() || !isInMemory || !isSumOfProducts(nest.op))
    return std::nullopt;
  return TileSearch(nest, registers, fixed).run();
}

} // namespace cleave
