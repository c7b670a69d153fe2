// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Buffers lie in their arena and have their type's size; instructions name things that exist and fit together; every
// channel has one sender and one receiver; every output is stored once.

#include "runtime/VerifyProgram.h"

#include "runtime/HappensBefore.h"

#include <algorithm>
#include <map>

namespace cleave::runtime {
namespace {

constexpr uint64_t alignment = 64;

template <typename... Parts> Error reject(const Parts &...parts) { return makeError(Status::Rejected, parts...); }

Error checkBuffer(const Program &program, const PlanBuffer &buffer) {
  if (Error error = buffer.type.check())
    return error;
  uint64_t needed = *buffer.type.byteSize();
  if (buffer.bytes != needed)
    return reject("expects ", needed, " bytes for ", buffer.type.text(), ", got ", buffer.bytes);
  if (buffer.offset % alignment != 0)
    return reject("expects an offset that is a multiple of ", alignment, ", got ", buffer.offset);
  if (buffer.offset > program.arenaBytes || buffer.bytes > program.arenaBytes - buffer.offset)
    return reject("expects to lie in an arena of ", program.arenaBytes, " bytes, got offset ", buffer.offset, " and ",
                  buffer.bytes, " bytes");
  if (buffer.viewOf < 0)
    return Error::success();
  if (static_cast<size_t>(buffer.viewOf) >= program.buffers.size())
    return reject("is a view of buffer ", buffer.viewOf, ", but the program has ", program.buffers.size());
  const PlanBuffer &whole = program.buffers[buffer.viewOf];
  if (whole.viewOf >= 0)
    return reject("is a view of buffer \"", whole.name, "\", which is a view itself; name the one it is a view of");
  if (whole.bytes < buffer.bytes || buffer.offset < whole.offset ||
      buffer.offset - whole.offset > whole.bytes - buffer.bytes)
    return reject("expects to lie inside \"", whole.name, "\", of which it is a view");
  return Error::success();
}

Error checkArena(const PlanContents &plan, const Program &program) {
  uint64_t end = 0;
  for (const PlanBuffer &buffer : program.buffers) {
    if (Error error = checkBuffer(program, buffer))
      return reject("buffer \"", buffer.name, "\" ", error.message());
    end = std::max(end, buffer.offset + buffer.bytes);
  }
  if (program.arenaBytes - end >= alignment)
    return reject("arena has ", program.arenaBytes, " bytes, but its buffers end at ", end);
  if (program.liveBytes > program.arenaBytes)
    return reject("arena has ", program.arenaBytes, " bytes, fewer than the ", program.liveBytes, " live at once");
  for (uint32_t index : plan.meshes[program.mesh].devices) {
    const PlanDevice &device = plan.devices[index];
    if (device.memoryLimit != 0 && program.arenaBytes > device.memoryLimit)
      return makeError(Status::Infeasible, "device \"", device.name, "\" has a memory limit of ", device.memoryLimit,
                       " bytes, but its arena needs ", program.arenaBytes);
  }
  return Error::success();
}

/// The rules of one instruction by itself. Messages continue the instruction's description.
class InstructionChecker {
public:
  InstructionChecker(const PlanContents &plan, const Entry &entry, const Program &program, Phase phase)
      : plan(plan), entry(entry), program(program), phase(phase) {}

