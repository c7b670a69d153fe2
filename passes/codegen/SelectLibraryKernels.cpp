// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns operators into launches of library kernels, with layouts and fused epilogues.
//
// One walk over all programs in the order of their data (a program stops at a receive until its send was walked), so
// that each value's layout is known when its readers are walked:
//
//   value       in the IR                      kept beside it
//   %0          result of the old operator     laidOut[%0]: the launch's result, in the layout that the library chose
//                                              dense[%0]: its row-major copy, made when first needed
//
// Readers that are library routines take laidOut (reordered if the library asks for it). Kernels of our own compute in
// any order of the dimensions, and take what lies permuted as it lies:
//
//   %1 = plan.view %0 : tensor<1x8x4x4xf32, #plan.layout<"acdb", ...>> -> tensor<1x4x4x8xf32>
//   %2 = dfg.transpose %1 {permutation = [0, 3, 1, 2]}     becomes a part of the kernel when it is fused
//   %3 = dfg.neg %2                                        and back by a transpose and a view
//
// All others take dense.
//
// Convolutions of few channels are an exception: the library computes channels side by side, and of 20 channels in
// vectors of 16 it computes 32. A kernel of our own computes samples side by side, if there are enough of them, on
// values that lie with the samples innermost.

#include "passes/codegen/ConstantValues.h"
#include "passes/codegen/KernelFusion.h"
#include "passes/codegen/KernelPasses.h"
#include "passes/codegen/LayoutTypes.h"
#include "passes/codegen/LibraryKernels.h"

#include "dialects/dist/Accumulation.h"

#include "runtime/drivers/cpu/OneDnnLayout.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <numeric>

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_SELECTLIBRARYKERNELSPASS
#include "passes/codegen/KernelPasses.h.inc"

namespace {

RankedTensorType tensorType(Value value) { return cast<RankedTensorType>(value.getType()); }

/// The layout of a tensor of `shape` that is like `layout`: the same dimension cut into blocks of the same size, or the
/// same order of dimensions; none where it is more complicated.
std::optional<runtime::Layout> sameKindOfLayout(plan::LayoutAttr layout, const std::vector<int64_t> &shape) {
  if (layout.getBlocks().size() == 1)
    return runtime::blockedLayout(shape, layout.getDims()[0], layout.getBlocks()[0]);
  if (!layout.getBlocks().empty() || layout.getStrides().size() != shape.size())
    return std::nullopt;
  std::vector<unsigned> order(shape.size());
  std::iota(order.begin(), order.end(), 0u);
  llvm::stable_sort(order, [&](unsigned a, unsigned b) { return layout.getStrides()[a] > layout.getStrides()[b]; });
  return runtime::permutedLayout(shape, order);
}

/// The dimensions as they lie in memory, the outermost first; none for a tensor that lies row-major or in blocks.
std::optional<SmallVector<int64_t>> permutationOf(RankedTensorType type) {
  plan::LayoutAttr layout = plan::getLayout(type);
  if (!layout || !layout.getBlocks().empty() || layout.getPadded() != type.getShape())
    return std::nullopt;
  SmallVector<int64_t> order(type.getRank());
  std::iota(order.begin(), order.end(), int64_t(0));
  llvm::stable_sort(order, [&](int64_t a, int64_t b) { return layout.getStrides()[a] > layout.getStrides()[b]; });
  int64_t stride = 1;
  for (int64_t dim : llvm::reverse(order)) {
    if (type.getDimSize(dim) != 1 && layout.getStrides()[dim] != stride)
      return std::nullopt;
    stride *= type.getDimSize(dim);
  }
  return order;
}

/// The library's fallbacks: plain loops, and convolution by way of a matrix product.
bool isFallback(StringRef implementation) {
  return implementation.starts_with("ref") || implementation.starts_with("gemm") || implementation.contains(":gemm");
}

/// The row-major type whose dimension `i` is dimension order[i] of `type`.
RankedTensorType permuted(RankedTensorType type, ArrayRef<int64_t> order) {
  SmallVector<int64_t> shape;
  for (int64_t dim : order)
    shape.push_back(type.getDimSize(dim));
  return RankedTensorType::get(shape, type.getElementType());
}

/// The value of a parameter, which steps may write, perhaps under another shape.
bool isParameter(Value value) {
  while (auto reshape = value.getDefiningOp<dfg::ReshapeOp>())
    value = reshape.getInput();
  return isa_and_nonnull<dfg::ReadOp, dist::ShardOfOp>(value.getDefiningOp());
}

/// An operator that joins a library call behind its routine.
struct Epilogue {
  Operation *op;
  LibraryEpilogue kind;
  /// The value besides the chained one, or null.
  Value other;
  /// It is one value a channel, and the routine adds it by itself.
  bool isBias = false;
};

/// Walks one program; knows the layouts of its values.
class ProgramWalk {
public:
  ProgramWalk(dist::ProgramOp program, unsigned threads, LibraryKernels &kernels,
              DenseMap<int64_t, RankedTensorType> &sent)
      : program(program), threads(threads), kernels(kernels), sent(sent), next(program.getBody().front().begin()) {}

