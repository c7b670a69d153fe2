// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Mixtures of experts as ONNX Runtime's exporters write them (domain com.microsoft): a router's scores choose a few
// small networks of two or three products for each token, and their results are added up by their shares. MoE has
// weights of reals, QMoE of 4 or 8 bits, which are expanded at import.

#include "passes/import/NodeImporter.h"
#include "passes/import/OperatorTable.h"
#include "passes/import/QuantizationParts.h"

#include <limits>

using namespace mlir;

namespace cleave {

namespace {
/// Weights of a product that all experts have: experts x units x inputs, and a bias a unit where there is one.
struct ExpertLayer {
  Value weights, bias;
};

/// The inputs that one layer of QMoE takes: weights, scales, bias and zero points.
struct QuantizedInputs {
  unsigned weights, scales, bias, zeros;
};

class Mixture {
public:
  explicit Mixture(NodeImporter &node) : node(node), top(node.integer("k", 1)) {}

  ImportResults buildReal();
  ImportResults buildQuantized();

private:
  LogicalResult readSizes(StringRef unsupported);
  FailureOr<ExpertLayer> readLayer(unsigned weights, unsigned bias, int64_t units, int64_t inputs);
  FailureOr<ExpertLayer> readQuantized(const QuantizedInputs &inputs, StringRef name, int64_t units, int64_t columns);
  FailureOr<SmallVector<float>> readZeros(unsigned index, int64_t units, int64_t blocks, int64_t bits);

  void route(bool isNormalized);
  Value apply(Value values, const ExpertLayer &layer);
  FailureOr<Value> activate(Value inner, Value linear);
  ImportResults build(const ExpertLayer &first, const ExpertLayer &second, const ExpertLayer &third);
  /// Whether the first layer has the units of gates beside the others.
  int64_t fusedGates() const { return activation == "swiglu" && fusion != 0 ? 2 : 1; }

  /// The dimensions of the tokens, then these.
  SmallVector<int64_t> rows(std::initializer_list<int64_t> behind) const {
    SmallVector<int64_t> shape(node.shape(0).drop_back());
    llvm::append_range(shape, behind);
    return shape;
  }

