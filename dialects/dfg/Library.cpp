// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How operators map to the kernel library's routines. Float32 and bfloat16, and products of integers of 8 bits with
// what brings their sums back to 8 bits: other types are computed by Cleave's own kernels, and so is what the library
// has no code for on the processor.

#include "dialects/dfg/Dfg.h"
#include "dialects/dfg/TensorType.h"

using namespace mlir;

namespace cleave::dfg {

/// The library computes nothing on empty tensors, and nothing but float32 and bfloat16: on operands of one of them,
/// with a result of the same or the sums of products of bfloat16 in float32.
static bool isLibraryType(Operation *op) {
  auto elementOf = [](Type type) { return cast<RankedTensorType>(type).getElementType(); };
  Type element = elementOf(op->getOperand(0).getType()), result = elementOf(op->getResult(0).getType());
  bool isKnown = element.isF32() ? result.isF32() : element.isBF16() && (result.isBF16() || result.isF32());
  auto fits = [&](Type type) { return cast<RankedTensorType>(type).getNumElements() > 0; };
  return isKnown && llvm::all_of(op->getOperandTypes(), [&](Type type) { return elementOf(type) == element; }) &&
         llvm::all_of(op->getOperandTypes(), fits) && llvm::all_of(op->getResultTypes(), fits);
}

/// Whether an operator sums products of unsigned and signed integers of 8 bits, which is what processors multiply.
static bool isIntegerProduct(Operation *op) {
  auto elementOf = [](Type type) { return cast<RankedTensorType>(type).getElementType(); };
  auto fits = [](Type type) { return cast<RankedTensorType>(type).getNumElements() > 0; };
  return elementOf(op->getOperand(0).getType()).isUnsignedInteger(8) &&
         elementOf(op->getOperand(1).getType()).isSignlessInteger(8) &&
         elementOf(op->getResult(0).getType()).isSignlessInteger(32) && llvm::all_of(op->getOperandTypes(), fits) &&
         fits(op->getResult(0).getType());
}

/// Whether whole numbers are what an operator of float32 gives: numbers that were rounded, and sums of such with others
/// that were integers.
static bool isWhole(Value value) {
  Operation *op = value.getDefiningOp();
  if (auto add = dyn_cast_or_null<AddOp>(op))
    return isWhole(add.getLhs()) && isWhole(add.getRhs());
  if (auto cast = dyn_cast_or_null<CastOp>(op))
    return isa<IntegerType>(tensorType(cast.getInput()).getElementType());
  if (auto constant = dyn_cast_or_null<ConstantOp>(op))
    if (auto elements = dyn_cast<DenseFPElementsAttr>(constant.getValue()); elements && elements.isSplat()) {
      APFloat number = elements.getSplatValue<APFloat>();
      return number.isInteger();
    }
  return isa_and_nonnull<RoundOp>(op);
}

/// A call that takes the operator's operands as `choices` say.
static LibraryCall makeCall(Operation *op, StringRef routine, ArrayRef<NamedAttribute> parameters,
                            std::initializer_list<LayoutChoice> choices) {
  LibraryCall call;
  call.routine = routine.str();
  call.parameters = DictionaryAttr::get(op->getContext(), parameters);
  call.operands.assign(choices);
  call.views.assign(op->getNumOperands(), nullptr);
  return call;
}

/// Parameters of routines that slide a window.
static SmallVector<NamedAttribute> windowParameters(Builder builder, ArrayRef<int64_t> strides, ArrayRef<int64_t> pads,
                                                    ArrayRef<int64_t> dilations) {
  size_t rank = strides.size();
  return {builder.getNamedAttr("strides", builder.getDenseI64ArrayAttr(strides)),
          builder.getNamedAttr("dilations", builder.getDenseI64ArrayAttr(dilations)),
          builder.getNamedAttr("pads_begin", builder.getDenseI64ArrayAttr(pads.take_front(rank))),
          builder.getNamedAttr("pads_end", builder.getDenseI64ArrayAttr(pads.take_back(rank)))};
}

static NamedAttribute integerParameter(Builder builder, StringRef name, int64_t value) {
  return builder.getNamedAttr(name, builder.getDenseI64ArrayAttr(value));
}

/// Weights [O, I, window...] as the library sees grouped ones: [G, O/G, I, window...].
static RankedTensorType groupedView(RankedTensorType weights, int64_t groups) {
  SmallVector<int64_t> shape(weights.getShape());
  shape[0] /= groups;
  shape.insert(shape.begin(), groups);
  return RankedTensorType::get(shape, weights.getElementType());
}

//===-- contractions ------------------------------------------------------------------------------------------===//

FailureOr<LibraryCall> ConvOp::getLibraryCall() {
  if (!(isLibraryType(*this) || isIntegerProduct(*this)) || getStrides().size() > 3)
    return failure();
  Builder builder(getContext());
  auto parameters = windowParameters(builder, getStrides(), getPads(), getDilations());
  parameters.push_back(integerParameter(builder, "groups", getGroups()));
  LibraryCall call = makeCall(*this, "convolution", parameters, {LayoutChoice::Any, LayoutChoice::Any});
  if (getGroups() != 1)
    call.views[1] = groupedView(tensorType(getFilter()), getGroups());
  call.biasDim = 1;
  call.takesEpilogues = true;
  return call;
}

FailureOr<LibraryCall> ConvTransposeOp::getLibraryCall() {
  if (!isLibraryType(*this) || getStrides().size() > 3)
    return failure();
  Builder builder(getContext());
  // The routine takes the pads of the convolution that leads back, whose last window may end before the result does:
  // by less than a stride without being told.
  SmallVector<int64_t> pads(getPads());
  for (size_t i = 0; i < getOutputPadding().size(); ++i)
    pads[getStrides().size() + i] -= getOutputPadding()[i] / getStrides()[i] * getStrides()[i];
  if (llvm::any_of(pads, [](int64_t pad) { return pad < 0; }))
    return failure();
  auto parameters = windowParameters(builder, getStrides(), pads, getDilations());
  parameters.push_back(integerParameter(builder, "groups", getGroups()));
  LibraryCall call = makeCall(*this, "deconvolution", parameters, {LayoutChoice::Any, LayoutChoice::Any});
  if (getGroups() != 1)
    call.views[1] = groupedView(tensorType(getFilter()), static_cast<int64_t>(getGroups()));
  // No epilogues: oneDNN 2.6 computes them behind a deconvolution one element after the other, a hundred times slower
  // than the routine itself.
  call.biasDim = 1;
  return call;
}

/// The library decides on all layouts: of the input, the cotangent and the filter.
FailureOr<LibraryCall> ConvFilterGradientOp::getLibraryCall() {
  if (!isLibraryType(*this) || getStrides().size() > 3)
    return failure();
  Builder builder(getContext());
  auto parameters = windowParameters(builder, getStrides(), getPads(), getDilations());
  parameters.push_back(integerParameter(builder, "groups", getGroups()));
  return makeCall(*this, "convolution_weights", parameters, {LayoutChoice::Any, LayoutChoice::Any});
}

/// Whether an operator multiplies rows of float32 by matrices that indices choose.
static bool isGatheredProduct(Operation *op) {
  auto typeAt = [&](unsigned index) { return tensorType(op->getOperand(index)); };
  auto fits = [](Type type) { return cast<RankedTensorType>(type).getNumElements() > 0; };
  return typeAt(0).getElementType().isF32() && typeAt(2).getElementType().isInteger(64) &&
         llvm::all_of(op->getOperandTypes(), fits) && llvm::all_of(op->getResultTypes(), fits);
}

/// Both take and give dense tensors. `matrices` is the operand or result that has them.
static LibraryCall gatheredCall(Operation *op, StringRef routine, RankedTensorType matrices,
                                std::optional<uint64_t> total, SmallVector<NamedAttribute> parameters) {
  int64_t all = total ? static_cast<int64_t>(*total) : matrices.getDimSize(0);
  parameters.push_back(integerParameter(Builder(op->getContext()), "total", all));
  LibraryCall call = makeCall(op, routine, parameters, {LayoutChoice::Dense, LayoutChoice::Dense, LayoutChoice::Dense});
  call.result = LayoutChoice::Dense;
  return call;
}

FailureOr<LibraryCall> GatherDotOp::getLibraryCall() {
  if (!isGatheredProduct(*this))
    return failure();
  NamedAttribute transposed = integerParameter(Builder(getContext()), "transposed", getTransposed() ? 1 : 0);
  return gatheredCall(*this, "gather_matmul", tensorType(getRhs()), getTotal(), {transposed});
}

FailureOr<LibraryCall> ScatterDotOp::getLibraryCall() {
  if (!isGatheredProduct(*this))
    return failure();
  return gatheredCall(*this, "scatter_matmul", tensorType(getResult()), getTotal(), {});
}

/// Only products in the form batch x M x K by batch x K x N (or N x K): the codegen stage brings others into it.
FailureOr<LibraryCall> DotGeneralOp::getLibraryCall() {
  int64_t batch = getLhsBatch().size(), rank = batch + 2;
  auto lhs = tensorType(getLhs()), rhs = tensorType(getRhs());
  auto leading = [](ArrayRef<int64_t> dims) {
    for (auto [index, dim] : llvm::enumerate(dims))
      if (dim != static_cast<int64_t>(index))
        return false;
    return true;
  };
  if (!(isLibraryType(*this) || isIntegerProduct(*this)) || lhs.getRank() != rank || rhs.getRank() != rank ||
      getLhsContracting().size() != 1 || !leading(getLhsBatch()) || !leading(getRhsBatch()))
    return failure();
  LibraryCall call = makeCall(*this, "matmul", {}, {LayoutChoice::Dense, LayoutChoice::Dense});
  auto transposed = [&](RankedTensorType type) {
    SmallVector<int64_t> shape(type.getShape());
    std::swap(shape[rank - 2], shape[rank - 1]);
    return RankedTensorType::get(shape, type.getElementType());
  };
  if (getLhsContracting()[0] != rank - 1)
    call.views[0] = transposed(lhs);
  if (getRhsContracting()[0] != rank - 2)
    call.views[1] = transposed(rhs);
  call.result = LayoutChoice::Dense;
  call.biasDim = rank - 1;
  call.takesEpilogues = true;
  return call;
}

/// The attributes of a pooling for the library, if it computes it: it refuses windows that lie wholly in the padding.
template <typename Op> static FailureOr<SmallVector<NamedAttribute>> poolingParameters(Op op) {
  size_t rank = op.getStrides().size();
  auto type = tensorType(op->getResult(0));
  // The largest of integers of 8 bits is one of them; averages are numbers between.
  bool isLargestInteger = op.getKind() == PoolKind::Max && isa<IntegerType>(type.getElementType()) &&
                          type.getElementTypeBitWidth() == 8 && type.getNumElements() > 0;
  if (!(isLibraryType(op) || isLargestInteger) || rank > 3)
    return failure();
  for (size_t i = 0; i < rank; ++i)
    if (std::max(op.getPads()[i], op.getPads()[rank + i]) >= op.getDilations()[i] * (op.getWindow()[i] - 1) + 1)
      return failure();
  Builder builder(op.getContext());
  auto parameters = windowParameters(builder, op.getStrides(), op.getPads(), op.getDilations());
  parameters.push_back(builder.getNamedAttr("kernel", builder.getDenseI64ArrayAttr(op.getWindow())));
  return parameters;
}

FailureOr<LibraryCall> PoolOp::getLibraryCall() {
  auto parameters = poolingParameters(*this);
  // One window a channel is a plain reduction; as a window of many taps it takes the library many times longer.
  if (failed(parameters) || tensorType(getResult()).getNumElements() ==
                                tensorType(getInput()).getDimSize(0) * tensorType(getInput()).getDimSize(1))
    return failure();
  StringRef routine = getKind() == PoolKind::Max ? "pooling.max"
                      : getCountIncludePad()     ? "pooling.avg_include"
                                                 : "pooling.avg_exclude";
  return makeCall(*this, routine, *parameters, {LayoutChoice::Given});
}

/// Of averages: for that of a largest element the library wants to have kept where it was.
FailureOr<LibraryCall> PoolGradientOp::getLibraryCall() {
  auto parameters = poolingParameters(*this);
  if (failed(parameters) || getKind() == PoolKind::Max)
    return failure();
  StringRef routine = getCountIncludePad() ? "pooling_gradient.avg_include" : "pooling_gradient.avg_exclude";
  return makeCall(*this, routine, *parameters, {LayoutChoice::Given});
}

//===-- normalizations ----------------------------------------------------------------------------------------===//

FailureOr<LibraryCall> SoftmaxOp::getLibraryCall() {
  if (!isLibraryType(*this))
    return failure();
  return makeCall(*this, "softmax", integerParameter(Builder(getContext()), "axis", getDim()), {LayoutChoice::Given});
}

FailureOr<LibraryCall> LogSoftmaxOp::getLibraryCall() {
  if (!isLibraryType(*this))
    return failure();
  return makeCall(*this, "log_softmax", integerParameter(Builder(getContext()), "axis", getDim()),
                  {LayoutChoice::Given});
}

FailureOr<LibraryCall> LayerNormOp::getLibraryCall() {
  SmallVector<int64_t> dims(getDims());
  llvm::sort(dims);
  int64_t rank = tensorType(getInput()).getRank(), first = rank - static_cast<int64_t>(dims.size());
  for (auto [index, dim] : llvm::enumerate(dims))
    if (dim != first + static_cast<int64_t>(index))
      return failure();
  if (!isLibraryType(*this) || dims.empty() || first == 0)
    return failure();
  Builder builder(getContext());
  return makeCall(*this, "layer_norm",
                  {integerParameter(builder, "axis", first),
                   builder.getNamedAttr("epsilon", builder.getF64FloatAttr(getEpsilon().convertToDouble()))},
                  {LayoutChoice::Dense});
}

FailureOr<LibraryCall> BatchNormOp::getLibraryCall() {
  if (!isLibraryType(*this))
    return failure();
  Builder builder(getContext());
  LibraryCall call = makeCall(
      *this, "batch_norm", builder.getNamedAttr("epsilon", builder.getF64FloatAttr(getEpsilon().convertToDouble())),
      {LayoutChoice::Given, LayoutChoice::Dense, LayoutChoice::Dense, LayoutChoice::Dense, LayoutChoice::Dense});
  call.onlyOnBlocked = true;
  return call;
}

FailureOr<LibraryCall> LrnOp::getLibraryCall() {
  if (!isLibraryType(*this) || getSize() % 2 == 0 || tensorType(getInput()).getRank() < 3)
    return failure();
  Builder builder(getContext());
  return makeCall(*this, "lrn",
                  {integerParameter(builder, "size", getSize()),
                   builder.getNamedAttr("alpha", builder.getF64FloatAttr(getAlpha().convertToDouble())),
                   builder.getNamedAttr("beta", builder.getF64FloatAttr(getBeta().convertToDouble())),
                   builder.getNamedAttr("k", builder.getF64FloatAttr(getK().convertToDouble()))},
                  {LayoutChoice::Given});
}

FailureOr<LibraryCall> ConcatOp::getLibraryCall() {
  if (!isLibraryType(*this))
    return failure();
  LibraryCall call = makeCall(*this, "concat", integerParameter(Builder(getContext()), "axis", getDim()), {});
  call.operands.assign(getNumOperands(), LayoutChoice::Given);
  call.onlyOnBlocked = true;
  return call;
}

//===-- elementwise -------------------------------------------------------------------------------------------===//

/// A routine of one operand whose result lies as the operand does.
static FailureOr<LibraryCall> eltwiseCall(Operation *op, const FailureOr<LibraryEpilogue> &epilogue) {
  if (failed(epilogue) || !isLibraryType(op))
    return failure();
  Builder builder(op->getContext());
  LibraryCall call = makeCall(op, "eltwise." + epilogue->kind,
                              {builder.getNamedAttr("alpha", builder.getF64FloatAttr(epilogue->alpha)),
                               builder.getNamedAttr("beta", builder.getF64FloatAttr(epilogue->beta))},
                              {LayoutChoice::Given});
  call.onlyOnBlocked = true;
  return call;
}

/// A routine of two operands of the result's shape.
static FailureOr<LibraryCall> binaryCall(Operation *op, StringRef kind) {
  if (!isLibraryType(op) || op->getOperand(0).getType() != op->getResult(0).getType() ||
      op->getOperand(1).getType() != op->getResult(0).getType())
    return failure();
  LibraryCall call = makeCall(op, ("binary." + kind).str(), {}, {LayoutChoice::Given, LayoutChoice::Given});
  call.onlyOnBlocked = true;
  return call;
}

/// The other operand must have, or broadcast to, the shape of the result, which the chained one has.
static FailureOr<LibraryEpilogue> binaryEpilogue(Operation *op, unsigned chained, StringRef kind) {
  if (!isLibraryType(op) || op->getOperand(chained).getType() != op->getResult(0).getType() ||
      op->getOperand(0) == op->getOperand(1))
    return failure();
  return LibraryEpilogue{("binary_" + kind).str(), 0, 0, static_cast<int>(1 - chained)};
}

static FailureOr<LibraryEpilogue> unaryEpilogue(Operation *op, StringRef kind, double alpha = 0, double beta = 0) {
  if (!isLibraryType(op))
    return failure();
  return LibraryEpilogue{kind.str(), alpha, beta, -1};
}

FailureOr<LibraryEpilogue> ReluOp::getLibraryEpilogue(unsigned) { return unaryEpilogue(*this, "relu"); }
FailureOr<LibraryEpilogue> SigmoidOp::getLibraryEpilogue(unsigned) { return unaryEpilogue(*this, "sigmoid"); }
FailureOr<LibraryEpilogue> TanhOp::getLibraryEpilogue(unsigned) { return unaryEpilogue(*this, "tanh"); }
FailureOr<LibraryEpilogue> LeakyReluOp::getLibraryEpilogue(unsigned) {
  return unaryEpilogue(*this, "leaky_relu", getAlpha().convertToDouble());
}
FailureOr<LibraryEpilogue> EluOp::getLibraryEpilogue(unsigned) {
  return unaryEpilogue(*this, "elu", getAlpha().convertToDouble());
}
FailureOr<LibraryEpilogue> GeluOp::getLibraryEpilogue(unsigned) {
  return unaryEpilogue(*this, getApproximate() ? "gelu_tanh" : "gelu_erf");
}
FailureOr<LibraryEpilogue> ClampOp::getLibraryEpilogue(unsigned) {
  return unaryEpilogue(*this, "clip", getLow().convertToDouble(), getHigh().convertToDouble());
}
FailureOr<LibraryEpilogue> RoundOp::getLibraryEpilogue(unsigned) { return unaryEpilogue(*this, "round"); }

/// The sums of a product of integers as reals, and whole numbers as integers of 8 bits: the library's routines do both
/// where they write their results, rounding and saturating.
FailureOr<LibraryEpilogue> CastOp::getLibraryEpilogue(unsigned) {
  Type from = tensorType(getInput()).getElementType(), to = tensorType(getResult()).getElementType();
  if (tensorType(getInput()).getNumElements() == 0)
    return failure();
  bool widens = from.isSignlessInteger(32) && to.isF32();
  bool narrows = from.isF32() && (to.isSignlessInteger(8) || to.isUnsignedInteger(8)) && isWhole(getInput());
  if (!widens && !narrows)
    return failure();
  LibraryEpilogue epilogue;
  epilogue.kind = "";
  return epilogue;
}

/// Sums of products of integers, too, may begin with what is one value a channel.
FailureOr<LibraryEpilogue> AddOp::getLibraryEpilogue(unsigned chained) {
  if (tensorType(getResult()).getElementType().isSignlessInteger(32) && tensorType(getResult()).getNumElements() > 0 &&
      getOperand(chained).getType() == getResult().getType() && getLhs() != getRhs())
    return LibraryEpilogue{"binary_add", 0, 0, static_cast<int>(1 - chained), /*onlyAsBias=*/true};
  return binaryEpilogue(*this, chained, "add");
}
FailureOr<LibraryEpilogue> MulOp::getLibraryEpilogue(unsigned chained) { return binaryEpilogue(*this, chained, "mul"); }
FailureOr<LibraryEpilogue> MaxOp::getLibraryEpilogue(unsigned chained) { return binaryEpilogue(*this, chained, "max"); }
FailureOr<LibraryEpilogue> MinOp::getLibraryEpilogue(unsigned chained) { return binaryEpilogue(*this, chained, "min"); }

FailureOr<LibraryCall> ReluOp::getLibraryCall() { return eltwiseCall(*this, getLibraryEpilogue(0)); }
FailureOr<LibraryCall> RoundOp::getLibraryCall() { return eltwiseCall(*this, getLibraryEpilogue(0)); }
FailureOr<LibraryCall> SigmoidOp::getLibraryCall() { return eltwiseCall(*this, getLibraryEpilogue(0)); }
FailureOr<LibraryCall> TanhOp::getLibraryCall() { return eltwiseCall(*this, getLibraryEpilogue(0)); }
FailureOr<LibraryCall> LeakyReluOp::getLibraryCall() { return eltwiseCall(*this, getLibraryEpilogue(0)); }
FailureOr<LibraryCall> EluOp::getLibraryCall() { return eltwiseCall(*this, getLibraryEpilogue(0)); }
FailureOr<LibraryCall> GeluOp::getLibraryCall() { return eltwiseCall(*this, getLibraryEpilogue(0)); }
FailureOr<LibraryCall> ClampOp::getLibraryCall() { return eltwiseCall(*this, getLibraryEpilogue(0)); }
FailureOr<LibraryCall> AddOp::getLibraryCall() { return binaryCall(*this, "add"); }
FailureOr<LibraryCall> MulOp::getLibraryCall() { return binaryCall(*this, "mul"); }
FailureOr<LibraryCall> MaxOp::getLibraryCall() { return binaryCall(*this, "max"); }
FailureOr<LibraryCall> MinOp::getLibraryCall() { return binaryCall(*this, "min"); }

} // namespace cleave::dfg
