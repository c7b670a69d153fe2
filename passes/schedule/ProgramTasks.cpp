// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From dist.program to tasks and values.

#include "passes/schedule/ProgramTasks.h"

#include "dialects/plan/Tile.h"
#include "passes/schedule/HostCopies.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace cleave {

int64_t ProgramTasks::bytesOf(Value value) { return plan::storageBytes(cast<RankedTensorType>(value.getType())); }

FailureOr<ProgramTasks> ProgramTasks::read(ModuleOp module, CostAnalysis &costs) {
  ProgramTasks tasks(module, costs);
  llvm::MapVector<Attribute, unsigned> arenas;
  for (auto program : module.getOps<dist::ProgramOp>()) {
    auto arena = static_cast<unsigned>(arenas.size());
    tasks.problem.arenas.push_back(arenas.try_emplace(program.getMeshAttr(), arena).first->second);
    auto mesh = tasks.symbols.lookup<dist::MeshOp>(program.getMesh());
    tasks.programs.push_back(program);
    tasks.meshOps.push_back(mesh);
    tasks.meshes.emplace_back(mesh);
    tasks.problem.standsForSeveral.push_back(mesh.getDevices().size() > 1);
    tasks.problem.ordered.push_back(program->hasAttr(dist::orderedAttrName));
  }
  tasks.problem.numDevices = static_cast<unsigned>(tasks.programs.size());
  tasks.written.resize(tasks.programs.size());
  if (failed(tasks.pairChannels()))
    return failure();
  for (unsigned device = 0; device != tasks.programs.size(); ++device)
    if (failed(tasks.addProgram(device)))
      return failure();
  tasks.overwriteLastReads();
  schedule::paceHostCopies(tasks.problem);
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
    if (failed(checkChannel(index, channel)))
      return failure();
    nextChannel = std::max(nextChannel, index + 1);
  }
  return success();
}

LogicalResult ProgramTasks::checkChannel(int64_t index, const Channel &channel) {
  dist::SendOp send = channel.send;
  dist::ReceiveOp receive = channel.receive;
  dist::ProgramOp from = programs[channel.from], to = programs[channel.to];
  // Without layouts both ends are whole.
  bool oneType = send.getFrom() || send.getValue().getType() == receive.getType();
  if (channel.from == channel.to || send.getTargetAttr() != to.getMeshAttr() ||
      receive.getSourceAttr() != from.getMeshAttr() || !oneType)
    return send.emitOpError("expects channel ")
           << index << " to lead from '" << receive.getSource() << "' to '" << send.getTarget()
           << "' with one type, got " << send.getValue().getType() << " from '" << from.getMesh() << "' and "
           << receive.getType() << " in '" << to.getMesh() << "'";
  if (send.getFromAttr() != receive.getFromAttr() || send.getToAttr() != receive.getToAttr())
    return send.emitOpError("expects the layouts of its receive on channel ") << index;
  for (dist::LayoutAttr layout : {send.getFromAttr(), send.getToAttr()})
    if (layout && !layout.getPartial().empty())
      return send.emitOpError("expects values that are not partial, got ") << layout << "; join them before";
  return success();
}

//===-- tasks -------------------------------------------------------------------------------------------------===//

