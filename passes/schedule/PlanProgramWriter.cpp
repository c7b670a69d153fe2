// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One plan.program: buffers first, in the order of their first use, then the two lists of instructions.

#include "passes/schedule/PlanProgramWriter.h"

#include "passes/schedule/NodeNames.h"

using namespace mlir;

namespace cleave {
namespace {

using schedule::QueueKind;

class PlanProgramWriter {
public:
  PlanProgramWriter(const ProgramTasks &tasks, const schedule::Schedule &schedule, unsigned device)
      : tasks(tasks), schedule(schedule), device(device), instructions(schedule.devices[device]),
        source(tasks.getPrograms()[device]), builder(source), buffers(builder) {}

  void write() {
    numberQueues();
    auto program = plan::ProgramOp::create(builder, source.getLoc(), source.getSymNameAttr(), source.getMeshAttr(),
                                           builder.getStrArrayAttr(queueNames),
                                           builder.getI64IntegerAttr(static_cast<int64_t>(instructions.arenaBytes)),
                                           builder.getI64IntegerAttr(static_cast<int64_t>(instructions.liveBytes)),
                                           builder.getI64IntegerAttr(static_cast<int64_t>(instructions.hostBytes)));
    Block *body = builder.createBlock(&program.getBody());
    writeSection(plan::PrepareOp::create(builder, source.getLoc()).getBody(), instructions.prepare);
    builder.setInsertionPointToEnd(body);
    writeSection(plan::BodyOp::create(builder, source.getLoc()).getBody(), instructions.body);
    for (const ProgramTasks::WrittenParameter &parameter : tasks.getWritten(device))
      plan::StateOp::create(buffers, parameter.read.getLoc(), parameter.name, bufferOf(parameter.read), parameter.tile);
    source.erase();
  }

private:
  /// The compute queue is there always, the others where they have something to do.
  void numberQueues() {
    static constexpr StringLiteral names[] = {"compute", "send", "receive", "collective"};
    queueNumbers.resize(instructions.queues.size());
    for (auto [queue, known] : llvm::enumerate(instructions.queues)) {
      auto isUsed = [queue = queue](const schedule::Instruction &instruction) { return instruction.queue == queue; };
      if (queue != schedule::computeQueue && llvm::none_of(instructions.prepare, isUsed) &&
          llvm::none_of(instructions.body, isUsed))
        continue;
      queueNumbers[queue] = static_cast<int64_t>(queueNames.size());
      queueNames.push_back(names[static_cast<unsigned>(known.kind)]);
    }
  }

  void writeSection(Region &section, const std::vector<schedule::Instruction> &list) {
    Block *block = builder.createBlock(&section);
    buffers.setInsertionPoint(section.getParentOp()->getBlock(), firstSection(section));
    for (const schedule::Instruction &instruction : list) {
      builder.setInsertionPointToEnd(block);
      std::visit([&](const auto &task) { writeInstruction(task, instruction); }, tasks.getSource(instruction.task));
    }
  }

  /// Buffers stand before both sections.
  static Block::iterator firstSection(Region &section) {
    Block *block = section.getParentOp()->getBlock();
    return llvm::find_if(*block, [](Operation &op) { return op.getNumRegions() != 0; });
  }

  //===-- instructions ----------------------------------------------------------------------------------------===//

  IntegerAttr queueOf(const schedule::Instruction &instruction) {
    return builder.getI64IntegerAttr(queueNumbers[instruction.queue]);
  }
  IntegerAttr orderOf(const schedule::Instruction &instruction) { return builder.getI64IntegerAttr(instruction.order); }
  ArrayAttr waitsOf(const schedule::Instruction &instruction) {
    SmallVector<Attribute> waits;
    for (schedule::TimelinePoint wait : instruction.waits)
      waits.push_back(plan::WaitAttr::get(builder.getContext(), queueNumbers[wait.queue], wait.value));
    return waits.empty() ? nullptr : builder.getArrayAttr(waits);
  }

  IntegerAttr channelOf(int64_t channel) { return builder.getI64IntegerAttr(channel); }
  FloatAttr fillOf(FloatAttr fill) { return fill ? fill : builder.getF64FloatAttr(0.0); }