  /// Goes on until the program ends or waits for a send that was not walked yet. Returns whether anything was done.
  bool advance();
  bool isDone() { return next == program.getBody().front().end(); }

  /// Removes the operators that launches have replaced.
  void eraseReplaced();

private:
  void visit(Operation *op);
  bool select(Operation *op, LibraryCall &call);
  bool computePermuted(Operation *op);
  bool isBetterBySamples(Operation *op, const LibraryCall &call);
  void computeBySamples(Operation *op);
  bool liesBySamples(Value value);
  void lay(Operation *op, Value made, ArrayRef<int64_t> order);
  plan::LayoutAttr layoutOfCompany(Value value);
  bool meetsSamples(Value value);
  plan::LayoutAttr expectedLayout(Value value, ArrayRef<int64_t> shape);
  Value seenRowMajor(OpBuilder &builder, Value value, ArrayRef<int64_t> order);
  SmallVector<Epilogue> epiloguesBehind(Operation *op, const LibraryCall &call);
  /// Fails without a trace where the library has no code for it but plain loops.
  bool launch(Operation *op, const LibraryCall &call, ArrayRef<Epilogue> epilogues);

  FailureOr<LibraryKernel> likeCompany(runtime::LibraryKernelQuery &query, ArrayRef<Value> arguments, Value result);
  FailureOr<LibraryKernel> keepingLayouts(runtime::LibraryKernelQuery &query, ArrayRef<Value> arguments);

  /// The value as it lies in memory now.
  Value current(Value value) { return laidOut.lookup_or(value, value); }
  Value denseOf(OpBuilder &builder, Value value);
  /// The value's bytes in the layout of `wanted`.
  Value inLayout(OpBuilder &builder, Value value, RankedTensorType wanted);
  Value reorder(OpBuilder &builder, Value from, RankedTensorType wanted);

  dist::ProgramOp program;
  unsigned threads;
  LibraryKernels &kernels;
  DenseMap<int64_t, RankedTensorType> &sent;
  Block::iterator next;
  ConstantValues constants;
  DenseMap<Value, Value> laidOut;
  DenseMap<std::pair<Value, Type>, Value> reordered;
  DenseSet<Operation *> replaced;
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
        laidOut[receive.getResult()] = laid;
        replaced.insert(op);
      }
    } else if (!replaced.contains(op)) {
      visit(op);
    }
    ++next;
    progress = true;
  }
  return progress;
}

void ProgramWalk::visit(Operation *op) {
  if (auto library = dyn_cast<LibraryInterface>(op))
    if (auto call = library.getLibraryCall(); succeeded(call) && select(op, *call))
      return;
  // What is cut into pieces on its way is dense.
  if (auto send = dyn_cast<dist::SendOp>(op); send && !send.getFrom()) {
    send.getValueMutable().assign(current(send.getValue()));
    sent[send.getChannel()] = tensorType(send.getValue());
    return;
  }
  if (computePermuted(op))
    return;
  OpBuilder builder(op);
  for (OpOperand &operand : op->getOpOperands())
    if (laidOut.contains(operand.get()))
      operand.set(denseOf(builder, operand.get()));
}

