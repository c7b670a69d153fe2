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

Expected<std::optional<uint32_t>> findNumber(const Entry &entry, const std::string &name, bool floating) {
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

Expected<BatchRunner::Outputs> BatchRunner::prepare(const Executor &executor, uint32_t index, unsigned numSlots) {
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
  for (unsigned slot = 0; slot != numSlots; ++slot) {
    auto tensors = allocateTensors(entry.outputs);
    if (!tensors)
      return tensors.error();
    outputs.slots.push_back(std::move(*tensors));
  }
  return outputs;
}

Expected<BatchRunner> BatchRunner::create(const TrainContext &context, std::span<const uint32_t> entries,
                                          unsigned inFlight, std::optional<TrainContext::PipelineEnds> ends) {
  BatchRunner runner(context, inFlight, ends);
  for (uint32_t entry : entries) {
    auto outputs = prepare(*context.executor, entry, runner.mostBatches());
    if (!outputs)
      return outputs.error();
    runner.entries.push_back(std::move(*outputs));
  }
  return runner;
}

/// `executed`: the executor's entry, whose outputs are those of `entry`.
Error BatchRunner::submit(uint32_t executed, std::optional<uint32_t> entry, const std::vector<HostTensor> &inputs) {
  size_t slot = submitted % mostBatches();
  auto ticket =
      context->executor->submit(executed, inputs, entry ? entries[*entry].slots[slot] : std::vector<HostTensor>());
  if (!ticket)
    return ticket.error();
  running.push_back({*ticket, entry, slot});
  submitted += entry.has_value();
  return Error::success();
}

Error BatchRunner::submit(const Batch &batch) {
  bool fills = ends && !isFilled;
  std::optional<uint32_t> entry = fills ? std::nullopt : std::optional(batch.bucket);
  if (Error error = submit(fills ? ends->fill : entries[batch.bucket].entry, entry, batch.inputs()))
    return error;
  isFilled = ends.has_value();
  ++batches;
  return Error::success();
}

Error BatchRunner::drain() { return std::exchange(isFilled, false) ? submit(ends->drain, 0, {}) : Error::success(); }

Error BatchRunner::waitFor(const Running &step) const {
  // Processes learn with the step's end why one of them is to stop, and end after the same step.
  if (context->processes)
    context->processes->setStopSignal(ownStop(*context));
  return context->executor->wait(step.ticket).error();
}

Expected<StepOutcome> BatchRunner::finish() {
  Running step;
  do {
    step = running.front();
    running.pop_front();
    if (Error error = waitFor(step))
      return error;
  } while (!step.entry);
  --batches;
  const Outputs &outputs = entries[*step.entry];
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
