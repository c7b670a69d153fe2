// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Entries that take batches have names, and the samples in dimension 0 of every port.

#include "runtime/serve/BatchedPlan.h"

#include "runtime/Verify.h"

#include <algorithm>
#include <set>

namespace cleave::runtime::serve {

static std::vector<ServedPort> portsOf(const std::vector<Port> &ports, bool isBatched) {
  std::vector<ServedPort> served;
  for (const Port &port : ports) {
    served.push_back({port.name, port.type});
    if (isBatched)
      served.back().type.shape.erase(served.back().type.shape.begin());
  }
  return served;
}

static Error checkPorts(const Entry &entry, const std::vector<Port> &ports, const std::vector<ServedPort> &expected) {
  bool fits = ports.size() == expected.size();
  for (size_t i = 0; fits && i != ports.size(); ++i)
    fits = ports[i].name == expected[i].name && ports[i].type == expected[i].ofSamples(entry.samples, true);
  if (fits)
    return Error::success();
  return makeError(Status::Rejected, "entry \"", entry.name,
                   "\" expects the inputs and outputs of the other batches, with its ", entry.samples,
                   " samples in dimension 0");
}

/// How many of the entry's meshes work one after the other; those that share a device do not.
static unsigned stagesOf(const Plan &plan, const Entry &entry) {
  std::set<uint32_t> used;
  unsigned stages = 0;
  for (const Program &program : entry.programs) {
    bool isNew = true;
    for (uint32_t device : plan->meshes[program.mesh].devices)
      isNew &= used.insert(device).second;
    stages += isNew;
  }
  return std::max(1u, stages);
}

Expected<BatchedPlan> BatchedPlan::open(Plan plan) {
  if (Error error = verifyPlan(plan))
    return error;
  std::vector<const Entry *> entries;
  for (const Entry &entry : plan->entries)
    if (entry.samples != 0 && entry.name == "batch/" + std::to_string(entry.samples))
      entries.push_back(&entry);
  bool isBatched = !entries.empty();
  if (!isBatched)
    entries.push_back(&plan->entries.front());
  const Entry &first = *entries.front();
  if ((first.samples != 0 && !isBatched) || first.isDecision())
    return makeError(Status::Usage, "serving expects a plan that infers, got entry \"", first.name,
                     "\" of one that trains; compile the model without --train, with --max-batch");
  std::ranges::sort(entries, {}, &Entry::samples);
  std::vector<BatchSize> sizes;
  std::vector<std::string> names;
  for (const Entry *entry : entries) {
    double predicted = entry->prediction ? entry->prediction->simulatedSeconds : 0;
    // Without a prediction: what the first batches tell.
    sizes.push_back({isBatched ? static_cast<uint32_t>(entry->samples) : 1u, predicted > 0 ? predicted : 1e-3});
    names.push_back(entry->name);
  }
  auto table = BatchTable::create(std::move(sizes));
  if (!table)
    return table.error();
  BatchedPlan made(std::move(plan), std::move(*table));
  made.batched = isBatched;
  made.entries = std::move(names);
  made.stages = stagesOf(made.plan, first);
  for (const Port &port : first.outputs)
    if (isBatched && port.type.shape.empty())
      return makeError(Status::Rejected, "output \"", port.name, "\" expects its samples in dimension 0, got ",
                       port.type.text());
  made.inputs = portsOf(first.inputs, isBatched);
  made.outputs = portsOf(first.outputs, isBatched);
  for (const Entry *entry : entries) {
    if (!isBatched)
      break;
    if (Error error = checkPorts(*entry, entry->inputs, made.inputs))
      return error;
    if (Error error = checkPorts(*entry, entry->outputs, made.outputs))
      return error;
  }
  return made;
}

Expected<std::unique_ptr<Executor>> BatchedPlan::createExecutor(ParameterSource &parameters,
                                                                ExecutorOptions options) const {
  return entries.size() == 1 ? Executor::create(plan, entries.front(), parameters, std::move(options))
                             : Executor::create(plan, entries, parameters, std::move(options));
}

} // namespace cleave::runtime::serve
