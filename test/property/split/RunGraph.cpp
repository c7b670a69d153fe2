// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The stages behind placement, and the executor, in this process.

#include "test/property/split/RunGraph.h"

#include "test/property/split/GraphBuilder.h"

#include "passes/codegen/Pipeline.h"
#include "passes/distribute/Pipeline.h"
#include "passes/emit/EmitPlan.h"
#include "passes/schedule/Pipeline.h"
#include "runtime/Executor.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;

namespace cleave::test {

static dfg::GraphOp graphOf(ModuleOp module) { return *module.getOps<dfg::GraphOp>().begin(); }

std::vector<Tensor> makeInputs(ModuleOp module) {
  std::vector<Tensor> inputs;
  dfg::GraphOp graph = graphOf(module);
  for (auto [index, type] : llvm::enumerate(graph.getArgumentTypes())) {
    auto tensor = cast<RankedTensorType>(type);
    Tensor &made = inputs.emplace_back(elementName(tensor.getElementType()),
                                       Shape(tensor.getShape().begin(), tensor.getShape().end()));
    double low = -1, high = 1;
    uint64_t seed = index;
    if (auto fill = graph.getArgAttrOfType<DictionaryAttr>(index, fillAttrName)) {
      low = fill.getAs<FloatAttr>("low").getValueAsDouble();
      high = fill.getAs<FloatAttr>("high").getValueAsDouble();
      seed = static_cast<uint64_t>(fill.getAs<IntegerAttr>("seed").getInt());
    }
    Random random(seed);
    made.fill(random, low, high);
  }
  return inputs;
}

namespace {

llvm::Error failure(const Twine &text) { return llvm::createStringError(llvm::inconvertibleErrorCode(), text); }

/// Keeps what passes complain about.
class Complaints {
public:
  explicit Complaints(MLIRContext *context)
      : handler(context, [this](Diagnostic &diagnostic) {
          text += (text.empty() ? "" : "; ") + diagnostic.str();
          return success();
        }) {}
  std::string text;

private:
  ScopedDiagnosticHandler handler;
};

llvm::Error runStage(StringRef name, ModuleOp module, llvm::function_ref<void(OpPassManager &)> build) {
  Complaints complaints(module.getContext());
  PassManager manager(module.getContext());
  build(manager);
  if (succeeded(manager.run(module)))
    return llvm::Error::success();
  return failure(name + ": " + complaints.text);
}

} // namespace

llvm::Expected<std::vector<char>> compileGraph(ModuleOp module, bool optimized, const DistributeOptions &distribute) {
  CodegenOptions codegen;
  codegen.reference = !optimized;
  codegen.threads = 1;
  if (llvm::Error error =
          runStage("distribute", module, [&](auto &manager) { buildDistributePipeline(manager, distribute); }))
    return error;
  if (llvm::Error error =
          runStage("codegen", module, [&](OpPassManager &manager) { buildCodegenPipeline(manager, codegen); }))
    return error;
  if (llvm::Error error = runStage("schedule", module, buildSchedulePipeline))
    return error;
  auto bytes = emitPlan(module, {});
  if (!bytes)
    return failure("emit: " + llvm::toString(bytes.takeError()));
  return bytes;
}

namespace {

llvm::Expected<std::vector<runtime::HostTensor>> allocate(const std::vector<runtime::Port> &ports) {
  std::vector<runtime::HostTensor> tensors;
  for (const runtime::Port &port : ports) {
    auto tensor = runtime::HostTensor::allocate(port.type);
    if (!tensor)
      return failure("run: " + tensor.error().text());
    tensors.push_back(*tensor);
  }
  return tensors;
}

/// Two steps at once, each with outputs of its own.
llvm::Expected<std::vector<runtime::HostTensor>> runTwice(runtime::Executor &executor,
                                                          const std::vector<runtime::HostTensor> &inputs) {
  std::vector<runtime::HostTensor> outputs[2];
  std::vector<runtime::Ticket> tickets;
  for (auto &mine : outputs) {
    auto made = allocate(executor.entry().outputs);
    if (!made)
      return made.takeError();
    mine = *made;
    // What nobody writes shows.
    for (const runtime::HostTensor &tensor : mine)
      std::memset(tensor.bytes().data(), 0x5a, tensor.bytes().size());
    auto ticket = executor.submit(inputs, mine);
    if (!ticket)
      return failure("run: " + ticket.error().text());
    tickets.push_back(*ticket);
  }
  for (runtime::Ticket ticket : tickets)
    if (auto times = executor.wait(ticket); !times)
      return failure("run: " + times.error().text());
  for (auto [index, first, second] : llvm::enumerate(outputs[0], outputs[1]))
    if (std::memcmp(first.bytes().data(), second.bytes().data(), first.bytes().size()) != 0)
      return failure("run: output " + Twine(index) + " differs between two steps in flight");
  return outputs[0];
}

} // namespace

llvm::Expected<std::vector<std::vector<Tensor>>>
runGraphOften(ModuleOp module, const std::vector<std::vector<Tensor>> &inputs, bool optimized) {
  SmallVector<RankedTensorType> types;
  for (Type type : graphOf(module).getResultTypes())
    types.push_back(cast<RankedTensorType>(type));
  DistributeOptions distribute;
  distribute.keys = "ring";
  auto bytes = compileGraph(module, optimized, distribute);
  if (!bytes)
    return bytes.takeError();
  auto plan = runtime::Plan::fromBytes(std::as_bytes(std::span(*bytes)));
  if (!plan)
    return failure("emit: " + plan.error().text());
  runtime::MemorySource parameters;
  runtime::ExecutorOptions options;
  options.pin = false;
  auto executor = runtime::Executor::create(*plan, "main", parameters, options);
  if (!executor)
    return failure("run: " + executor.error().text());
  auto given = allocate((*executor)->entry().inputs);
  if (!given)
    return given.takeError();
  std::vector<std::vector<Tensor>> outputs;
  for (const std::vector<Tensor> &run : inputs) {
    for (auto [tensor, input] : llvm::zip_equal(*given, run))
      std::memcpy(tensor.bytes().data(), input.getBytes().data(), input.getBytes().size());
    auto results = runTwice(**executor, *given);
    if (!results)
      return results.takeError();
    auto &made = outputs.emplace_back();
    for (auto [type, result] : llvm::zip_equal(types, *results)) {
      Tensor &output =
          made.emplace_back(elementName(type.getElementType()), Shape(type.getShape().begin(), type.getShape().end()));
      std::memcpy(output.data(), result.bytes().data(), result.bytes().size());
    }
  }
  return outputs;
}

llvm::Expected<std::vector<Tensor>> runGraph(ModuleOp module, const std::vector<Tensor> &inputs, bool optimized) {
  auto outputs = runGraphOften(module, {inputs}, optimized);
  if (!outputs)
    return outputs.takeError();
  return std::move(outputs->front());
}

} // namespace cleave::test
