// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ONNX models through import, placement on one and two devices and code generation; what is small enough runs, and is
// compared with plain loops on one device. Two devices share the batch, layers, or all that can be shared. A difference
// is a defect, as a crash is, and as a stage that fails although it accepts every placed model.

#include "Mutation.h"
#include "Outcome.h"

#include "runtime/Comparison.h"
#include "runtime/Verify.h"
#include "tools/cleave/Diagnostics.h"
#include "tools/cleave/PlanRunner.h"
#include "tools/cleave/ReferencePlan.h"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <unistd.h>

using namespace cleave;

namespace {

using fuzz::countOutcome;
using runtime::Expected;
using runtime::HostTensor;

/// A model may ask for any amount of work: more than this is compiled only. Plain loops take about a second for it.
constexpr double mostFlops = 3e8, mostBytes = 256 << 20;

struct Division {
  const char *strategy, *machine;
};
constexpr Division divisions[] = {{"single", "host:1"}, {"data", "host:2"}, {"tensor", "host:2"}, {"split", "host:2"}};

/// A model compiled for one division, and what runs it.
struct Subject {
  const Division *division;
  std::unique_ptr<CompiledModel> compiled;
  std::optional<runtime::Plan> plan;
};

[[noreturn]] void fail(const std::string &message) {
  std::cerr << message << "\n";
  std::abort();
}

const char *nameOf(runtime::Status status) {
  switch (status) {
  case runtime::Status::Usage:
    return "refused: expects more of the command line";
  case runtime::Status::Unsupported:
    return "refused: an operator cannot run";
  case runtime::Status::Rejected:
    return "refused: no valid model";
  case runtime::Status::Infeasible:
    return "refused: the machine lacks something";
  default:
    return "refused: other reasons";
  }
}

ModelOptions modelOptions(const std::string &file) {
  ModelOptions options;
  options.model = file;
  // Loops and recurrent operators are unrolled: a few lines become any number of operators.
  options.limits.nodes = 2000;
  return options;
}

runtime::Expected<Subject> compile(const std::string &file, const Division &division, bool noLibraries = false) {
  CompileRequest request;
  request.model = modelOptions(file);
  request.target.machine = division.machine;
  request.target.strategy = division.strategy;
  request.target.noLibraries = noLibraries;
  auto compiled = compileModel(request, tool::console());
  if (!compiled)
    return compiled.error();
  Subject subject{&division, std::make_unique<CompiledModel>(std::move(*compiled)), std::nullopt};
  auto plan = openPlan(*subject.compiled);
  if (!plan)
    fail("the plan cannot be opened: " + plan.error().message());
  subject.plan = std::move(*plan);
  return subject;
}

/// Whether a step, and what is prepared for it, is little work.
bool isSmall(const runtime::PlanContents &plan) {
  double flops = 0, bytes = 0;
  for (const runtime::Entry &entry : plan.entries) {
    for (const auto *ports : {&entry.inputs, &entry.outputs})
      for (const runtime::Port &port : *ports)
        bytes += static_cast<double>(*port.type.byteSize());
    for (const runtime::Program &program : entry.programs) {
      bytes += static_cast<double>(program.arenaBytes);
      for (runtime::Phase phase : {runtime::Phase::Prepare, runtime::Phase::Body})
        for (const runtime::Instruction &instruction : program.instructions(phase))
          if (const auto *call = std::get_if<runtime::Call>(&instruction.action)) {
            const runtime::Kernel &kernel = plan.kernels[call->kernel];
            flops += kernel.flops;
            bytes += kernel.bytesRead + kernel.bytesWritten;
          }
    }
  }
  return flops < mostFlops && bytes < mostBytes;
}

std::vector<HostTensor> outputsOf(const runtime::Plan &plan, runtime::ParameterSource &parameters,
                                  const std::vector<HostTensor> &inputs) {
  const runtime::Entry &entry = plan->entries.front();
  auto outputs = tool::makeOutputs(entry);
  auto executor = runtime::Executor::create(plan, entry.name, parameters);
  if (!outputs || !executor)
    fail("the plan cannot run: " + (outputs ? executor.error() : outputs.error()).message());
  auto seconds = tool::runStep(**executor, inputs, *outputs);
  if (!seconds)
    fail("the plan fails: " + seconds.error().message());
  return *outputs;
}

/// Where a plan's outputs are not the expected ones.
struct Difference {
  uint64_t elements = 0;
  std::string text; ///< of one of the outputs
};

Difference compareOutputs(const runtime::Entry &entry, const std::vector<HostTensor> &actual,
                          const std::vector<HostTensor> &expected) {
  Difference difference;
  for (size_t i = 0; i != actual.size(); ++i) {
    double scale =
        runtime::isFloatingPoint(actual[i].type().element) ? std::max(1.0, runtime::largestMagnitude(expected[i])) : 1;
    auto comparison = runtime::compare(actual[i], expected[i], 1e-3, 1e-5 * scale);
    if (comparison.equal())
      continue;
    difference.elements += comparison.differing;
    difference.text = "output \"" + entry.outputs[i].name + "\" differs: " + comparison.text();
  }
  return difference;
}

bool hasNan(const std::vector<HostTensor> &tensors) {
  for (const HostTensor &tensor : tensors)
    for (uint64_t at = 0, each = runtime::elementBytes(tensor.type().element); at < tensor.bytes().size(); at += each)
      if (std::isnan(runtime::loadElement(tensor.type().element, tensor.bytes().data() + at)))
        return true;
  return false;
}

/// The tensors with each real number off by about what arithmetic of its type rounds away in a few operations.
std::vector<HostTensor> perturbed(const std::vector<HostTensor> &tensors, uint64_t seed) {
  fuzz::Random random(seed);
  std::vector<HostTensor> changed;
  for (const HostTensor &tensor : tensors) {
    runtime::ElementType element = tensor.type().element;
    HostTensor copy = *HostTensor::allocate(tensor.type());
    std::ranges::copy(tensor.bytes(), copy.bytes().begin());
    double step = element == runtime::ElementType::F64    ? 0x1p-50
                  : element == runtime::ElementType::F32  ? 0x1p-21
                  : element == runtime::ElementType::F16  ? 0x1p-9
                  : element == runtime::ElementType::BF16 ? 0x1p-6
                                                          : 0;
    for (uint64_t at = 0, each = runtime::elementBytes(element); step != 0 && at < copy.bytes().size(); at += each) {
      std::byte *address = copy.bytes().data() + at;
      runtime::storeElement(element, address,
                            runtime::loadElement(element, address) * (1 + (random.oneIn(2) ? step : -step)));
    }
    changed.push_back(std::move(copy));
  }
  return changed;
}

/// Plain loops on one device.
class Reference {
public:
  Reference(const runtime::PlanContents &plan, const std::string &file)
      : compiled(check(tool::ReferencePlan::compile(plan, modelOptions(file), {}, {}))) {}

