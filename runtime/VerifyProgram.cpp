// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Buffers lie in their arena and have their type's size; instructions name things that exist and fit together; every
// channel is one communication, with one end or two.

#include "runtime/VerifyProgram.h"

#include "runtime/Reduction.h"
#include "runtime/Tile.h"
#include "runtime/VerifyPorts.h"
#include "runtime/VerifyState.h"

#include <algorithm>
#include <map>
#include <set>

namespace cleave::runtime {
namespace {

constexpr uint64_t alignment = 64;

Error checkBuffer(const Program &program, const PlanBuffer &buffer) {
  if (Error error = buffer.type.check())
    return error;
  uint64_t needed = *buffer.type.byteSize();
  if (buffer.bytes != needed)
    return reject("expects ", needed, " bytes for ", buffer.type.text(), ", got ", buffer.bytes);
  if (buffer.offset % alignment != 0)
    return reject("expects an offset that is a multiple of ", alignment, ", got ", buffer.offset);
  uint64_t room = buffer.isInHost() ? program.hostBytes : program.arenaBytes,
           offset = buffer.isInHost() ? buffer.offset - hostOffset : buffer.offset;
  if (offset > room || buffer.bytes > room - offset)
    return reject("expects to lie in ", room, " bytes of the ", buffer.isInHost() ? "host's memory" : "arena",
                  ", got offset ", offset, " and ", buffer.bytes, " bytes");
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

Error checkArena(const Program &program) {
  if (program.arenaBytes > hostOffset || program.hostBytes > hostOffset)
    return reject("expects at most ", hostOffset, " bytes of the arena and of the host's memory, got ",
                  program.arenaBytes, " and ", program.hostBytes);
  uint64_t end = 0, endInHost = 0;
  for (const PlanBuffer &buffer : program.buffers) {
    if (Error error = checkBuffer(program, buffer))
      return reject("buffer \"", buffer.name, "\" ", error.message());
    if (buffer.isInHost())
      endInHost = std::max(endInHost, buffer.offset - hostOffset + buffer.bytes);
    else
      end = std::max(end, buffer.offset + buffer.bytes);
  }
  if (program.hostBytes - endInHost >= alignment)
    return reject("has ", program.hostBytes, " bytes of the host's memory, but its buffers there end at ", endInHost);
  if (program.arenaBytes - end >= alignment)
    return reject("arena has ", program.arenaBytes, " bytes, but its buffers end at ", end);
  if (program.liveBytes > program.arenaBytes)
    return reject("arena has ", program.arenaBytes, " bytes, fewer than the ", program.liveBytes, " live at once");
  return Error::success();
}

/// A device has an arena for each program that it runs.
Error checkMemory(const PlanContents &plan, const Entry &entry) {
  std::vector<uint64_t> needed(plan.devices.size());
  for (const Program &program : entry.programs)
    for (uint32_t index : plan.meshes[program.mesh].devices) {
      const PlanDevice &device = plan.devices[index];
      bool overflows = __builtin_add_overflow(needed[index], program.arenaBytes, &needed[index]);
      if (device.memoryLimit != 0 && (overflows || needed[index] > device.memoryLimit))
        return makeError(Status::Infeasible, "device \"", device.name, "\" has a memory limit of ", device.memoryLimit,
                         " bytes, but its arenas need ", needed[index]);
    }
  return Error::success();
}

/// Tensor elements in the buffer's bytes, padding of its layout included.
uint64_t elementsIn(const PlanBuffer &buffer) { return buffer.bytes / elementBytes(buffer.type.element); }

/// Whether the buffer holds a tile of a mesh. `what` says whose tile it is.
Error checkTiledBuffer(const Entry &entry, const Mesh &mesh, const PlanBuffer &buffer, int32_t index, bool windows,
                       const char *what) {
  if (index < -1 || index >= static_cast<int64_t>(entry.tiles.size()))
    return reject("has ", what, " tile ", index, ", but the entry has ", entry.tiles.size());
  if (index < 0)
    return Error::success();
  const Tile &tile = entry.tiles[static_cast<size_t>(index)];
  if (Error error = checkTile(tile, mesh, windows))
    return reject("has ", what, " tile ", index, ", whose ", error.message());
  if (buffer.type.layout)
    return reject("expects a dense buffer for a tile, got \"", buffer.name, "\" of ", buffer.type.text());
  if (bufferElements(tile) != elementsIn(buffer))
    return reject("has ", what, " tile ", index, " of ", bufferElements(tile).value_or(0), " elements for buffer \"",
                  buffer.name, "\" of ", buffer.type.text());
  if (!tensorElements(tile))
    return reject("has ", what, " tile ", index, " of a tensor of more than 2^63-1 elements");
  return Error::success();
}

/// Whether two tiled buffers are parts of the same tensor.
Error checkSameTensor(const Entry &entry, const PlanBuffer &source, int32_t sourceTile, const PlanBuffer &target,
                      int32_t targetTile) {
  if (source.type.element != target.type.element)
    return reject("expects equal element types on both ends, got ", source.type.text(), " and ", target.type.text());
  if (sourceTile < 0 && targetTile < 0) {
    if (source.bytes != target.bytes)
      return reject("expects equal bytes on both ends, got ", source.bytes, " sent and ", target.bytes, " received");
    return Error::success();
  }
  for (const PlanBuffer *buffer : {&source, &target})
    if (buffer->type.layout)
      return reject("expects a dense buffer for a tile, got \"", buffer->name, "\" of ", buffer->type.text());
  auto elements = [&](const PlanBuffer &buffer, int32_t tile) {
    return tile < 0 ? elementsIn(buffer) : *tensorElements(*entry.tile(tile));
  };
  if (elements(source, sourceTile) != elements(target, targetTile))
    return reject("expects tiles of the same tensor, got ", elements(source, sourceTile), " elements sent and ",
                  elements(target, targetTile), " received");
  return Error::success();
}

/// The rules of one instruction by itself. Messages continue the instruction's description.
class InstructionChecker {
public:
  InstructionChecker(const PlanContents &plan, const Entry &entry, const Program &program, Phase phase)
      : plan(plan), entry(entry), program(program), mesh(plan.meshes[program.mesh]), phase(phase) {}

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
  Error operator()(const Offload &offload) const { return checkHostCopy(offload.source, offload.target); }
  Error operator()(const Fetch &fetch) const { return checkHostCopy(fetch.target, fetch.source); }
  Error operator()(const Send &send) const {
    return checkTransfer(send.buffer, send.mesh, send.sourceTile, /*windows=*/false, "source");
  }
  Error operator()(const Receive &receive) const {
    return checkTransfer(receive.buffer, receive.mesh, receive.targetTile, /*windows=*/true, "target");
  }
  Error operator()(const LoadParameter &load) const {
    if (load.parameter >= plan.parameters.size())
      return reject("loads parameter ", load.parameter, ", but the plan has ", plan.parameters.size());
    // What is kept from step to step may be in the host's memory.
    bool inHost = phase == Phase::Prepare && load.buffer < program.buffers.size() &&
                  program.buffers[load.buffer].isInHost() &&
                  std::ranges::find(program.state, load.buffer, &State::buffer) != program.state.end();
    return checkPart(load.buffer, plan.parameters[load.parameter].type, load.tile, /*windows=*/true, inHost);
  }
  Error operator()(const LoadInput &load) const {
    return checkPort("loads input ", load.input, load, entry.inputs, /*windows=*/true);
  }
  Error operator()(const StoreOutput &store) const {
    return checkPort("stores output ", store.output, store, entry.outputs, /*windows=*/false);
  }
  Error operator()(const LoadIndex &load) const {
    if (Error error = checkBuffer(load.buffer))
      return error;
    const PlanBuffer &buffer = program.buffers[load.buffer];
    if (buffer.type.element != ElementType::I64 || buffer.bytes != sizeof(int64_t))
      return reject("expects a buffer of one i64, got \"", buffer.name, "\" of ", buffer.type.text());
    if (load.tile >= entry.tiles.size() || load.dim >= entry.tiles[load.tile].dims.size())
      return reject("has dimension ", load.dim, " of tile ", load.tile, ", which is not there");
    if (Error error = checkTile(entry.tiles[load.tile], mesh, /*windows=*/true))
      return reject("has tile ", load.tile, ", whose ", error.message());
    return Error::success();
  }
  Error operator()(const Exchange &exchange) const {
    for (const Operand &operand : exchange.operands)
      if (Error error = checkExchanged(operand))
        return error;
    return checkElementTypes(exchange.operands);
  }
  Error operator()(const AllReduce &reduce) const {
    for (const Operand &operand : reduce.operands) {
      if (Error error = checkBuffer(operand.source))
        return error;
      if (Error error = checkType(operand.target, program.buffers[operand.source].type))
        return error;
    }
    return checkReduction(reduce.operands, reduce.axes, reduce.combiner);
  }
  Error operator()(const ReduceScatter &reduce) const {
    for (const Operand &operand : reduce.operands)
      for (uint32_t buffer : {operand.source, operand.target})
        if (Error error = checkBuffer(buffer))
          return error;
    if (Error error = checkReduction(reduce.operands, reduce.axes, reduce.combiner))
      return error;
    for (const Operand &operand : reduce.operands)
      if (Error error = checkScattered(operand, reduce.axes))
        return error;
    return Error::success();
  }

private:
  Error checkBuffer(uint32_t buffer, bool isInHost = false) const {
    if (buffer >= program.buffers.size())
      return reject("uses buffer ", buffer, ", but the program has ", program.buffers.size());
    const PlanBuffer &known = program.buffers[buffer];
    if (known.isInHost() != isInHost)
      return reject("expects a buffer in the ", isInHost ? "host's memory" : "arena", ", got \"", known.name,
                    "\" in the ", isInHost ? "arena" : "host's memory");
    return Error::success();
  }
  Error checkType(uint32_t buffer, const TensorType &type, bool isInHost = false) const {
    if (Error error = checkBuffer(buffer, isInHost))
      return error;
    if (program.buffers[buffer].type != type)
      return reject("expects a buffer of ", type.text(), ", got \"", program.buffers[buffer].name, "\" of ",
                    program.buffers[buffer].type.text());
    return Error::success();
  }
  Error checkTransfer(uint32_t buffer, uint32_t peer, int32_t tile, bool windows, const char *what) const {
    if (peer >= plan.meshes.size())
      return reject("has mesh ", peer, " as peer, but the plan has ", plan.meshes.size());
    if (peer == program.mesh)
      return reject("has its own mesh as peer; use an exchange within a mesh");
    if (Error error = checkBuffer(buffer))
      return error;
    return checkTiledBuffer(entry, mesh, program.buffers[buffer], tile, windows, what);
  }
  /// The buffers of all tensors of a collective exist.
  Error checkElementTypes(std::span<const Operand> operands) const {
    const TensorType &first = program.buffers[operands.front().source].type;
    for (const Operand &operand : operands)
      if (const TensorType &type = program.buffers[operand.source].type; type.element != first.element)
        return reject("expects tensors of one element type, got ", first.text(), " and ", type.text());
    return Error::success();
  }
  Error checkExchanged(const Operand &operand) const {
    for (uint32_t buffer : {operand.source, operand.target})
      if (Error error = checkBuffer(buffer))
        return error;
    const PlanBuffer &source = program.buffers[operand.source], &target = program.buffers[operand.target];
    if (Error error = checkTiledBuffer(entry, mesh, source, operand.sourceTile, /*windows=*/false, "source"))
      return error;
    if (Error error = checkTiledBuffer(entry, mesh, target, operand.targetTile, /*windows=*/true, "target"))
      return error;
    return checkSameTensor(entry, source, operand.sourceTile, target, operand.targetTile);
  }
  Error checkScattered(const Operand &operand, const std::vector<uint32_t> &axes) const {
    if (operand.targetTile < 0)
      return reject("expects a tile that says which part each device keeps");
    const TensorType &whole = program.buffers[operand.source].type;
    if (Error error = checkPart(operand.target, whole, operand.targetTile, /*windows=*/false))
      return error;
    for (uint32_t axis = 0; axis != mesh.axes.size(); ++axis)
      if (cuts(*entry.tile(operand.targetTile), axis) != (std::ranges::find(axes, axis) != axes.end()))
        return reject("expects a tile that cuts along the axes of the reduction and no others; axis \"",
                      mesh.axes[axis].name, "\" differs");
    return Error::success();
  }
  Error checkReduction(std::span<const Operand> operands, const std::vector<uint32_t> &axes, Combiner combiner) const {
    std::set<uint32_t> seen;
    for (uint32_t axis : axes)
      if (axis >= mesh.axes.size() || !seen.insert(axis).second)
        return reject("reduces over axis ", axis, ", expected different axes of mesh \"", mesh.name, "\", which has ",
                      mesh.axes.size());
    if (Error error = checkElementTypes(operands))
      return error;
    const TensorType &type = program.buffers[operands.front().source].type;
    if (!combines(type.element, combiner))
      return reject("has combiner ", combinerName(combiner), " for ", type.text(), ", expected max (or) or min (and)");
    return Error::success();
  }
  /// A buffer with a device's part of a tensor of that type.
  Error checkPart(uint32_t buffer, const TensorType &whole, int32_t tile, bool windows, bool isInHost = false) const {
    if (tile == -1)
      return checkType(buffer, whole, isInHost);
    if (Error error = checkBuffer(buffer, isInHost))
      return error;
    const PlanBuffer &part = program.buffers[buffer];
    if (Error error = checkTiledBuffer(entry, mesh, part, tile, windows, "a"))
      return error;
    if (whole.layout || part.type.element != whole.element)
      return reject("expects a part of a dense tensor of its element type, got \"", part.name, "\" of ",
                    part.type.text(), " for ", whole.text());
    if (tensorElements(*entry.tile(tile)) != whole.elementCount())
      return reject("expects a tile of ", whole.text(), ", got one of ", *tensorElements(*entry.tile(tile)),
                    " elements");
    return Error::success();
  }
  Error checkHostCopy(uint32_t inArena, uint32_t inHost) const {
    if (Error error = checkBuffer(inArena))
      return error;
    if (Error error = checkBuffer(inHost, /*isInHost=*/true))
      return error;
    const TensorType &type = program.buffers[inArena].type, &inHostType = program.buffers[inHost].type;
    return type == inHostType ? Error::success()
                              : reject("expects equal types in the arena and in the host's memory, got ", type.text(),
                                       " and ", inHostType.text());
  }
  /// A load of an input or a store of an output, whole or in part.
  template <typename Transfer>
  Error checkPort(const char *what, uint32_t port, const Transfer &transfer, const std::vector<Port> &ports,
                  bool windows) const {
    if (phase == Phase::Prepare)
      return reject(what, port, " in prepare, expected that only in the body");
    if (port >= ports.size())
      return reject(what, port, ", but the entry has ", ports.size());
    TensorType type = ports[port].type;
    if (transfer.within != -1) {
      if (Error error = checkWithin(entry, mesh, transfer.within, type))
        return error;
      if (Error error = checkBuffer(transfer.buffer))
        return error;
      // Of the part only the number of elements is known.
      uint64_t elements = *tensorElements(*entry.tile(transfer.within));
      const TensorType &own = program.buffers[transfer.buffer].type;
      bool isOwn = transfer.tile == -1 && own.elementCount() == elements;
      type.shape = isOwn ? own.shape : std::vector<int64_t>{static_cast<int64_t>(elements)};
    }
    return checkPart(transfer.buffer, type, transfer.tile, windows);
  }

  const PlanContents &plan;
  const Entry &entry;
  const Program &program;
  const Mesh &mesh;
  Phase phase;
};

bool isCollective(const Action &action) {
  return std::holds_alternative<Exchange>(action) || std::holds_alternative<AllReduce>(action) ||
         std::holds_alternative<ReduceScatter>(action);
}

bool fits(QueueKind kind, const Action &action) {
  if (std::holds_alternative<Send>(action) || std::holds_alternative<Offload>(action))
    return kind == QueueKind::Send;
  if (std::holds_alternative<Receive>(action) || std::holds_alternative<Fetch>(action))
    return kind == QueueKind::Receive;
  if (std::holds_alternative<Call>(action) || std::holds_alternative<Copy>(action))
    return kind == QueueKind::Compute;
  if (isCollective(action))
    return kind == QueueKind::Collective;
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
      return reject("instruction ", i, " of ", list, " (", kindName(instruction.action), ") ", error.message())
          .atNode(instruction.node);
  }
  return Error::success();
}

/// One end of a transfer between meshes: where it is, and where it says that the other is.
struct End {
  uint32_t mesh, peer;
  int32_t sourceTile, targetTile;
  const PlanBuffer *buffer;
};

/// The instructions that name a channel.
struct ChannelUse {
  std::vector<End> sends, receives;
  unsigned collectives = 0;
  const Instruction *first = nullptr;
};

Error checkChannel(const PlanContents &plan, const Entry &entry, const ChannelUse &use) {
  if (use.collectives == 1 && use.sends.empty() && use.receives.empty())
    return Error::success();
  if (use.collectives != 0 || use.sends.size() != 1 || use.receives.size() != 1)
    return reject("expects one send and one receive, or one collective, got ", use.sends.size(), " and ",
                  use.receives.size(), ", or ", use.collectives);
  const End &send = use.sends.front(), &receive = use.receives.front();
  auto name = [&](uint32_t mesh) -> const std::string & { return plan.meshes[mesh].name; };
  if (send.peer != receive.mesh || receive.peer != send.mesh)
    return reject("is sent by mesh \"", name(send.mesh), "\" to \"", name(send.peer), "\", but received by \"",
                  name(receive.mesh), "\" from \"", name(receive.peer), "\"");
  if (send.sourceTile != receive.sourceTile || send.targetTile != receive.targetTile)
    return reject("expects the same tiles on both ends, got ", send.sourceTile, " to ", send.targetTile, " sent and ",
                  receive.sourceTile, " to ", receive.targetTile, " received");
  return checkSameTensor(entry, *send.buffer, send.sourceTile, *receive.buffer, send.targetTile);
}

Error checkChannels(const PlanContents &plan, const Entry &entry, Phase phase) {
  std::map<uint32_t, ChannelUse> channels;
  for (const Program &program : entry.programs)
    for (const Instruction &instruction : program.instructions(phase)) {
      auto use = [&](uint32_t channel) -> ChannelUse & {
        ChannelUse &found = channels[channel];
        if (!found.first)
          found.first = &instruction;
        return found;
      };
      auto end = [&](const auto &transfer) {
        return End{program.mesh, transfer.mesh, transfer.sourceTile, transfer.targetTile,
                   &program.buffers[transfer.buffer]};
      };
      if (const auto *send = std::get_if<Send>(&instruction.action))
        use(send->channel).sends.push_back(end(*send));
      else if (const auto *receive = std::get_if<Receive>(&instruction.action))
        use(receive->channel).receives.push_back(end(*receive));
      else if (isCollective(instruction.action))
        std::visit(
            [&](const auto &collective) {
              if constexpr (requires { collective.channel; })
                ++use(collective.channel).collectives;
            },
            instruction.action);
    }
  for (const auto &[channel, use] : channels)
    if (Error error = checkChannel(plan, entry, use))
      return reject("channel ", channel, " ", error.message()).atNode(use.first->node);
  return Error::success();
}

Error checkProgram(const PlanContents &plan, const Entry &entry, const Program &program) {
  if (Error error = checkArena(program))
    return error;
  for (Phase phase : {Phase::Prepare, Phase::Body})
    if (Error error = checkPhase(plan, entry, program, phase))
      return error;
  return verifyState(plan, entry, program);
}

} // namespace

Error verifyPrograms(const PlanContents &plan, const Entry &entry) {
  std::vector<bool> busy(plan.meshes.size());
  for (const Program &program : entry.programs) {
    if (program.mesh >= plan.meshes.size())
      return reject("a program is on mesh ", program.mesh, ", but the plan has ", plan.meshes.size());
    const Mesh &mesh = plan.meshes[program.mesh];
    if (busy[program.mesh])
      return reject("mesh \"", mesh.name, "\" has two programs, expected at most one");
    busy[program.mesh] = true;
    if (Error error = checkProgram(plan, entry, program))
      return Error(error.status(), "program on mesh \"" + mesh.name + "\": " + error.message(), error.node());
  }
  if (Error error = checkMemory(plan, entry))
    return error;
  for (Phase phase : {Phase::Prepare, Phase::Body})
    if (Error error = checkChannels(plan, entry, phase))
      return error;
  return checkOutputs(entry);
}

} // namespace cleave::runtime
