// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns operators into launches of library kernels, with layouts and fused epilogues.
//
// One walk over all programs in the order of their data (a program stops at a receive until its send was walked), so
// that each value's layout is known when its readers are walked. Readers that are library routines take values as they
// lie, reordered if the library asks for it. Kernels of our own compute in any order of the dimensions, and take what
// lies permuted as it lies:
//
//   %1 = plan.view %0 : tensor<1x8x4x4xf32, #plan.layout<"acdb", ...>> -> tensor<1x4x4x8xf32>
//   %2 = dfg.transpose %1 {permutation = [0, 3, 1, 2]}     becomes a part of the kernel when it is fused
//   %3 = dfg.neg %2                                        and back by a transpose and a view
//
// All others take row-major copies.

#include "passes/codegen/DimensionOrder.h"
#include "passes/codegen/KernelPasses.h"
#include "passes/codegen/LayoutQuestions.h"
#include "passes/codegen/LayoutTypes.h"
#include "passes/codegen/LibraryEpilogues.h"
#include "passes/codegen/ReplacedValues.h"
#include "passes/codegen/SamplesInnermost.h"
#include "passes/codegen/SequentialReads.h"
#include "passes/codegen/WholeBlocks.h"

#include "dialects/dfg/Dfg.h"
#include "dialects/dist/Dist.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_SELECTLIBRARYKERNELSPASS
#include "passes/codegen/KernelPasses.h.inc"

namespace {

/// Walks one program; knows the layouts of its values.
class ProgramWalk {
public:
  /// `roundsProducts`: float32 may be rounded to TF32 where the device's library can.
  ProgramWalk(dist::ProgramOp program, KernelDevice device, LibraryKernels &kernels,
              const DenseSet<StringAttr> &rowMajorMeshes, DenseMap<int64_t, RankedTensorType> &sent,
              bool roundsProducts)
      : program(program), device(device), kernels(kernels), rowMajorMeshes(rowMajorMeshes), sent(sent),
        roundsProducts(roundsProducts && device.library->canRoundProducts()), next(program.getBody().front().begin()),
        values(kernels, device) {}

  /// Goes on until the program ends or waits for a send that was not walked yet. Returns whether anything was done.
  bool advance();
  bool isDone() { return next == program.getBody().front().end(); }

  /// Removes the operators that launches have replaced.
  void eraseReplaced() { values.erase(program.getBody().front()); }

private:
  void visit(Operation *op);
  bool select(Operation *op, LibraryCall &call);
  bool selectWidened(Operation *op);
  bool computePermuted(Operation *op);
  bool reshapePermuted(dfg::ReshapeOp op);
  /// Fails without a trace where the library has no code for it but plain loops.
  bool launch(Operation *op, const LibraryCall &call, ArrayRef<Epilogue> epilogues);