  Error operator()(const Call &call) const {
    if (call.kernel >= plan.kernels.size())
      return reject("calls kernel ", call.kernel, ", but the plan has ", plan.kernels.size());
    const Kernel &kernel = plan.kernels[call.kernel];
    size_t numInputs = kernel.inputs.size(), numTyped = numInputs + kernel.outputs.size();
    if (call.arguments.size() != numTyped + (kernel.scratchBytes > 0))
      return reject("calls kernel \"", kernel.name, "\", which expects ", numTyped + (kernel.scratchBytes > 0),
                    " arguments, got ", call.arguments.size());
    for (uint32_t argument : call.arguments)
      if (Error error = checkBuffer(argument))
        return error;
    for (size_t i = 0; i != numTyped; ++i) {
      const PlanBuffer &buffer = program.buffers[call.arguments[i]];
      const TensorType &type = i < numInputs ? kernel.inputs[i] : kernel.outputs[i - numInputs];
      if (buffer.type != type)
        return reject("calls kernel \"", kernel.name, "\", which expects ", type.text(), " as argument ", i,
                      ", got buffer \"", buffer.name, "\" of ", buffer.type.text());
    }
    if (kernel.scratchBytes > 0 && program.buffers[call.arguments.back()].bytes < kernel.scratchBytes)
      return reject("calls kernel \"", kernel.name, "\", which expects ", kernel.scratchBytes,
                    " bytes of scratch, got buffer \"", program.buffers[call.arguments.back()].name, "\" of ",
                    program.buffers[call.arguments.back()].bytes);
    return Error::success();
  }
  Error operator()(const Copy &copy) const {
    if (Error error = checkBuffer(copy.source))
      return error;
    return checkType(copy.target, program.buffers[copy.source].type);
  }
  Error operator()(const Send &send) const { return checkTransfer(send.buffer, send.peer); }
  Error operator()(const Receive &receive) const { return checkTransfer(receive.buffer, receive.peer); }
  Error operator()(const LoadParameter &load) const {
    if (load.parameter >= plan.parameters.size())
      return reject("loads parameter ", load.parameter, ", but the plan has ", plan.parameters.size());
    return checkType(load.buffer, plan.parameters[load.parameter].type);
  }
  Error operator()(const LoadInput &load) const {
    return checkPort("loads input ", load.input, load.buffer, entry.inputs);
  }
  Error operator()(const StoreOutput &store) const {
    return checkPort("stores output ", store.output, store.buffer, entry.outputs);
  }

private:
  Error checkBuffer(uint32_t buffer) const {
    if (buffer >= program.buffers.size())
      return reject("uses buffer ", buffer, ", but the program has ", program.buffers.size());
    return Error::success();
  }
  Error checkType(uint32_t buffer, const TensorType &type) const {
    if (Error error = checkBuffer(buffer))
      return error;
    if (program.buffers[buffer].type != type)
      return reject("expects a buffer of ", type.text(), ", got \"", program.buffers[buffer].name, "\" of ",
                    program.buffers[buffer].type.text());
    return Error::success();
  }
  Error checkTransfer(uint32_t buffer, uint32_t peer) const {
    if (peer >= plan.devices.size())
      return reject("has device ", peer, " as peer, but the plan has ", plan.devices.size());
    return checkBuffer(buffer);
  }
  Error checkPort(const char *what, uint32_t port, uint32_t buffer, const std::vector<Port> &ports) const {
    if (phase == Phase::Prepare)
      return reject(what, port, " in prepare, expected that only in the body");
    if (port >= ports.size())
      return reject(what, port, ", but the entry has ", ports.size());
    return checkType(buffer, ports[port].type);
  }

