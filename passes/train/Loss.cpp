// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builds losses. Cross-entropy selects the score of each label by comparing with positions, not by an index: sums over
// classes can be cut, and a gather along them cannot.

#include "passes/train/Loss.h"

#include "dialects/dfg/PortAttributes.h"
#include "passes/train/Arithmetic.h"
#include "passes/train/OptionText.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace cleave {

llvm::Expected<LossOptions> parseLoss(StringRef text) {
  LossOptions loss;
  auto [kind, rest] = text.split(',');
  if (kind == "mse")
    loss.kind = LossKind::MeanSquaredError;
  else if (kind != "cross-entropy")
    loss.kind = LossKind::Output;
  if (kind.empty() || kind.contains('='))
    return optionError("the loss expects cross-entropy, mse or the name of an output first, got \"" + text + "\"");
  if (loss.kind == LossKind::Output)
    loss.output = kind.str();
  auto options = splitOptions(rest, "the loss");
  if (!options)
    return options.takeError();
  for (TextOption option : *options) {
    if (option.key == "output" && loss.kind != LossKind::Output) {
      loss.output = option.value.str();
    } else if (option.key == "labels" && loss.kind != LossKind::Output) {
      loss.labels = option.value.str();
    } else if (option.key == "classes" && loss.kind == LossKind::CrossEntropy) {
      auto classes = parseWhole(option.value, "the loss", option.key, 0);
      if (!classes)
        return classes.takeError();
      loss.classes = *classes;
    } else if (option.key == "ignore-index" && loss.kind == LossKind::CrossEntropy) {
      int64_t label = 0;
      if (option.value.getAsInteger(10, label))
        return optionError("the loss expects a whole number for ignore-index, got \"" + option.value + "\"");
      loss.ignoreIndex = label;
    } else {
      return optionError("the loss \"" + kind + "\" knows no option \"" + option.key +
                         "\"; cross-entropy has output, labels, classes and ignore-index, mse has output and "
                         "labels");
    }
  }
  return loss;
}

namespace {

/// What cross-entropy is computed from.
struct Scores {
  Value logits;
  /// Null where nothing has computed them.
  Value logProbabilities;
  int64_t classes;
};

class LossBuilder {
public:
  LossBuilder(dfg::GraphOp graph, const LossOptions &options)
      : graph(graph), options(options), builder(terminator()),
        math(builder, dfg::getNodeLocation(graph.getContext(), "loss", kindName())) {}

  FailureOr<LossValues> build() {
    FailureOr<Value> output = findOutput();
    if (failed(output))
      return failure();
    FailureOr<LossValues> values = options.kind == LossKind::CrossEntropy       ? crossEntropy(*output)
                                   : options.kind == LossKind::MeanSquaredError ? meanSquaredError(*output)
                                                                                : ofOutput(*output);
    if (succeeded(values))
      setOutputs(*values);
    return values;
  }

private:
  Operation *terminator() { return graph.getBody().front().getTerminator(); }

  StringRef kindName() const {
    switch (options.kind) {
    case LossKind::CrossEntropy:
      return "CrossEntropy";
    case LossKind::MeanSquaredError:
      return "MeanSquaredError";
    case LossKind::Output:
      return "Mean";
    }
    llvm_unreachable("all kinds are known");
  }

  FailureOr<Value> findOutput() {
    if (graph.getNumResults() == 0)
      return graph.emitError("the loss expects a model with an output");
    if (options.output.empty())
      return terminator()->getOperand(0);
    std::string names;
    for (unsigned i = 0; i != graph.getNumResults(); ++i) {
      if (graph.getOutputName(i) == options.output)
        return terminator()->getOperand(i);
      names += (i ? ", \"" : "\"") + graph.getOutputName(i).str() + "\"";
    }
    return graph.emitError("the loss expects cross-entropy, mse or an output of the model, got \"")
           << options.output << "\"; the outputs are " << names;
  }

  /// An input behind the others; of labels with their number of classes.
  FailureOr<Value> addInput(RankedTensorType type, StringRef fallback, std::optional<int64_t> classes = {}) {
    StringRef name = options.labels.empty() ? fallback : StringRef(options.labels);
    for (unsigned i = 0; i != graph.getNumArguments(); ++i)
      if (graph.getInputName(i) == name)
        return graph.emitError("the loss expects a new name for its labels, got the model's input \"")
               << name << "\"; choose one with labels=NAME";
    NamedAttrList attributes(builder.getDictionaryAttr(builder.getNamedAttr("dfg.name", builder.getStringAttr(name))));
    if (classes)
      attributes.set(dfg::classesAttrName, builder.getI64IntegerAttr(*classes));
    if (failed(graph.insertArgument(graph.getNumArguments(), type, attributes.getDictionary(builder.getContext()),
                                    math.getLoc())))
      return failure();
    return Value(graph.getArgument(graph.getNumArguments() - 1));
  }