/// The order of dimensions in which the first lies innermost.
static SmallVector<int64_t> samplesInnermost(int64_t rank) {
  auto order = llvm::to_vector(llvm::seq<int64_t>(1, rank));
  order.push_back(0);
  return order;
}

/// The type of a value that lies in that order of its dimensions.
static RankedTensorType laidType(RankedTensorType type, ArrayRef<int64_t> order) {
  std::vector<unsigned> dims(order.begin(), order.end());
  runtime::TensorType laid = toRuntimeType(plan::withoutLayout(type));
  laid.layout = runtime::permutedLayout(laid.shape, dims);
  return fromRuntimeType(type.getContext(), laid);
}

bool ProgramWalk::liesBySamples(Value value) {
  RankedTensorType type = tensorType(current(value));
  auto order = type.getRank() > 2 ? permutationOf(type) : std::nullopt;
  return order && ArrayRef(*order) == ArrayRef(samplesInnermost(type.getRank()));
}

/// Which of an operator's tensors have the samples, those of the first operand's dimension 0, as their dimension 0.
struct Samples {
  explicit Samples(Operation *op) {
    SplitRule rule = cast<SplitInterface>(op).getSplitRule();
    const DimFactors &samples = rule.operands[0][0];
    for (const TensorFactors &dims : rule.operands)
      operands.push_back(!dims.empty() && dims[0] == samples);
    result = !rule.results[0].empty() && rule.results[0][0] == samples;
  }
  SmallVector<bool, 3> operands;
  bool result;
};

/// A product over windows, of all channels and without padding: what our own kernels tile in registers.
static bool hasPlainWindows(Operation *op, const LibraryCall &call) {
  auto cost = dyn_cast<CostInterface>(op);
  auto groups = call.parameters.getAs<DenseI64ArrayAttr>("groups");
  auto before = call.parameters.getAs<DenseI64ArrayAttr>("pads_begin");
  auto after = call.parameters.getAs<DenseI64ArrayAttr>("pads_end");
  if (!cost || cost.getCost().costClass != CostClass::Contraction || !groups || !before || !after || groups[0] != 1)
    return false;
  return llvm::all_of(llvm::concat<const int64_t>(before.asArrayRef(), after.asArrayRef()),
                      [](int64_t pad) { return pad == 0; });
}

/// Whether an operator brings values from other devices, or gives them away: what it reads and makes lies row-major.
static bool communicates(Operation *op) { return isa<dist::Collective, dist::SendOp, dist::ReceiveOp>(op); }

/// Whether the value is one that devices give each other, but for elementwise operators. It has to be brought in
/// another order then, and a kernel of our own that does so itself cannot compute samples side by side any more.
static bool travels(Value value) {
  llvm::SmallPtrSet<Operation *, 8> seen;
  SmallVector<Value> makers = {value}, readers = {value};
  while (!makers.empty())
    if (Operation *op = makers.pop_back_val().getDefiningOp(); op && seen.insert(op).second) {
      if (communicates(op))
        return true;
      if (isa<ElementwiseInterface>(op))
        llvm::append_range(makers, op->getOperands());
    }
  while (!readers.empty())
    for (Operation *op : readers.pop_back_val().getUsers()) {
      if (communicates(op))
        return true;
      if (isa<ElementwiseInterface>(op) && seen.insert(op).second)
        llvm::append_range(readers, op->getResults());
    }
  return false;
}

/// Whether the samples fill whole cache lines, and of the lines of channels that the library computes a fifth or more
/// is nothing but padding.
bool ProgramWalk::isBetterBySamples(Operation *op, const LibraryCall &call) {
  constexpr int64_t line = 16;
  if (!hasPlainWindows(op, call) || tensorType(op->getOperand(0)).getDimSize(0) % line != 0)
    return false;
  Samples samples(op);
  for (auto [operand, sampled] : llvm::zip_equal(op->getOperands(), samples.operands)) {
    RankedTensorType type = tensorType(current(operand));
    if (sampled && ((plan::getLayout(type) && !permutationOf(type)) || travels(operand)))
      return false;
  }
  if (samples.result && travels(op->getResult(0)))
    return false;
  // The library goes along the channels of the result, or along the outputs of a filter.
  int64_t channels = tensorType(op->getResult(0)).getDimSize(samples.result ? 1 : 0);
  return 5 * channels <= 4 * static_cast<int64_t>(llvm::alignTo(static_cast<uint64_t>(channels), line));
}

