// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reorders and packs values when their readers need it, once for each layout and format.

#include "passes/codegen/ReplacedValues.h"

#include "passes/codegen/DimensionOrder.h"
#include "passes/codegen/KernelFusion.h"
#include "passes/codegen/LayoutTypes.h"

#include "runtime/MemoryLayout.h"

#include "dialects/dfg/Dfg.h"
#include "dialects/interfaces/Interfaces.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace cleave {

Value ReplacedValues::denseOf(OpBuilder &builder, Value value) {
  return inLayout(builder, value, plan::withoutLayout(tensorType(value)));
}

Value ReplacedValues::inLayout(OpBuilder &builder, Value value, RankedTensorType wanted) {
  Value from = current(value);
  if (from.getType() == wanted)
    return from;
  Value &made = reordered[{value, wanted}];
  if (made)
    return made;
  // Right behind the value, so that the copy comes before all readers.
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointAfterValue(from);
  return made = reorder(builder, from, wanted);
}

Value ReplacedValues::packed(OpBuilder &builder, Value value, FlatSymbolRefAttr packing, RankedTensorType wanted) {
  Value &made = packedBy[{value, packing}];
  if (made)
    return made;
  Value from = denseOf(builder, value);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointAfterValue(from);
  return made = plan::LaunchOp::create(builder, from.getLoc(), TypeRange(wanted), packing, from).getResult(0);
}

Value ReplacedValues::reorder(OpBuilder &builder, Value from, RankedTensorType wanted) {
  runtime::LibraryKernelQuery query;
  query.desc.operation = "reorder";
  query.desc.inputs.push_back(toRuntimeType(tensorType(from)));
  query.desc.outputs.push_back(toRuntimeType(wanted));
  // Layouts that differ in dimensions of size 1 alone place every element alike.
  if (!runtime::needsReorder(query.desc.inputs[0], query.desc.outputs[0]))
    return plan::ViewOp::create(builder, from.getLoc(), wanted, from);
  FailureOr<LibraryKernel> kernel = kernels.get(query, device);
  if (failed(kernel))
    llvm::report_fatal_error("the library cannot reorder between layouts that it chose");
  return plan::LaunchOp::create(builder, from.getLoc(), TypeRange(wanted), kernel->symbol, from).getResult(0);
}

/// Whether a sum of products comes with the operator into a kernel: the operator itself, or what elementwise operators
/// are computed from in it.
static bool bringsSum(Operation *op) {
  if (!isa<ElementwiseInterface>(op))
    return isSum(op);
  return llvm::any_of(op->getOperands(), [](Value operand) {
    Operation *producer = operand.getDefiningOp();
    return producer && bringsSum(producer);
  });
}

Value ReplacedValues::seenRowMajor(OpBuilder &builder, Value value, ArrayRef<int64_t> order,
                                   const std::optional<SmallVector<int64_t>> &readerOrder) {
  RankedTensorType type = tensorType(value), lies = permuted(type, order);
  // What nobody else reads need not lie in memory between two kernels of our own, which may become one.
  if (auto view = current(value).getDefiningOp<plan::ViewOp>(); view && view->use_empty() && value.hasOneUse())
    // The view stays until dead operators are removed: tables of this walk go by values.
    if (auto transpose = view.getInput().getDefiningOp<dfg::TransposeOp>();
        transpose && transpose.getPermutation() == order)
      if (Operation *producer = transpose.getInput().getDefiningOp();
          producer && mayJoin(producer, *value.use_begin()) &&
          ((readerOrder && ArrayRef(*readerOrder) == order) || !bringsSum(producer)))
        return transpose.getInput();
  Value seen = plan::ViewOp::create(builder, value.getLoc(), lies, current(value));
  return dfg::TransposeOp::create(builder, value.getLoc(), plan::withoutLayout(type), seen,
                                  builder.getDenseI64ArrayAttr(invertPermutationVector(order)));
}

void ReplacedValues::lay(Operation *op, Value made, ArrayRef<int64_t> order) {
  OpBuilder builder(op);
  RankedTensorType result = tensorType(op->getResult(0));
  made = builder.createOrFold<dfg::TransposeOp>(op->getLoc(), permuted(result, order), made,
                                                builder.getDenseI64ArrayAttr(order));
  laidOut[op->getResult(0)] = plan::ViewOp::create(builder, op->getLoc(), laidType(result, order), made);
}

plan::LayoutAttr ReplacedValues::layoutOfCompany(Value value) const {
  for (Operation *user : value.getUsers()) {
    if (!isa<ElementwiseInterface>(user))
      continue;
    for (Value operand : user->getOperands())
      if (operand != value)
        if (auto layout = expectedLayout(operand, tensorType(value).getShape()))
          return layout;
  }
  return nullptr;
}

/// The layout of a value of that shape, or, while it has none, that of what it is computed from elementwise.
plan::LayoutAttr ReplacedValues::expectedLayout(Value value, ArrayRef<int64_t> shape) const {
  if (tensorType(value).getShape() != shape)
    return nullptr;
  if (auto layout = plan::getLayout(current(value).getType()))
    return layout;
  Operation *op = value.getDefiningOp();
  if (!isa_and_nonnull<ElementwiseInterface>(op) || replaced.contains(op))
    return nullptr;
  for (Value operand : op->getOperands())
    if (auto layout = expectedLayout(operand, shape))
      return layout;
  return nullptr;
}

void ReplacedValues::erase(Block &program) {
  // Readers come after what they read: last first. With them goes what was made for nobody in the end.
  for (Operation *op = program.getTerminator(); op;) {
    Operation *before = op->getPrevNode();
    if (replaced.contains(op) || isOpTriviallyDead(op))
      op->erase();
    op = before;
  }
}

} // namespace cleave
