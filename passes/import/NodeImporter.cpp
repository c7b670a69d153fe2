// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Inputs, attributes and errors of one node, and the building of its operators.

#include "passes/import/NodeImporter.h"

#include "passes/import/GraphImporter.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"

#include <charconv>

using namespace mlir;

namespace cleave {

NodeImporter::NodeImporter(GraphImporter &graph, Scope &scope, const onnx::NodeProto &proto, std::string name,
                           int64_t version, ArrayRef<ImportedValue *> inputs)
    : graph(graph), scope(scope), proto(proto), name(std::move(name)), version(version), inputs(inputs),
      location(dfg::getNodeLocation(graph.getContext(), this->name, proto.op_type())), builder(graph.builderAtEnd()) {}

//===-- inputs ------------------------------------------------------------------------------------------------===//

bool NodeImporter::isTraining() const { return graph.isTraining(); }

bool NodeImporter::isQuantizedWeight() const {
  return proto.output_size() == 1 && scope.quantizedWeights.contains(proto.output(0));
}

void NodeImporter::keepAsParameter(unsigned index) {
  if (!inputs[index]->isKnown())
    return;
  inputs[index]->isWeight = true;
  leftToRunTime = true;
}

SmallVector<int64_t> NodeImporter::rebatch(unsigned index, ArrayRef<int64_t> shape) {
  SmallVector<int64_t> given(shape);
  std::optional<int64_t> declared = graph.declaredSamples();
  bool isComputed = hasInput(index) && !inputs[index]->known;
  if (!declared || !isComputed)
    return given;
  if (graph.samples == 1 && *declared > 1) {
    const DeclaredShape *known = graph.declaredShape(name);
    // A shape that the model computes has the samples as they are.
    if (known && known->shape == given && given[known->samplesDim] != -1)
      given[known->samplesDim] /= *declared;
    return given;
  }
  Value operand = graph.samplePositions ? input(index) : Value();
  if (!operand)
    return given;
  auto position = graph.samplePositions->find(operand);
  if (failed(position) || !*position)
    return given;
  ArrayRef<int64_t> from = typeOf(operand).getShape();
  if (graph.recordsShapes) {
    if (auto dim = findSampleDim(from, **position, shape, *declared))
      graph.declaredShapes->try_emplace(name, DeclaredShape{given, *dim});
    return given;
  }
  return rebatchShape(from, **position, shape, *declared, *graph.samples).value_or(given);
}

void NodeImporter::repeatForSamples(MutableArrayRef<Value> values, int64_t dim) {
  if (!graph.samplePositions || graph.declaredSamples() != 1)
    return;
  SmallVector<bool> areBatched;
  std::optional<unsigned> samplesDim;
  for (auto [index, value] : llvm::enumerate(values)) {
    bool isComputed = value && hasInput(index) && !inputs[index]->known;
    auto position = isComputed ? graph.samplePositions->find(value) : std::optional<SamplePosition>();
    if (failed(position))
      return;
    areBatched.push_back(position->has_value());
    if (*position)
      samplesDim = (*position)->dim;
  }
  if (!samplesDim || *samplesDim == dim)
    return;
  for (auto [value, isBatched] : llvm::zip_equal(values, areBatched)) {
    if (!value || isBatched)
      continue;
    SmallVector<int64_t> shape(typeOf(value).getShape());
    if (*samplesDim >= shape.size() || shape[*samplesDim] != 1)
      continue;
    shape[*samplesDim] = *graph.samples;
    value = broadcast(value, shape);
  }
}

bool NodeImporter::keepsDropout() const { return graph.keepsDropout(); }

Value NodeImporter::use(ImportedValue &value) {
  if (value.value && !value.isKnown())
    return value.value;
  // What is known becomes an operator only when it is clear whether this node is left to run time.
  Value &placeholder = placeholderOf[&value];
  if (!placeholder) {
    placeholder =
        UnrealizedConversionCastOp::create(builder, location, TypeRange(value.type), ValueRange()).getResult(0);
    placeholders[placeholder] = &value;
  }
  return placeholder;
}

std::optional<HostTensor> NodeImporter::knownIfAny(unsigned index) {
  if (!hasInput(index))
    return std::nullopt;
  if (HostTensor tensor = inputs[index]->getKnown())
    return tensor;
  return std::nullopt;
}

FailureOr<HostTensor> NodeImporter::known(unsigned index) {
  if (std::optional<HostTensor> tensor = knownIfAny(index))
    return *tensor;
  if (!hasInput(index))
    return FailureOr<HostTensor>(error("expects input " + Twine(index)));
  return known(*inputs[index]);
}

FailureOr<HostTensor> NodeImporter::known(ImportedValue &value, StringRef what) {
  if (HostTensor tensor = value.getKnown())
    return tensor;
  SmallVector<std::string> missing;
  FailureOr<HostTensor> bound = failure();
  if (value.value)
    bound = graph.bindValue(value.value, missing);
  if (succeeded(bound)) {
    value.known = *bound;
    return bound;
  }
  if (hasFailed() || missing.empty())
    return FailureOr<HostTensor>(unsupported(what + " depends on \"" + value.name + "\", which is computed from data"));
  std::string flags;
  for (const std::string &input : missing)
    flags += " --bind " + input + "=FILE";
  (void)error("needs the value of \"" + value.name + "\" to know " + what + "; give it with" + flags);
  graph.noteFailure(ImportFailure::Diagnosed);
  return failure();
}

FailureOr<SmallVector<int64_t>> NodeImporter::knownIntegers(unsigned index) {
  FailureOr<HostTensor> tensor = known(index);
  if (failed(tensor))
    return failure();
  if (tensor->getType().getRank() > 1)
    return FailureOr<SmallVector<int64_t>>(error("expects input " + Twine(index) + " to be a list of integers"));
  if (tensor->getElementType().isInteger(64))
    return SmallVector<int64_t>(tensor->as<int64_t>());
  if (tensor->getElementType().isInteger(32))
    return SmallVector<int64_t>(llvm::map_range(tensor->as<int32_t>(), [](int32_t i) { return int64_t(i); }));
  return FailureOr<SmallVector<int64_t>>(error("expects input " + Twine(index) + " to hold int32 or int64"));
}

FailureOr<double> NodeImporter::knownNumber(unsigned index) {
  FailureOr<HostTensor> tensor = known(index);
  if (failed(tensor))
    return failure();
  if (tensor->getNumElements() != 1)
    return FailureOr<double>(error("expects input " + Twine(index) + " to hold one element"));
  DenseElementsAttr elements = tensor->toAttribute();
  if (auto floats = elements.tryGetValues<APFloat>(); succeeded(floats)) {
    APFloat value = *floats->begin();
    bool lossy = false;
    value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lossy);
    return value.convertToDouble();
  }
  APInt value = *elements.value_begin<APInt>();
  return value.getBitWidth() == 1 || elements.getElementType().isUnsignedInteger()
             ? static_cast<double>(value.getZExtValue())
             : static_cast<double>(value.getSExtValue());
}

