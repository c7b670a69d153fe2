// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The steps of the run command: bind files to ports, run, compare, write, report.

#include "runtime/run/RunCommand.h"

#include "runtime/Clock.h"
#include "runtime/FileReplacement.h"
#include "runtime/Generator.h"
#include "runtime/JoinResults.h"
#include "runtime/PortBinding.h"
#include "runtime/Printable.h"
#include "runtime/Trace.h"
#include "runtime/Verify.h"
#include "runtime/run/RunReport.h"
#include "runtime/tensorfile/TensorFile.h"

#include <algorithm>
#include <iostream>

namespace cleave::runtime {
namespace {

Expected<std::optional<HostTensor>> readIfBound(const std::optional<std::string> &file, const Port &port) {
  if (!file)
    return std::optional<HostTensor>();
  auto tensor = readTensorFile(*file, &port.type);
  if (!tensor)
    return Error(tensor.error().status(), "\"" + port.name + "\": " + tensor.error().message());
  if (tensor->type() != port.type)
    return makeError(Status::Failure, "\"", port.name, "\" expects ", port.type.text(), ", got ", tensor->type().text(),
                     " in ", *file);
  return std::optional(*tensor);
}

/// Normal numbers for floats; zeros and ones for the rest, which are valid as indices of anything with two elements.
Expected<HostTensor> randomTensor(const Port &port, uint64_t seed) {
  auto tensor = HostTensor::allocate(port.type);
  if (!tensor)
    return tensor;
  GeneratedSource source;
  source.distribution = isFloatingPoint(port.type.element) ? Distribution::Normal : Distribution::Uniform;
  source.a = 0;
  source.b = 1;
  source.seed = seed;
  generate(source, port.type.element, tensor->bytes());
  return tensor;
}

class RunCommand {
public:
  RunCommand(const Plan &plan, const RunOptions &options, std::ostream &err) : plan(plan), options(options), err(err) {}

  Error run(ParameterSource &parameters) {
    if (Error error = agree(prepare()))
      return error;
    if (processes)
      if (Error error = checkSame(*processes, plan, commonOptions()))
        return error;
    if (Error error = execute(parameters))
      return error;
    if (processes)
      join();
    return isFirst() ? finish() : Error::success();
  }

  /// Whether this process reports.
  bool isFirst() const { return !processes || processes->rank() == 0; }

  RunReport report;

private:
  Error agree(const Error &error) const { return processes ? processes->agree(error) : error; }

  std::string commonOptions() const {
    std::string text = "--entry " + entry->name + " --repeat " + std::to_string(options.repeat) + " --in-flight " +
                       std::to_string(options.inFlight) + (options.traceFile.empty() ? "" : " --trace") +
                       (options.profile ? " --profile" : "") + " --warmup " + std::to_string(options.warmup);
    for (const std::string &devices : options.devicesOfRank)
      text += " --devices-of-rank " + devices;
    return text;
  }

  /// Everything that each process does without the others.
  Error prepare() {
    if (options.duration > 0 && processes)
      return makeError(Status::Usage, "--duration expects a single process; of several each counts --repeat steps");
    if (options.repeat == 0 || options.inFlight == 0)
      return makeError(Status::Usage, "a run expects at least one step and one in flight, got ", options.repeat,
                       " and ", options.inFlight);
    if (Error error = verifyPlan(plan))
      return error;
    auto found = plan.entry(options.entry);
    if (!found)
      return found.error();
    entry = *found;
    auto divided = divideDevices(static_cast<uint32_t>(plan->devices.size()), processes ? processes->count() : 1,
                                 options.devicesOfRank);
    if (!divided)
      return divided.error();
    rankOfDevice = *divided;
    if (Error error = readFiles())
      return error;
    return allocateOutputs();
  }