  dist::ProgramOp program;
  KernelDevice device;
  LibraryKernels &kernels;
  /// Those whose devices take nothing in a layout.
  const DenseSet<StringAttr> &rowMajorMeshes;
  DenseMap<int64_t, RankedTensorType> &sent;
  bool roundsProducts;
  Block::iterator next;
  ConstantValues constants;
  SequentialReads reads;
  ReplacedValues values;
};

bool ProgramWalk::advance() {
  bool progress = false;
  while (!isDone()) {
    Operation *op = &*next;
    if (auto receive = dyn_cast<dist::ReceiveOp>(op); receive && !receive.getTo()) {
      auto found = sent.find(receive.getChannel());
      if (found == sent.end())
        return progress;
      if (found->second != receive.getType()) {
        OpBuilder builder(op);
        auto laid = dist::ReceiveOp::create(builder, op->getLoc(), found->second, receive.getSourceAttr(),
                                            receive.getChannelAttr(), receive.getFromAttr(), receive.getToAttr(),
                                            receive.getFillAttr());
        values.setCurrent(receive.getResult(), laid);
        values.replace(op);
      }
    } else if (!values.isReplaced(op)) {
      visit(op);
    }
    ++next;
    progress = true;
  }
  return progress;
}

void ProgramWalk::visit(Operation *op) {
  // Before the library is asked, which has a kernel for each such operator by itself.
  if (computeOnBlocks(op, values) || reduceBlocks(op, values) || joinInOrder(op, values))
    return;
  if (auto library = dyn_cast<LibraryInterface>(op))
    if (auto call = library.getLibraryCall(); succeeded(call) && select(op, *call))
      return;
  // What is cut into pieces on its way is dense.
  if (auto send = dyn_cast<dist::SendOp>(op); send && !send.getFrom()) {
    OpBuilder builder(op);
    bool isRowMajor = rowMajorMeshes.contains(send.getTargetAttr().getAttr());
    send.getValueMutable().assign(isRowMajor ? values.denseOf(builder, send.getValue())
                                             : values.current(send.getValue()));
    sent[send.getChannel()] = tensorType(send.getValue());
    return;
  }
  if (computePermuted(op))
    return;
  OpBuilder builder(op);
  for (OpOperand &operand : op->getOpOperands())
    if (values.isLaidOut(operand.get()))
      operand.set(values.denseOf(builder, operand.get()));
}

/// Whether an operator sums products of float32, or of bfloat16 where `narrow` is set.
static bool sumsProducts(Operation *op, bool narrow) {
  auto cost = dyn_cast<CostInterface>(op);
  Type element = op->getNumOperands() ? tensorType(op->getOperand(0)).getElementType() : Type();
  return cost && cost.getCost().costClass == CostClass::Contraction && (narrow ? element.isBF16() : element.isF32());
}

/// Whether all operands have been bfloat16, whose 8 bits TF32 keeps: products of them are exact.
static bool isExactInTf32(Operation *op) {
  return llvm::all_of(op->getOperands(), [](Value operand) {
    auto cast = operand.getDefiningOp<dfg::CastOp>();
    return cast && tensorType(cast.getInput()).getElementType().isBF16();
  });
}

/// Sums of products of bfloat16 in float32, which the library may not have: cuDNN rounds its results to the type of the
/// operands. In float32 it has them, and TF32 loses nothing of what bfloat16 was.
bool ProgramWalk::selectWidened(Operation *op) {
  if (!device.library->canRoundProducts() || !sumsProducts(op, /*narrow=*/true) ||
      !tensorType(op->getResult(0)).getElementType().isF32())
    return false;
  OpBuilder builder(op);
  IRMapping mapping;
  for (Value operand : op->getOperands())
    if (!mapping.contains(operand))
      mapping.map(operand, dfg::CastOp::create(builder, op->getLoc(), operand, builder.getF32Type()));
  auto wide = cast<LibraryInterface>(builder.clone(*op, mapping));
  auto call = wide.getLibraryCall();
  if (failed(call)) {
    wide->erase();
    return false;
  }
  op->getResult(0).replaceAllUsesWith(wide->getResult(0));
  if (select(wide, *call)) {
    values.replace(op);
    return true;
  }
  wide->getResult(0).replaceAllUsesWith(op->getResult(0));
  wide->erase();
  return false;
}

bool ProgramWalk::select(Operation *op, LibraryCall &call) {
  if (device.library->choosesLayouts() && isBetterBySamples(op, call, values, device.lanes)) {
    computeBySamples(op, values);
    return true;
  }
  // The library has plain loops for samples side by side, where it takes operands as they lie.
  if (llvm::is_contained(call.operands, LayoutChoice::Given) &&
      (llvm::any_of(op->getOperands(), [&](Value operand) { return liesBySamples(operand, values); }) ||
       meetsSamples(op->getResult(0), values)))
    return false;
  // Elementwise kernels of our own compute as well in any order of the dimensions, and join others.
  auto needsLibrary = [&](Value value) {
    plan::LayoutAttr layout = plan::getLayout(values.current(value).getType());
    return layout && !(isa<ElementwiseInterface>(op) && permutationOf(tensorType(values.current(value))));
  };
  if (call.onlyOnBlocked && llvm::none_of(op->getOperands(), needsLibrary))
    return false;
  SmallVector<Epilogue> epilogues;
  if (call.takesEpilogues)
    epilogues = epiloguesBehind(op, call, constants, device);
  while (true) {
    if (launch(op, call, epilogues))
      return true;
    if (epilogues.empty())
      break;
    epilogues.pop_back();
    if (!epilogues.empty() && tensorType(epilogues.back().op->getResult(0)).getElementType().isSignlessInteger(32))
      epilogues.clear();
  }
  if (selectWidened(op))
    return true;
  // What it cannot do well with the operands as they lie, it may do row-major.
  if (call.onlyOnBlocked || !llvm::is_contained(call.operands, LayoutChoice::Given))
    return false;
  LibraryCall dense = call;
  llvm::replace(dense.operands, LayoutChoice::Given, LayoutChoice::Dense);
  return launch(op, dense, {});
}

/// `op`, which pads its operand, built on that in the order of dimensions `order`, in which the result lies, too: it
/// need not be brought in order before and back behind. `operand` is seen row-major.
static Value padInOrder(OpBuilder &builder, dfg::PadOp op, Value operand, Value padding, ArrayRef<int64_t> order) {
  auto along = [&](ArrayRef<int64_t> sizes) {
    return llvm::map_to_vector(order, [&](int64_t dim) { return sizes[dim]; });
  };
  Location loc = op.getLoc();
  Value lies = builder.createOrFold<dfg::TransposeOp>(loc, permuted(tensorType(operand), order), operand,
                                                      builder.getDenseI64ArrayAttr(order));
  Value padded = dfg::PadOp::create(builder, loc, lies, padding, along(op.getLow()), along(op.getHigh()));
  return dfg::TransposeOp::create(builder, loc, padded, invertPermutationVector(order));
}

/// Whether somebody takes a value as it lies: kernels of our own do, while collectives, the program's results and what
/// is cut into pieces on its way are row-major.
static bool isTakenAsItLies(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) {
    auto send = dyn_cast<dist::SendOp>(user);
    return isa<LowerInterface>(user) || (send && !send.getFrom());
  });
}

