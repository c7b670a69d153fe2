// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Brings matrix products into the form batch x M x K by batch x K x N.

#include "passes/codegen/KernelPasses.h"

#include "dialects/dfg/TensorType.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_NORMALIZECONTRACTIONSPASS
#include "passes/codegen/KernelPasses.h.inc"

namespace {

int64_t product(RankedTensorType type, ArrayRef<int64_t> dims) {
  int64_t size = 1;
  for (int64_t dim : dims)
    size *= type.getDimSize(dim);
  return size;
}

/// One side of a product: its dimensions in three groups.
struct ProductSide {
  Value value;
  ArrayRef<int64_t> batch, contracting;
  SmallVector<int64_t> free;
};

/// The side as batch x first x second: whichever of (free, contracting) and (contracting, free) needs no transpose is
/// taken; `contractingDim` receives where the contracting dimension lies.
Value inOrder(OpBuilder &builder, Location loc, const ProductSide &side, bool batched, int64_t &contractingDim) {
  RankedTensorType type = tensorType(side.value);
  SmallVector<int64_t> freeFirst(side.batch), contractingFirst(side.batch);
  llvm::append_range(freeFirst, side.free);
  llvm::append_range(freeFirst, side.contracting);
  llvm::append_range(contractingFirst, side.contracting);
  llvm::append_range(contractingFirst, side.free);
  bool useContractingFirst = llvm::is_sorted(contractingFirst) && !llvm::is_sorted(freeFirst);
  ArrayRef<int64_t> order = useContractingFirst ? contractingFirst : freeFirst;
  Value value = side.value;
  if (!llvm::is_sorted(order))
    value = dfg::TransposeOp::create(builder, loc, value, order);
  int64_t free = product(type, side.free), depth = product(type, side.contracting);
  SmallVector<int64_t> shape;
  if (batched)
    shape.push_back(product(type, side.batch));
  contractingDim = shape.size() + (useContractingFirst ? 0 : 1);
  shape.push_back(useContractingFirst ? depth : free);
  shape.push_back(useContractingFirst ? free : depth);
  auto wanted = RankedTensorType::get(shape, type.getElementType());
  return wanted == value.getType() ? value : dfg::ReshapeOp::create(builder, loc, wanted, value).getResult();
}

class NormalizeContractions : public impl::NormalizeContractionsPassBase<NormalizeContractions> {
  void runOnOperation() override {
    SmallVector<dfg::DotGeneralOp> products(getOperation().getOps<dfg::DotGeneralOp>());
    for (dfg::DotGeneralOp dot : products)
      normalize(dot);
  }

  void normalize(dfg::DotGeneralOp dot) {
    OpBuilder builder(dot);
    Location loc = dot.getLoc();
    bool batched = !dot.getLhsBatch().empty();
    int64_t lhsDim = 0, rhsDim = 0;
    Value lhs = inOrder(builder, loc, {dot.getLhs(), dot.getLhsBatch(), dot.getLhsContracting(), dot.getLhsFree()},
                        batched, lhsDim);
    Value rhs = inOrder(builder, loc, {dot.getRhs(), dot.getRhsBatch(), dot.getRhsContracting(), dot.getRhsFree()},
                        batched, rhsDim);
    if (lhs == dot.getLhs() && rhs == dot.getRhs())
      return;
    SmallVector<int64_t> batch;
    if (batched)
      batch.push_back(0);
    Value result = dfg::DotGeneralOp::create(builder, loc, lhs, rhs, batch, batch, ArrayRef<int64_t>(lhsDim),
                                             ArrayRef<int64_t>(rhsDim), dot.getWide());
    if (result.getType() != dot.getType())
      result = dfg::ReshapeOp::create(builder, loc, dot.getType(), result);
    dot.replaceAllUsesWith(result);
    dot.erase();
  }
};

} // namespace
} // namespace cleave
