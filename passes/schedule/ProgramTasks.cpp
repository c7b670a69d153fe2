// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From dist.program to tasks and values.

#include "passes/schedule/ProgramTasks.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace cleave {

static int64_t bytesOf(Value value) { return plan::storageBytes(cast<RankedTensorType>(value.getType())); }

FailureOr<ProgramTasks> ProgramTasks::read(ModuleOp module) {
  ProgramTasks tasks(module);
  llvm::append_range(tasks.programs, module.getOps<dist::ProgramOp>());
  tasks.problem.numDevices = static_cast<unsigned>(tasks.programs.size());
  if (failed(tasks.pairChannels()))
    return failure();
  for (unsigned device = 0; device != tasks.programs.size(); ++device)
    if (failed(tasks.addProgram(device)))
      return failure();
  return tasks;
}

//===-- channels ----------------------------------------------------------------------------------------------===//

LogicalResult ProgramTasks::pairChannels() {
  for (auto [device, program] : llvm::enumerate(programs)) {
    for (auto send : program.getBody().front().getOps<dist::SendOp>()) {
      Channel &channel = channels[send.getChannel()];
      if (channel.send)
        return send.emitOpError("expects to be the only one of channel ") << send.getChannel() << ", found another";
      channel.send = send;
      channel.from = device;
    }
    for (auto receive : program.getBody().front().getOps<dist::ReceiveOp>()) {
      Channel &channel = channels[receive.getChannel()];
      if (channel.receive)
        return receive.emitOpError("expects to be the only one of channel ")
               << receive.getChannel() << ", found another";
      channel.receive = receive;
      channel.to = device;
    }
  }
  for (auto &[index, channel] : channels) {
    Operation *end = channel.send ? channel.send.getOperation() : channel.receive.getOperation();
    if (!channel.send || !channel.receive)
      return end->emitOpError("expects its channel ") << index << " to have a send and a receive, found one of them";
    dist::ProgramOp from = programs[channel.from], to = programs[channel.to];
    if (channel.from == channel.to || channel.send.getTargetAttr() != to.getMeshAttr() ||
        channel.receive.getSourceAttr() != from.getMeshAttr() ||
        channel.send.getValue().getType() != channel.receive.getType())
      return end->emitOpError("expects channel ")
             << index << " to lead from '" << channel.receive.getSource() << "' to '" << channel.send.getTarget()
             << "' with one type, got " << channel.send.getValue().getType() << " from '" << from.getMesh() << "' and "
             << channel.receive.getType() << " in '" << to.getMesh() << "'";
  }
  return success();
}

//===-- tasks -------------------------------------------------------------------------------------------------===//

unsigned ProgramTasks::addBytes(unsigned device, int64_t bytes) {
  problem.values.push_back({device, static_cast<uint64_t>(bytes)});
  return static_cast<unsigned>(problem.values.size()) - 1;
}

unsigned ProgramTasks::addValue(unsigned device, Value value) {
  unsigned index = addBytes(device, bytesOf(value));
  values[value] = index;
  return index;
}

schedule::Task &ProgramTasks::addTask(unsigned device, TaskSource source, double seconds) {
  sources.push_back(source);
  schedule::Task &task = problem.tasks.emplace_back();
  task.device = device;
  task.seconds = seconds;
  return task;
}

int64_t ProgramTasks::coresOf(unsigned device) {
  SmallVector<dist::Device> devices = dist::getDevices(module);
  auto mesh = symbols.lookup<dist::MeshOp>(programs[device].getMesh());
  auto index = static_cast<size_t>(mesh.getDevices().front());
  return index < devices.size() ? devices[index].cores : 1;
}

LogicalResult ProgramTasks::addProgram(unsigned device) {
  dist::ProgramOp program = programs[device];
  auto mesh = symbols.lookup<dist::MeshOp>(program.getMesh());
  if (mesh.getDevices().size() != 1)
    return program.emitOpError("expects a mesh of one device, got '")
           << mesh.getSymName() << "' of " << mesh.getDevices().size();
  addInputs(device);
  for (Operation &op : program.getBody().front())
    if (failed(addOperation(device, op)))
      return failure();
  return success();
}