FailureOr<std::optional<SmallVector<int64_t>>> NodeImporter::attributeOrInput(StringRef attribute, unsigned index) {
  if (hasInput(index)) {
    FailureOr<SmallVector<int64_t>> values = knownIntegers(index);
    if (failed(values))
      return failure();
    return std::optional<SmallVector<int64_t>>(std::move(*values));
  }
  return integers(attribute);
}

//===-- attributes --------------------------------------------------------------------------------------------===//

bool NodeImporter::hasAttribute(StringRef attribute) const {
  asked.insert(attribute);
  return llvm::any_of(proto.attribute(), [&](const onnx::AttributeProto &a) { return a.name() == attribute; });
}

const onnx::AttributeProto *NodeImporter::find(StringRef attribute, int type) {
  asked.insert(attribute);
  for (const onnx::AttributeProto &candidate : proto.attribute()) {
    if (candidate.name() != attribute)
      continue;
    // Files of IR version 1 leave the type out; later ones must have it.
    if (candidate.type() == type)
      return &candidate;
    (void)error("expects the attribute \"" + attribute + "\" to be of type " +
                onnx::AttributeProto::AttributeType_Name(static_cast<onnx::AttributeProto::AttributeType>(type)) +
                ", got " + onnx::AttributeProto::AttributeType_Name(candidate.type()));
  }
  return nullptr;
}