  NodeImporter &node;
  int64_t top, hidden = 0, experts = 0, fusion = 0;
  std::string activation;
  /// For each token the experts that it goes to (tokens... x k), and the share of each (tokens... x k x 1).
  Value chosen, shares;
};
} // namespace

LogicalResult Mixture::readSizes(StringRef unsupported) {
  if (node.integer("use_sparse_mixer", 0))
    return node.unsupported("routing by \"use_sparse_mixer\" is not known");
  if (!unsupported.empty())
    return node.unsupported(unsupported);
  activation = node.text("activation_type", "relu");
  fusion = node.integer("swiglu_fusion", 0);
  if (node.rank(0) < 2 || node.rank(0) > 3 || node.rank(1) != 2)
    return node.error("expects tokens of rank 2 or 3, and a score for each token and expert");
  hidden = node.shape(0).back();
  int64_t tokens = node.rank(0) == 2 ? node.shape(0)[0] : node.shape(0)[0] * node.shape(0)[1];
  experts = node.shape(1)[1];
  if (node.shape(1)[0] != tokens)
    return node.error("expects scores of " + Twine(tokens) + " tokens, got " + Twine(node.shape(1)[0]));
  if (top < 1 || top > experts)
    return node.error("expects \"k\" to be from 1 to the number of experts, " + Twine(experts) + ", got " + Twine(top));
  if (fusion < 0 || fusion > 2)
    return node.error("expects \"swiglu_fusion\" to be 0, 1 or 2, got " + Twine(fusion));
  return success();
}

/// The best `top` experts of each token, equal ones in their order, and their shares: softmax's values among all
/// experts, or among the chosen ones.
void Mixture::route(bool isNormalized) {
  int64_t dim = node.rank(0) - 1;
  Value scores = node.reshape(node.input(1), rows({experts}));
  Value order = node.emit<dfg::ArgSortOp>(scores, {node.attr("dim", dim), node.flag("descending")});
  chosen = node.slice(order, dim, 0, top);
  auto softmax = [&](Value value) { return node.emit<dfg::SoftmaxOp>(value, node.attr("dim", dim)); };
  auto ofChosen = [&](Value value) { return node.emit<dfg::GatherElementsOp>({value, chosen}, node.attr("dim", dim)); };
  shares = node.reshape(isNormalized ? softmax(ofChosen(scores)) : ofChosen(softmax(scores)), rows({top, 1}));
}

/// Each row's product with its own expert's weights. `values` is tokens... x k or 1 x inputs.
Value Mixture::apply(Value values, const ExpertLayer &layer) {
  Value product = node.emit<dfg::GatherDotOp>({values, layer.weights, chosen}, node.flag("transposed"));
  if (!layer.bias)
    return product;
  return node.emit<dfg::AddOp>({product, node.emit<dfg::GatherOp>({layer.bias, chosen}, node.attr("dim", int64_t(0)))});
}

/// What stands between the layers. `linear` is the third layer's result, null where there is none.
FailureOr<Value> Mixture::activate(Value inner, Value linear) {
  auto silu = [&](Value value, double alpha) {
    Value scaled = alpha == 1 ? value : node.emit<dfg::MulOp>({value, node.scalar(node.elementOf(value), alpha)});
    return node.emit<dfg::MulOp>({value, node.emit<dfg::SigmoidOp>(scaled)});
  };
  if (activation == "swiglu") {
    constexpr double none = std::numeric_limits<double>::infinity();
    double alpha = node.real("activation_alpha", 1.0), beta = node.real("activation_beta", 0.0);
    double limit = node.real("swiglu_limit", none);
    Value gate = inner;
    if (fusion != 0) {
      // Gates and the others take turns, or stand one behind the other.
      int64_t width = node.typeOf(inner).getShape().back() / 2;
      int64_t dim = node.rank(0) + (fusion == 1 ? 1 : 0);
      Value both = node.reshape(inner, fusion == 1 ? rows({top, width, 2}) : rows({top, 2, width}));
      auto half = [&](int64_t index) {
        return node.reshape(node.slice(both, dim, index, index + 1), rows({top, width}));
      };
      gate = half(0), linear = half(1);
    }
    if (!linear)
      return FailureOr<Value>(node.error("expects third weights, as \"swiglu_fusion\" is 0"));
    auto clamp = [&](Value value, double low) {
      return node.emit<dfg::ClampOp>(value, {node.real64("low", low), node.real64("high", limit)});
    };
    if (limit != none)
      gate = clamp(gate, -none), linear = clamp(linear, -limit);
    if (beta != 0)
      linear = node.emit<dfg::AddOp>({linear, node.scalar(node.elementOf(linear), beta)});
    return node.emit<dfg::MulOp>({silu(gate, alpha), linear});
  }
  Value value = inner;
  if (activation == "relu")
    value = node.emit<dfg::ReluOp>(inner);
  else if (activation == "gelu")
    value = node.emit<dfg::GeluOp>(inner, node.flag("approximate"));
  else if (activation == "silu")
    value = silu(inner, 1);
  else if (activation != "identity")
    return FailureOr<Value>(node.unsupported("\"activation_type\" \"" + activation + "\" is not known"));
  return linear ? node.emit<dfg::MulOp>({value, linear}) : value;
}

ImportResults Mixture::build(const ExpertLayer &first, const ExpertLayer &second, const ExpertLayer &third) {
  Value tokens = node.reshape(node.input(0), rows({1, hidden}));
  FailureOr<Value> inner = activate(apply(tokens, first), third.weights ? apply(tokens, third) : Value());
  if (failed(inner))
    return failure();
  // Without a bias both sides of the last product may be weighted: the narrower one, of which training keeps less.
  bool isNarrower = !second.bias && node.typeOf(*inner).getShape().back() < hidden;
  auto weigh = [&](Value value) { return node.emit<dfg::MulOp>({value, shares}); };
  Value results = isNarrower ? apply(weigh(*inner), second) : weigh(apply(*inner, second));
  return oneResult(node.reduce(results, dfg::ReduceKind::Sum, {node.rank(0) - 1}, /*keepDims=*/false));
}

//===-- MoE ---------------------------------------------------------------------------------------------------===//

FailureOr<ExpertLayer> Mixture::readLayer(unsigned weights, unsigned bias, int64_t units, int64_t inputs) {
  if (node.shape(weights) != ArrayRef<int64_t>({experts, units, inputs}))
    return FailureOr<ExpertLayer>(node.error("expects weights of " + Twine(experts) + " x " + Twine(units) + " x " +
                                             Twine(inputs) + " as input " + Twine(weights)));
  if (node.hasInput(bias) && node.shape(bias) != ArrayRef<int64_t>({experts, units}))
    return FailureOr<ExpertLayer>(
        node.error("expects a bias of " + Twine(experts) + " x " + Twine(units) + " as input " + Twine(bias)));
  return ExpertLayer{node.input(weights), node.hasInput(bias) ? node.input(bias) : Value()};
}

ImportResults Mixture::buildReal() {
  if (failed(readSizes("")))
    return failure();
  if (!node.hasInput(4) || node.rank(2) != 3 || node.rank(4) != 3)
    return node.error("expects weights of rank 3 as inputs 2 and 4");
  int64_t width = node.shape(4)[2];
  FailureOr<ExpertLayer> first = readLayer(2, 3, fusedGates() * width, hidden), second = readLayer(4, 5, hidden, width);
  FailureOr<ExpertLayer> third = node.hasInput(6) ? readLayer(6, 7, width, hidden) : ExpertLayer();
  if (failed(first) || failed(second) || failed(third))
    return failure();
  route(node.integer("normalize_routing_weights", 0) != 0);
  return build(*first, *second, *third);
}

//===-- QMoE --------------------------------------------------------------------------------------------------===//

/// A zero point for each block of each unit of an expert. They are packed along the blocks, or, where a unit is one
/// block, along the units.
FailureOr<SmallVector<float>> Mixture::readZeros(unsigned index, int64_t units, int64_t blocks, int64_t bits) {
  if (!node.hasInput(index))
    return SmallVector<float>(experts * units * blocks, static_cast<float>(1u << (bits - 1)));
  bool alongUnits = node.rank(index) == 2;
  int64_t lines = alongUnits ? experts : experts * units, length = alongUnits ? units : blocks;
  int64_t lineBytes = (length * bits + 7) / 8;
  RankedTensorType type = node.type(index);
  if (!type.getElementType().isInteger(8) || type.getNumElements() != lines * lineBytes || (alongUnits && blocks != 1))
    return FailureOr<SmallVector<float>>(
        node.error("expects " + Twine(lines * lineBytes) + " bytes of zero points as input " + Twine(index)));
  FailureOr<HostTensor> packed = node.known(*node.imported(index), "what the weights are");
  if (failed(packed))
    return failure();
  SmallVector<float> zeros;
  for (int64_t line = 0; line < lines; ++line)
    for (int64_t i = 0; i < length; ++i)
      zeros.push_back(static_cast<float>(packedNumber(*packed, line * lineBytes, i, bits)));
  return zeros;
}

FailureOr<ExpertLayer> Mixture::readQuantized(const QuantizedInputs &inputs, StringRef name, int64_t units,
                                              int64_t columns) {
  int64_t bits = node.integer("expert_weight_bits", 4), blockSize = node.integer("block_size", 0);
  int64_t rowBytes = (columns * bits + 7) / 8, blocks = blockSize ? (columns + blockSize - 1) / blockSize : 1;
  if (node.shape(inputs.weights) != ArrayRef<int64_t>({experts, units, rowBytes}) ||
      !node.type(inputs.weights).getElementType().isInteger(8))
    return FailureOr<ExpertLayer>(node.error("expects bytes of " + Twine(experts) + " x " + Twine(units) + " x " +
                                             Twine(rowBytes) + " as input " + Twine(inputs.weights)));
  FailureOr<HostTensor> packed = node.known(*node.imported(inputs.weights), "what the weights are");
  FailureOr<SmallVector<float>> scales =
      knownReals(node, inputs.scales, experts * units * blocks, "scales of " + name.str());
  FailureOr<SmallVector<float>> zeros = readZeros(inputs.zeros, units, blocks, bits);
  if (failed(packed) || failed(scales) || failed(zeros))
    return failure();
  char *bytes = nullptr;
  auto type = RankedTensorType::get({experts, units, columns}, Float32Type::get(node.getContext()));
  HostTensor expanded = HostTensor::allocate(type, bytes);
  auto *result = reinterpret_cast<float *>(bytes);
  for (int64_t row = 0; row < experts * units; ++row)
    for (int64_t column = 0; column < columns; ++column) {
      int64_t block = row * blocks + (blockSize ? column / blockSize : 0);
      *result++ = (static_cast<float>(packedNumber(*packed, row * rowBytes, column, bits)) - (*zeros)[block]) *
                  (*scales)[block];
    }
  Value bias;
  if (node.hasInput(inputs.bias)) {
    if (node.shape(inputs.bias) != ArrayRef<int64_t>({experts, units}))
      return FailureOr<ExpertLayer>(
          node.error("expects a bias of " + Twine(experts) + " x " + Twine(units) + " as input " + Twine(inputs.bias)));
    bias = node.cast(node.input(inputs.bias), node.type(0).getElementType());
  }
  return ExpertLayer{node.cast(node.weight(name, expanded), node.type(0).getElementType()), bias};
}

ImportResults Mixture::buildQuantized() {
  constexpr QuantizedInputs firstInputs = {2, 3, 4, 11}, secondInputs = {5, 6, 7, 12}, thirdInputs = {8, 9, 10, 13};
  int64_t bits = node.integer("expert_weight_bits", 4), blockSize = node.integer("block_size", 0);
  if (node.isTraining())
    return node.unsupported("quantized weights cannot be trained");
  if (bits != 4 && bits != 8)
    return node.unsupported("weights of " + Twine(bits) + " \"expert_weight_bits\" are not known");
  for (StringRef other : {"fc1_expert_weight_bits", "fc2_expert_weight_bits", "fc3_expert_weight_bits"})
    if (node.integer(other, bits) != bits)
      return node.unsupported("layers of different numbers of bits are not known");
  if (failed(readSizes(node.hasInput(14) ? "shares beside the scores (input 14) are not known" : "")))
    return failure();
  if (blockSize < 0 || (blockSize != 0 && blockSize < 16))
    return node.error("expects \"block_size\" to be 16 or more, got " + Twine(blockSize));
  if (!node.hasInput(5) || !node.hasInput(6) || node.rank(2) != 3 || node.rank(5) != 3)
    return node.error("expects weights of rank 3 as inputs 2 and 5, and their scales as 3 and 6");
  int64_t width = node.shape(2)[1] / fusedGates();
  FailureOr<ExpertLayer> first = readQuantized(firstInputs, "fc1", fusedGates() * width, hidden);
  FailureOr<ExpertLayer> second = readQuantized(secondInputs, "fc2", hidden, width);
  FailureOr<ExpertLayer> third = node.hasInput(thirdInputs.weights) && node.hasInput(thirdInputs.scales)
                                     ? readQuantized(thirdInputs, "fc3", width, hidden)
                                     : ExpertLayer();
  if (failed(first) || failed(second) || failed(third))
    return failure();
  (void)node.integer("normalize_routing_weights", 0);
  route(/*isNormalized=*/true);
  return build(*first, *second, *third);
}

void addMixtureOperators(OperatorTable &table) {
  table.add("com.microsoft.MoE",
            {[](NodeImporter &node) { return Mixture(node).buildReal(); }, 3, 8, Elements::Float, 1});
  table.add("com.microsoft.QMoE",
            {[](NodeImporter &node) { return Mixture(node).buildQuantized(); }, 4, 15, Elements::Float, 1});
}

} // namespace cleave