/// Inputs in the order in which the program uses them; those that it does not use need no memory.
void ProgramTasks::addInputs(unsigned device) {
  dist::ProgramOp program = programs[device];
  llvm::SetVector<BlockArgument> arguments;
  for (Operation &op : program.getBody().front())
    for (Value operand : op.getOperands())
      if (auto argument = dyn_cast<BlockArgument>(operand))
        arguments.insert(argument);
  for (BlockArgument argument : arguments) {
    unsigned value = addValue(device, argument);
    schedule::Task &task = addTask(device, InputTask{argument, program.getInputIndex(argument.getArgNumber())},
                                   WorkEstimate::copySeconds(bytesOf(argument)));
    task.everyStep = task.early = true;
    task.writes = {value};
  }
}

void ProgramTasks::addOutput(unsigned device, OpOperand &operand) {
  int64_t index = programs[device].getOutputIndex(operand.getOperandNumber());
  schedule::Task &task =
      addTask(device, OutputTask{operand.get(), index}, WorkEstimate::copySeconds(bytesOf(operand.get())));
  task.everyStep = task.early = true;
  task.reads = {getValue(operand.get())};
}

void ProgramTasks::addLaunch(unsigned device, plan::LaunchOp launch) {
  Operation *kernel = symbols.lookup(launch.getKernel());
  schedule::Task &task = addTask(device, launch, work.callSeconds(kernel, launch.getLoc(), coresOf(device)));
  for (Value operand : launch.getOperands())
    task.reads.push_back(getValue(operand));
  for (Value output : launch.getOutputs())
    task.writes.push_back(addValue(device, output));
  if (int64_t scratch = getKernelSignature(kernel).scratchBytes)
    task.writes.push_back(addBytes(device, scratch));
}

std::optional<unsigned> ProgramTasks::getScratch(unsigned task) const {
  auto launch = std::get<plan::LaunchOp>(sources[task]);
  const std::vector<unsigned> &writes = problem.tasks[task].writes;
  if (writes.size() == launch.getNumResults())
    return std::nullopt;
  return writes.back();
}

/// One task for both ends, at the place of the send. The received value is known by then, or made here.
void ProgramTasks::addTransfer(dist::SendOp send) {
  Channel &channel = channels[send.getChannel()];
  auto found = values.find(channel.receive.getResult());
  unsigned value = found != values.end() ? found->second : addValue(channel.to, channel.receive.getResult());
  schedule::Task &task = addTask(channel.from, TransferTask{send, channel.receive},
                                 WorkEstimate::transferSeconds(bytesOf(send.getValue())));
  task.target = channel.to;
  task.reads = {getValue(send.getValue())};
  task.writes = {value};
}

LogicalResult ProgramTasks::addView(Operation &op) {
  auto from = cast<RankedTensorType>(op.getOperand(0).getType());
  auto to = cast<RankedTensorType>(op.getResult(0).getType());
  if (plan::storageBytes(from) != plan::storageBytes(to))
    return op.emitOpError("expects types of as many bytes, got ") << from << " and " << to;
  values[op.getResult(0)] = getValue(op.getOperand(0));
  return success();
}

LogicalResult ProgramTasks::addOperation(unsigned device, Operation &op) {
  auto addLoad = [&](auto load) {
    Value result = load.getResult();
    unsigned value = addValue(device, result);
    addTask(device, load, WorkEstimate::copySeconds(bytesOf(result))).writes = {value};
    return success();
  };
  return llvm::TypeSwitch<Operation *, LogicalResult>(&op)
      .Case<dfg::ReadOp, dfg::ConstantOp>(addLoad)
      .Case<dfg::ReshapeOp, plan::ViewOp>([&](auto) { return addView(op); })
      .Case([&](plan::LaunchOp launch) {
        addLaunch(device, launch);
        return success();
      })
      .Case([&](dist::SendOp send) {
        addTransfer(send);
        return success();
      })
      .Case([&](dist::ReceiveOp receive) {
        if (!values.contains(receive.getResult()))
          addValue(device, receive.getResult());
        return success();
      })
      .Case([&](dist::ReturnOp end) {
        for (OpOperand &operand : end->getOpOperands())
          addOutput(device, operand);
        return success();
      })
      .Default([](Operation *other) {
        return other->emitOpError("is left in a program, expected only kernel launches, parameters, constants, views "
                                  "and transfers; give it a kernel before scheduling");
      });
}

} // namespace cleave