int64_t NodeImporter::integer(StringRef attribute, int64_t fallback) {
  const onnx::AttributeProto *found = find(attribute, onnx::AttributeProto::INT);
  return found ? found->i() : fallback;
}

double NodeImporter::real(StringRef attribute, double fallback) {
  const onnx::AttributeProto *found = find(attribute, onnx::AttributeProto::FLOAT);
  if (!found || !std::isfinite(found->f()))
    return found ? found->f() : fallback;
  // The shortest decimal that names the float: 0.01, not 0.0099999997764825821.
  char text[64];
  auto end = std::to_chars(text, text + sizeof(text), found->f()).ptr;
  double value = 0;
  std::from_chars(text, end, value);
  return value;
}

double NodeImporter::exactReal(StringRef attribute, double fallback) {
  const onnx::AttributeProto *found = find(attribute, onnx::AttributeProto::FLOAT);
  return found ? found->f() : fallback;
}

std::string NodeImporter::text(StringRef attribute, StringRef fallback) {
  const onnx::AttributeProto *found = find(attribute, onnx::AttributeProto::STRING);
  return found ? found->s() : fallback.str();
}

std::optional<SmallVector<int64_t>> NodeImporter::integers(StringRef attribute) {
  const onnx::AttributeProto *found = find(attribute, onnx::AttributeProto::INTS);
  if (!found)
    return std::nullopt;
  return SmallVector<int64_t>(found->ints().begin(), found->ints().end());
}

std::optional<SmallVector<float>> NodeImporter::reals(StringRef attribute) {
  const onnx::AttributeProto *found = find(attribute, onnx::AttributeProto::FLOATS);
  if (!found)
    return std::nullopt;
  return SmallVector<float>(found->floats().begin(), found->floats().end());
}

std::optional<SmallVector<std::string>> NodeImporter::texts(StringRef attribute) {
  const onnx::AttributeProto *found = find(attribute, onnx::AttributeProto::STRINGS);
  if (!found)
    return std::nullopt;
  return SmallVector<std::string>(found->strings().begin(), found->strings().end());
}

const onnx::GraphProto *NodeImporter::subgraph(StringRef attribute) {
  const onnx::AttributeProto *found = find(attribute, onnx::AttributeProto::GRAPH);
  if (!found)
    (void)error("expects the subgraph \"" + attribute + "\"");
  return found ? &found->g() : nullptr;
}

const onnx::TensorProto *NodeImporter::tensor(StringRef attribute) {
  const onnx::AttributeProto *found = find(attribute, onnx::AttributeProto::TENSOR);
  return found ? &found->t() : nullptr;
}

FailureOr<HostTensor> NodeImporter::read(const onnx::TensorProto &tensor) {
  auto read = graph.getReader().read(tensor);
  if (read && read->isPacked)
    return FailureOr<HostTensor>(unsupported("elements of 4 bits are known in initializers only"));
  if (read)
    return read->tensor;
  llvm::Error problem = read.takeError();
  bool isUnsupported = problem.isA<UnsupportedTensor>();
  std::string message = "the attribute's tensor " + llvm::toString(std::move(problem));
  return FailureOr<HostTensor>(isUnsupported ? unsupported(message) : error(message));
}

FailureOr<int64_t> NodeImporter::axis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank)
    return FailureOr<int64_t>(error("expects an axis of a tensor of rank " + Twine(rank) + ", got " + Twine(axis)));
  return axis < 0 ? axis + rank : axis;
}

