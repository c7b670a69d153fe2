// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `cleave verify`: proves that a plan can run, and with --numeric that its results, and what its training steps change,
// are those of the plainest plan for the same model on one device. A model is compiled in memory for it, and any tensor
// inside can be compared, too.

#include "compiler/Figures.h"
#include "tools/cleave-run/NumberOptions.h"
#include "tools/cleave-run/OutputOptions.h"
#include "tools/cleave-run/PlanTrust.h"
#include "tools/cleave/Command.h"
#include "tools/cleave/Diagnostics.h"
#include "tools/cleave/ModelArguments.h"
#include "tools/cleave/OutputFile.h"
#include "tools/cleave/PlanRunner.h"
#include "tools/cleave/ReferencePlan.h"
#include "tools/cleave/TextTable.h"

#include "runtime/Verify.h"
#include "runtime/training/TrainCommand.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/Format.h"

#include <CLI/CLI.hpp>

namespace cleave::tool {
namespace {

struct VerifyOptions {
  std::string subject, json; ///< a plan or a model
  ModelOptions model;
  TargetOptions target;
  std::vector<std::string> inputs, tensors;
  bool numeric = false;
  PlanTrust trust; ///< with `numeric`, which runs the plan
  double rtol = 1e-3, atol = 1e-5;
};

/// How much was looked at.
struct EntryCounts {
  size_t instructions = 0, queues = 0, transfers = 0, waits = 0, buffers = 0;

  explicit EntryCounts(const runtime::Entry &entry) {
    for (const runtime::Program &program : entry.programs) {
      queues += program.queues.size();
      buffers += program.buffers.size();
      for (runtime::Phase phase : {runtime::Phase::Prepare, runtime::Phase::Body})
        for (const runtime::Instruction &instruction : program.instructions(phase)) {
          ++instructions;
          waits += instruction.waits.size();
          transfers += std::holds_alternative<runtime::Send>(instruction.action);
        }
    }
  }
};

void printProofs(llvm::raw_ostream &out, const VerifyOptions &options, const runtime::PlanContents &plan) {
  out << options.subject << ": verified\n";
  for (const runtime::Entry &entry : plan.entries) {
    EntryCounts counts(entry);
    out << "entry \"" << entry.name << "\"\n"
        << "  structure  " << counts.instructions << " instructions, " << plan.kernels.size() << " kernels, "
        << counts.buffers << " buffers: every index, type, size and signature fits\n"
        << "  deadlock   " << counts.queues << " queues, " << counts.waits << " waits, " << counts.transfers
        << " transfers: all end, each send meeting its receive\n"
        << "  memory     every read sees the value that was meant for it, and nothing is overwritten before\n"
        << "  races      no two accesses to the same bytes are without an order, within a step and across steps\n";
    for (const runtime::Program &program : entry.programs)
      for (uint32_t device : plan.meshes[program.mesh].devices)
        out << "  arena      " << plan.devices[device].name << ": "
            << bytesText(static_cast<double>(program.arenaBytes)) << ", "
            << llvm::format("%.3f", program.liveBytes ? static_cast<double>(program.arenaBytes) /
                                                            static_cast<double>(program.liveBytes)
                                                      : 1.0)
            << " times what is live at once\n";
  }
}

/// The outputs of one step of a plan's first entry.
Expected<std::vector<runtime::HostTensor>> outputsOf(const RunnablePlan &subject,
                                                     const std::vector<runtime::HostTensor> &inputs) {
  const runtime::Entry &entry = subject.plan->entries.front();
  auto outputs = makeOutputs(entry);
  if (!outputs)
    return outputs;
  auto executor = runtime::Executor::create(subject.plan, entry.name, subject.parameters);
  if (!executor)
    return executor.error();
  auto seconds = runStep(**executor, inputs, *outputs);
  if (!seconds)
    return seconds.error();
  return outputs;
}

/// What is verified: a plan and where its parameters are.
struct VerifiedPlan {
  std::unique_ptr<CompiledModel> compiled; ///< in memory, of a model: where it is, `parameters` looks
  std::optional<runtime::Plan> plan;
  std::unique_ptr<runtime::ParameterSource> parameters;
};

Expected<VerifiedPlan> openSubject(const VerifyOptions &options) {
  VerifiedPlan subject;
  if (isPlanFile(options.subject)) {
    auto plan = runtime::Plan::read(options.subject);
    if (!plan)
      return plan.error();
    if (options.numeric)
      if (Error error = options.trust.check(*plan, options.subject))
        return error;
    subject.plan = std::move(*plan);
    subject.parameters = std::make_unique<runtime::FolderSource>(subject.plan->folder());
    return subject;
  }
  auto inputs = InputFiles::create(options.inputs);
  if (!inputs)
    return inputs.error();
  CompileRequest request;
  request.model = options.model;
  request.model.model = options.subject;
  request.target = options.target;
  request.inputs = &*inputs;
  request.extraOutputs = options.tensors;
  auto compiled = compileModel(request, console());
  if (!compiled)
    return compiled.error();
  subject.compiled = std::make_unique<CompiledModel>(std::move(*compiled));
  auto plan = openPlan(*subject.compiled);
  if (!plan)
    return plan.error();
  subject.plan = std::move(*plan);
  subject.parameters = std::make_unique<WeightsSource>(subject.compiled->imported);
  return subject;
}

/// The outputs of a step of inference and how far they are from the reference's.
Expected<std::vector<TensorDifference>> compareInference(const RunnablePlan &actual, const RunnablePlan &expected,
                                                         const RunnablePlan *beside,
                                                         const std::vector<std::string> &bindings,
                                                         Tolerance tolerance) {
  const runtime::Entry &entry = actual.plan->entries.front(), &reference = expected.plan->entries.front();
  auto sameTypes = [](const std::vector<runtime::Port> &a, const std::vector<runtime::Port> &b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const runtime::Port &x, const runtime::Port &y) { return x.type == y.type; });
  };
  if (!sameTypes(entry.inputs, reference.inputs) || !sameTypes(entry.outputs, reference.outputs))
    return makeError(Status::Failure,
                     "the plan and its model expect inputs and outputs of the same types; name the plan's model with "
                     "--model");
  auto inputs = makeInputs(entry, bindings);
  if (!inputs)
    return inputs.error();
  std::vector<std::vector<runtime::HostTensor>> outputs;
  for (const RunnablePlan *subject : {&actual, &expected, beside}) {
    if (!subject)
      break;
    auto found = outputsOf(*subject, *inputs);
    if (!found)
      return found.error();
    outputs.push_back(std::move(*found));
  }
  std::vector<TensorDifference> differences;
  for (size_t i = 0; i != entry.outputs.size(); ++i) {
    const runtime::HostTensor &wanted = outputs[1][i];
    // Sums are rounded by the size of what is summed: the small elements of an output have the error of its large ones.
    double scale = isFloatingPoint(wanted.type().element) ? std::max(1.0, largestMagnitude(wanted)) : 1;
    double narrowing = beside ? tolerance.share * compare(wanted, outputs[2][i], 0, 0).maxError : 0;
    differences.push_back({"", entry.outputs[i].name, false,
                           compare(outputs[0][i], wanted, tolerance.rtol, tolerance.atol * scale + narrowing)});
  }
  return differences;
}

