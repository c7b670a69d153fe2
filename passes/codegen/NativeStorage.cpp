// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Assigns memory to the tensors of a kernel, from its results backwards.

#include "passes/codegen/NativeStorage.h"

#include "dialects/dfg/LowerGenerics.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace cleave {

SmallVector<int64_t, 4> rowMajorStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t, 4> strides(shape.size(), 1);
  for (size_t i = shape.size(); i > 1; --i)
    strides[i - 2] = strides[i - 1] * shape[i - 1];
  return strides;
}

int64_t elementBytes(Type element) { return llvm::divideCeil(element.getIntOrFloatBitWidth(), 8); }

static bool isReshape(Operation *op) { return isa_and_nonnull<tensor::CollapseShapeOp, tensor::ExpandShapeOp>(op); }
static bool isAlias(Operation *op) { return isReshape(op) || isa_and_nonnull<tensor::ExtractSliceOp>(op); }

/// The tensor whose elements `value` shows under another shape.
static Value rootOf(Value value) {
  while (isReshape(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

/// Whether an operation of the block computes the value's elements, so that it may do so anywhere.
static bool isComputed(Value value) {
  return isa_and_nonnull<linalg::LinalgOp, tensor::InsertSliceOp>(value.getDefiningOp());
}

//===-- copies ------------------------------------------------------------------------------------------------===//

static Value copyBefore(Operation *op, Value value) {
  OpBuilder builder(op);
  dfg::LinalgBuilder lower(builder, op->getLoc());
  auto type = cast<RankedTensorType>(value.getType());
  return lower.map(type.getShape(), type.getElementType(), value, lower.identity(type.getRank()),
                   [](const dfg::ElementBuilder &, ValueRange elements) { return elements[0]; });
}

/// Whether `op` may write its result over its operand: the operand's memory is the kernel's own, and `op` is the last
/// that reads it.
static bool mayOverwrite(Operation *op, Value operand) {
  if (operand.getDefiningOp<tensor::EmptyOp>())
    return true;
  if (!isComputed(operand) || llvm::count(op->getOperands(), operand) > 1)
    return false;
  return llvm::all_of(operand.getUsers(), [&](Operation *user) {
    Operation *place = op->getBlock()->findAncestorOpInBlock(*user);
    return user == op || (!isAlias(user) && place != op && place->isBeforeInBlock(op));
  });
}

/// The operations that write the memory of a result of a linalg operation, from it backwards.
static SmallVector<Operation *> writersOf(Value value) {
  SmallVector<Operation *> writers;
  while (auto op = value.getDefiningOp<linalg::LinalgOp>()) {
    writers.push_back(op);
    value = op.getDpsInitOperand(cast<OpResult>(value).getResultNumber())->get();
  }
  return writers;
}

/// Whether the source may be computed in the slice: nothing else reads it, and nothing writes the slice after it.
static bool mayComputeInSlice(tensor::InsertSliceOp insert) {
  if (!insert.getSource().hasOneUse() || !insert.getSource().getDefiningOp<linalg::LinalgOp>())
    return false;
  Value target = insert.getDest();
  while (auto below = target.getDefiningOp<tensor::InsertSliceOp>())
    target = below.getDest();
  Operation *fill = target.getDefiningOp();
  if (isa_and_nonnull<tensor::EmptyOp>(fill))
    return true;
  return fill &&
         llvm::all_of(writersOf(insert.getSource()), [&](Operation *writer) { return fill->isBeforeInBlock(writer); });
}

static void insertCopies(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op)) {
      for (OpOperand &init : linalgOp.getDpsInitsMutable())
        if (linalgOp.payloadUsesValueFromOperand(&init) && !mayOverwrite(&op, init.get()))
          init.set(copyBefore(&op, init.get()));
    } else if (auto insert = dyn_cast<tensor::InsertSliceOp>(op)) {
      if (!mayOverwrite(&op, insert.getDest()))
        insert.getDestMutable().set(copyBefore(&op, insert.getDest()));
      if (!mayComputeInSlice(insert))
        insert.getSourceMutable().set(copyBefore(&op, insert.getSource()));
    } else if (isReshape(&op) && rootOf(op.getOperand(0)).getDefiningOp<tensor::ExtractSliceOp>()) {
      // A slice is not dense: its elements under another shape are not one stride apart.
      op.setOperand(0, copyBefore(&op, op.getOperand(0)));
    }
  }
  llvm::SmallPtrSet<Value, 4> taken;
  Operation *end = block.getTerminator();
  for (OpOperand &result : end->getOpOperands()) {
    Value root = rootOf(result.get());
    if (!isComputed(root) || !taken.insert(root).second)
      result.set(copyBefore(end, result.get()));
  }
}

