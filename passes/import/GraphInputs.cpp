// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Initializers and inputs of the graph: their types, symbolic dimensions, and values that are fixed at compile time.

#include "passes/import/GraphImporter.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace cleave {

LogicalResult GraphImporter::importInitializers(Scope &scope, const onnx::GraphProto &proto) {
  if (proto.sparse_initializer_size() > 0)
    return fail(ImportFailure::Unsupported, "the model has sparse initializers, which Cleave does not support");
  for (const onnx::TensorProto &initializer : proto.initializer()) {
    if (initializer.name().empty())
      return fail(ImportFailure::Rejected, "an initializer has no name");
    auto tensor = reader.read(initializer);
    if (!tensor) {
      llvm::Error problem = tensor.takeError();
      ImportFailure failure = problem.isA<UnsupportedTensor>() ? ImportFailure::Unsupported : ImportFailure::Rejected;
      return fail(failure, "the initializer \"" + initializer.name() + "\" " + llvm::toString(std::move(problem)));
    }
    ImportedValue *value = addValue(scope.prefix + initializer.name(), tensor->tensor.getType());
    value->known = tensor->tensor;
    value->isInitializer = true;
    value->isWeight = isa<FloatType>(value->type.getElementType());
    value->isPacked = tensor->isPacked;
    value->file = tensor->file;
    value->offset = tensor->offset;
    if (failed(define(scope, initializer.name(), value)))
      return failure();
  }
  return success();
}

/// The name by which `--dim` fixes a dimension.
static std::string dimName(const onnx::ValueInfoProto &input, int index) {
  const auto &dim = input.type().tensor_type().shape().dim(index);
  return dim.has_dim_param() && !dim.dim_param().empty() ? dim.dim_param() : input.name() + "." + std::to_string(index);
}

static std::string quotedList(ArrayRef<std::string> names) { return "\"" + llvm::join(names, "\", \"") + "\""; }

LogicalResult GraphImporter::checkOptions() {
  SmallVector<std::string> known, inputs;
  for (const onnx::ValueInfoProto &input : model->graph().input()) {
    inputs.push_back(input.name());
    for (int i = 0; i < input.type().tensor_type().shape().dim_size(); ++i)
      if (!input.type().tensor_type().shape().dim(i).has_dim_value() && !llvm::is_contained(known, dimName(input, i)))
        known.push_back(dimName(input, i));
  }
  for (const auto &[name, size] : options.dims) {
    if (!llvm::is_contained(known, name))
      return fail(ImportFailure::Usage,
                  "--dim " + name + ": expects a symbolic dimension of the model's inputs, " +
                      (known.empty() ? "of which there are none" : "which are " + quotedList(known)));
    if (size < 1 || size > largestTensorBytes)
      return fail(ImportFailure::Usage, "--dim " + name + ": expects a positive size, got " + Twine(size));
    dims[name] = size;
  }
  for (const auto &[name, tensor] : options.bindings)
    if (!llvm::is_contained(inputs, name))
      return fail(ImportFailure::Usage,
                  "--bind " + name + ": expects an input of the model, which are " + quotedList(inputs));
  return success();
}

/// Dimension 0 of an input; null where it has none.
static const onnx::TensorShapeProto::Dimension *outermost(const onnx::ValueInfoProto &input) {
  const onnx::TensorShapeProto &shape = input.type().tensor_type().shape();
  return shape.dim_size() ? &shape.dim(0) : nullptr;
}

bool GraphImporter::countsSamples(const onnx::ValueInfoProto &input) const {
  const onnx::TensorShapeProto::Dimension *own = outermost(input);
  return samplesDim && own && !fixedInputs.contains(input.name()) && samplesDim->dim_value() == own->dim_value() &&
         samplesDim->dim_param() == own->dim_param();
}

void GraphImporter::chooseSamples() {
  samples = options.samples;
  for (const onnx::TensorProto &initializer : model->graph().initializer())
    fixedInputs.insert(initializer.name());
  auto first = llvm::find_if(model->graph().input(),
                             [&](const onnx::ValueInfoProto &input) { return !fixedInputs.contains(input.name()); });
  samplesDim = first == model->graph().input().end() ? nullptr : outermost(*first);
  if (samplesDim && !samplesDim->has_dim_value())
    report.samplesDim = dimName(*first, 0);
  if (!samples && samplesDim) {
    bool isOpen = samplesDim->has_dim_value() ? samplesDim->dim_value() == 1 : !dims.count(report.samplesDim);
    if (isOpen)
      samples = options.openSamples;
    report.lacksSamples = isOpen && !samples && !samplesDim->has_dim_value();
  }
  report.samples = samples;
}

std::optional<int64_t> GraphImporter::declaredSamples() const {
  return samples && samplesDim && samplesDim->has_dim_value() ? std::optional(samplesDim->dim_value()) : std::nullopt;
}

const DeclaredShape *GraphImporter::declaredShape(StringRef node) {
  if (!declaredShapes) {
    ImportOptions declared = options;
    declared.samples = declaredSamples();
    declared.bindInput = nullptr;
    WeightsStore noWeights("");
    ImportReport noReport;
    // Whatever is wrong with the model is said by the import that asks.
    ScopedDiagnosticHandler silence(context, [](Diagnostic &) {});
    GraphImporter importer(context, model, folder, declared, noWeights, noReport);
    importer.recordsShapes = true;
    importer.declaredShapes.emplace();
    (void)importer.run();
    declaredShapes = std::move(importer.declaredShapes);
  }
  auto found = declaredShapes->find(node);
  return found == declaredShapes->end() ? nullptr : &found->second;
}