unsigned ProgramTasks::addBytes(unsigned device, int64_t bytes) {
  problem.values.push_back({device, static_cast<uint64_t>(bytes), {}});
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

double ProgramTasks::callSeconds(unsigned device, Operation *kernel) {
  auto [known, isNew] = calls.try_emplace(kernel);
  if (isNew)
    known->second = getKernelCall(kernel);
  return costs->callSeconds(meshOps[device], known->second.work, known->second.elementType);
}

double ProgramTasks::copySeconds(unsigned device, Value value) {
  return costs->copySeconds(meshOps[device], static_cast<double>(bytesOf(value)));
}

plan::TileAttr ProgramTasks::tileOf(unsigned device, Attribute layout) {
  auto attribute = cast_if_present<dist::LayoutAttr>(layout);
  if (!attribute)
    return {};
  return plan::toTileUnlessWhole(dist::Layout::of(attribute), meshes[device], module.getContext());
}

/// Where the part of an input or output lies that devices hold in a layout, as `local`; null where it is no part.
static plan::TileAttr withinOf(Attribute within, Attribute layout, Value local) {
  if (!within)
    return {};
  SmallVector<int64_t> shape(cast<ShapedType>(local.getType()).getShape());
  if (auto attribute = cast_if_present<dist::LayoutAttr>(layout))
    shape = dist::Layout::of(attribute).tensorShape();
  return plan::toTile(cast<dist::WithinAttr>(within), shape);
}

/// Whoever writes a parameter knows from a read where it lies; also who does not ask for its value.
static void readWritten(dist::ProgramOp program) {
  Block &body = program.getBody().front();
  llvm::DenseSet<Attribute> known;
  for (Operation &op : body) {
    if (auto read = dyn_cast<dfg::ReadOp>(op))
      known.insert(read.getParameterAttr());
    else if (auto shard = dyn_cast<dist::ShardOfOp>(op))
      known.insert(shard.getParameterAttr());
  }
  OpBuilder builder = OpBuilder::atBlockBegin(&body);
  for (auto write : body.getOps<dist::WriteOp>()) {
    if (!known.insert(write.getParameterAttr()).second)
      continue;
    Type type = write.getValue().getType();
    Operation *read;
    if (dist::Layout::of(write.getLayout()).isWhole())
      read = dfg::ReadOp::create(builder, write.getLoc(), type, write.getParameterAttr());
    else
      read = dist::ShardOfOp::create(builder, write.getLoc(), type, write.getParameterAttr(), write.getLayout());
    read->setAttr(dist::changesAttrName, builder.getUnitAttr());
  }
}

LogicalResult ProgramTasks::addProgram(unsigned device) {
  reads.clear();
  readWritten(programs[device]);
  addInputs(device);
  Block &body = programs[device].getBody().front();
  for (Operation &op : body)
    if (!isa<dist::WriteOp>(op) && failed(addOperation(device, op)))
      return failure();
  // When all that reads the parameters is known.
  for (auto write : body.getOps<dist::WriteOp>())
    if (failed(addWrite(device, write)))
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
    unsigned number = argument.getArgNumber();
    plan::TileAttr tile = tileOf(device, program.getArgAttr(number, dist::layoutAttrName));
    plan::TileAttr within = withinOf(program.getArgAttr(number, dist::withinAttrName),
                                     program.getArgAttr(number, dist::layoutAttrName), argument);
    schedule::Task &task = addTask(device, InputTask{argument, program.getInputIndex(number), tile, within},
                                   copySeconds(device, argument));
    task.everyStep = task.early = true;
    task.writes = {value};
  }
}

void ProgramTasks::addOutput(unsigned device, OpOperand &operand) {
  dist::ProgramOp program = programs[device];
  unsigned number = operand.getOperandNumber();
  plan::TileAttr tile = tileOf(device, program.getResultAttr(number, dist::layoutAttrName));
  plan::TileAttr within = withinOf(program.getResultAttr(number, dist::withinAttrName),
                                   program.getResultAttr(number, dist::layoutAttrName), operand.get());
  schedule::Task &task = addTask(device, OutputTask{operand.get(), program.getOutputIndex(number), tile, within},
                                 copySeconds(device, operand.get()));
  task.everyStep = task.early = true;
  task.reads = {getValue(operand.get())};
}

void ProgramTasks::addLaunch(unsigned device, plan::LaunchOp launch) {
  Operation *kernel = symbols.lookup(launch.getKernel());
  schedule::Task &task = addTask(device, launch, callSeconds(device, kernel));
  for (Value operand : launch.getOperands())
    task.reads.push_back(getValue(operand));
  for (Value output : launch.getOutputs())
    task.writes.push_back(addValue(device, output));
  // Programs that take turns have one copy of what they make alike once, as a weight in a library's layout.
  std::vector<unsigned> contents;
  for (unsigned value : task.reads)
    if (problem.values[value].shared && !problem.values[value].changes)
      contents.push_back(*problem.values[value].shared);
  if (!contents.empty() && contents.size() == task.reads.size())
    for (unsigned result = 0; result != launch->getNumResults(); ++result)
      share(task.writes[result], {launch.getKernelAttr(), {}, contents, result});
  if (int64_t scratch = getKernelSignature(kernel).scratchBytes)
    task.writes.push_back(addBytes(device, scratch));
}

LogicalResult ProgramTasks::addWrite(unsigned device, dist::WriteOp write) {
  Value read = reads.lookup(write.getParameterAttr());
  if (!read || read.getType() != write.getValue().getType())
    return write.emitOpError("expects the program to read the parameter in the same layout");
  unsigned parameter = getValue(read), next = getValue(write.getValue());
  auto offload = write.getValue().getDefiningOp<dfg::OffloadOp>();
  if (bool(offload) != problem.values[parameter].inHost)
    return write.emitOpError("expects a parameter that only 'dfg.fetch' reads to be written with what 'dfg.offload' "
                             "gives, and no other one to be");
  std::vector<unsigned> readers;
  for (unsigned task = 0; task != problem.tasks.size(); ++task)
    if (llvm::is_contained(problem.tasks[task].reads, parameter))
      readers.push_back(task);
  if (offload)
    overwriteFetched(offload);
  if (writesInPlace(write, parameter)) {
    auto writer = static_cast<unsigned>(
        llvm::find_if(problem.tasks,
                      [&](const schedule::Task &task) { return llvm::is_contained(task.writes, next); }) -
        problem.tasks.begin());
    if (llvm::all_of(readers, [&](unsigned reader) { return reader <= writer; })) {
      problem.values[next].inPlaceOf = parameter;
      schedule::Task &task = problem.tasks[writer];
      if (llvm::is_contained(readers, writer))
        llvm::erase(readers, writer);
      else
        task.reads.push_back(parameter);
      llvm::append_range(task.after, readers);
      return success();
    }
  }
  unsigned value = addBytes(device, bytesOf(read));
  problem.values[value].inPlaceOf = parameter;
  schedule::Task &task = addTask(device, WriteTask{write, read}, copySeconds(device, read));
  task.reads = {next, parameter};
  task.writes = {value};
  task.everyStep = true;
  task.after = std::move(readers);
  return success();
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
  plan::TileAttr source = tileOf(channel.from, send.getFromAttr()), target = tileOf(channel.to, send.getToAttr());
  schedule::Task &task = addTask(channel.from, TransferTask{send, channel.receive, source, target},
                                 costs->transferSeconds(meshOps[channel.from], meshOps[channel.to],
                                                        static_cast<double>(bytesOf(channel.receive.getResult()))));
  task.target = channel.to;
  task.reads = {getValue(send.getValue())};
  task.writes = {value};
}