  Error readFiles() {
    auto inputFiles = bindPorts(options.inputs, entry->inputs, "--input");
    if (!inputFiles)
      return inputFiles.error();
    auto expectFiles = bindPorts(options.expects, entry->outputs, "--expect");
    if (!expectFiles)
      return expectFiles.error();
    std::vector<std::string> bindings;
    for (const std::string &output : options.outputs)
      if (output.find('=') == std::string::npos && namesTensorArchive(output))
        archives.push_back(output);
      else
        bindings.push_back(output);
    auto outputs = bindPorts(bindings, entry->outputs, "--output");
    if (!outputs)
      return outputs.error();
    outputFiles = *outputs;
    for (size_t i = 0; i != entry->inputs.size(); ++i) {
      auto tensor = readIfBound((*inputFiles)[i], entry->inputs[i]);
      if (!tensor)
        return tensor.error();
      if (!*tensor && isFirst())
        err << "notice: input \"" << printable(entry->inputs[i].name) << "\" " << entry->inputs[i].type.text()
            << " has no file; filled with random numbers\n";
      if (!*tensor) {
        auto filled = randomTensor(entry->inputs[i], i);
        if (!filled)
          return filled.error();
        *tensor = *filled;
      }
      inputs.push_back(**tensor);
    }
    for (size_t i = 0; i != entry->outputs.size(); ++i) {
      auto tensor = readIfBound(isFirst() ? (*expectFiles)[i] : std::nullopt, entry->outputs[i]);
      if (!tensor)
        return tensor.error();
      expected.push_back(*tensor);
    }
    return Error::success();
  }

  Error execute(ParameterSource &parameters) {
    ExecutorOptions executorOptions;
    executorOptions.processes = processes;
    executorOptions.rankOfDevice = rankOfDevice;
    executorOptions.trace = options.traceFile.empty() && !options.profile ? nullptr : &trace;
    auto executor = Executor::create(plan, options.entry, parameters, std::move(executorOptions));
    if (!executor)
      return executor.error();
    report.entry = entry->name;
    report.devices = (*executor)->memory();
    for (const Program &program : entry->programs)
      for (uint32_t device : plan->meshes[program.mesh].devices)
        report.simulated |= plan->devices[device].driver == "null";
    return measure(**executor);
  }

  /// Each of the steps in flight has output tensors of its own.
  Error allocateOutputs() {
    outputsOf.resize(options.duration > 0 ? options.inFlight : std::min(options.inFlight, options.repeat));
    for (std::vector<HostTensor> &tensors : outputsOf) {
      auto allocated = allocateTensors(entry->outputs);
      if (!allocated)
        return allocated.error();
      tensors = *allocated;
    }
    return Error::success();
  }

  Error warmUp(Executor &executor) {
    for (unsigned step = 0; step != options.warmup; ++step) {
      auto ticket = executor.submit(inputs, outputsOf.front());
      if (!ticket)
        return ticket.error();
      if (auto times = executor.wait(*ticket); !times)
        return times.error();
    }
    return Error::success();
  }

  Error measure(Executor &executor) {
    if (Error error = warmUp(executor))
      return error;
    auto slots = static_cast<unsigned>(outputsOf.size());
    std::vector<int64_t> submitted(slots);
    std::vector<Ticket> tickets(slots);
    std::vector<double> milliseconds;
    int64_t first = 0, last = 0;
    const int64_t deadline = now() + static_cast<int64_t>(options.duration * 1e9);
    auto isWanted = [&](unsigned step) {
      return options.duration > 0 ? step == 0 || now() < deadline : step != options.repeat;
    };
    unsigned next = 0;
    bool isMore = true;
    for (unsigned step = 0;; ++step) {
      while (isMore && next < step + slots && (isMore = isWanted(next))) {
        submitted[next % slots] = now();
        auto ticket = executor.submit(inputs, outputsOf[next % slots]);
        if (!ticket)
          return ticket.error();
        tickets[next++ % slots] = *ticket;
      }
      if (step == next)
        break;
      auto times = executor.wait(tickets[step % slots]);
      if (!times)
        return times.error();
      int64_t begin = report.simulated ? times->begin : submitted[step % slots];
      milliseconds.push_back(static_cast<double>(times->end - begin) / 1e6);
      first = step == 0 ? begin : first;
      last = std::max(last, times->end);
    }
    report.steps = next;
    report.latency = latencyOf(std::move(milliseconds));
    report.stepsPerSecond = last > first ? next / (static_cast<double>(last - first) / 1e9) : 0;
    outputs = outputsOf[(next - 1) % slots];
    return Error::success();
  }

