// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operators that make tensors out of nothing: constants, ranges, and weights that are drawn or filled when they are
// first used.

#include "passes/import/NodeImporter.h"
#include "passes/import/OperatorTable.h"

#include "llvm/Support/xxhash.h"

#include <bit>
#include <cmath>

using namespace mlir;

namespace cleave {

/// The largest range that is computed at import, in elements.
static constexpr int64_t largestRange = int64_t(1) << 24;

template <typename T, typename Source> static HostTensor listTensor(Type element, const Source &values) {
  char *writable = nullptr;
  HostTensor tensor =
      HostTensor::allocate(RankedTensorType::get({static_cast<int64_t>(values.size())}, element), writable);
  std::copy(values.begin(), values.end(), reinterpret_cast<T *>(writable));
  return tensor;
}

static ImportResults importConstant(NodeImporter &node) {
  using Results = SmallVector<NodeResult, 1>;
  OpBuilder &builder = node.getBuilder();
  if (const onnx::TensorProto *tensor = node.tensor("value")) {
    FailureOr<HostTensor> value = node.read(*tensor);
    if (failed(value))
      return failure();
    return Results{*value};
  }
  if (auto values = node.hasAttribute("value_floats") ? node.reals("value_floats") : std::nullopt)
    return Results{listTensor<float>(builder.getF32Type(), *values)};
  if (auto values = node.hasAttribute("value_ints") ? node.integers("value_ints") : std::nullopt)
    return Results{listTensor<int64_t>(builder.getI64Type(), *values)};
  auto one = [](HostTensor tensor) {
    return Results{tensor.withType(RankedTensorType::get({}, tensor.getElementType()))};
  };
  if (node.hasAttribute("value_float"))
    return one(
        listTensor<float>(builder.getF32Type(), SmallVector<float>{static_cast<float>(node.real("value_float", 0))}));
  if (node.hasAttribute("value_int"))
    return one(listTensor<int64_t>(builder.getI64Type(), SmallVector<int64_t>{node.integer("value_int", 0)}));
  return node.unsupported("constants other than tensors and numbers are not known");
}

static FailureOr<RankedTensorType> checkedType(NodeImporter &node, ArrayRef<int64_t> shape, Type element) {
  auto type = makeTensorType(shape, element);
  if (!type)
    return FailureOr<RankedTensorType>(node.error("asks for a tensor that " + llvm::toString(type.takeError())));
  return *type;
}

/// Reals are left to be filled when the graph is loaded; integers are known.
static ImportResults importConstantOfShape(NodeImporter &node) {
  FailureOr<SmallVector<int64_t>> shape = node.knownIntegers(0);
  if (failed(shape))
    return failure();
  HostTensor value;
  if (const onnx::TensorProto *tensor = node.tensor("value")) {
    FailureOr<HostTensor> given = node.read(*tensor);
    if (failed(given))
      return failure();
    value = *given;
    if (value.getNumElements() != 1)
      return node.error("expects one element in \"value\", got " + Twine(value.getNumElements()));
  } else {
    value = listTensor<float>(node.getBuilder().getF32Type(), SmallVector<float>{0.0f});
  }
  FailureOr<RankedTensorType> type = checkedType(node, *shape, value.getElementType());
  if (failed(type))
    return failure();
  if (isa<FloatType>(value.getElementType())) {
    APFloat number = *value.toAttribute().value_begin<APFloat>();
    bool lossy = false;
    number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lossy);
    Attribute init = dfg::FillAttr::get(node.getContext(), node.getBuilder().getF64FloatAttr(number.convertToDouble()));
    return SmallVector<NodeResult, 1>{NodeResult(*type, init)};
  }
  Value scalar = node.constant(value.withType(RankedTensorType::get({}, value.getElementType())));
  return oneResult(node.broadcast(scalar, *shape));
}

template <typename T> static HostTensor makeRange(Type element, T start, T delta, int64_t count) {
  char *writable = nullptr;
  HostTensor tensor = HostTensor::allocate(RankedTensorType::get({count}, element), writable);
  for (int64_t i = 0; i < count; ++i)
    reinterpret_cast<T *>(writable)[i] = static_cast<T>(start + static_cast<T>(i) * delta);
  return tensor;
}