  /// Floats that are too coarse for sums.
  static bool isNarrow(Value value) {
    Type element = Arithmetic::elementOf(value);
    return element.isF16() || element.isBF16();
  }
  Value widened(Value value) { return isNarrow(value) ? math.cast(value, builder.getF32Type()) : value; }

  Value asLoss(Value value) { return math.cast(value, builder.getF32Type()); }

  FailureOr<LossValues> ofOutput(Value output) {
    RankedTensorType type = Arithmetic::typeOf(output);
    if (!isa<FloatType>(type.getElementType()) || type.getNumElements() == 0)
      return graph.emitError("the loss expects an output of real numbers, got ") << type;
    Value mean = widened(output);
    if (type.getNumElements() != 1)
      mean = math.mul(math.sum(mean), 1.0 / static_cast<double>(type.getNumElements()));
    return LossValues{asLoss(math.reshape(mean, {})), {}, {}, std::nullopt};
  }

  FailureOr<LossValues> meanSquaredError(Value output) {
    RankedTensorType type = Arithmetic::typeOf(output);
    if (!isa<FloatType>(type.getElementType()) || type.getNumElements() == 0)
      return graph.emitError("the mean squared error expects an output of real numbers, got ") << type;
    FailureOr<Value> target = addInput(type, "target");
    if (failed(target))
      return failure();
    Value difference = math.sub(widened(output), widened(*target));
    Value sum = math.sum(math.mul(difference, difference));
    return LossValues{
        asLoss(math.mul(sum, 1.0 / static_cast<double>(type.getNumElements()))), {}, {}, graph.getNumArguments() - 1};
  }

  FailureOr<LossValues> crossEntropy(Value output);
  FailureOr<Scores> findScores(Value output);
  Value countCorrect(const Scores &scores, Value labels, Value positions);
  Value meanOverCounted(Value sum, Value count);

  void setOutputs(const LossValues &values) {
    SmallVector<Value> outputs = {values.loss};
    SmallVector<DictionaryAttr> attributes = {named("loss")};
    if (values.correct) {
      outputs.push_back(values.correct);
      attributes.push_back(named("correct"));
    }
    if (values.count) {
      outputs.push_back(values.count);
      NamedAttrList counts(named("count"));
      counts.set(dfg::countsAttrName, builder.getUnitAttr());
      attributes.push_back(counts.getDictionary(builder.getContext()));
    }
    terminator()->setOperands(outputs);
    graph.setType(builder.getFunctionType(graph.getArgumentTypes(), TypeRange(ValueRange(outputs))));
    graph.setAllResultAttrs(attributes);
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(graph.getBody().front())))
      if (isOpTriviallyDead(&op))
        op.erase();
  }

  DictionaryAttr named(StringRef name) {
    return builder.getDictionaryAttr(builder.getNamedAttr("dfg.name", builder.getStringAttr(name)));
  }

  dfg::GraphOp graph;
  const LossOptions &options;
  OpBuilder builder;
  Arithmetic math;
};

/// The operand of a softmax, in the shape of `output`; null where `output` is none. `logProbabilities` is the result of
/// a LogSoftmax.
struct SoftmaxInput {
  Value logits, logProbabilities;
  int64_t classes = 0;
};

SoftmaxInput softmaxBehind(Value value) {
  if (auto softmax = value.getDefiningOp<dfg::SoftmaxOp>())
    return {softmax.getInput(), {}, static_cast<int64_t>(softmax.getDim())};
  if (auto softmax = value.getDefiningOp<dfg::LogSoftmaxOp>())
    return {softmax.getInput(), value, static_cast<int64_t>(softmax.getDim())};
  return {};
}