/// Runs the plan and its reference, and where the plan's arithmetic is no exact f32 also one to judge it by.
Expected<std::vector<TensorDifference>> compareWithReference(const VerifyOptions &options,
                                                             const VerifiedPlan &subject) {
  const runtime::Plan &plan = *subject.plan;
  if (plan->replicas)
    return makeError(Status::Unsupported, "--numeric compares steps on all devices; replicas that do not wait for each "
                                          "other have none; compile without --sync to compare what each of them does");
  if (plan->entries.front().isDecision())
    return makeError(Status::Usage, "--numeric expects a plan that can run; \"", options.subject,
                     "\" is what was decided about a training step; compile with --loss");
  for (const runtime::PlanDevice &device : plan->devices)
    if (device.driver == "null")
      return makeError(Status::Usage, "--numeric expects devices that compute; \"", device.name,
                       "\" only stands for one; compile with the same --strategy and --degrees, or --place, for host:",
                       plan->devices.size());
  if (llvm::any_of(plan->entries, [](const runtime::Entry &entry) { return entry.name == runtime::drainEntryName; }))
    return makeError(Status::Usage, "--numeric expects steps that end before the next one begins; the pipeline of \"",
                     options.subject, "\" goes on from step to step; compile it with another --schedule");
  ModelOptions model = options.model;
  if (subject.compiled)
    model.model = options.subject;
  else if (model.model.empty())
    model.model = (plan.folder() / plan->model).string();
  auto reference = ReferencePlan::compile(*plan, model, options.inputs, options.tensors);
  if (!reference)
    return reference.error();
  std::optional<ReferencePlan> other;
  std::optional<RunnablePlan> beside;
  Tolerance tolerance{options.rtol, options.atol};
  if (auto arithmetic = otherArithmeticOf(*plan)) {
    auto compiled = ReferencePlan::compile(*plan, model, options.inputs, options.tensors, arithmetic->elementType);
    if (!compiled)
      return compiled.error();
    beside.emplace(other.emplace(std::move(*compiled)).runnable());
    tolerance.share = arithmetic->share;
  }
  auto compare = plan->entries.front().samples != 0 ? compareTraining : compareInference;
  return compare({plan, *subject.parameters}, reference->runnable(), beside ? &*beside : nullptr, options.inputs,
                 tolerance);
}