/// The same elements where they lie, under another shape, where the order of dimensions allows it.
bool ProgramWalk::reshapePermuted(dfg::ReshapeOp op) {
  Value input = op.getInput();
  auto order = permutationOf(tensorType(values.current(input)));
  auto behind =
      order ? orderBehindReshape(tensorType(input).getShape(), op.getType().getShape(), *order) : std::nullopt;
  if (!behind || !isTakenAsItLies(op.getResult()))
    return false;
  OpBuilder builder(op);
  Location loc = op.getLoc();
  Value lies = builder.createOrFold<dfg::TransposeOp>(loc, permuted(tensorType(input), *order),
                                                      values.seenRowMajor(builder, input, *order, *behind),
                                                      builder.getDenseI64ArrayAttr(*order));
  Value seen = builder.createOrFold<dfg::ReshapeOp>(loc, permuted(op.getType(), *behind), lies);
  Value made = dfg::TransposeOp::create(builder, loc, seen, invertPermutationVector(*behind));
  values.replace(op);
  values.lay(op, made, *behind);
  return true;
}

/// A kernel of our own on operands that lie permuted; its result lies as the largest of them.
bool ProgramWalk::computePermuted(Operation *op) {
  if (!isa<LowerInterface>(op) || op->getNumResults() != 1)
    return false;
  if (auto reshape = dyn_cast<dfg::ReshapeOp>(op); reshape && reshapePermuted(reshape))
    return true;
  RankedTensorType result = tensorType(op->getResult(0));
  std::optional<SmallVector<int64_t>> resultOrder;
  SmallVector<std::optional<SmallVector<int64_t>>> orders;
  int64_t largest = 0;
  for (Value operand : op->getOperands()) {
    RankedTensorType type = tensorType(operand);
    auto order = orders.emplace_back(permutationOf(tensorType(values.current(operand))));
    if (type.getRank() != result.getRank() || type.getNumElements() < largest)
      continue;
    if (type.getNumElements() > largest || !resultOrder)
      resultOrder = order;
    largest = type.getNumElements();
  }
  if (!isTakenAsItLies(op->getResult(0)))
    resultOrder = std::nullopt;
  // What has no order yet takes that of the value that it meets next.
  if (!resultOrder && largest < result.getNumElements())
    if (auto layout = values.layoutOfCompany(op->getResult(0)))
      resultOrder = permutationOf(RankedTensorType::get(result.getShape(), result.getElementType(), layout));
  if (!resultOrder && llvm::none_of(orders, [](const auto &order) { return order.has_value(); }))
    return false;
  OpBuilder builder(op);
  IRMapping mapping;
  for (auto [operand, order] : llvm::zip(op->getOperands(), orders))
    mapping.map(operand,
                order ? values.seenRowMajor(builder, operand, *order, resultOrder) : values.denseOf(builder, operand));
  auto pad = dyn_cast<dfg::PadOp>(op);
  Value made = pad && resultOrder ? padInOrder(builder, pad, mapping.lookup(pad.getInput()),
                                               mapping.lookup(pad.getValue()), *resultOrder)
                                  : builder.clone(*op, mapping)->getResult(0);
  Value old = op->getResult(0);
  values.replace(op);
  if (!resultOrder) {
    old.replaceAllUsesWith(made);
    return true;
  }
  values.lay(op, made, *resultOrder);
  return true;
}