  void writeInstruction(InputTask task, const schedule::Instruction &at) {
    plan::LoadInputOp::create(builder, task.argument.getLoc(), builder.getI64IntegerAttr(task.index),
                              bufferOf(task.argument), task.tile, task.within, queueOf(at), orderOf(at), waitsOf(at));
  }
  void writeInstruction(OutputTask task, const schedule::Instruction &at) {
    plan::StoreOutputOp::create(builder, task.value.getLoc(), bufferOf(task.value),
                                builder.getI64IntegerAttr(task.index), task.tile, task.within, queueOf(at), orderOf(at),
                                waitsOf(at));
  }
  void writeInstruction(TransferTask task, const schedule::Instruction &at) {
    if (instructions.queues[at.queue].kind == QueueKind::Send)
      plan::SendOp::create(builder, task.send.getLoc(), bufferOf(task.send.getValue()), task.send.getTargetAttr(),
                           task.send.getChannelAttr(), task.source, task.target, queueOf(at), orderOf(at), waitsOf(at));
    else
      plan::ReceiveOp::create(builder, task.receive.getLoc(), bufferOf(task.receive.getResult()),
                              task.receive.getSourceAttr(), task.receive.getChannelAttr(), task.source, task.target,
                              fillOf(task.receive.getFillAttr()), queueOf(at), orderOf(at), waitsOf(at));
  }
  void writeInstruction(const ExchangeTask &task, const schedule::Instruction &at) {
    dist::Collective op = task.op;
    auto [sources, targets] = buffersOf(op);
    plan::ExchangeOp::create(builder, op->getLoc(), builder.getStringAttr(op->getName().stripDialect()), sources,
                             targets, channelOf(task.channel), tileList(task.sources), tileList(task.targets),
                             builder.getF64FloatAttr(op.getFillValue()), queueOf(at), orderOf(at), waitsOf(at));
  }
  void writeInstruction(const ReductionTask &task, const schedule::Instruction &at) {
    dist::Collective op = task.op;
    Location location = op->getLoc();
    auto [sources, targets] = buffersOf(op);
    StringAttr combiner = builder.getStringAttr(task.combiner);
    auto axes = builder.getDenseI64ArrayAttr(task.axes);
    if (!task.tiles.empty())
      plan::ReduceScatterOp::create(builder, location, combiner, axes, sources, targets, channelOf(task.channel),
                                    tileList(task.tiles), queueOf(at), orderOf(at), waitsOf(at));
    else
      plan::AllReduceOp::create(builder, location, combiner, axes, sources, targets, channelOf(task.channel),
                                queueOf(at), orderOf(at), waitsOf(at));
  }
  /// Of all tensors of a collective.
  std::pair<SmallVector<Value>, SmallVector<Value>> buffersOf(dist::Collective op) {
    std::pair<SmallVector<Value>, SmallVector<Value>> buffers;
    for (auto [operand, result] : llvm::zip_equal(op->getOperands(), op->getResults())) {
      buffers.first.push_back(bufferOf(operand));
      buffers.second.push_back(bufferOf(result));
    }
    return buffers;
  }
  /// Null where there are no tiles.
  ArrayAttr tileList(ArrayRef<plan::TileAttr> tiles) {
    SmallVector<Attribute> list(tiles.begin(), tiles.end());
    return tiles.empty() ? ArrayAttr() : builder.getArrayAttr(list);
  }
  void writeInstruction(const ParameterTask &task, const schedule::Instruction &at) {
    plan::LoadParameterOp::create(builder, task.value.getLoc(), task.parameter, bufferOf(task.value), task.tile,
                                  queueOf(at), orderOf(at), waitsOf(at));
  }
  void writeInstruction(WriteTask task, const schedule::Instruction &at) {
    plan::CopyOp::create(builder, task.op.getLoc(), bufferOf(task.op.getValue()), bufferOf(task.parameter), queueOf(at),
                         orderOf(at), waitsOf(at));
  }
  void writeInstruction(HostCopyTask task, const schedule::Instruction &at) {
    // The source first: buffers stand in the order of their first use.
    Value from = bufferOf(task.from), to = bufferOf(task.to);
    if (instructions.queues[at.queue].kind == QueueKind::Send)
      plan::OffloadOp::create(builder, task.to.getLoc(), from, to, queueOf(at), orderOf(at), waitsOf(at));
    else
      plan::FetchOp::create(builder, task.to.getLoc(), from, to, queueOf(at), orderOf(at), waitsOf(at));
  }
  void writeInstruction(const IndexTask &task, const schedule::Instruction &at) {
    plan::LoadIndexOp::create(builder, task.value.getLoc(), builder.getStringAttr(task.what),
                              builder.getI64IntegerAttr(task.dim), task.tile, bufferOf(task.value), queueOf(at),
                              orderOf(at), waitsOf(at));
  }
  void writeInstruction(dfg::ConstantOp constant, const schedule::Instruction &at) {
    plan::LoadConstantOp::create(builder, constant.getLoc(), constant.getValueAttr(), bufferOf(constant.getResult()),
                                 queueOf(at), orderOf(at), waitsOf(at));
  }
  void writeInstruction(plan::LaunchOp launch, const schedule::Instruction &at) {
    SmallVector<Value> inputs, outputs;
    for (Value operand : launch.getOperands())
      inputs.push_back(bufferOf(operand));
    for (Value output : launch.getOutputs())
      outputs.push_back(bufferOf(output));
    Value scratch;
    if (auto value = tasks.getScratch(at.task))
      scratch = addBuffer(launch.getLoc(), "scratch", scratchType(*value), *value, {});
    plan::CallOp::create(builder, launch.getLoc(), launch.getKernelAttr(), inputs, outputs, scratch, queueOf(at),
                         orderOf(at), waitsOf(at));
  }

