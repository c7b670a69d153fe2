// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes operators, and what is expected of them, into a plan.

#include "PredictedPlan.h"

namespace cleave::runtime::test {

namespace {
constexpr double mebibyte = 1 << 20;

class Pipeline {
public:
  explicit Pipeline(const PipelineShape &shape) : shape(shape), builder("null") {}

  PlanBuilder run() {
    builder.plan.model = "pipeline.onnx";
    builder.plan.strategy = "auto";
    builder.plan.producer = "test";
    for (uint32_t stage = 0; stage != shape.stages; ++stage)
      builder.mesh("stage" + std::to_string(stage), {shape.devicesPerStage}, stage * shape.devicesPerStage);
    addOperator("embedding", "Gather", 0, {});
    for (uint32_t layer = 0; layer != shape.stages * shape.layersPerStage; ++layer)
      addLayer("block" + std::to_string(layer) + "/", layer / shape.layersPerStage);
    addOperator("head", "MatMul", shape.stages - 1, {last()});
    addTransfers();
    predict();
    if (shape.isDecision)
      builder.entry().programs.clear();
    return std::move(builder);
  }

private:
  uint32_t last() { return static_cast<uint32_t>(builder.entry().operators.size()) - 1; }

  fb::OperatorT &addOperator(const std::string &name, const std::string &kind, uint32_t stage,
                             std::vector<uint32_t> inputs) {
    auto &op = *builder.entry().operators.emplace_back(std::make_unique<fb::OperatorT>());
    op.name = shape.prefix + name;
    op.kind = kind;
    op.mesh = op.stage = stage;
    op.inputs = std::move(inputs);
    op.decided_by = "planner";
    op.shape = {8, 1024};
    op.flops = 1e9;
    op.bytes = 2 * mebibyte;
    op.result_bytes = mebibyte;
    op.predicted_seconds = 1e-4;
    op.communication_seconds = 0;
    return op;
  }

  void addLayer(const std::string &layer, uint32_t stage) {
    uint32_t input = last();
    addOperator(layer + "norm", "LayerNormalization", stage, {input});
    fb::OperatorT &first = addOperator(layer + "fc1", "MatMul", stage, {last()});
    split(first, "out_channel");
    addOperator(layer + "act", "Relu", stage, {last()}).decided_by = "propagation from " + first.name;
    fb::OperatorT &second = addOperator(layer + "fc2", "MatMul", stage, {last()});
    split(second, "in_channel");
    second.communication_seconds = 2e-4;
    second.predicted_seconds = 9e-4;
    addOperator(layer + "add", "Add", stage, {input, last()});
  }

  void split(fb::OperatorT &op, const std::string &factor) {
    op.split = factor + "/axis0 " + std::to_string(shape.devicesPerStage);
    op.ways = shape.devicesPerStage;
    op.flops = 4e9;
    op.parameter_bytes = 16 * mebibyte;
    op.predicted_seconds = 7e-4;
    op.alternative = "batch/axis0 " + std::to_string(shape.devicesPerStage);
    op.alternative_seconds = 0.11;
  }

  /// What the last operator of a stage gives to the next stage, as an instruction at either end.
  void addTransfers() {
    uint32_t layerSize = 5, perStage = layerSize * shape.layersPerStage, value = builder.constant("value", 256, 1);
    for (uint32_t stage = 0; stage + 1 < shape.stages; ++stage) {
      std::string node = builder.entry().operators[(stage + 1) * perStage]->name;
      uint32_t from = builder.buffer(stage, node, 256), to = builder.buffer(stage + 1, node, 256);
      builder.into(Phase::Prepare).loadParameter(stage, value, from);
      builder.into(Phase::Body).send(stage, node, from, stage + 1, stage);
      builder.receive(stage + 1, node, to, stage, stage);
    }
  }

  void predict() {
    auto prediction = std::make_unique<fb::PredictionT>();
    prediction->machine = "test:" + std::to_string(shape.stages) + "x" + std::to_string(shape.devicesPerStage);
    prediction->training = true;
    prediction->step_seconds = 0.1;
    prediction->lower_bound_seconds = 0.098;
    prediction->model_flops = 8e14;
    prediction->microbatches = shape.microbatches;
    prediction->schedule = shape.schedule;
    prediction->memory_limit = 16384 * mebibyte;
    addDegree(*prediction, "data", 1);
    addDegree(*prediction, "model", shape.devicesPerStage);
    addDegree(*prediction, "pipeline", shape.stages);
    for (uint32_t stage = 0; stage != shape.stages; ++stage)
      addStage(*prediction, stage);
    prediction->peak_bytes.assign(builder.plan.devices.size(), 12288 * mebibyte);
    addAlternative(*prediction, "data 8", 0.125, 10240, "");
    addAlternative(*prediction, "single", -1, 40960, "needs 24.0 GiB more on d0");
    builder.entry().prediction = std::move(prediction);
  }

  static void addDegree(fb::PredictionT &prediction, const std::string &name, uint32_t ways) {
    auto &degree = *prediction.degrees.emplace_back(std::make_unique<fb::DegreeT>());
    degree.name = name;
    degree.ways = ways;
  }

  void addStage(fb::PredictionT &prediction, uint32_t index) {
    auto &stage = *prediction.stages.emplace_back(std::make_unique<fb::StageT>());
    stage.mesh = index;
    stage.forward = 2e-3;
    stage.backward_input = 3e-3;
    stage.backward_weight = 1e-3;
    stage.send = index + 1 < shape.stages ? 5e-4 : 0;
    stage.per_step = 4e-3;
    stage.in_flight = std::min(shape.stages - index, shape.microbatches);
    stage.recompute = "selective";
    stage.zero = 1;
    stage.memory = std::make_unique<fb::MemoryUseT>();
    stage.memory->parameters = 1024 * mebibyte;
    stage.memory->gradients = 1024 * mebibyte;
    stage.memory->optimizer = 4096 * mebibyte;
    stage.memory->activations = stage.in_flight * 1024 * mebibyte;
    stage.memory->transient = 512 * mebibyte;
  }

  static void addAlternative(fb::PredictionT &prediction, const std::string &name, double seconds, double mebibytes,
                             const std::string &whyNot) {
    auto &other = *prediction.alternatives.emplace_back(std::make_unique<fb::AlternativeT>());
    other.name = name;
    other.seconds = seconds;
    other.peak_bytes = mebibytes * mebibyte;
    other.why_not = whyNot;
  }

  const PipelineShape &shape;
  PlanBuilder builder;
};
} // namespace

PlanBuilder pipelinePrediction(const PipelineShape &shape) { return Pipeline(shape).run(); }

} // namespace cleave::runtime::test
