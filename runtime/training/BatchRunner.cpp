// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Steps with outputs of their own, in turns.

#include "runtime/training/BatchRunner.h"

#include "runtime/JoinResults.h"

namespace cleave::runtime {

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

Expected<BatchRunner> BatchRunner::create(const TrainContext &context, uint32_t index, unsigned inFlight) {
  BatchRunner runner(context, index);
  const Entry &entry = context.executor->entry(index);
  auto loss = findNumber(entry, "loss", true);
  auto correct = findNumber(entry, "correct", false);
  if (!loss || !correct)
    return loss ? correct.error() : loss.error();
  if (!*loss)
    return makeError(Status::Rejected, "entry \"", entry.name, "\" expects an output \"loss\", got none");
  runner.loss = **loss;
  runner.correct = *correct;
  runner.outputs.resize(inFlight);
  for (std::vector<HostTensor> &tensors : runner.outputs)
    for (const Port &port : entry.outputs) {
      auto tensor = HostTensor::allocate(port.type);
      if (!tensor)
        return tensor.error();
      tensors.push_back(*tensor);
    }
  return runner;
}

Error BatchRunner::submit(const Batch &batch) {
  auto ticket = context->executor->submit(entry, batch.inputs, outputs[submitted % outputs.size()]);
  if (!ticket)
    return ticket.error();
  ++submitted;
  running.push_back(*ticket);
  return Error::success();
}

Expected<StepOutcome> BatchRunner::finish() {
  auto times = context->executor->wait(running.front());
  running.pop_front();
  if (!times)
    return times.error();
  const Entry &entry = context->executor->entry(this->entry);
  const std::vector<HostTensor> &tensors = outputs[finished++ % outputs.size()];
  auto number = [&](uint32_t output) {
    if (context->processes)
      joinOutput(*context->processes, context->plan, entry, context->rankOfDevice, output, tensors[output]);
    return loadElement(tensors[output].type().element, tensors[output].bytes().data());
  };
  StepOutcome outcome;
  outcome.loss = number(loss);
  if (correct)
    outcome.correct = static_cast<uint64_t>(number(*correct));
  return outcome;
}

} // namespace cleave::runtime