/// Models before operator set 13 see the operand of a softmax as a matrix, and what comes out in the old shape again.
FailureOr<Scores> LossBuilder::findScores(Value output) {
  RankedTensorType type = Arithmetic::typeOf(output);
  int64_t fallback = type.getRank() == 3 ? 2 : 1;
  Scores scores{output, {}, options.classes.value_or(fallback)};
  SoftmaxInput softmax = softmaxBehind(output);
  if (auto reshape = output.getDefiningOp<dfg::ReshapeOp>(); reshape && !softmax.logits) {
    softmax = softmaxBehind(reshape.getInput());
    RankedTensorType matrix = reshape.getInput().getType();
    if (softmax.logits && type.getRank() > 1 && softmax.classes == matrix.getRank() - 1 &&
        type.getShape().back() == matrix.getShape().back()) {
      softmax.logits = math.reshape(softmax.logits, type.getShape());
      softmax.classes = type.getRank() - 1;
      softmax.logProbabilities = softmax.logProbabilities ? output : Value();
    }
  }
  if (softmax.logits) {
    if (options.classes && *options.classes != softmax.classes)
      return graph.emitError("cross-entropy expects the classes in the dimension of the model's softmax, which is ")
             << softmax.classes << ", got " << *options.classes;
    scores = {softmax.logits, softmax.logProbabilities, softmax.classes};
  }
  type = Arithmetic::typeOf(scores.logits);
  if (!isa<FloatType>(type.getElementType()) || type.getRank() < 2 || scores.classes >= type.getRank() ||
      scores.classes == 0 || type.getNumElements() == 0)
    return graph.emitError("cross-entropy expects real scores of samples (dimension 0) by classes (dimension ")
           << scores.classes << "), got " << type;
  return scores;
}

/// The first of the largest scores is the one at the smallest position among those that equal the maximum: reductions
/// alone, other than arg_reduce, can be cut along the classes.
Value LossBuilder::countCorrect(const Scores &scores, Value labels, Value positions) {
  Value largest = math.reduce(scores.logits, dfg::ReduceKind::Max, {scores.classes}, /*keepDims=*/true);
  Value isLargest = math.compare(scores.logits, dfg::Comparison::Equal, largest);
  Value beyond = math.integer(Arithmetic::typeOf(scores.logits).getDimSize(scores.classes));
  Value first = math.reduce(math.select(isLargest, positions, beyond), dfg::ReduceKind::Min, {scores.classes},
                            /*keepDims=*/true);
  return math.sum(math.cast(math.compare(first, dfg::Comparison::Equal, labels), builder.getI64Type()));
}

/// Without anything that counts the sum is 0, and so is the mean.
Value LossBuilder::meanOverCounted(Value sum, Value count) {
  Value number = math.cast(count, Arithmetic::elementOf(sum));
  return math.div(sum, math.max(number, 1.0));
}

FailureOr<LossValues> LossBuilder::crossEntropy(Value output) {
  FailureOr<Scores> scores = findScores(output);
  if (failed(scores))
    return failure();
  SmallVector<int64_t> shape(Arithmetic::typeOf(scores->logits).getShape());
  int64_t numClasses = shape[scores->classes];
  SmallVector<int64_t> ones = shape, flat = shape;
  ones[scores->classes] = 1;
  flat.erase(flat.begin() + scores->classes);
  FailureOr<Value> labels = addInput(RankedTensorType::get(flat, builder.getI64Type()), "labels", numClasses);
  if (failed(labels))
    return failure();
  Value lines = math.reshape(*labels, ones), count;
  if (options.ignoreIndex) {
    if (*options.ignoreIndex >= 0)
      lines = math.select(math.compare(lines, dfg::Comparison::Equal, math.integer(*options.ignoreIndex)),
                          math.integer(-1), lines);
    Value counts = math.compare(lines, dfg::Comparison::GreaterOrEqual, math.integer(0));
    count = math.sum(math.cast(counts, builder.getI64Type()));
  }
  Value positions = math.positions(static_cast<int64_t>(shape.size()), scores->classes, numClasses);
  Value logProbabilities = scores->logProbabilities;
  if (!logProbabilities || isNarrow(logProbabilities))
    logProbabilities = dfg::LogSoftmaxOp::create(builder, math.getLoc(), widened(scores->logits),
                                                 static_cast<uint64_t>(scores->classes));
  Value isLabel = math.compare(positions, dfg::Comparison::Equal, lines);
  Value zero = math.number(Arithmetic::elementOf(logProbabilities), 0.0);
  Value sum = math.sum(math.select(isLabel, logProbabilities, zero));
  auto all = static_cast<double>(Arithmetic::typeOf(*labels).getNumElements());
  Value mean = count ? math.mul(meanOverCounted(sum, count), -1.0) : math.mul(sum, -1.0 / all);
  return LossValues{asLoss(mean), countCorrect(*scores, lines, positions), count, graph.getNumArguments() - 1};
}

} // namespace

FailureOr<LossValues> addLoss(dfg::GraphOp graph, const LossOptions &options) {
  return LossBuilder(graph, options).build();
}

} // namespace cleave