void ProgramWalk::computeBySamples(Operation *op) {
  OpBuilder builder(op);
  IRMapping mapping;
  Samples samples(op);
  for (auto [operand, sampled] : llvm::zip_equal(op->getOperands(), samples.operands)) {
    if (!sampled) {
      mapping.map(operand, denseOf(builder, operand));
      continue;
    }
    RankedTensorType type = plan::withoutLayout(tensorType(operand));
    SmallVector<int64_t> order = samplesInnermost(type.getRank());
    Value laid = inLayout(builder, operand, laidType(type, order));
    Value lies = plan::ViewOp::create(builder, operand.getLoc(), permuted(type, order), laid);
    mapping.map(operand, dfg::TransposeOp::create(builder, operand.getLoc(), type, lies,
                                                  builder.getDenseI64ArrayAttr(invertPermutationVector(order))));
  }
  Value made = builder.clone(*op, mapping)->getResult(0);
  replaced.insert(op);
  if (samples.result)
    lay(op, made, samplesInnermost(tensorType(made).getRank()));
  else
    op->getResult(0).replaceAllUsesWith(made);
}

/// Lets the result lie in that order, in which `made` is brought.
void ProgramWalk::lay(Operation *op, Value made, ArrayRef<int64_t> order) {
  OpBuilder builder(op);
  RankedTensorType result = tensorType(op->getResult(0));
  made = dfg::TransposeOp::create(builder, op->getLoc(), permuted(result, order), made,
                                  builder.getDenseI64ArrayAttr(order));
  laidOut[op->getResult(0)] = plan::ViewOp::create(builder, op->getLoc(), laidType(result, order), made);
}

bool ProgramWalk::select(Operation *op, LibraryCall &call) {
  if (isBetterBySamples(op, call)) {
    computeBySamples(op);
    return true;
  }
  // The library has plain loops for samples side by side, where it takes operands as they lie.
  if (llvm::is_contained(call.operands, LayoutChoice::Given) &&
      (llvm::any_of(op->getOperands(), [&](Value operand) { return liesBySamples(operand); }) ||
       meetsSamples(op->getResult(0))))
    return false;
  // Elementwise kernels of our own compute as well in any order of the dimensions, and join others.
  auto needsLibrary = [&](Value value) {
    plan::LayoutAttr layout = plan::getLayout(current(value).getType());
    return layout && !(isa<ElementwiseInterface>(op) && permutationOf(tensorType(current(value))));
  };
  if (call.onlyOnBlocked && llvm::none_of(op->getOperands(), needsLibrary))
    return false;
  SmallVector<Epilogue> epilogues;
  if (call.takesEpilogues)
    epilogues = epiloguesBehind(op, call);
  while (true) {
    if (launch(op, call, epilogues))
      return true;
    if (epilogues.empty())
      break;
    epilogues.pop_back();
  }
  // What it cannot do well with the operands as they lie, it may do row-major.
  if (call.onlyOnBlocked || !llvm::is_contained(call.operands, LayoutChoice::Given))
    return false;
  LibraryCall dense = call;
  llvm::replace(dense.operands, LayoutChoice::Given, LayoutChoice::Dense);
  return launch(op, dense, {});
}

