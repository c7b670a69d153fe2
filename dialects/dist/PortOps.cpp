// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parts of inputs and outputs: ranges of one dimension.

#include "dialects/dist/Dist.h"

using namespace mlir;
using namespace cleave::dist;

LogicalResult WithinAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t dim, int64_t begin,
                                 int64_t size) {
  if (dim < 0 || begin < 0 || begin >= size)
    return emitError() << "expects a dimension, and a part that begins within its size, got dimension " << dim
                       << " from " << begin << " on of " << size;
  return success();
}

/// Verifies that one tensor is a part of another, from `begin` on in a dimension.
static LogicalResult verifyRange(Operation *op, Value part, Value whole, int64_t dim, int64_t begin) {
  auto partType = cast<RankedTensorType>(part.getType()), type = cast<RankedTensorType>(whole.getType());
  if (dim < 0 || dim >= type.getRank() || partType.getRank() != type.getRank() || begin < 0 ||
      partType.getDimSize(dim) < 1 || partType.getDimSize(dim) > type.getDimSize(dim) - begin)
    return op->emitOpError("expects a part of ")
           << type << " from " << begin << " on in dimension " << dim << ", got " << partType;
  SmallVector<int64_t> shape(partType.getShape());
  shape[dim] = type.getDimSize(dim);
  if (type.clone(shape) != type || partType.getElementType() != type.getElementType())
    return op->emitOpError("expects a part of ") << type << ", got " << partType;
  return success();
}

LogicalResult InputPartOp::verify() {
  auto argument = dyn_cast<BlockArgument>(getInput());
  if (!argument || argument.getOwner() != (*this)->getBlock())
    return emitOpError("expects an input of the graph");
  return verifyRange(*this, getResult(), getInput(), getDim(), getBegin());
}

WithinAttr InputPartOp::getWithin() {
  return WithinAttr::get(getContext(), getDim(), getBegin(), getInput().getType().getDimSize(getDim()));
}

LogicalResult OutputPartsOp::verify() {
  if (llvm::any_of((*this)->getUsers(), [](Operation *user) { return !user->hasTrait<OpTrait::IsTerminator>(); }))
    return emitOpError("expects to be an output of the graph, and nothing else to read it");
  int64_t begin = 0;
  for (Value part : getParts()) {
    if (failed(verifyRange(*this, part, getResult(), getDim(), begin)))
      return failure();
    begin += cast<RankedTensorType>(part.getType()).getDimSize(getDim());
  }
  if (getParts().empty() || begin != getResult().getType().getDimSize(getDim()))
    return emitOpError("expects parts that cover ") << getResult().getType() << ", got them up to " << begin;
  return success();
}

WithinAttr OutputPartsOp::getWithin(unsigned part) {
  int64_t begin = 0;
  for (Value before : getParts().take_front(part))
    begin += cast<RankedTensorType>(before.getType()).getDimSize(getDim());
  return WithinAttr::get(getContext(), getDim(), begin, getResult().getType().getDimSize(getDim()));
}