  const PlanContents &plan;
  const Entry &entry;
  const Program &program;
  Phase phase;
};

bool fits(QueueKind kind, const Action &action) {
  if (std::holds_alternative<Send>(action))
    return kind == QueueKind::Send;
  if (std::holds_alternative<Receive>(action))
    return kind == QueueKind::Receive;
  if (std::holds_alternative<Call>(action) || std::holds_alternative<Copy>(action))
    return kind == QueueKind::Compute;
  return kind == QueueKind::Host || kind == QueueKind::Compute;
}

Error checkInstruction(const Instruction &instruction, const InstructionChecker &checker, const Program &program,
                       const std::vector<uint32_t> &lengths) {
  if (instruction.queue >= program.queues.size())
    return reject("is on queue ", instruction.queue, ", but the program has ", program.queues.size());
  QueueKind kind = program.queues[instruction.queue];
  if (!fits(kind, instruction.action))
    return reject("does not fit a ", queueKindName(kind), " queue");
  for (const Wait &wait : instruction.waits)
    if (wait.queue >= program.queues.size() || wait.value > lengths[wait.queue])
      return reject("waits for value ", wait.value, " of queue ", wait.queue, ", which is never reached");
  return std::visit(checker, instruction.action);
}

Error checkPhase(const PlanContents &plan, const Entry &entry, const Program &program, Phase phase) {
  const std::vector<Instruction> &instructions = program.instructions(phase);
  std::vector<uint32_t> lengths(program.queues.size());
  for (const Instruction &instruction : instructions)
    if (instruction.queue < lengths.size())
      ++lengths[instruction.queue];
  InstructionChecker checker(plan, entry, program, phase);
  const char *list = phase == Phase::Prepare ? "prepare" : "body";
  for (size_t i = 0; i != instructions.size(); ++i) {
    const Instruction &instruction = instructions[i];
    Error error = checkInstruction(instruction, checker, program, lengths);
    if (!error && i > 0 && instruction.order < instructions[i - 1].order)
      error = reject("has order ", instruction.order, ", expected at least ", instructions[i - 1].order,
                     ", that of the instruction before it");
    if (error)
      return reject("instruction ", i, " of ", list, " (", actionName(instruction.action), ") ", error.message())
          .atNode(instruction.node);
  }
  return Error::success();
}

/// One end of a channel.
struct End {
  uint32_t device, peer;
  uint64_t bytes;
  const Instruction *instruction;
};

Error checkChannel(const PlanContents &plan, uint32_t channel, const std::vector<End> &sends,
                   const std::vector<End> &receives) {
  const std::string &node = (sends.empty() ? receives : sends).front().instruction->node;
  auto rejectChannel = [&](const auto &...parts) { return reject("channel ", channel, " ", parts...).atNode(node); };
  if (sends.size() != 1 || receives.size() != 1)
    return rejectChannel("expects one send and one receive, got ", sends.size(), " and ", receives.size());
  const End &send = sends.front(), &receive = receives.front();
  if (send.peer != receive.device || receive.peer != send.device)
    return rejectChannel("is sent by device \"", plan.devices[send.device].name, "\" to \"",
                         plan.devices[send.peer].name, "\", but received by \"", plan.devices[receive.device].name,
                         "\" from \"", plan.devices[receive.peer].name, "\"");
  if (send.bytes != receive.bytes)
    return rejectChannel("expects equal bytes on both ends, got ", send.bytes, " sent and ", receive.bytes,
                         " received");
  return Error::success();
}

Error checkChannels(const PlanContents &plan, const std::vector<Site> &sites, Phase phase) {
  std::map<uint32_t, std::pair<std::vector<End>, std::vector<End>>> channels;
  for (const Site &site : sites)
    for (const Instruction &instruction : site.program->instructions(phase)) {
      auto end = [&](const auto &transfer) {
        return End{site.device, transfer.peer, site.program->buffers[transfer.buffer].bytes, &instruction};
      };
      if (const auto *send = std::get_if<Send>(&instruction.action))
        channels[send->channel].first.push_back(end(*send));
      else if (const auto *receive = std::get_if<Receive>(&instruction.action))
        channels[receive->channel].second.push_back(end(*receive));
    }
  for (const auto &[channel, ends] : channels)
    if (Error error = checkChannel(plan, channel, ends.first, ends.second))
      return error;
  return Error::success();
}

Error checkOutputs(const Entry &entry, const std::vector<Site> &sites) {
  std::vector<unsigned> stores(entry.outputs.size());
  for (const Site &site : sites)
    for (const Instruction &instruction : site.program->body)
      if (const auto *store = std::get_if<StoreOutput>(&instruction.action))
        ++stores[store->output];
  for (size_t i = 0; i != stores.size(); ++i)
    if (stores[i] != 1)
      return reject("output \"", entry.outputs[i].name, "\" expects to be stored once a step, got ", stores[i]);
  return Error::success();
}

Error checkProgram(const PlanContents &plan, const Entry &entry, const Program &program) {
  if (Error error = checkArena(plan, program))
    return error;
  for (Phase phase : {Phase::Prepare, Phase::Body})
    if (Error error = checkPhase(plan, entry, program, phase))
      return error;
  return Error::success();
}

} // namespace

Error verifyPrograms(const PlanContents &plan, const Entry &entry) {
  std::vector<bool> busy(plan.devices.size());
  for (const Program &program : entry.programs) {
    if (program.mesh >= plan.meshes.size())
      return reject("a program is on mesh ", program.mesh, ", but the plan has ", plan.meshes.size());
    const Mesh &mesh = plan.meshes[program.mesh];
    for (uint32_t device : mesh.devices) {
      if (busy[device])
        return reject("device \"", plan.devices[device].name, "\" has two programs, expected at most one");
      busy[device] = true;
    }
    if (Error error = checkProgram(plan, entry, program))
      return Error(error.status(), "program on mesh \"" + mesh.name + "\": " + error.message(), error.node());
  }
  std::vector<Site> sites = sitesOf(plan, entry);
  for (Phase phase : {Phase::Prepare, Phase::Body})
    if (Error error = checkChannels(plan, sites, phase))
      return error;
  return checkOutputs(entry, sites);
}

} // namespace cleave::runtime
