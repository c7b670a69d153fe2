// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles a model from a file, runs its steps one by one, and reads the trace.

#include "tools/cleave/ProbeRun.h"
#include "tools/cleave/Diagnostics.h"

#include "compiler/CompileModel.h"
#include "compiler/PlanWeights.h"
#include "passes/cost/CurveFit.h"
#include "runtime/Verify.h"
#include "tools/cleave/OutputFile.h"
#include "tools/cleave/PlanRunner.h"

#include "llvm/ADT/StringExtras.h"

#include <chrono>

namespace cleave::tool {

static Error writeText(const std::string &path, llvm::StringRef text) {
  return writeOutput(path, [&](llvm::raw_ostream &out) { out << text; });
}

Expected<ProbeRun> ProbeRun::measure(const ProbeTask &task, const std::string &folder) {
  CompileRequest request;
  request.model.model = folder + "/probe.onnx";
  if (Error error = writeText(request.model.model, task.model.SerializeAsString()))
    return error;
  request.target.machine = task.machine;
  request.target.strategy = task.placement.empty() ? "single" : "place";
  if (!task.placement.empty()) {
    request.target.placementFile = folder + "/probe.place.yaml";
    if (Error error = writeText(request.target.placementFile, task.placement))
      return error;
  }
  auto compiled = compileModel(request, console());
  if (!compiled)
    return compiled.error();
  auto plan = openPlan(*compiled);
  if (!plan)
    return plan.error();
  if (Error error = verifyPlan(*plan))
    return error;
  ProbeRun result(*plan);
  WeightsSource parameters(compiled->imported);
  runtime::ExecutorOptions options;
  options.trace = result.trace.get();
  auto executor = runtime::Executor::create(*plan, "", parameters, options);
  if (!executor)
    return executor.error();
  auto inputs = makeInputs((*executor)->entry(), {});
  if (!inputs)
    return inputs.error();
  auto outputs = makeOutputs((*executor)->entry());
  if (!outputs)
    return outputs.error();
  // The first steps fill caches and wake threads.
  constexpr unsigned warmup = 2;
  auto begin = std::chrono::steady_clock::now();
  for (unsigned step = 0;; ++step) {
    if (step == warmup)
      begin = std::chrono::steady_clock::now();
    double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (step >= warmup + task.fewestSteps && elapsed > task.seconds)
      break;
    if (auto seconds = runStep(**executor, *inputs, *outputs); !seconds)
      return seconds.error();
    result.lastStep = step + 1;
  }
  result.firstStep = warmup;
  return result;
}

bool ProbeRun::isReorder(const runtime::Call &call) const {
  auto *library = std::get_if<runtime::LibraryKernel>(&plan->kernels[call.kernel].body);
  return library && library->operation == "reorder";
}

std::vector<ProbeEvent> ProbeRun::select(llvm::function_ref<bool(const runtime::Instruction &)> isWanted) const {
  std::vector<ProbeEvent> events;
  for (const runtime::Trace::Track &track : trace->tracks())
    for (const runtime::Trace::Event &event : track.events)
      if (event.phase == runtime::Phase::Body && event.step >= firstStep && isWanted(*event.instruction))
        events.push_back({event.instruction, track.device, event.step, static_cast<double>(event.begin) * 1e-9,
                          static_cast<double>(event.end) * 1e-9});
  std::stable_sort(events.begin(), events.end(),
                   [](const ProbeEvent &a, const ProbeEvent &b) { return a.begin < b.begin; });
  return events;
}

std::vector<ProbeEvent> ProbeRun::kernels(llvm::StringRef prefix) const {
  return select([&](const runtime::Instruction &instruction) {
    auto *call = std::get_if<runtime::Call>(&instruction.action);
    return call && llvm::StringRef(instruction.node).starts_with(prefix) && !isReorder(*call);
  });
}

std::map<std::string, NodeTime> ProbeRun::nodeTimes() const {
  std::map<std::string, std::map<uint64_t, double>> secondsByStep;
  for (const ProbeEvent &event : kernels(""))
    secondsByStep[event.instruction->node][event.step] += event.seconds();
  // A kernel with another node's work in it says nothing of its own node's.
  const runtime::Entry &entry = plan->entries.front();
  for (const runtime::Operator &op : entry.operators)
    if (!op.fusedWith.empty())
      secondsByStep.erase(op.fusedWith);
  std::map<std::string, NodeTime> result;
  for (const runtime::Operator &op : entry.operators) {
    auto found = secondsByStep.find(op.name);
    if (found == secondsByStep.end())
      continue;
    std::vector<double> seconds;
    for (auto [step, sum] : found->second)
      seconds.push_back(sum);
    llvm::sort(seconds);
    NodeTime &time = result[op.name];
    time = {op.flops, op.bytes, quantileOf(seconds, measuredQuantile), 0};
    if (time.seconds > 0)
      time.spread = (seconds[seconds.size() * 3 / 4] - seconds[seconds.size() / 4]) / time.seconds;
  }
  return result;
}

} // namespace cleave::tool