FailureOr<RankedTensorType> GraphImporter::inputType(const onnx::ValueInfoProto &input,
                                                     SmallVectorImpl<std::string> &unbound) {
  auto reject = [&](ImportFailure failure, const Twine &message) {
    return FailureOr<RankedTensorType>(fail(failure, "the input \"" + input.name() + "\" " + message));
  };
  if (!input.has_type() || input.type().value_case() == onnx::TypeProto::VALUE_NOT_SET)
    return reject(ImportFailure::Rejected, "has no type");
  if (!input.type().has_tensor_type())
    return reject(ImportFailure::Unsupported, "is not a tensor, which Cleave does not support");
  const onnx::TypeProto::Tensor &tensor = input.type().tensor_type();
  Type element = elementTypeFromOnnx(context, tensor.elem_type());
  if (!element)
    return reject(tensor.elem_type() == 0 ? ImportFailure::Rejected : ImportFailure::Unsupported,
                  "has elements of " + onnxTypeName(tensor.elem_type()) + ", which Cleave does not support");
  // A shape that the user gives along with a value also fixes the dimensions.
  std::optional<SmallVector<int64_t>> given;
  if (auto bound = options.bindings.find(input.name()); bound != options.bindings.end())
    given.emplace(bound->second.getShape());
  else if (options.inputShape)
    given = options.inputShape(input.name());
  if (!tensor.has_shape() && !given)
    return reject(ImportFailure::Unsupported,
                  "has no shape, and --dim cannot give it one; give a value with --bind " + input.name() + "=FILE");
  SmallVector<int64_t> shape;
  if (!tensor.has_shape())
    shape = *given;
  for (int i = 0; i < tensor.shape().dim_size(); ++i) {
    if (i == 0 && samples && countsSamples(input)) {
      shape.push_back(*samples);
      continue;
    }
    if (tensor.shape().dim(i).has_dim_value()) {
      shape.push_back(tensor.shape().dim(i).dim_value());
      continue;
    }
    std::string name = dimName(input, i);
    if (!dims.count(name) && given && static_cast<int>(given->size()) == tensor.shape().dim_size())
      dims[name] = (*given)[i];
    auto size = dims.find(name);
    if (size == dims.end() && !llvm::is_contained(unbound, name))
      unbound.push_back(name);
    shape.push_back(size == dims.end() ? 1 : size->second);
  }
  auto type = makeTensorType(shape, element);
  if (!type)
    return reject(ImportFailure::Rejected, llvm::toString(type.takeError()));
  return *type;
}

LogicalResult GraphImporter::bindInput(ImportedValue &input, const HostTensor &given) {
  HostTensor value = given;
  // Programs in NumPy, which has no bfloat16, call it uint16.
  if (input.type.getElementType().isBF16() && value.getElementType().isUnsignedInteger(16))
    value = value.withType(value.getType().clone(input.type.getElementType()));
  if (value.getType() != input.type) {
    noteFailure(ImportFailure::Usage);
    return emitError(UnknownLoc::get(context)) << "the value given for the input \"" << input.name << "\" is a "
                                               << value.getType() << ", expected " << input.type;
  }
  input.known = value;
  // From here on the value is a constant; the argument stays, unread.
  input.value = Value();
  report.boundInputs.push_back(input.name);
  return success();
}

LogicalResult GraphImporter::importInputs(Scope &scope) {
  if (failed(checkOptions()))
    return failure();
  chooseSamples();
  SmallVector<std::string> unbound;
  SmallVector<std::pair<const onnx::ValueInfoProto *, RankedTensorType>> inputs;
  // Twice: what a later input says about a dimension's size holds for an earlier one, too.
  for (bool last : {false, true}) {
    unbound.clear();
    for (const onnx::ValueInfoProto &input : model->graph().input()) {
      // Files of IR version 3 list initializers as inputs, also those that nothing reads.
      if (fixedInputs.contains(input.name()))
        continue;
      FailureOr<RankedTensorType> type = inputType(input, unbound);
      if (failed(type))
        return failure();
      if (last)
        inputs.push_back({&input, *type});
    }
  }
  if (!unbound.empty()) {
    std::string flags;
    for (const std::string &name : unbound)
      flags += " --dim " + name + "=1";
    return fail(ImportFailure::Usage, "the model's dimensions " + quotedList(unbound) +
                                          " are symbolic, expected a size for each, as in" + flags);
  }
  if (samples && *samples > 1)
    samplePositions.emplace(*samples, [this](BlockArgument input) { return batchedInputs.contains(input); });
  for (auto [input, type] : inputs) {
    if (input->name().empty())
      return fail(ImportFailure::Rejected, "an input has no name");
    ImportedValue *value = addValue(input->name(), type);
    value->value = graph.getBody().addArgument(type, dfg::getNodeLocation(context, input->name(), "Input"));
    graphInputs[value->value] = value;
    if (samples && countsSamples(*input))
      batchedInputs.insert(value->value);
    if (failed(define(scope, input->name(), value)))
      return failure();
    if (auto bound = options.bindings.find(input->name()); bound != options.bindings.end())
      if (failed(bindInput(*value, bound->second)))
        return failure();
  }
  return success();
}

} // namespace cleave