void ProgramTasks::addHostCopy(unsigned device, Operation *op, schedule::HostCopy way) {
  Value from = op->getOperand(0), to = op->getResult(0);
  unsigned value = addValue(device, to);
  problem.values[value].inHost = way == schedule::HostCopy::Offload;
  schedule::Task &task =
      addTask(device, HostCopyTask{from, to}, costs->hostSeconds(meshOps[device], static_cast<double>(bytesOf(to))));
  task.hostCopy = way;
  task.everyStep = true;
  task.reads = {getValue(from)};
  task.writes = {value};
}

schedule::Task &ProgramTasks::addLoad(unsigned device, Value value, TaskSource source) {
  unsigned index = addValue(device, value);
  schedule::Task &task = addTask(device, std::move(source), copySeconds(device, value));
  task.writes = {index};
  return task;
}

void ProgramTasks::addParameter(unsigned device, Value value, FlatSymbolRefAttr name, plan::TileAttr tile) {
  schedule::Task &task = addLoad(device, value, ParameterTask{value, name, tile});
  if (reads.try_emplace(name, value).second && value.getDefiningOp()->hasAttr(dist::changesAttrName)) {
    problem.values[task.writes.front()].changes = true;
    problem.values[task.writes.front()].inHost =
        !value.use_empty() && llvm::all_of(value.getUsers(), [](Operation *user) { return isa<dfg::FetchOp>(user); });
    written[device].push_back({name, value, tile});
  }
  share(task.writes.front(), {name, tile, {}});
}

void ProgramTasks::share(unsigned value, Content content) {
  auto number = static_cast<unsigned>(sharedNumbers.size());
  problem.values[value].shared = sharedNumbers.try_emplace(std::move(content), number).first->second;
}

void ProgramTasks::addIndex(unsigned device, Value value, StringRef what, dist::LayoutAttr attribute, int64_t dim,
                            int64_t part) {
  dist::Layout layout = dist::Layout::of(attribute);
  layout.partial.clear();
  for (const dist::DimParts &parts : ArrayRef(layout.dims).take_front(static_cast<size_t>(dim)))
    part += static_cast<int64_t>(parts.size());
  plan::TileAttr tile = plan::toTile(layout, meshes[device], module.getContext());
  addLoad(device, value, IndexTask{value, what, tile, part});
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
  return llvm::TypeSwitch<Operation *, LogicalResult>(&op)
      .Case([&](dfg::ReadOp read) {
        addParameter(device, read, read.getParameterAttr(), {});
        return success();
      })
      .Case([&](dist::ShardOfOp shard) {
        addParameter(device, shard, shard.getParameterAttr(), tileOf(device, shard.getLayout()));
        return success();
      })
      .Case([&](dfg::ConstantOp constant) {
        share(addLoad(device, constant, constant).writes.front(), {constant.getValueAttr(), {}, {}});
        return success();
      })
      .Case([&](dist::StartOp start) {
        addIndex(device, start, "start", start.getLayout(), start.getDim(), start.getPart());
        return success();
      })
      .Case([&](dist::ExtentOp extent) {
        addIndex(device, extent, "extent", extent.getLayout(), extent.getDim(), extent.getPart());
        return success();
      })
      .Case([&](dist::Collective collective) { return addCollective(device, collective); })
      .Case<dfg::ReshapeOp, plan::ViewOp>([&](auto) { return addView(op); })
      .Case([&](plan::LaunchOp launch) {
        addLaunch(device, launch);
        return success();
      })
      .Case([&](dist::SendOp send) {
        addTransfer(send);
        return success();
      })
      .Case([&](dfg::OffloadOp offload) {
        addHostCopy(device, offload, schedule::HostCopy::Offload);
        return success();
      })
      .Case([&](dfg::FetchOp fetch) {
        addHostCopy(device, fetch, schedule::HostCopy::Fetch);
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
        return other->emitOpError("is left in a program, expected only kernel launches, parameters, constants, views, "
                                  "transfers and collectives; give it a kernel before scheduling");
      });
}

} // namespace cleave