//===-- assignment --------------------------------------------------------------------------------------------===//

static int64_t elementsOf(Value tensor) { return tensorType(tensor).getNumElements(); }
static View denseView(unsigned buffer, Value tensor) {
  return {buffer, 0, rowMajorStrides(cast<RankedTensorType>(tensor.getType()).getShape())};
}

Storage::Storage(Block &block) {
  insertCopies(block);
  for (BlockArgument argument : block.getArguments()) {
    views[argument] = denseView(buffers.size(), argument);
    buffers.push_back({Buffer::Input, elementOf(argument), elementsOf(argument), argument.getArgNumber(), {}});
  }
  for (auto [index, result] : llvm::enumerate(block.getTerminator()->getOperands())) {
    buffers.push_back({Buffer::Output, elementOf(result), elementsOf(result), static_cast<unsigned>(index), {}});
    for (Value value = result;; value = value.getDefiningOp()->getOperand(0)) {
      assign(value, denseView(buffers.size() - 1, value));
      if (!isReshape(value.getDefiningOp()))
        break;
    }
  }
  for (Operation &op : llvm::reverse(block.without_terminator()))
    assignOperands(op);
  for (Operation &op : block.without_terminator())
    derive(op);
}

void Storage::assign(Value tensor, View view) {
  if (!tensor.getDefiningOp<tensor::EmptyOp>())
    views.try_emplace(tensor, std::move(view));
}

/// Gives the operation's results memory of their own where none is assigned, and hands it on to the operands that it
/// overwrites.
void Storage::assignOperands(Operation &op) {
  if (!isa<linalg::LinalgOp, tensor::InsertSliceOp>(op))
    return;
  for (OpResult result : op.getResults()) {
    if (!views.count(result)) {
      views[result] = denseView(buffers.size(), result);
      buffers.push_back({Buffer::Temporary, elementOf(result), elementsOf(result), 0, {}});
    }
    View view = views[result];
    if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op)) {
      OpOperand *init = linalgOp.getDpsInitOperand(result.getResultNumber());
      if (linalgOp.payloadUsesValueFromOperand(init))
        assign(init->get(), view);
      continue;
    }
    auto insert = cast<tensor::InsertSliceOp>(op);
    buffers[view.buffer].plain = false;
    assign(insert.getDest(), view);
    View slice = view;
    for (auto [offset, stride] : llvm::zip(insert.getStaticOffsets(), view.strides))
      slice.offset += offset * stride;
    assign(insert.getSource(), slice);
  }
}

/// Constants, and tensors that are shown under another shape.
void Storage::derive(Operation &op) {
  if (isReshape(&op)) {
    auto source = views.find(op.getOperand(0));
    if (source == views.end())
      return;
    unsigned buffer = source->second.buffer;
    buffers[buffer].plain = false;
    views.try_emplace(op.getResult(0), denseView(buffer, op.getResult(0)));
  } else if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op)) {
    auto source = views.find(slice.getSource());
    if (source == views.end())
      return;
    View view = source->second;
    buffers[view.buffer].plain = false;
    for (auto [stride, offset, step] : llvm::zip(view.strides, slice.getStaticOffsets(), slice.getStaticStrides())) {
      view.offset += offset * stride;
      stride *= step;
    }
    views.try_emplace(slice, view);
  } else if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    auto value = dyn_cast<DenseElementsAttr>(constant.getValue());
    if (!value)
      return;
    View view = denseView(buffers.size(), constant);
    if (value.isSplat())
      llvm::fill(view.strides, 0);
    views[constant] = view;
    buffers.push_back({Buffer::Constant, elementOf(constant), value.isSplat() ? 1 : elementsOf(constant), 0, value});
  }
}

const View *Storage::find(Value tensor) const {
  auto found = views.find(tensor);
  return found == views.end() ? nullptr : &found->second;
}

const Buffer *Storage::findBuffer(Value tensor) const {
  const View *view = find(tensor);
  return view ? &buffers[view->buffer] : nullptr;
}

void Storage::putOnStack(unsigned buffer, ArrayRef<int64_t> extents) {
  SmallVector<int64_t, 4> strides(extents.size(), 0);
  int64_t size = 1;
  for (size_t i = extents.size(); i-- > 0;)
    if (extents[i] > 0) {
      strides[i] = size;
      size *= extents[i];
    }
  buffers[buffer].size = size;
  buffers[buffer].extents.assign(extents.begin(), extents.end());
  for (auto &[tensor, view] : views)
    if (view.buffer == buffer)
      view.strides = strides;
}

} // namespace cleave
