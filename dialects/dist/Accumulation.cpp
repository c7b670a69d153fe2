// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds sums that are added to later than they were made.

#include "dialects/dist/Accumulation.h"

#include "dialects/interfaces/SplitRule.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::dist;

static bool readsSumSoFar(OpOperand &use) {
  Operation *user = use.getOwner();
  if (user->hasAttr(accumulatesAttrName))
    return use.getOperandNumber() == 0;
  return llvm::any_of(user->getRegions(), [&](Region &region) {
    return region.getNumArguments() == user->getNumOperands() &&
           llvm::any_of(region.getArgument(use.getOperandNumber()).getUses(), readsSumSoFar);
  });
}

static int64_t bytesOf(ValueRange values) {
  int64_t bytes = 0;
  for (Type type : values.getTypes())
    bytes += tensorBytes(type);
  return bytes;
}

bool cleave::dist::waitsForSum(OpOperand &use) {
  Operation *producer = use.get().getDefiningOp();
  return producer && readsSumSoFar(use) && bytesOf(producer->getOperands()) > bytesOf(producer->getResults());
}