  bool isSmall() { return ::isSmall(*compiled.runnable().plan); }

  std::vector<HostTensor> run(const std::vector<HostTensor> &inputs) {
    auto runnable = compiled.runnable();
    return outputsOf(runnable.plan, runnable.parameters, inputs);
  }

  /// Whether its own results change in as many elements when the inputs do by a rounding: cancellation, or a result
  /// that jumps.
  bool isAsUnstable(const Difference &difference, const std::vector<HostTensor> &inputs,
                    const std::vector<HostTensor> &expected) {
    uint64_t elements = 0;
    for (uint64_t seed = 0; seed != 4; ++seed)
      elements +=
          compareOutputs(compiled.runnable().plan->entries.front(), run(perturbed(inputs, seed)), expected).elements;
    return elements >= difference.elements;
  }

private:
  static tool::ReferencePlan check(runtime::Expected<tool::ReferencePlan> plan) {
    if (!plan)
      fail("the model compiles, but not as plain loops: " + plan.error().message());
    return std::move(*plan);
  }

  tool::ReferencePlan compiled;
};

Difference differenceOf(const Subject &subject, const std::vector<HostTensor> &inputs,
                        const std::vector<HostTensor> &expected) {
  WeightsSource parameters(subject.compiled->imported);
  return compareOutputs((*subject.plan)->entries.front(), outputsOf(*subject.plan, parameters, inputs), expected);
}

/// Every division's results against those of plain loops.
void compareAll(const std::string &file, const std::vector<Subject> &subjects) {
  const runtime::PlanContents &contents = **subjects.front().plan;
  Reference reference(contents, file);
  if (!reference.isSmall())
    return countOutcome("compiled: too much work for plain loops");
  auto inputs = tool::makeInputs(contents.entries.front(), {});
  if (!inputs)
    fail("there are no inputs: " + inputs.error().message());
  std::vector<HostTensor> expected = reference.run(*inputs);
  const char *outcome = subjects.size() == 1 ? "executed on one device, compared" : "executed and compared";
  for (const Subject &subject : subjects) {
    Difference difference = differenceOf(subject, *inputs, expected);
    if (difference.elements == 0)
      continue;
    // Libraries may make numbers of NaN (docs/guide.md); nothing else does.
    bool withoutLibraries = hasNan(expected);
    if (withoutLibraries) {
      auto compiled = compile(file, *subject.division, /*noLibraries=*/true);
      if (!compiled)
        fail("the model compiles, but not without libraries: " + compiled.error().message());
      difference = differenceOf(*compiled, *inputs, expected);
    }
    if (difference.elements == 0) {
      outcome = "executed, and compared without libraries because of NaN";
      continue;
    }
    if (!reference.isAsUnstable(difference, *inputs, expected))
      fail("strategy " + subject.compiled->strategy + (withoutLibraries ? " without libraries, " : ", ") +
           difference.text);
    outcome = "executed; roundings of the inputs change plain loops as much";
  }
  countOutcome(outcome);
}

void take(const std::string &file) {
  std::vector<Subject> subjects;
  for (const Division &division : divisions) {
    auto subject = compile(file, division);
    if (subject) {
      if (runtime::Error error = verifyPlan(*subject->plan))
        fail("the compiler's plan does not verify: " + error.message());
      subjects.push_back(std::move(*subject));
      continue;
    }
    if (subject.error().status() == runtime::Status::Internal)
      fail("internal error: " + subject.error().message());
    if (subjects.empty())
      return countOutcome(nameOf(subject.error().status()));
  }
  for (const Subject &subject : subjects)
    if (!isSmall(**subject.plan))
      return countOutcome("compiled: too much work to run");
  compareAll(file, subjects);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const std::string model = "fuzzed-model-" + std::to_string(getpid()) + ".onnx";
  std::ofstream(model, std::ios::binary)
      .write(reinterpret_cast<const char *>(data), static_cast<std::streamsize>(size));
  take(model);
  unlink(model.c_str());
  return 0;
}