  /// Brings what other processes have found out to rank 0.
  void join() {
    for (uint32_t i = 0; i != outputs.size(); ++i)
      joinOutput(*processes, plan, *entry, rankOfDevice, i, outputs[i]);
    report.devices = joinMemory(*processes, plan, std::span(&entry, 1), rankOfDevice, report.devices);
    if (!options.traceFile.empty() || options.profile)
      joinTrace(*processes, plan, std::span(&entry, 1), trace);
  }

  Error finish() {
    Error different;
    for (size_t i = 0; i != outputs.size(); ++i) {
      const Port &port = entry->outputs[i];
      OutputReport &output =
          report.outputs.emplace_back(OutputReport{port.name, port.type, std::nullopt, describeValues(outputs[i])});
      if (expected[i])
        output.comparison = compare(outputs[i], *expected[i], options.rtol, options.atol);
      if (output.comparison && !output.comparison->equal() && !different)
        different = makeError(Status::Different, "output \"", port.name, "\": ", output.comparison->text(), " (rtol ",
                              options.rtol, ", atol ", options.atol, ")");
      if (!outputFiles[i])
        continue;
      if (Error error = writeTensorFile(fileOfOutput(*outputFiles[i], port), outputs[i]))
        return error;
    }
    for (const std::string &archive : archives)
      if (Error error = writeTensorArchive(archive, namedOutputs()))
        return error;
    if (options.profile)
      report.nodes = nodeTimes(trace, options.warmup);
    if (!options.traceFile.empty())
      if (Error error = replaceTextFile(options.traceFile, [&](std::ostream &out) { trace.write(out); }))
        return error;
    if (!options.jsonFile.empty())
      if (Error error = replaceTextFile(options.jsonFile, [&](std::ostream &out) { report.writeJson(out); }))
        return error;
    return different;
  }

  /// A member of an archive is called as the output unless the binding gives it another name.
  static std::string fileOfOutput(const std::string &file, const Port &port) {
    return namesTensorArchive(file) ? file + ":" + port.name : file;
  }

  std::vector<ArchiveMember> namedOutputs() const {
    std::vector<ArchiveMember> members;
    for (size_t i = 0; i != outputs.size(); ++i)
      members.push_back({entry->outputs[i].name, outputs[i]});
    return members;
  }

  const Plan &plan;
  const RunOptions &options;
  std::ostream &err;
  Processes *const processes = options.processes && options.processes->count() > 1 ? options.processes : nullptr;
  std::vector<uint32_t> rankOfDevice;
  const Entry *entry = nullptr;
  std::vector<HostTensor> inputs, outputs;
  std::vector<std::vector<HostTensor>> outputsOf; ///< by slot: as many as steps in flight
  std::vector<std::optional<HostTensor>> expected;
  PortBindings outputFiles;
  std::vector<std::string> archives; ///< each with all outputs
  Trace trace;
};

} // namespace

int runPlan(const Plan &plan, ParameterSource &parameters, const RunOptions &options, std::ostream &out,
            std::ostream &err) {
  RunCommand command(plan, options, err);
  Error error = command.run(parameters);
  if (command.isFirst() && (!error || error.status() == Status::Different))
    command.report.print(out);
  if (error && command.isFirst() && (!options.processes || options.processes->claimReport()))
    err << error.report();
  return static_cast<int>(error.status());
}

int runPlan(const Plan &plan, ParameterSource &parameters, const RunOptions &options) {
  // JSON has standard output for itself.
  std::ostream nowhere(nullptr);
  return runPlan(plan, parameters, options, options.jsonFile == "-" ? nowhere : std::cout, std::cerr);
}

} // namespace cleave::runtime