  //===-- buffers ---------------------------------------------------------------------------------------------===//

  RankedTensorType scratchType(unsigned value) {
    return RankedTensorType::get(static_cast<int64_t>(tasks.getProblem().values[value].bytes), builder.getI8Type());
  }

  Value addBuffer(Location location, StringRef name, RankedTensorType type, unsigned value, Value whole) {
    return plan::BufferOp::create(buffers, location, plan::BufferType::get(builder.getContext(), type),
                                  buffers.getStringAttr(name),
                                  buffers.getI64IntegerAttr(static_cast<int64_t>(*schedule.offsets[value])),
                                  buffers.getI64IntegerAttr(plan::storageBytes(type)), whole,
                                  tasks.getProblem().values[value].inHost ? buffers.getUnitAttr() : UnitAttr());
  }

  /// The buffer that shows a value under its type. The first type in which a value is used is that of its writer; all
  /// others are views.
  Value bufferOf(Value value) {
    unsigned index = tasks.getValue(value);
    // A value in the place of another is the same buffer.
    while (auto before = tasks.getProblem().values[index].inPlaceOf)
      index = *before;
    auto type = cast<RankedTensorType>(value.getType());
    Value &buffer = buffersOfTypes[{index, type}];
    if (buffer)
      return buffer;
    SmallVector<StringRef> names = getNodeNames(value.getLoc());
    Value &whole = wholes[index];
    buffer = addBuffer(value.getLoc(), names.empty() ? StringRef("value") : names.front(), type, index, whole);
    if (!whole)
      whole = buffer;
    return buffer;
  }

  const ProgramTasks &tasks;
  const schedule::Schedule &schedule;
  unsigned device;
  const schedule::DeviceSchedule &instructions;
  dist::ProgramOp source;
  /// `builder` is at the end of a section, `buffers` before the sections.
  OpBuilder builder, buffers;
  SmallVector<StringRef> queueNames;
  /// By queue of the schedule.
  SmallVector<int64_t> queueNumbers;
  llvm::DenseMap<std::pair<unsigned, Type>, Value> buffersOfTypes;
  llvm::DenseMap<unsigned, Value> wholes;
};

} // namespace

void writePlanProgram(const ProgramTasks &tasks, const schedule::Schedule &schedule, unsigned device) {
  PlanProgramWriter(tasks, schedule, device).write();
}

} // namespace cleave