FailureOr<SmallVector<int64_t>> NodeImporter::axes(ArrayRef<int64_t> axes, int64_t rank) {
  SmallVector<int64_t> result;
  for (int64_t given : axes) {
    FailureOr<int64_t> one = axis(given, rank);
    if (failed(one))
      return failure();
    result.push_back(*one);
  }
  llvm::sort(result);
  if (std::adjacent_find(result.begin(), result.end()) != result.end())
    return FailureOr<SmallVector<int64_t>>(error("expects distinct axes"));
  return result;
}

//===-- errors ------------------------------------------------------------------------------------------------===//

LogicalResult NodeImporter::error(const Twine &message) {
  hasError = true;
  graph.noteFailure(ImportFailure::Rejected);
  return emitError(location) << "node \"" << name << "\" (" << getKind() << ") " << message;
}

LogicalResult NodeImporter::unsupported(const Twine &message) {
  if (reason.empty())
    reason = message.str();
  return failure();
}

Value NodeImporter::fail() {
  hasError = true;
  graph.noteFailure(ImportFailure::Rejected);
  return {};
}

//===-- building ----------------------------------------------------------------------------------------------===//

Value NodeImporter::create(StringRef operation, ValueRange operands, Type type, ArrayRef<NamedAttribute> attributes) {
  if (!graph.countOperator()) {
    if (!hasError)
      (void)error("is one operator too many: with it the model becomes more than " + Twine(graph.options.limits.nodes) +
                  " operators; --max-nodes allows more");
    return {};
  }
  auto tensor = llvm::cast<RankedTensorType>(type);
  if (auto checked = makeTensorType(tensor.getShape(), tensor.getElementType()); !checked) {
    (void)error("gives a tensor that " + llvm::toString(checked.takeError()));
    return {};
  }
  OperationState state(location, operation, operands, type, attributes);
  Operation *op = builder.create(state);
  operations.push_back(op);
  return op->getResult(0);
}

void NodeImporter::eraseOperations() {
  for (Operation *op : llvm::reverse(operations))
    if (op->use_empty()) // What a subgraph reads stays, unused.
      op->erase();
  operations.clear();
}

Value NodeImporter::scalar(Type elementType, double value) {
  return splat(RankedTensorType::get({}, elementType), value);
}

Value NodeImporter::constant(const HostTensor &tensor) {
  return emit<dfg::ConstantOp>({}, builder.getNamedAttr("value", tensor.toAttribute()));
}

Value NodeImporter::weight(StringRef part, HostTensor tensor) {
  if (!graph.takeFoldedBytes(static_cast<uint64_t>(tensor.getNumBytes()))) {
    (void)error("makes the model's constants larger than memory should hold");
    return {};
  }
  ImportedValue *value = argument(part, std::move(tensor));
  value->isWeight = true;
  return use(*value);
}

Value NodeImporter::splat(RankedTensorType type, double value) {
  Type element = type.getElementType();
  Attribute number;
  if (isa<FloatType>(element))
    number = FloatAttr::get(element, value);
  else
    number = IntegerAttr::get(element, static_cast<int64_t>(value));
  return emit<dfg::ConstantOp>({}, builder.getNamedAttr("value", DenseElementsAttr::get(type, number)));
}

Value NodeImporter::reshape(Value value, ArrayRef<int64_t> shape) {
  if (!value || typeOf(value).getShape() == shape)
    return value;
  auto type = makeTensorType(shape, elementOf(value));
  if (!type) {
    (void)error("gives a tensor that " + llvm::toString(type.takeError()));
    return {};
  }
  if (type->getNumElements() != typeOf(value).getNumElements()) {
    (void)error("expects a shape of " + Twine(typeOf(value).getNumElements()) + " elements, got " +
                Twine(type->getNumElements()));
    return {};
  }
  return emitAs<dfg::ReshapeOp>(*type, value);
}