/// From how many cells of a recurrent layer on their weights are packed once a step: the library packs a matrix that
/// does not lie well for each product, which for few rows takes as long as the product. Packed once, it takes as long
/// as a few times of that, and memory.
constexpr unsigned manyCells = 16;

bool ProgramWalk::launch(Operation *op, const LibraryCall &call, ArrayRef<Epilogue> epilogues) {
  Operation *last = epilogues.empty() ? op : epilogues.back().op;
  OpBuilder builder(last);
  runtime::LibraryKernelQuery query;
  query.desc.operation = call.routine;
  for (NamedAttribute parameter : call.parameters) {
    std::string name = parameter.getName().str();
    if (auto ints = dyn_cast<DenseI64ArrayAttr>(parameter.getValue()))
      query.desc.ints[name] = ints.asArrayRef().vec();
    else
      query.desc.reals[name] = {cast<FloatAttr>(parameter.getValue()).getValueAsDouble()};
  }
  if (sumsProducts(op, /*narrow=*/false) &&
      (roundsProducts || (device.library->canRoundProducts() && isExactInTf32(op))))
    query.desc.ints["tf32"] = {1};

  // What each argument is now; the views of weights are made when the kernel is known.
  SmallVector<Value> arguments;
  auto addArgument = [&](Value value, RankedTensorType type, LayoutChoice choice) {
    arguments.push_back(value);
    query.desc.inputs.push_back(toRuntimeType(type));
    query.anyInputs.push_back(choice == LayoutChoice::Any);
    query.constantInputs.push_back(constants.contains(value));
    query.sharesConstants |= query.constantInputs.back() && (device.sharesWeights || !value.hasOneUse());
  };
  RankedTensorType firstBlocked;
  for (auto [index, value] : llvm::enumerate(op->getOperands())) {
    RankedTensorType type = tensorType(values.current(value));
    LayoutChoice choice = call.operands[index];
    if (choice != LayoutChoice::Given)
      type = plan::withoutLayout(type);
    if (call.views[index])
      type = call.views[index];
    if (call.routine == "matmul" && call.views[index])
      type = transposedInMemory(type);
    // A constant is brought once into whatever layout the library likes best, and what many cells read once a step.
    if (choice == LayoutChoice::Dense && call.routine == "matmul" &&
        (constants.contains(value) || reads.areMany(op->getOpOperand(index), manyCells)))
      choice = LayoutChoice::Any;
    if (choice == LayoutChoice::Given && plan::getLayout(type) && !firstBlocked)
      firstBlocked = type;
    addArgument(value, type, choice);
  }
  // Routines of several given operands want them alike.
  if (firstBlocked && op->getNumOperands() > 1 &&
      llvm::all_of(call.operands, [](LayoutChoice choice) { return choice == LayoutChoice::Given; })) {
    for (runtime::TensorType &type : query.desc.inputs)
      type.layout = sameKindOfLayout(plan::getLayout(firstBlocked), type.shape);
    if (!query.desc.inputs.front().layout)
      return false;
  }

  // The bias is an argument of the routine, so it comes before those of the other epilogues.
  for (const Epilogue &epilogue : epilogues)
    if (epilogue.isBias)
      addArgument(epilogue.other,
                  RankedTensorType::get(tensorType(epilogue.other).getNumElements(),
                                        tensorType(epilogue.other).getElementType()),
                  LayoutChoice::Dense);
  RankedTensorType result = tensorType(op->getResult(0));
  if (!epilogues.empty())
    result = result.clone(tensorType(last->getResult(0)).getElementType());
  for (auto [index, epilogue] : llvm::enumerate(epilogues)) {
    if (epilogue.isBias || epilogue.kind.kind.empty())
      continue;
    // Where it writes integers the routine rounds by itself.
    if (epilogue.kind.kind == "round" && index + 2 == epilogues.size() && epilogues.back().kind.kind.empty())
      continue;
    int argument = -1;
    if (epilogue.other) {
      argument = arguments.size();
      bool whole = ArrayRef<int64_t>(epilogue.otherShape) == result.getShape();
      addArgument(epilogue.other,
                  RankedTensorType::get(epilogue.otherShape, tensorType(epilogue.other).getElementType()),
                  whole && call.result == LayoutChoice::Any ? LayoutChoice::Any : LayoutChoice::Dense);
    }
    query.desc.postOps.push_back({epilogue.kind.kind, static_cast<float>(epilogue.kind.alpha),
                                  static_cast<float>(epilogue.kind.beta), argument});
  }
  query.desc.outputs.push_back(toRuntimeType(result));
  query.anyOutputs.push_back(call.result == LayoutChoice::Any);

  FailureOr<LibraryKernel> kernel = askForKernel(kernels, device, values, query, arguments, op->getResult(0));
  if (failed(kernel))
    return false;
  // Its plain loops are no better than ours, except where ours are plain loops too: in contractions.
  if (!call.takesEpilogues && call.biasDim < 0 && kernel->quality == runtime::KernelQuality::Plain)
    return false;

  SmallVector<Value> operands;
  for (auto [index, value] : llvm::enumerate(arguments)) {
    RankedTensorType asked = fromRuntimeType(op->getContext(), query.desc.inputs[index]);
    RankedTensorType wanted = kernel->inputs[index];
    Value argument = value;
    if (auto packing = kernel->packings.find(index); packing != kernel->packings.end())
      operands.push_back(values.packed(builder, value, packing->second, wanted));
    else if (asked.getShape() != tensorType(value).getShape() || (call.routine == "matmul" && plan::getLayout(asked))) {
      // Seen under another shape: from row-major bytes.
      argument = values.denseOf(builder, value);
      if (argument.getType() != asked)
        argument = plan::ViewOp::create(builder, value.getLoc(), asked, argument);
      operands.push_back(argument.getType() == wanted ? argument : values.reorder(builder, argument, wanted));
    } else {
      operands.push_back(values.inLayout(builder, value, wanted));
    }
  }
  SmallVector<Location> locations = {op->getLoc()};
  for (const Epilogue &epilogue : epilogues)
    locations.push_back(epilogue.op->getLoc());
  auto launch = plan::LaunchOp::create(builder, builder.getFusedLoc(locations), kernel->getOutputTypes(),
                                       kernel->symbol, operands);
  Value old = last->getResult(0), made = launch.getResult(0);
  for (Operation *gone = op;;) {
    values.replace(gone);
    if (gone == last)
      break;
    gone = *gone->getResult(0).getUsers().begin();
  }
  if (tensorType(made).getShape() != tensorType(old).getShape()) {
    // Another shape is that of the row-major elements.
    if (RankedTensorType dense = plan::withoutLayout(tensorType(made)); dense != made.getType())
      made = values.reorder(builder, made, dense);
    made = dfg::ReshapeOp::create(builder, launch.getLoc(), tensorType(old), made);
  }
  if (made.getType() == old.getType())
    old.replaceAllUsesWith(made);
  else
    values.setCurrent(old, made);
  return true;
}

