// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Follows results with one reader as long as the readers can be epilogues. On GPUs, also behind reshapes: products of
// more dimensions are computed as products of two (NormalizeContractions), whose bytes are the same.

#include "passes/codegen/LibraryEpilogues.h"

#include "passes/codegen/DimensionOrder.h"

#include "dialects/dfg/Dfg.h"
#include "dialects/dfg/GeluGradient.h"
#include "dialects/dist/Accumulation.h"
#include "dialects/dist/Dist.h"

using namespace mlir;

namespace cleave {

/// The value of a parameter, which steps may write, or of an input, as a version of a parameter is; perhaps under
/// another shape.
static bool comesFromOutside(Value value) {
  while (auto reshape = value.getDefiningOp<dfg::ReshapeOp>())
    value = reshape.getInput();
  return isa<BlockArgument>(value) || isa<dfg::ReadOp, dist::ShardOfOp>(value.getDefiningOp());
}

/// Shapes from the right: a value that broadcasts to `shown` has leading ones.
static SmallVector<int64_t> withLeadingOnes(ArrayRef<int64_t> shape, size_t rank) {
  SmallVector<int64_t> padded(rank - shape.size(), 1);
  llvm::append_range(padded, shape);
  return padded;
}

/// How a value that joins one of shape `shown` joins the same elements in shape `seen`: whole, or as one value for each
/// index of a last dimension that both have. Nothing for what cannot be seen so.
static std::optional<SmallVector<int64_t>> shapeBeside(ArrayRef<int64_t> shape, ArrayRef<int64_t> shown,
                                                       ArrayRef<int64_t> seen) {
  SmallVector<int64_t> padded = withLeadingOnes(shape, shown.size());
  if (shown == seen)
    return padded;
  if (ArrayRef<int64_t>(padded) == shown)
    return SmallVector<int64_t>(seen);
  if (seen.empty() || shown.empty() || shown.back() != seen.back() || padded.back() != seen.back() ||
      llvm::any_of(ArrayRef(padded).drop_back(), [](int64_t size) { return size != 1; }))
    return std::nullopt;
  return withLeadingOnes(seen.take_back(1), seen.size());
}

/// The only reader of a value, behind reshapes where these may be looked through.
static OpOperand *onlyReader(Value value, bool throughReshapes) {
  while (value.hasOneUse()) {
    OpOperand &use = *value.getUses().begin();
    auto reshape = dyn_cast<dfg::ReshapeOp>(use.getOwner());
    if (!reshape || !throughReshapes)
      return &use;
    value = reshape.getResult();
  }
  return nullptr;
}

/// Whether a value follows from one before `op`, or from outside, alone: nothing is waited for that the operator
/// does not wait for.
static bool isReadyBefore(Value value, Operation *op) {
  for (Operation *made = value.getDefiningOp(); made && !made->isBeforeInBlock(op); made = value.getDefiningOp()) {
    if (comesFromOutside(value))
      return true;
    if (made->getNumOperands() != 1 || !isa<LowerInterface>(made))
      return false;
    value = made->getOperand(0);
  }
  return true;
}

/// What the reader is to the routine whose result it reads by `use`.
static std::optional<Epilogue> epilogueOf(OpOperand &use, const KernelDevice &device) {
  Operation *reader = use.getOwner();
  auto library = dyn_cast<LibraryInterface>(reader);
  if (!library)
    return std::nullopt;
  // Several operators to us, one to libraries of GPUs.
  if (device.library->hasGradientPostOps())
    if (Value x = dfg::findGeluTanhGradientInput(reader, use.getOperandNumber()))
      return Epilogue{reader, {"gelu_tanh_gradient"}, x, {}};
  auto kind = library.getLibraryEpilogue(use.getOperandNumber());
  if (failed(kind))
    return std::nullopt;
  Value other = kind->otherOperand >= 0 ? reader->getOperand(kind->otherOperand) : Value();
  return Epilogue{reader, *kind, other, {}};
}

SmallVector<Epilogue> epiloguesBehind(Operation *op, const LibraryCall &call, ConstantValues &constants,
                                      const KernelDevice &device) {
  SmallVector<Epilogue> epilogues;
  RankedTensorType result = tensorType(op->getResult(0));
  bool sumsIntegers = result.getElementType().isSignlessInteger(32);
  bool choosesLayouts = device.library->choosesLayouts();
  Operation *last = op;
  auto writes = [](Operation *made) { return tensorType(made->getResult(0)).getElementType(); };
  // Behind a conversion to integers there is nothing that a routine does.
  while (!last->hasAttr(dist::accumulatesAttrName) &&
         (last == op || isa<FloatType>(writes(last)) || epilogues.back().isBias)) {
    OpOperand *use = onlyReader(last->getResult(0), /*throughReshapes=*/!choosesLayouts);
    if (!use || use->getOwner()->getBlock() != op->getBlock())
      break;
    std::optional<Epilogue> epilogue = epilogueOf(*use, device);
    if (!epilogue)
      break;
    if (epilogue->other) {
      // What was not walked yet has no layout yet; what comes from outside does not depend on the walk.
      Operation *definition = epilogue->other.getDefiningOp();
      bool isKnown = constants.contains(epilogue->other) || comesFromOutside(epilogue->other);
      if (definition && !definition->isBeforeInBlock(op) && !isKnown &&
          (choosesLayouts || !isReadyBefore(epilogue->other, op)))
        break;
      auto shape =
          shapeBeside(tensorType(epilogue->other).getShape(), tensorType(use->get()).getShape(), result.getShape());
      if (!shape)
        break;
      epilogue->otherShape = *shape;
      int64_t values = tensorType(epilogue->other).getNumElements();
      bool isFirst = llvm::all_of(epilogues, [](const Epilogue &before) { return before.kind.kind.empty(); });
      bool isChannels =
          call.biasDim >= 0 && values == result.getDimSize(call.biasDim) && (*shape)[call.biasDim] == values && isKnown;
      epilogue->isBias = isFirst && epilogue->kind.kind == "binary_add" && isChannels;
      // Sums of integers with their bias may be scaled by what is known when the plan is loaded.
      bool isBehindBias =
          llvm::all_of(epilogues, [](const Epilogue &before) { return before.isBias || before.kind.kind.empty(); });
      if (sumsIntegers && epilogue->kind.kind == "binary_mul" && isBehindBias && (isChannels || values == 1) &&
          constants.contains(epilogue->other)) {
        epilogue->kind.kind = "scale";
        epilogue->otherShape = {values};
      }
    }
    if (epilogue->kind.onlyAsBias && !epilogue->isBias)
      break;
    last = epilogue->op;
    epilogues.push_back(std::move(*epilogue));
  }
  // Routines add to sums of integers in float32, where large ones are rounded: as they are where the result is one.
  if (!epilogues.empty() && last != op && writes(last).isSignlessInteger(32))
    epilogues.clear();
  return epilogues;
}

} // namespace cleave
