// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is worked out once about a phase, and what the host does for its steps.

#include "runtime/drivers/cuda/CudaPhase.h"

#include "runtime/HappensBefore.h"
#include "runtime/HostTopology.h"
#include "runtime/ParameterLoad.h"
#include "runtime/Processes.h"
#include "runtime/Step.h"

#include <algorithm>
#include <cstring>

namespace cleave::runtime {

/// Whether the command's bytes go through a slot's memory. Parameters that `prepare` loads are too large for that and
/// come but once.
static bool isStaged(const Action &action, const TileLoad &load, Phase phase) {
  if (std::holds_alternative<StoreOutput>(action))
    return !load.boxes.empty();
  return std::holds_alternative<LoadInput>(action) || std::holds_alternative<LoadIndex>(action) ||
         (std::holds_alternative<LoadParameter>(action) && phase == Phase::Body);
}

Error CudaPhase::add(CudaSite &site, const Queue &owner, uint32_t queue, std::vector<Command> commands) {
  List &list = lists.emplace_back();
  list.site = &site;
  list.owner = &owner;
  list.queue = queue;
  const EntryContext &running = shared.entries[phase.entry];
  const Site &place = running.sites[site.index];
  const Processes *processes = shared.options.processes;
  for (Command &command : commands) {
    Task &task = list.tasks.emplace_back();
    const Action &action = command.instruction->action;
    for (const Buffer &buffer : command.buffers) {
      task.arguments.push_back(buffer.data);
      task.sizes.push_back(buffer.size);
    }
    task.load = tileLoadOf(*running.entry, *place.program, shared.meshOf(place), place.member, action);
    task.fault = Fault::of(processes ? processes->rank() : 0, action);
    task.isStaged = isStaged(action, task.load, phase.phase);
    if (const auto *load = std::get_if<LoadParameter>(&action))
      task.isInHost = place.program->buffers[load->buffer].isInHost();
    if (task.isStaged) {
      task.staging = stagingBytes;
      stagingBytes += (command.buffers[0].size + 255) / 256 * 256;
    }
    if (command.signals) {
      auto event = createCudaEvent(cuda, site.gpu);
      if (!event)
        return event.error();
      task.reached = std::move(*event);
    }
    task.command = std::move(command);
  }
  return Error::success();
}

/// Of all instructions of an entry's programs, by program and place, their position in an order in which the phase can
/// happen on all devices; both ends of a transfer have the same.
static Expected<std::vector<std::vector<uint32_t>>> commonOrder(const PlanContents &plan, const Entry &entry,
                                                                Phase phase) {
  std::vector<std::vector<uint32_t>> order;
  for (const Program &program : entry.programs)
    order.emplace_back(program.instructions(phase).size());
  uint32_t events = 0;
  Error error = HappensBefore(plan, entry, phase)
                    .walk([&](std::span<const HappensBefore::Occurrence> event, std::span<const HappensBefore::Clock>) {
                      for (const HappensBefore::Occurrence &each : event)
                        order[each.program][each.instruction] = events;
                      ++events;
                      return Error::success();
                    });
  if (error)
    return error;
  return order;
}

Error CudaPhase::orderForAll(std::vector<std::vector<CudaStep>> &steps) const {
  const Entry &entry = *shared.entries[phase.entry].entry;
  auto order = commonOrder(*shared.plan, entry, phase.phase);
  if (!order)
    return order.error();
  for (size_t list = 0; list != lists.size(); ++list) {
    const Program &program = *shared.entries[phase.entry].sites[lists[list].site->index].program;
    const std::vector<uint32_t> &own = (*order)[static_cast<size_t>(&program - entry.programs.data())];
    const Instruction *first = program.instructions(phase.phase).data();
    for (size_t i = 0; i != steps[list].size(); ++i)
      steps[list][i].order = own[static_cast<size_t>(lists[list].tasks[i].command.instruction - first)];
  }
  return Error::success();
}

Error CudaPhase::build(CudaLinks &carriers) {
  links = &carriers;
  std::unordered_map<const Queue *, uint32_t> numberOf;
  for (uint32_t list = 0; list != lists.size(); ++list)
    numberOf[lists[list].owner] = list;
  std::vector<std::vector<CudaStep>> steps(lists.size());
  for (uint32_t list = 0; list != lists.size(); ++list)
    for (Task &task : lists[list].tasks) {
      CudaStep &step = steps[list].emplace_back();
      step.order = task.command.instruction->order;
      step.channel = channelOf(task.command.instruction->action);
      for (const TimelinePoint &point : task.command.waits)
        step.waits.push_back({numberOf.at(point.queue), point.value});
    }
  if (shared.hasOthers())
    if (Error error = orderForAll(steps))
      return error;
  auto scheduled = scheduleTurns(steps);
  if (!scheduled)
    return scheduled.error();
  for (CudaTurn &places : *scheduled) {
    Turn &turn = turns.emplace_back();
    turn.places = std::move(places);
    if (Error error = linkUp(turn))
      return error;
  }
  for (Turn &turn : turns)
    for (const CudaPlace &place : turn.places)
      for (const CudaPlace &wait : steps[place.list][place.index].waits)
        turn.waits.push_back({place.list, lists[wait.list].tasks[wait.index - 1].reached.get()});
  return Error::success();
}

Error CudaPhase::linkUp(Turn &turn) const {
  const Task &first = at(turn.places.front());
  auto number = channelOf(first.command.instruction->action);
  if (!number)
    return Error::success();
  CudaChannel channel{phase.entry, phase.phase, *number,
                      &shared.entries[phase.entry].channels->of(phase.phase).at(*number)};
  std::vector<CudaEnd> ends;
  for (const CudaPlace &place : turn.places) {
    const List &list = lists[place.list];
    const Task &task = at(place);
    const Action &action = task.command.instruction->action;
    CudaEnd &end = ends.emplace_back();
    end.site = list.site->index;
    end.gpu = list.site->gpu;
    end.stream = list.stream();
    auto buffer = [&](size_t i) { return task.command.buffers[i].data; };
    if (std::holds_alternative<Send>(action))
      end.operands.push_back({buffer(0), nullptr});
    else if (std::holds_alternative<Receive>(action))
      end.operands.push_back({nullptr, buffer(0)});
    for (size_t i = 0; i != operandsOf(action).size(); ++i)
      end.operands.push_back({buffer(2 * i), buffer(2 * i + 1)});
  }
  std::ranges::sort(ends, {}, &CudaEnd::site);
  auto link = links->connect(channel, std::move(ends));
  if (!link)
    return named(turn.places.front(), link.error());
  turn.link = std::move(*link);
  return Error::success();
}

bool CudaPhase::waitsForOthers() const {
  return shared.hasOthers() && std::ranges::any_of(turns, [](const Turn &turn) { return turn.link != nullptr; });
}

std::string CudaPhase::devicesText() const {
  std::vector<std::string> names;
  for (const List &list : lists)
    if (const std::string &name = list.site->device().name; std::ranges::find(names, name) == names.end())
      names.push_back(name);
  std::string text = names.size() == 1 ? "on device" : "on devices";
  for (const std::string &name : names)
    text += (&name == &names.front() ? " \"" : ", \"") + name + "\"";
  return text;
}

Error CudaPhase::named(const CudaPlace &place, const Error &error) const {
  if (!error)
    return error;
  const Instruction &instruction = *at(place).command.instruction;
  return Error(error.status(),
               "device \"" + lists[place.list].site->device().name + "\", " + actionName(instruction.action) + ": " +
                   error.message(),
               error.node().empty() ? instruction.node : error.node());
}

Error CudaPhase::prepare(CudaSlot &slot) const {
  if (slot.isReady)
    return Error::success();
  auto staging = allocatePinnedMemory(cuda, stagingBytes);
  if (!staging)
    return staging.error();
  slot.staging = std::move(*staging);
  forEachTask([&](const List &, const Task &task) {
    if (std::holds_alternative<LoadIndex>(task.command.instruction->action))
      std::memcpy(slot.at(task.staging), &task.load.index, sizeof task.load.index);
  });
  slot.ends.clear();
  slot.timings.clear();
  for (const List &list : lists) {
    auto event = createCudaEvent(cuda, list.site->gpu);
    if (!event)
      return event.error();
    slot.ends.push_back(std::move(*event));
    auto &timings = slot.timings.emplace_back();
    for (size_t i = 0; shared.options.trace && i != list.tasks.size(); ++i) {
      auto begin = createCudaEvent(cuda, list.site->gpu, true), end = createCudaEvent(cuda, list.site->gpu, true);
      if (!begin || !end)
        return begin ? end.error() : begin.error();
      timings.push_back({std::move(*begin), std::move(*end)});
    }
  }
  slot.isReady = true;
  return Error::success();
}

/// How many threads copy between the host's memory and what is pinned: a processor's core alone reads and writes less
/// than the link to a GPU carries.
static unsigned copyingThreads() { return std::min(4u, hostTopology().usableCores()); }

Error CudaPhase::fill(const CudaSlot &slot, const Step &step) const {
  Error error;
  forEachTask([&](const List &, const Task &task) {
    if (error || !task.isStaged)
      return;
    const Instruction &instruction = *task.command.instruction;
    std::span<std::byte> target(slot.at(task.staging), task.sizes[0]);
    if (const auto *input = std::get_if<LoadInput>(&instruction.action))
      loadTile(task.load, step.inputs[input->input].bytes(), target, copyingThreads());
    else if (const auto *load = std::get_if<LoadParameter>(&instruction.action))
      error = loadParameter(*shared.parameters, shared.plan->parameters[load->parameter], task.load, target)
                  .atNode(instruction.node);
  });
  return error;
}

void CudaPhase::store(const CudaSlot &slot, const Step &step) const {
  forEachTask([&](const List &, const Task &task) {
    if (const auto *output = std::get_if<StoreOutput>(&task.command.instruction->action); output && task.isStaged)
      storeTile(task.load, {slot.at(task.staging), task.sizes[0]}, step.outputs[output->output].bytes(),
                copyingThreads());
  });
}

std::map<int, cudaEvent_t> CudaPhase::timedEvents(const CudaSlot &slot) const {
  std::map<int, cudaEvent_t> events;
  for (size_t i = 0; i != lists.size(); ++i)
    if (!slot.timings[i].empty())
      events.try_emplace(lists[i].site->gpu, slot.timings[i].front().begin.get());
  return events;
}

void CudaPhase::trace(const CudaSlot &slot, uint64_t step,
                      const std::function<int64_t(int gpu, cudaEvent_t)> &clock) const {
  for (size_t i = 0; i != lists.size(); ++i) {
    const List &list = lists[i];
    Trace::Track *track = list.site->streams[list.queue].track;
    for (size_t j = 0; track && track->records(phase.phase, phase.entry, step) && j != list.tasks.size(); ++j) {
      const CudaSlot::Timing &timing = slot.timings[i][j];
      track->record({list.tasks[j].command.instruction, phase.phase, step, clock(list.site->gpu, timing.begin.get()),
                     clock(list.site->gpu, timing.end.get()), phase.entry});
    }
  }
}

} // namespace cleave::runtime