void printDifferences(llvm::raw_ostream &out, const std::vector<TensorDifference> &differences) {
  // Parameters are many: those that are as they should be share a line.
  llvm::MapVector<llvm::StringRef, size_t> equal;
  for (const TensorDifference &difference : differences)
    if (difference.isChange && difference.comparison.equal())
      ++equal[difference.entry];
    else
      out << difference.subject() << " and one device's: " << difference.comparison.text() << "\n";
  for (const auto &[entry, count] : equal)
    out << "changes of " << countText(count, "tensor") << " by entry \"" << entry << "\" and one device's: equal\n";
}

void writeDifference(JsonStream &json, const TensorDifference &difference) {
  if (!difference.entry.empty())
    json.attribute("entry", difference.entry);
  json.attribute("name", difference.name);
  json.attribute("equal", difference.comparison.equal());
  json.attribute("differing", difference.comparison.differing);
  json.attribute("max_error", difference.comparison.maxError);
}

void writeReport(JsonStream &json, const runtime::PlanContents &plan,
                 const std::vector<TensorDifference> &differences) {
  json.attributeArray("proven", [&] {
    for (const char *property : {"structure", "deadlock", "memory", "races"})
      json.value(property);
  });
  json.attributeArray("entries", [&] {
    for (const runtime::Entry &entry : plan.entries)
      json.object([&] {
        EntryCounts counts(entry);
        json.attribute("name", entry.name);
        json.attribute("instructions", static_cast<int64_t>(counts.instructions));
        json.attribute("queues", static_cast<int64_t>(counts.queues));
        json.attribute("waits", static_cast<int64_t>(counts.waits));
        json.attribute("transfers", static_cast<int64_t>(counts.transfers));
        json.attribute("buffers", static_cast<int64_t>(counts.buffers));
      });
  });
  for (bool changes : {false, true})
    json.attributeArray(changes ? "changes" : "outputs", [&] {
      for (const TensorDifference &difference : differences)
        if (difference.isChange == changes)
          json.object([&] { writeDifference(json, difference); });
    });
}

Error verify(const VerifyOptions &options) {
  auto subject = openSubject(options);
  if (!subject)
    return subject.error();
  const runtime::Plan &plan = *subject->plan;
  if (Error error = verifyPlan(plan))
    return error;
  std::vector<TensorDifference> differences;
  if (options.numeric) {
    auto compared = compareWithReference(options, *subject);
    if (!compared)
      return compared.error();
    differences = std::move(*compared);
  }
  Error error = writeText(options.json, [&](llvm::raw_ostream &out) {
    printProofs(out, options, *plan);
    printDifferences(out, differences);
  });
  if (!error && !options.json.empty())
    error = writeJson(options.json, [&](JsonStream &json) { writeReport(json, *plan, differences); });
  if (error)
    return error;
  for (const TensorDifference &difference : differences)
    if (!difference.comparison.equal())
      return makeError(Status::Different, difference.subject(),
                       " expects the results of one device: ", difference.comparison.text());
  return Error::success();
}

} // namespace

void addVerifyCommand(CLI::App &app, Action &chosen) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App *command = app.add_subcommand("verify", "Proves that a plan has no deadlock, no race and sound memory.");
  command->add_option("PLAN|MODEL", options->subject, "a plan file; or a model, which is compiled in memory")
      ->required();
  CLI::Option *numeric = command->add_flag("--numeric", options->numeric,
                                           "also run it, and its model as plain loops on one device, and compare");
  command->add_option("--model", options->model.model, "the plan's model, if it is no longer where the plan says")
      ->type_name("FILE")
      ->needs(numeric);
  command
      ->add_option("--tensor", options->tensors,
                   "of a model, compare also the results of these nodes, by name with * and ?; what is fused with "
                   "them is no longer")
      ->type_name("NAME")
      ->allow_extra_args(false)
      ->needs(numeric);
  options->trust.addTo(*command);
  addTargetOptions(*command, options->target);
  addModelDimOptions(*command, options->model);
  addModelBindOption(*command, options->model);
  command->add_option("--input", options->inputs, "an input's tensor; random numbers otherwise")
      ->type_name("NAME=FILE")
      ->allow_extra_args(false)
      ->needs(numeric);
  command->add_option("--rtol", options->rtol, "relative tolerance")->check(notNegative)->capture_default_str();
  command
      ->add_option("--atol", options->atol,
                   "absolute tolerance, times the largest magnitude of an output if that is above 1")
      ->check(notNegative)
      ->capture_default_str();
  addOutputOption(*command, "--json", options->json, "where the report goes as JSON");
  command->callback([options, command, &chosen] {
    chosen = [options, command] {
      if (isPlanFile(options->subject))
        if (const char *name = findGivenOption(*command, {"--tensor"}))
          return report(makeError(Status::Usage, name, " expects a model; a plan is what it is"));
      return report(verify(*options));
    };
  });
}

} // namespace cleave::tool
