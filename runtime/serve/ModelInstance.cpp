// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Steps end in the order in which they start, so that it is enough to know how many have ended.

#include "runtime/serve/ModelInstance.h"

#include "runtime/Clock.h"

#include <algorithm>

namespace cleave::runtime::serve {

ModelInstance::ModelInstance(std::shared_ptr<const ServedPlan> served, unsigned inFlight, bool records)
    : served(std::move(served)), inFlight(inFlight ? inFlight : this->served->plan.numStages()),
      table(this->served->plan.getTable()), trace(records ? std::make_shared<Trace>() : nullptr) {
  if (trace)
    trace->recordSingleSteps();
}

Expected<std::unique_ptr<ModelInstance>> ModelInstance::load(std::shared_ptr<const ServedPlan> served,
                                                             const InstancePlace &place, unsigned inFlight,
                                                             bool records, std::function<void()> stepOver,
                                                             ServingProcesses *processes) {
  std::unique_ptr<ModelInstance> made(new ModelInstance(std::move(served), inFlight, records));
  if (Error error = made->prepare(place, std::move(stepOver), processes))
    return error;
  return made;
}

Error ModelInstance::prepare(const InstancePlace &place, std::function<void()> stepOver, ServingProcesses *processes) {
  ExecutorOptions options;
  options.threadsBefore = place.threadsBefore;
  options.threadsBehind = place.threadsBehind;
  options.devicesBefore = place.devicesBefore;
  options.trace = trace.get();
  options.stepOver = [this, stepOver] {
    ++over;
    stepOver();
  };
  const std::vector<std::string> &entries = served->plan.getEntries();
  steps.resize(entries.size());
  if (processes && processes->divide(*served->plan.getPlan())) {
    auto made = DividedExecutor::load(*processes, served, inFlight, std::move(options), trace, std::move(stepOver));
    if (!made)
      return made.error();
    divided = std::move(*made);
    memory = divided->memory();
  } else {
    auto made = served->plan.createExecutor(*served->parameters, std::move(options));
    if (!made)
      return made.error();
    executor = std::move(*made);
    memory = executor->memory();
  }
  for (unsigned slot = 0; slot != inFlight + 1; ++slot) {
    idle.push_back(std::make_unique<BatchBuffers>(served->plan));
    if (Error error = idle.back()->use(0))
      return error;
  }
  // The first run of a size touches its memory for the first time; the second one is as later ones are.
  for (size_t size = 0; size != entries.size(); ++size)
    for (bool counts : {false, true}) {
      double seconds = 0;
      if (Error error = runOnce(size, seconds))
        return error;
      if (counts)
        table.measure(size, seconds);
    }
  return Error::success();
}

Error ModelInstance::runOnce(size_t size, double &seconds) {
  auto work = start(size, {});
  if (!work)
    return work.error();
  Error error = wait(*work);
  seconds = static_cast<double>(work->computed - work->begin) * 1e-9;
  giveBack(*work);
  return error;
}

Expected<ModelInstance::Work> ModelInstance::start(size_t size, const std::vector<JobSlice> &slices) {
  Work work;
  work.begin = now();
  work.size = size;
  work.buffers = std::move(idle.back());
  idle.pop_back();
  if (Error error = work.buffers->use(size)) {
    giveBack(work);
    return error;
  }
  work.buffers->gather(slices);
  work.gathered = now();
  auto entry = static_cast<uint32_t>(size);
  work.isTraced =
      trace && std::ranges::any_of(slices, [](const JobSlice &slice) { return slice.job->trace != nullptr; });
  if (work.isTraced)
    trace->want(work.step = {entry, steps[size]});
  const std::vector<HostTensor> &inputs = work.buffers->getInputs(), &outputs = work.buffers->getOutputs();
  auto ticket = divided ? divided->submit(entry, inputs, outputs) : executor->submit(entry, inputs, outputs);
  if (!ticket) {
    giveBack(work);
    return ticket.error();
  }
  work.ticket = *ticket;
  ++steps[size];
  return work;
}

Error ModelInstance::wait(Work &work) {
  auto times = divided ? divided->wait(work.ticket) : executor->wait(work.ticket);
  --over;
  work.end = work.computed = now();
  return times.error();
}

void ModelInstance::handOut(Work &work, const std::vector<JobSlice> &slices) const {
  work.buffers->scatter(slices);
  work.end = now();
}

void ModelInstance::giveBack(Work &work) {
  if (work.isTraced)
    trace->forget(work.step);
  work.buffers->release();
  idle.insert(idle.begin(), std::move(work.buffers));
}

} // namespace cleave::runtime::serve