class SelectLibraryKernels : public impl::SelectLibraryKernelsPassBase<SelectLibraryKernels> {
  using SelectLibraryKernelsPassBase::SelectLibraryKernelsPassBase;

  void runOnOperation() override {
    LibraryKernels kernels(getOperation());
    DenseMap<int64_t, RankedTensorType> sent;
    DenseSet<StringAttr> rowMajorMeshes;
    for (auto program : getOperation().getOps<dist::ProgramOp>())
      if (!kernelDeviceOf(program).library->choosesLayouts())
        rowMajorMeshes.insert(program.getMeshAttr().getAttr());
    DenseMap<StringAttr, unsigned> numPrograms;
    for (auto program : getOperation().getOps<dist::ProgramOp>())
      ++numPrograms[program.getMeshAttr().getAttr()];
    std::vector<ProgramWalk> walks;
    for (auto program : getOperation().getOps<dist::ProgramOp>()) {
      KernelDevice device = kernelDeviceOf(program);
      device.mayTransform = winograd;
      device.sharesWeights = numPrograms[program.getMeshAttr().getAttr()] > 1;
      walks.emplace_back(program, device, kernels, rowMajorMeshes, sent, tf32);
    }
    for (bool progress = true; progress;) {
      progress = false;
      for (ProgramWalk &walk : walks)
        progress |= walk.advance();
    }
    for (ProgramWalk &walk : walks) {
      if (!walk.isDone()) {
        getOperation().emitError("programs expect every receive to follow from its send, got a cycle");
        return signalPassFailure();
      }
      walk.eraseReplaced();
    }
  }
};

} // namespace
} // namespace cleave