/// A kernel of our own on operands that lie permuted; its result lies as the largest of them.
bool ProgramWalk::computePermuted(Operation *op) {
  if (!isa<LowerInterface>(op) || op->getNumResults() != 1)
    return false;
  RankedTensorType result = tensorType(op->getResult(0));
  std::optional<SmallVector<int64_t>> resultOrder;
  SmallVector<std::optional<SmallVector<int64_t>>> orders;
  int64_t largest = 0;
  for (Value operand : op->getOperands()) {
    RankedTensorType type = tensorType(operand);
    auto order = orders.emplace_back(permutationOf(tensorType(current(operand))));
    if (type.getRank() != result.getRank() || type.getNumElements() < largest)
      continue;
    if (type.getNumElements() > largest || !resultOrder)
      resultOrder = order;
    largest = type.getNumElements();
  }
  // Collectives and the program's results want it row-major.
  if (llvm::none_of(op->getResult(0).getUsers(), [](Operation *user) { return isa<LowerInterface>(user); }))
    resultOrder = std::nullopt;
  // What has no order yet takes that of the value that it meets next.
  if (!resultOrder && largest < result.getNumElements())
    if (auto layout = layoutOfCompany(op->getResult(0)))
      resultOrder = permutationOf(RankedTensorType::get(result.getShape(), result.getElementType(), layout));
  if (!resultOrder && llvm::none_of(orders, [](const auto &order) { return order.has_value(); }))
    return false;
  OpBuilder builder(op);
  IRMapping mapping;
  for (auto [operand, order] : llvm::zip(op->getOperands(), orders))
    mapping.map(operand, order ? seenRowMajor(builder, operand, *order) : denseOf(builder, operand));
  Value made = builder.clone(*op, mapping)->getResult(0), old = op->getResult(0);
  replaced.insert(op);
  if (!resultOrder) {
    old.replaceAllUsesWith(made);
    return true;
  }
  lay(op, made, *resultOrder);
  return true;
}