static ImportResults importRange(NodeImporter &node) {
  Type element = node.type(0).getElementType();
  if (node.type(1).getElementType() != element || node.type(2).getElementType() != element)
    return node.error("expects start, limit and delta of one type");
  FailureOr<double> start = node.knownNumber(0), limit = node.knownNumber(1), delta = node.knownNumber(2);
  if (failed(start) || failed(limit) || failed(delta))
    return failure();
  double count = std::ceil((*limit - *start) / *delta);
  if (*delta == 0 || !std::isfinite(count) || count > largestRange)
    return node.error("expects a range of at most " + Twine(largestRange) + " elements");
  int64_t size = count > 0 ? static_cast<int64_t>(count) : 0;
  HostTensor result;
  if (element.isF32())
    result = makeRange<float>(element, *start, *delta, size);
  else if (element.isF64())
    result = makeRange<double>(element, *start, *delta, size);
  else if (element.isInteger(64))
    result = makeRange<int64_t>(element, *start, *delta, size);
  else if (element.isInteger(32))
    result = makeRange<int32_t>(element, *start, *delta, size);
  else if (element.isInteger(16))
    result = makeRange<int16_t>(element, *start, *delta, size);
  else
    return node.unsupported("ranges of this type are not known");
  return SmallVector<NodeResult, 1>{result};
}

/// The type that a random node asks for.
static FailureOr<RankedTensorType> randomType(NodeImporter &node) {
  Type element = elementTypeFromOnnx(node.getContext(), static_cast<int>(node.integer("dtype", 1)));
  std::optional<SmallVector<int64_t>> shape = node.integers("shape");
  if (!shape)
    return FailureOr<RankedTensorType>(node.error("expects \"shape\""));
  if (!isa_and_nonnull<FloatType>(element))
    return FailureOr<RankedTensorType>(node.error("expects \"dtype\" to be a type of real numbers"));
  return checkedType(node, *shape, element);
}

/// The node's seed; without one, a number that follows from its name.
static uint64_t randomSeed(NodeImporter &node) {
  if (!node.hasAttribute("seed"))
    return llvm::xxh3_64bits(node.getName()) & 0xffffffffu;
  double seed = node.real("seed", 0.0);
  bool whole = seed >= 0 && seed < 9e15 && seed == std::floor(seed);
  return whole ? static_cast<uint64_t>(seed) : std::bit_cast<uint64_t>(seed);
}

static ImportResults importRandomNormal(NodeImporter &node) {
  FailureOr<RankedTensorType> type = randomType(node);
  if (failed(type))
    return failure();
  OpBuilder &builder = node.getBuilder();
  Attribute init = dfg::NormalAttr::get(node.getContext(), builder.getF64FloatAttr(node.exactReal("mean", 0.0)),
                                        builder.getF64FloatAttr(node.exactReal("scale", 1.0)), randomSeed(node));
  return SmallVector<NodeResult, 1>{NodeResult(*type, init)};
}

static ImportResults importRandomUniform(NodeImporter &node) {
  FailureOr<RankedTensorType> type = randomType(node);
  if (failed(type))
    return failure();
  OpBuilder &builder = node.getBuilder();
  Attribute init = dfg::UniformAttr::get(node.getContext(), builder.getF64FloatAttr(node.exactReal("low", 0.0)),
                                         builder.getF64FloatAttr(node.exactReal("high", 1.0)), randomSeed(node));
  return SmallVector<NodeResult, 1>{NodeResult(*type, init)};
}

/// Ones on a diagonal.
static ImportResults importEyeLike(NodeImporter &node) {
  if (node.rank(0) != 2)
    return node.error("expects a matrix");
  Type element = node.type(0).getElementType();
  if (node.hasAttribute("dtype"))
    element = elementTypeFromOnnx(node.getContext(), static_cast<int>(node.integer("dtype", 1)));
  if (!element)
    return node.unsupported("its result's type is not known");
  auto index = RankedTensorType::get(node.shape(0), node.getBuilder().getI64Type());
  Value row = node.emitAs<dfg::IotaOp>(index, {}, node.attr("dim", int64_t(0)));
  Value column = node.emitAs<dfg::IotaOp>(index, {}, node.attr("dim", int64_t(1)));
  auto equal = dfg::ComparisonAttr::get(node.getContext(), dfg::Comparison::Equal);
  Value diagonal = node.scalar(index.getElementType(), static_cast<double>(node.integer("k", 0)));
  Value isOne = node.emit<dfg::CompareOp>({node.emit<dfg::SubOp>({column, row}), diagonal},
                                          node.getBuilder().getNamedAttr("comparison", equal));
  return oneResult(node.cast(isOne, element));
}

void addCreationOperators(OperatorTable &table) {
  table.add("Constant", {importConstant, 0, 0});
  table.add("ConstantOfShape", {importConstantOfShape, 1, 1, Elements::Any, 9});
  table.add("Range", {importRange, 3, 3, Elements::Number, 11});
  table.add("RandomNormal", {importRandomNormal, 0, 0});
  table.add("RandomUniform", {importRandomUniform, 0, 0});
  table.add("EyeLike", {importEyeLike, 1, 1, Elements::Any, 9});
}

} // namespace cleave
