// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Steps with outputs of their own, in turns.

#include "runtime/training/BatchRunner.h"

#include "runtime/JoinResults.h"
#include "runtime/training/StopSignals.h"

namespace cleave::runtime {

static int ownStop(const TrainContext &context) {
  return context.hasDiverged ? TrainContext::divergence : StopSignals::asked();
}

int TrainContext::stopSignal() const { return processes ? processes->stopSignal() : ownStop(*this); }

/// The position of the output of that name, which is one number.
static Expected<std::optional<uint32_t>> findNumber(const Entry &entry, const std::string &name, bool floating) {
  for (uint32_t i = 0; i != entry.outputs.size(); ++i) {
    const Port &port = entry.outputs[i];
    if (port.name != name)
      continue;
    if (port.type.elementCount() != 1u || isFloatingPoint(port.type.element) != floating)
      return makeError(Status::Rejected, "entry \"", entry.name, "\": output \"", name, "\" expects one ",
                       floating ? "floating-point number" : "integer", ", got ", port.type.text());
    return std::optional(i);
  }
  return std::optional<uint32_t>();
}

Expected<BatchRunner::Outputs> BatchRunner::prepare(const Executor &executor, uint32_t index, unsigned inFlight) {
  const Entry &entry = executor.entry(index);
  auto loss = findNumber(entry, "loss", true);
  auto correct = findNumber(entry, "correct", false);
  auto count = findNumber(entry, "count", false);
  for (const auto *found : {&loss, &correct, &count})
    if (!*found)
      return found->error();
  if (!*loss)
    return makeError(Status::Rejected, "entry \"", entry.name, "\" expects an output \"loss\", got none");
  Outputs outputs{index, **loss, *correct, *count, {}};
  for (unsigned slot = 0; slot != inFlight; ++slot) {
    auto tensors = allocateTensors(entry.outputs);
    if (!tensors)
      return tensors.error();
    outputs.slots.push_back(std::move(*tensors));
  }
  return outputs;
}

Expected<BatchRunner> BatchRunner::create(const TrainContext &context, std::span<const uint32_t> entries,
                                          unsigned inFlight) {
  BatchRunner runner(context, inFlight);
  for (uint32_t entry : entries) {
    auto outputs = prepare(*context.executor, entry, inFlight);
    if (!outputs)
      return outputs.error();
    runner.entries.push_back(std::move(*outputs));
  }
  return runner;
}

Error BatchRunner::submit(const Batch &batch) {
  Outputs &outputs = entries[batch.bucket];
  size_t slot = submitted % inFlight;
  auto ticket = context->executor->submit(outputs.entry, batch.inputs(), outputs.slots[slot]);
  if (!ticket)
    return ticket.error();
  ++submitted;
  running.push_back({*ticket, batch.bucket, slot});
  return Error::success();
}

Expected<StepOutcome> BatchRunner::finish() {
  Running step = running.front();
  running.pop_front();
  // Processes learn with the step's end why one of them is to stop, and end after the same step.
  if (context->processes)
    context->processes->setStopSignal(ownStop(*context));
  auto times = context->executor->wait(step.ticket);
  if (!times)
    return times.error();
  const Outputs &outputs = entries[step.bucket];
  const Entry &entry = context->executor->entry(outputs.entry);
  const std::vector<HostTensor> &tensors = outputs.slots[step.slot];
  auto number = [&](uint32_t output) {
    if (context->processes)
      joinOutput(*context->processes, context->plan, entry, context->rankOfDevice, output, tensors[output]);
    return loadElement(tensors[output].type().element, tensors[output].bytes().data());
  };
  StepOutcome outcome;
  outcome.loss = number(outputs.loss);
  if (outputs.correct)
    outcome.correct = static_cast<uint64_t>(number(*outputs.correct));
  if (outputs.count)
    outcome.count = static_cast<uint64_t>(number(*outputs.count));
  return outcome;
}

} // namespace cleave::runtime