/// The layout of another operand, of the value's shape, of an elementwise operator that reads the value; null for none.
plan::LayoutAttr ProgramWalk::layoutOfCompany(Value value) {
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

/// Whether what the value meets next lies with the samples innermost.
bool ProgramWalk::meetsSamples(Value value) {
  RankedTensorType type = tensorType(value);
  plan::LayoutAttr layout = type.getRank() > 2 ? layoutOfCompany(value) : nullptr;
  return layout && RankedTensorType::get(type.getShape(), type.getElementType(), layout) ==
                       laidType(type, samplesInnermost(type.getRank()));
}

/// The layout of a value of that shape, or, while it has none, that of what it is computed from elementwise.
plan::LayoutAttr ProgramWalk::expectedLayout(Value value, ArrayRef<int64_t> shape) {
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

/// The value with its dimensions in their own order, by a transpose of the bytes as they lie.
Value ProgramWalk::seenRowMajor(OpBuilder &builder, Value value, ArrayRef<int64_t> order) {
  RankedTensorType type = tensorType(value), lies = permuted(type, order);
  // What nobody else reads need not lie in memory between two kernels of our own, which may become one.
  if (auto view = current(value).getDefiningOp<plan::ViewOp>(); view && value.hasOneUse())
    // The view stays until dead operators are removed: tables of this walk go by values.
    if (auto transpose = view.getInput().getDefiningOp<dfg::TransposeOp>();
        transpose && transpose.getPermutation() == order)
      if (Operation *producer = transpose.getInput().getDefiningOp(); producer && mayJoin(producer, *value.use_begin()))
        return transpose.getInput();
  Value seen = plan::ViewOp::create(builder, value.getLoc(), lies, current(value));
  return dfg::TransposeOp::create(builder, value.getLoc(), plan::withoutLayout(type), seen,
                                  builder.getDenseI64ArrayAttr(invertPermutationVector(order)));
}

SmallVector<Epilogue> ProgramWalk::epiloguesBehind(Operation *op, const LibraryCall &call) {
  SmallVector<Epilogue> epilogues;
  Operation *last = op;
  while (last->getResult(0).hasOneUse() && !last->hasAttr(dist::accumulatesAttrName)) {
    OpOperand &use = *last->getResult(0).getUses().begin();
    auto library = dyn_cast<LibraryInterface>(use.getOwner());
    if (!library || use.getOwner()->getBlock() != op->getBlock())
      break;
    auto kind = library.getLibraryEpilogue(use.getOperandNumber());
    if (failed(kind))
      break;
    // oneDNN 2.6 computes the second of two elementwise epilogues with the constants of the first.
    if (kind->otherOperand < 0 && llvm::any_of(epilogues, [](const Epilogue &known) { return !known.other; }))
      break;
    Epilogue epilogue{use.getOwner(), *kind, nullptr};
    if (kind->otherOperand >= 0) {
      epilogue.other = use.getOwner()->getOperand(kind->otherOperand);
      // What was not walked yet has no layout yet; parameters do not depend on the walk.
      Operation *definition = epilogue.other.getDefiningOp();
      bool isKnown = constants.contains(epilogue.other) || isParameter(epilogue.other);
      if (definition && !definition->isBeforeInBlock(op) && !isKnown)
        break;
      RankedTensorType type = tensorType(epilogue.other), result = tensorType(op->getResult(0));
      int64_t dim = call.biasDim - (result.getRank() - type.getRank());
      epilogue.isBias = epilogues.empty() && kind->kind == "binary_add" && call.biasDim >= 0 && dim >= 0 &&
                        type.getNumElements() == result.getDimSize(call.biasDim) &&
                        type.getDimSize(dim) == type.getNumElements() && isKnown;
    }
    epilogues.push_back(epilogue);
    last = use.getOwner();
  }
  return epilogues;
}

bool ProgramWalk::launch(Operation *op, const LibraryCall &call, ArrayRef<Epilogue> epilogues) {
  Operation *last = epilogues.empty() ? op : epilogues.back().op;
  OpBuilder builder(last);
  runtime::LibraryKernelQuery query;
  query.desc.library = "onednn";
  query.desc.operation = call.routine;
  for (NamedAttribute parameter : call.parameters) {
    std::string name = parameter.getName().str();
    if (auto ints = dyn_cast<DenseI64ArrayAttr>(parameter.getValue()))
      query.desc.ints[name] = ints.asArrayRef().vec();
    else
      query.desc.reals[name] = {cast<FloatAttr>(parameter.getValue()).getValueAsDouble()};
  }

  // What each argument is now; the views of weights are made when the kernel is known.
  SmallVector<Value> arguments;
  auto addArgument = [&](Value value, RankedTensorType type, LayoutChoice choice) {
    arguments.push_back(value);
    query.desc.inputs.push_back(toRuntimeType(type));
    query.anyInputs.push_back(choice == LayoutChoice::Any);
  };
  RankedTensorType firstBlocked;
  for (auto [index, value] : llvm::enumerate(op->getOperands())) {
    RankedTensorType type = tensorType(current(value));
    LayoutChoice choice = call.operands[index];
    if (choice != LayoutChoice::Given)
      type = plan::withoutLayout(type);
    if (call.views[index])
      type = call.views[index];
    if (call.routine == "matmul" && call.views[index])
      type = transposedInMemory(type);
    // A constant is brought once into whatever layout the library likes best.
    if (choice == LayoutChoice::Dense && call.routine == "matmul" && constants.contains(value))
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
  for (const Epilogue &epilogue : epilogues) {
    if (epilogue.isBias)
      continue;
    int argument = -1;
    if (epilogue.other) {
      argument = arguments.size();
      // A value of fewer dimensions is seen with leading ones.
      RankedTensorType type = plan::withoutLayout(tensorType(epilogue.other));
      SmallVector<int64_t> shape(result.getRank() - type.getRank(), 1);
      llvm::append_range(shape, type.getShape());
      bool whole = ArrayRef<int64_t>(shape) == result.getShape();
      addArgument(epilogue.other, RankedTensorType::get(shape, type.getElementType()),
                  whole && call.result == LayoutChoice::Any ? LayoutChoice::Any : LayoutChoice::Dense);
    }
    query.desc.postOps.push_back({epilogue.kind.kind, static_cast<float>(epilogue.kind.alpha),
                                  static_cast<float>(epilogue.kind.beta), argument});
  }
  query.desc.outputs.push_back(toRuntimeType(result));
  query.anyOutputs.push_back(call.result == LayoutChoice::Any);

  FailureOr<LibraryKernel> kernel = keepingLayouts(query, arguments);
  if (failed(kernel))
    kernel = likeCompany(query, arguments, op->getResult(0));
  if (failed(kernel))
    kernel = kernels.get(query, threads);
  if (failed(kernel))
    return false;
  // Its plain loops are no better than ours, except where ours are plain loops too: in contractions.
  if (!call.takesEpilogues && call.biasDim < 0 && kernel->implementation.starts_with("ref"))
    return false;

  SmallVector<Value> operands;
  for (auto [index, value] : llvm::enumerate(arguments)) {
    RankedTensorType asked = fromRuntimeType(op->getContext(), query.desc.inputs[index]);
    RankedTensorType wanted = kernel->inputs[index];
    Value argument = value;
    if (asked.getShape() != tensorType(value).getShape() || (call.routine == "matmul" && plan::getLayout(asked))) {
      // Seen under another shape: from row-major bytes.
      argument = denseOf(builder, value);
      if (argument.getType() != asked)
        argument = plan::ViewOp::create(builder, value.getLoc(), asked, argument);
      operands.push_back(argument.getType() == wanted ? argument : reorder(builder, argument, wanted));
    } else {
      operands.push_back(inLayout(builder, value, wanted));
    }
  }
  SmallVector<Location> locations = {op->getLoc()};
  for (const Epilogue &epilogue : epilogues)
    locations.push_back(epilogue.op->getLoc());
  auto launch = plan::LaunchOp::create(builder, builder.getFusedLoc(locations), TypeRange(kernel->output),
                                       kernel->symbol, operands);
  Value old = last->getResult(0), made = launch.getResult(0);
  for (Operation *gone = op;;) {
    replaced.insert(gone);
    if (gone == last)
      break;
    gone = *gone->getResult(0).getUsers().begin();
  }
  if (made.getType() == old.getType())
    old.replaceAllUsesWith(made);
  else
    laidOut[old] = made;
  return true;
}

/// The kernel of `query` that reads arguments as they lie, if the library has a good one: its wishes differ from
/// routine to routine, and following each would reorder between any two. `query` becomes the question that was
/// answered. In turn: the first argument as it lies; all of them; and all as the largest of them, with the result or
/// what lies in no layout yet, because routines that go backwards want what goes in and what comes out alike.
FailureOr<LibraryKernel> ProgramWalk::keepingLayouts(runtime::LibraryKernelQuery &query, ArrayRef<Value> arguments) {
  SmallVector<unsigned> laid, others;
  for (auto [index, value] : llvm::enumerate(arguments)) {
    if (!query.anyInputs[index] || query.desc.inputs[index].shape != toRuntimeType(tensorType(value)).shape)
      continue;
    (plan::getLayout(current(value).getType()) ? laid : others).push_back(index);
  }
  if (laid.empty())
    return failure();
  auto lies = [&](unsigned index) { return tensorType(current(arguments[index])); };
  auto ask = [&](runtime::LibraryKernelQuery asked) -> FailureOr<LibraryKernel> {
    FailureOr<LibraryKernel> kernel = kernels.get(asked, threads);
    if (failed(kernel) || isFallback(kernel->implementation))
      return failure();
    query = std::move(asked);
    return kernel;
  };
  runtime::LibraryKernelQuery kept = query;
  for (unsigned index : laid) {
    kept.desc.inputs[index] = toRuntimeType(lies(index));
    kept.anyInputs[index] = false;
    if (index == 0)
      if (auto kernel = ask(kept); succeeded(kernel))
        return kernel;
  }
  if (laid.size() > 1 || laid[0] != 0)
    if (auto kernel = ask(kept); succeeded(kernel))
      return kernel;

  unsigned largest = laid[0];
  for (unsigned index : laid)
    if (lies(index).getNumElements() > lies(largest).getNumElements())
      largest = index;
  plan::LayoutAttr layout = plan::getLayout(lies(largest));
  auto alike = [&](runtime::TensorType &type, std::vector<bool>::reference any) {
    if (any && type.shape.size() == layout.getPadded().size())
      if (auto own = sameKindOfLayout(layout, type.shape)) {
        type.layout = own;
        any = false;
      }
  };
  for (unsigned index : laid)
    alike(kept.desc.inputs[index], kept.anyInputs[index] = true);
  for (bool result : {true, false}) {
    runtime::LibraryKernelQuery asked = kept;
    if (result)
      alike(asked.desc.outputs[0], asked.anyOutputs[0]);
    else
      for (unsigned index : others)
        alike(asked.desc.inputs[index], asked.anyInputs[index]);
    if (auto kernel = ask(asked); succeeded(kernel))
      return kernel;
  }
  return failure();
}

/// The kernel of `query` that makes a larger value of row-major ones in the layout of what that meets next: bringing
/// the smaller ones into it costs less than bringing the larger one there later.
FailureOr<LibraryKernel> ProgramWalk::likeCompany(runtime::LibraryKernelQuery &query, ArrayRef<Value> arguments,
                                                  Value result) {
  plan::LayoutAttr layout = tensorType(result).getRank() > 2 ? layoutOfCompany(result) : nullptr;
  if (!layout || query.anyOutputs.empty() || !query.anyOutputs[0])
    return failure();
  runtime::LibraryKernelQuery asked = query;
  for (auto [index, value] : llvm::enumerate(arguments)) {
    runtime::TensorType &type = asked.desc.inputs[index];
    if (plan::getLayout(current(value).getType()) || type.shape.size() != asked.desc.outputs[0].shape.size() ||
        tensorType(value).getNumElements() >= tensorType(result).getNumElements())
      return failure();
    type.layout = sameKindOfLayout(layout, type.shape);
    asked.anyInputs[index] = false;
    if (!type.layout)
      return failure();
  }
  asked.desc.outputs[0].layout = sameKindOfLayout(layout, asked.desc.outputs[0].shape);
  asked.anyOutputs[0] = false;
  FailureOr<LibraryKernel> kernel = kernels.get(asked, threads);
  if (failed(kernel) || isFallback(kernel->implementation))
    return failure();
  query = std::move(asked);
  return kernel;
}

Value ProgramWalk::denseOf(OpBuilder &builder, Value value) {
  return inLayout(builder, value, plan::withoutLayout(tensorType(value)));
}

Value ProgramWalk::inLayout(OpBuilder &builder, Value value, RankedTensorType wanted) {
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

Value ProgramWalk::reorder(OpBuilder &builder, Value from, RankedTensorType wanted) {
  runtime::LibraryKernelQuery query;
  query.desc.library = "onednn";
  query.desc.operation = "reorder";
  query.desc.inputs.push_back(toRuntimeType(tensorType(from)));
  query.desc.outputs.push_back(toRuntimeType(wanted));
  // Layouts that differ in dimensions of size 1 alone place every element alike.
  if (!runtime::needsReorder(query.desc.inputs[0], query.desc.outputs[0]))
    return plan::ViewOp::create(builder, from.getLoc(), wanted, from);
  FailureOr<LibraryKernel> kernel = kernels.get(query, threads);
  if (failed(kernel))
    llvm::report_fatal_error("the library cannot reorder between layouts that it chose");
  return plan::LaunchOp::create(builder, from.getLoc(), TypeRange(wanted), kernel->symbol, from).getResult(0);
}

void ProgramWalk::eraseReplaced() {
  // Readers come after what they read: last first. With them goes what was made for nobody in the end.
  for (Operation *op = program.getBody().front().getTerminator(); op;) {
    Operation *before = op->getPrevNode();
    if (replaced.contains(op) || isOpTriviallyDead(op))
      op->erase();
    op = before;
  }
}

class SelectLibraryKernels : public impl::SelectLibraryKernelsPassBase<SelectLibraryKernels> {
  void runOnOperation() override {
    LibraryKernels kernels(getOperation());
    DenseMap<int64_t, RankedTensorType> sent;
    std::vector<ProgramWalk> walks;
    for (auto program : getOperation().getOps<dist::ProgramOp>())
      walks.emplace_back(program, coresOf(program), kernels, sent);
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

  /// The cores of the devices of a program's mesh.
  unsigned coresOf(dist::ProgramOp program) {
    auto mesh = getOperation().lookupSymbol<dist::MeshOp>(program.getMeshAttr());
    auto devices = getOperation()->getAttrOfType<ArrayAttr>("dist.devices");
    int64_t index = mesh ? mesh.getDevices().front() : 0;
    if (!devices || index >= static_cast<int64_t>(devices.size()))
      return 1;
    auto cores = cast<DictionaryAttr>(devices[index]).getAs<IntegerAttr>("cores");
    return cores ? std::max<int64_t>(1, cores.getInt()) : 1;
  }
};

} // namespace
} // namespace cleave
