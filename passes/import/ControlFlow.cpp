// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// If, Loop and Scan, where it is known at import which branch runs and how often: the branch in place, loops unrolled.

#include "passes/import/GraphImporter.h"
#include "passes/import/NodeImporter.h"
#include "passes/import/OperatorTable.h"

#include <limits>

using namespace mlir;

namespace cleave {

/// The most iterations that are unrolled.
static constexpr int64_t mostIterations = 1 << 16;

template <typename T> static HostTensor knownScalar(Type element, T value) {
  char *writable = nullptr;
  HostTensor tensor = HostTensor::allocate(RankedTensorType::get({}, element), writable);
  std::memcpy(writable, &value, sizeof(T));
  return tensor;
}

/// The only element of a tensor of truth values.
static FailureOr<bool> knownTruth(NodeImporter &node, ImportedValue &value, StringRef what) {
  FailureOr<HostTensor> tensor = node.known(value, what);
  if (failed(tensor))
    return failure();
  if (!tensor->getElementType().isInteger(1) || tensor->getNumElements() != 1)
    return FailureOr<bool>(node.error("expects a condition of one truth value, got " +
                                      std::to_string(tensor->getNumElements()) + " elements"));
  return *tensor->data() != 0;
}

/// Results that are values of subgraphs. An operand of the node is only made now, when all subgraphs are imported.
static ImportResults useAll(NodeImporter &node, ArrayRef<ImportedValue *> values) {
  SmallVector<NodeResult, 1> results;
  for (ImportedValue *value : values)
    results.push_back(node.use(*value));
  return results;
}

static ImportResults importIf(NodeImporter &node) {
  FailureOr<bool> condition = knownTruth(node, *node.imported(0), "which branch runs");
  if (failed(condition))
    return failure();
  const onnx::GraphProto *branch = node.subgraph(*condition ? "then_branch" : "else_branch");
  if (!branch)
    return failure();
  FailureOr<Scope> shared = node.open(*branch);
  if (failed(shared))
    return failure();
  auto outputs = node.run(*shared, *branch, "", {});
  if (failed(outputs))
    return failure();
  return useAll(node, *outputs);
}

//===-- loops -------------------------------------------------------------------------------------------------===//

/// One tensor of all iterations' values, along a new dimension.
static Value stack(NodeImporter &node, ArrayRef<ImportedValue *> values, int64_t dim) {
  SmallVector<Value> parts;
  for (ImportedValue *value : values) {
    SmallVector<int64_t> shape(value->type.getShape());
    if (value->type != values.front()->type) {
      (void)node.unsupported("iterations give results of different shapes");
      return {};
    }
    shape.insert(shape.begin() + dim, 1);
    parts.push_back(node.reshape(node.use(*value), shape));
  }
  return node.concat(parts, dim);
}

/// What a loop that never runs gives for the values of its iterations; null where the subgraph does not say.
static Value emptyStack(NodeImporter &node, const onnx::ValueInfoProto &output) {
  const onnx::TypeProto::Tensor &declared = output.type().tensor_type();
  Type element = elementTypeFromOnnx(node.getContext(), declared.elem_type());
  SmallVector<int64_t> shape = {0};
  for (const auto &dim : declared.shape().dim()) {
    if (!dim.has_dim_value())
      element = Type();
    shape.push_back(dim.dim_value());
  }
  auto type = element && declared.has_shape() ? makeTensorType(shape, element)
                                              : llvm::Expected<RankedTensorType>(RankedTensorType());
  if (!type || !*type) {
    llvm::consumeError(type.takeError());
    (void)node.unsupported("the loop never runs, and its subgraph does not state the types of its results");
    return {};
  }
  return node.splat(*type, 0.0);
}

/// Results of a loop: the carried values, then each iteration's other values along a new dimension.
static ImportResults loopResults(NodeImporter &node, const onnx::GraphProto &body, ArrayRef<ImportedValue *> carried,
                                 ArrayRef<SmallVector<ImportedValue *>> scanned, ArrayRef<int64_t> dims,
                                 ArrayRef<bool> backwards) {
  ImportResults results = useAll(node, carried);
  for (auto [index, values] : llvm::enumerate(scanned)) {
    SmallVector<ImportedValue *> ordered(values);
    if (backwards[index])
      std::reverse(ordered.begin(), ordered.end());
    int output = body.output_size() - static_cast<int>(scanned.size() - index);
    results->push_back(values.empty() ? emptyStack(node, body.output(output)) : stack(node, ordered, dims[index]));
  }
  if (llvm::any_of(*results, [](const NodeResult &result) { return !result.value; }))
    return failure();
  return results;
}

static ImportResults importLoop(NodeImporter &node) {
  const onnx::GraphProto *body = node.subgraph("body");
  if (!body)
    return failure();
  int64_t count = std::numeric_limits<int64_t>::max();
  if (node.hasInput(0)) {
    FailureOr<HostTensor> given = node.known(*node.imported(0), "how often the loop runs");
    if (failed(given))
      return failure();
    if (!given->getElementType().isInteger(64) || given->getNumElements() != 1)
      return node.error("expects one int64 as the number of iterations");
    count = given->as<int64_t>()[0];
  }
  auto i1 = node.getBuilder().getI1Type();
  ImportedValue *condition = node.hasInput(1) ? node.imported(1) : node.argument("condition", knownScalar<char>(i1, 1));
  SmallVector<ImportedValue *> carried;
  for (unsigned i = 2; i < node.getNumInputs(); ++i) {
    if (!node.hasInput(i))
      return node.error("expects input " + Twine(i));
    carried.push_back(node.imported(i));
  }
  if (body->output_size() < static_cast<int>(1 + carried.size()))
    return node.error("expects a subgraph of at least " + Twine(1 + carried.size()) + " outputs, got " +
                      Twine(body->output_size()));
  SmallVector<SmallVector<ImportedValue *>> scanned(body->output_size() - 1 - carried.size());
  FailureOr<Scope> shared = node.open(*body);
  if (failed(shared))
    return failure();
  for (int64_t i = 0; i < count; ++i) {
    FailureOr<bool> goesOn = knownTruth(node, *condition, "how often the loop runs");
    if (failed(goesOn))
      return failure();
    if (!*goesOn)
      break;
    if (i == mostIterations)
      return node.unsupported("loops of more than " + Twine(mostIterations) + " iterations are not unrolled");
    HostTensor position = knownScalar<int64_t>(node.getBuilder().getI64Type(), i);
    SmallVector<ImportedValue *> arguments = {node.argument("iteration", position), condition};
    arguments.append(carried);
    auto outputs = node.run(*shared, *body, std::to_string(i), arguments);
    if (failed(outputs))
      return failure();
    condition = outputs->front();
    std::copy_n(outputs->begin() + 1, carried.size(), carried.begin());
    for (auto [index, values] : llvm::enumerate(scanned))
      values.push_back((*outputs)[1 + carried.size() + index]);
  }
  SmallVector<int64_t> dims(scanned.size(), 0);
  SmallVector<bool> backwards(scanned.size(), false);
  return loopResults(node, *body, carried, scanned, dims, backwards);
}

namespace {
/// What Scan's attributes say about the tensors that it goes through: dimensions and directions.
struct ScanLists {
  SmallVector<int64_t> dims;
  SmallVector<bool> backwards;
};
} // namespace

static FailureOr<ScanLists> scanLists(NodeImporter &node, StringRef axes, StringRef directions,
                                      ArrayRef<int64_t> ranks) {
  SmallVector<int64_t> dims = node.integers(axes).value_or(SmallVector<int64_t>(ranks.size(), 0));
  SmallVector<int64_t> ways = node.integers(directions).value_or(SmallVector<int64_t>(ranks.size(), 0));
  if (dims.size() != ranks.size() || ways.size() != ranks.size())
    return FailureOr<ScanLists>(
        node.error("expects " + Twine(ranks.size()) + " entries in \"" + axes + "\" and \"" + directions + "\""));
  ScanLists lists;
  for (auto [dim, way, rank] : llvm::zip(dims, ways, ranks)) {
    FailureOr<int64_t> checked = node.axis(dim, rank);
    if (failed(checked))
      return failure();
    lists.dims.push_back(*checked);
    lists.backwards.push_back(way != 0);
  }
  return lists;
}

/// Element `position` along `dim`, without that dimension.
static Value elementAlong(NodeImporter &node, Value value, int64_t dim, int64_t position) {
  if (!value)
    return {};
  SmallVector<int64_t> shape(NodeImporter::typeOf(value).getShape());
  shape.erase(shape.begin() + dim);
  return node.reshape(node.slice(value, dim, position, position + 1), shape);
}

/// Runs the body over the elements of `sequences`; the states go from one run to the next.
static ImportResults scan(NodeImporter &node, const onnx::GraphProto &body, SmallVector<ImportedValue *> states,
                          ArrayRef<Value> sequences, const ScanLists &inputs, int64_t length, StringRef part,
                          const Scope &shared) {
  SmallVector<SmallVector<ImportedValue *>> scanned(body.output_size() - states.size());
  for (int64_t i = 0; i < length; ++i) {
    SmallVector<ImportedValue *> arguments(states);
    for (auto [index, sequence] : llvm::enumerate(sequences)) {
      int64_t position = inputs.backwards[index] ? length - 1 - i : i;
      arguments.push_back(node.argument("element", elementAlong(node, sequence, inputs.dims[index], position)));
      if (!arguments.back())
        return failure();
    }
    auto outputs = node.run(shared, body, part.str() + std::to_string(i), arguments);
    if (failed(outputs))
      return failure();
    std::copy_n(outputs->begin(), states.size(), states.begin());
    for (auto [index, values] : llvm::enumerate(scanned))
      values.push_back((*outputs)[states.size() + index]);
  }
  // Ranks of the results: those of the elements and the dimension along which they are put together.
  SmallVector<int64_t> ranks;
  for (const auto &values : scanned)
    ranks.push_back(values.empty() ? 1 : values.front()->type.getRank() + 1);
  FailureOr<ScanLists> outputs = scanLists(node, "scan_output_axes", "scan_output_directions", ranks);
  if (failed(outputs))
    return failure();
  return loopResults(node, body, states, scanned, outputs->dims, outputs->backwards);
}

static ImportResults importScan(NodeImporter &node) {
  const onnx::GraphProto *body = node.subgraph("body");
  int64_t numSequences = node.integer("num_scan_inputs", 0);
  if (!body || numSequences < 1 || numSequences > node.getNumInputs())
    return node.error("expects \"num_scan_inputs\" to be from 1 to the number of inputs");
  int64_t numStates = node.getNumInputs() - numSequences;
  if (body->output_size() < numStates)
    return node.error("expects a subgraph of at least " + Twine(numStates) + " outputs, got " +
                      Twine(body->output_size()));
  SmallVector<ImportedValue *> states;
  SmallVector<Value> sequences;
  SmallVector<int64_t> ranks;
  for (unsigned i = 0; i < node.getNumInputs(); ++i) {
    if (!node.hasInput(i))
      return node.error("expects input " + Twine(i));
    if (i < numStates) {
      states.push_back(node.imported(i));
    } else {
      sequences.push_back(node.input(i));
      ranks.push_back(node.rank(i));
    }
  }
  FailureOr<ScanLists> inputs = scanLists(node, "scan_input_axes", "scan_input_directions", ranks);
  if (failed(inputs))
    return failure();
  int64_t length = node.shape(numStates)[inputs->dims.front()];
  for (auto [index, dim] : llvm::enumerate(inputs->dims))
    if (node.shape(numStates + index)[dim] != length)
      return node.error("expects sequences of one length, got " + Twine(length) + " and " +
                        Twine(node.shape(numStates + index)[dim]));
  if (length > mostIterations)
    return node.unsupported("loops of more than " + Twine(mostIterations) + " iterations are not unrolled");
  FailureOr<Scope> shared = node.open(*body);
  if (failed(shared))
    return failure();
  return scan(node, *body, states, sequences, *inputs, length, "", *shared);
}

/// In operator set 8 the first dimension of all is a batch, whose examples are gone through one by one, and the first
/// input the lengths of their sequences.
static ImportResults importBatchedScan(NodeImporter &node) {
  const onnx::GraphProto *body = node.subgraph("body");
  int64_t numSequences = node.integer("num_scan_inputs", 0), numInputs = node.getNumInputs(),
          numStates = numInputs - 1 - numSequences;
  if (!body || numSequences < 1 || numStates < 0 || body->output_size() < numStates)
    return node.error("expects \"num_scan_inputs\" to be from 1 to the number of inputs behind the first");
  if (node.hasInput(0))
    return node.unsupported("sequences of different lengths are not known");
  SmallVector<int64_t> ways = node.integers("directions").value_or(SmallVector<int64_t>(numSequences, 0));
  for (unsigned i = 1; i < node.getNumInputs(); ++i)
    if (!node.hasInput(i) || node.rank(i) < (i <= numStates ? 1 : 2) || node.shape(i)[0] != node.shape(1)[0])
      return node.error("expects inputs of one batch");
  int64_t batch = node.shape(1)[0], length = node.shape(numStates + 1)[1];
  if (batch < 1 || batch > mostIterations || length > mostIterations / batch)
    return node.unsupported("loops of more than " + Twine(mostIterations) + " iterations are not unrolled");
  if (static_cast<int64_t>(ways.size()) != numSequences)
    return node.error("expects " + Twine(numSequences) + " entries in \"directions\"");
  FailureOr<Scope> shared = node.open(*body);
  if (failed(shared))
    return failure();
  SmallVector<SmallVector<Value>> examples(body->output_size());
  for (int64_t example = 0; example < batch; ++example) {
    SmallVector<ImportedValue *> states;
    SmallVector<Value> sequences;
    ScanLists inputs;
    for (unsigned i = 1; i < node.getNumInputs(); ++i) {
      Value one = elementAlong(node, node.input(i), 0, example);
      if (!one)
        return failure();
      if (i <= numStates) {
        states.push_back(node.argument("state", one));
        continue;
      }
      sequences.push_back(one);
      inputs.dims.push_back(0);
      inputs.backwards.push_back(ways[i - 1 - numStates] != 0);
    }
    std::string part = std::to_string(example) + "/";
    ImportResults results = scan(node, *body, states, sequences, inputs, length, part, *shared);
    if (failed(results))
      return failure();
    for (auto [index, result] : llvm::enumerate(*results)) {
      SmallVector<int64_t> shape(NodeImporter::typeOf(result.value).getShape());
      shape.insert(shape.begin(), 1);
      examples[index].push_back(node.reshape(result.value, shape));
    }
  }
  SmallVector<NodeResult, 1> results;
  for (const auto &values : examples)
    results.push_back(node.concat(values, 0));
  return results;
}

void addControlFlowOperators(OperatorTable &table) {
  constexpr unsigned any = OperatorTable::anyNumber;
  table.add("If", {importIf, 1, 1, Elements::Bool});
  table.add("Loop", {importLoop, 0, any});
  table.add("Scan", {importBatchedScan, 0, any, Elements::Any, 8, 8});
  table.add("Scan", {importScan, 1, any, Elements::Any, 9});
}

} // namespace cleave