Value NodeImporter::broadcast(Value value, ArrayRef<int64_t> shape) {
  if (!value || typeOf(value).getShape() == shape)
    return value;
  auto joined = dfg::broadcastShapes(typeOf(value).getShape(), shape);
  if (failed(joined) || ArrayRef<int64_t>(*joined) != shape) {
    (void)error("expects a shape that broadcasts to the result's");
    return {};
  }
  auto type = makeTensorType(shape, elementOf(value));
  if (!type) {
    (void)error("gives a tensor that " + llvm::toString(type.takeError()));
    return {};
  }
  return emitAs<dfg::BroadcastOp>(*type, value);
}

Value NodeImporter::transpose(Value value, ArrayRef<int64_t> permutation) {
  if (!value || llvm::is_sorted(permutation))
    return value;
  return emit<dfg::TransposeOp>(value, attr("permutation", permutation));
}

Value NodeImporter::cast(Value value, Type elementType) {
  if (!value || elementOf(value) == elementType)
    return value;
  return emit<dfg::CastOp>(value, builder.getNamedAttr("to", TypeAttr::get(elementType)));
}

Value NodeImporter::slice(Value value, int64_t dim, int64_t start, int64_t limit, int64_t stride) {
  if (!value || (start == 0 && limit == typeOf(value).getDimSize(dim) && stride == 1))
    return value;
  ArrayRef<int64_t> shape = typeOf(value).getShape();
  SmallVector<int64_t> starts(shape.size(), 0), limits(shape), strides(shape.size(), 1);
  starts[dim] = start;
  limits[dim] = limit;
  strides[dim] = stride;
  return emit<dfg::SliceOp>(value, {attr("starts", starts), attr("limits", limits), attr("strides", strides)});
}

Value NodeImporter::concat(ArrayRef<Value> values, int64_t dim) {
  return values.size() == 1 ? values.front() : emit<dfg::ConcatOp>(values, attr("dim", dim));
}

Value NodeImporter::compare(Value lhs, Value rhs, dfg::Comparison comparison) {
  auto kind = dfg::ComparisonAttr::get(getContext(), comparison);
  return emit<dfg::CompareOp>({lhs, rhs}, builder.getNamedAttr("comparison", kind));
}

Value NodeImporter::dot(Value lhs, Value rhs, ArrayRef<int64_t> lhsBatch, ArrayRef<int64_t> rhsBatch,
                        ArrayRef<int64_t> lhsContracting, ArrayRef<int64_t> rhsContracting) {
  return emit<dfg::DotGeneralOp>({lhs, rhs},
                                 {attr("lhs_batch", lhsBatch), attr("rhs_batch", rhsBatch),
                                  attr("lhs_contracting", lhsContracting), attr("rhs_contracting", rhsContracting)});
}

Value NodeImporter::reduce(Value value, dfg::ReduceKind kind, ArrayRef<int64_t> dims, bool keepDims) {
  SmallVector<NamedAttribute> attributes = {builder.getNamedAttr("kind", dfg::ReduceKindAttr::get(getContext(), kind)),
                                            attr("dims", dims)};
  if (keepDims)
    attributes.push_back(flag("keep_dims"));
  return emit<dfg::ReduceOp>(value, attributes);
}

Value NodeImporter::mean(Value value, ArrayRef<int64_t> dims, bool keepDims) {
  if (!value)
    return {};
  double count = 1;
  for (int64_t dim : dims)
    count *= static_cast<double>(typeOf(value).getDimSize(dim));
  Value sum = reduce(value, dfg::ReduceKind::Sum, dims, keepDims);
  return emit<dfg::DivOp>({sum, scalar(elementOf(value), count)});
}

Value NodeImporter::perChannel(Value value, int64_t rank) {
  if (!value)
    return {};
  SmallVector<int64_t> shape(std::max<int64_t>(rank - 1, 1), 1);
  shape[0] = typeOf(value).getNumElements();
  return reshape(value, shape);
}

} // namespace cleave
