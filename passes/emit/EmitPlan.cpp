// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programs, ports and operators of the plan, its root, and its verification.

#include "passes/emit/EmitPlan.h"

#include "dialects/dfg/PortAttributes.h"
#include "dialects/dist/Replicas.h"
#include "dialects/plan/Tile.h"
#include "passes/distribute/OperatorLayouts.h"
#include "passes/emit/OperatorRows.h"
#include "passes/emit/PlanTables.h"
#include "passes/schedule/NodeNames.h"
#include "runtime/Verify.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace cleave {

char PlanError::ID = 0;

namespace {

template <typename T> using Offset = flatbuffers::Offset<T>;

class PlanEmitter {
public:
  PlanEmitter(ModuleOp module, const EmitOptions &options)
      : module(module), options(options), tables(module, options, builder) {}

  llvm::Expected<std::vector<char>> emit() {
    std::vector<Offset<fb::Entry>> entries;
    if (llvm::Error error = tables.write())
      return error;
    for (auto graph : module.getOps<dfg::GraphOp>()) {
      // The search has looked at the first entry; its stages are those of others of that length of sequences, too.
      isExpected = entries.empty() || graph->getAttr(dfg::bucketAttrName) == expectedBucket;
      if (entries.empty())
        expectedBucket = graph->getAttr(dfg::bucketAttrName);
      const EntryTimes *times = entries.size() < options.times.size() ? &options.times[entries.size()] : nullptr;
      entries.push_back(entry(graph, entries.empty(), times));
    }
    if (entries.empty())
      return makePlanError("plan expects a 'dfg.graph', found none");
    auto producer = tables.text(options.producer), model = tables.text(options.model),
         strategy = tables.text(options.strategy);
    auto devices = builder.CreateVector(tables.devices);
    auto meshes = builder.CreateVector(tables.meshes);
    auto parameters = builder.CreateVector(tables.parameters);
    auto objects = builder.CreateVector(tables.objects);
    auto kernels = builder.CreateVector(tables.kernels);
    auto entryList = builder.CreateVector(entries);
    std::vector<Offset<fb::Setting>> settings;
    for (const runtime::Setting &setting : options.settings)
      settings.push_back(fb::CreateSetting(builder, tables.text(setting.name), tables.text(setting.value)));
    auto settingList = builder.CreateVector(settings);
    Offset<fb::Processor> processor;
    if (auto chosen = plan::getProcessor(module)) {
      std::vector<Offset<flatbuffers::String>> features;
      for (StringRef feature : chosen->features)
        features.push_back(tables.text(feature));
      auto name = tables.text(chosen->name);
      processor = fb::CreateProcessor(builder, name, builder.CreateVector(features));
    }
    Offset<fb::Replicas> replicas;
    if (auto said = dist::getReplicas(module))
      replicas =
          fb::CreateReplicas(builder, said->count, said->devices, said->bound ? static_cast<int64_t>(*said->bound) : -1,
                             static_cast<uint32_t>(said->localSteps), static_cast<uint32_t>(said->overlap));
    fb::FinishPlanBuffer(builder,
                         fb::CreatePlan(builder, runtime::planVersion, producer, model, strategy, devices, meshes,
                                        parameters, objects, kernels, entryList, settingList, processor, replicas));
    return verified();
  }

private:
  /// The bytes, once the runtime's verifier has accepted them.
  llvm::Expected<std::vector<char>> verified() {
    std::vector<char> bytes(builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize());
    for (std::byte byte : runtime::planSeal(std::as_bytes(std::span(bytes))))
      bytes.push_back(static_cast<char>(byte));
    auto plan = runtime::Plan::fromBytes(std::as_bytes(std::span(bytes)));
    runtime::Error error = plan ? runtime::verifyPlan(*plan) : plan.error();
    if (!error)
      return bytes;
    if (error.status() == runtime::Status::Infeasible)
      return llvm::make_error<PlanError>(error.status(), error.text(), std::move(bytes));
    return makePlanError("plan does not verify: " + error.text());
  }

  //===-- instructions ----------------------------------------------------------------------------------------===//

  using Action = std::pair<fb::Action, Offset<void>>;

  uint32_t bufferOf(Value buffer) const { return buffers.lookup(buffer); }

  Action action(Operation &op) {
    return llvm::TypeSwitch<Operation *, Action>(&op)
        .Case([&](plan::CallOp call) {
          std::vector<uint32_t> arguments;
          for (Value buffer : call->getOperands())
            arguments.push_back(bufferOf(buffer));
          auto list = builder.CreateVector(arguments);
          return Action(fb::Action::Call, fb::CreateCall(builder, tables.kernelIndex(call.getKernel()), list).Union());
        })
        .Case([&](plan::SendOp send) {
          return Action(fb::Action::Send,
                        fb::CreateSend(builder, bufferOf(send.getBuffer()), tables.meshIndex(send.getTarget()),
                                       static_cast<uint32_t>(send.getChannel()),
                                       tables.tileIndex(send.getSourceTileAttr()),
                                       tables.tileIndex(send.getTargetTileAttr()))
                            .Union());
        })
        .Case([&](plan::ReceiveOp receive) {
          return Action(fb::Action::Receive,
                        fb::CreateReceive(
                            builder, bufferOf(receive.getBuffer()), tables.meshIndex(receive.getSource()),
                            static_cast<uint32_t>(receive.getChannel()), tables.tileIndex(receive.getSourceTileAttr()),
                            tables.tileIndex(receive.getTargetTileAttr()), receive.getFill().convertToDouble())
                            .Union());
        })
        .Case([&](plan::ExchangeOp exchange) {
          std::vector<runtime::Operand> operands;
          for (auto [index, source, target] : llvm::enumerate(exchange.getSources(), exchange.getTargets()))
            operands.push_back({bufferOf(source), bufferOf(target), tables.tileIndex(exchange.getSourceTile(index)),
                                tables.tileIndex(exchange.getTargetTile(index))});
          const runtime::Operand &first = operands.front();
          auto more = moreOperands(operands);
          return Action(fb::Action::Exchange,
                        fb::CreateExchange(builder, first.source, first.target,
                                           static_cast<uint32_t>(exchange.getChannel()), first.sourceTile,
                                           first.targetTile, exchange.getFill().convertToDouble(),
                                           exchangeKind(exchange.getKind()), more)
                            .Union());
        })
        .Case([&](plan::AllReduceOp reduce) {
          std::vector<runtime::Operand> operands;
          for (auto [source, target] : llvm::zip_equal(reduce.getSources(), reduce.getTargets()))
            operands.push_back({bufferOf(source), bufferOf(target)});
          auto axes = axisList(reduce.getAxes());
          auto more = moreOperands(operands);
          return Action(fb::Action::AllReduce,
                        fb::CreateAllReduce(builder, operands.front().source, operands.front().target,
                                            static_cast<uint32_t>(reduce.getChannel()), axes,
                                            combinerOf(reduce.getCombiner()), more)
                            .Union());
        })
        .Case([&](plan::ReduceScatterOp reduce) {
          std::vector<runtime::Operand> operands;
          for (auto [index, source, target] : llvm::enumerate(reduce.getSources(), reduce.getTargets()))
            operands.push_back({bufferOf(source), bufferOf(target), -1, tables.tileIndex(reduce.getTile(index))});
          const runtime::Operand &first = operands.front();
          auto axes = axisList(reduce.getAxes());
          auto more = moreOperands(operands);
          return Action(fb::Action::ReduceScatter,
                        fb::CreateReduceScatter(builder, first.source, first.target,
                                                static_cast<uint32_t>(reduce.getChannel()), axes,
                                                combinerOf(reduce.getCombiner()), first.targetTile, more)
                            .Union());
        })
        .Case([&](plan::CopyOp copy) {
          return Action(fb::Action::Copy,
                        fb::CreateCopy(builder, bufferOf(copy.getSource()), bufferOf(copy.getTarget())).Union());
        })
        .Case([&](plan::OffloadOp offload) {
          return Action(
              fb::Action::Offload,
              fb::CreateOffload(builder, bufferOf(offload.getSource()), bufferOf(offload.getTarget())).Union());
        })
        .Case([&](plan::FetchOp fetch) {
          return Action(fb::Action::Fetch,
                        fb::CreateFetch(builder, bufferOf(fetch.getSource()), bufferOf(fetch.getTarget())).Union());
        })
        .Case([&](plan::LoadParameterOp load) {
          uint32_t index = tables.parameterIndex(load.getParameter());
          return Action(fb::Action::LoadParameter, fb::CreateLoadParameter(builder, index, bufferOf(load.getBuffer()),
                                                                           tables.tileIndex(load.getTileAttr()))
                                                       .Union());
        })
        .Case([&](plan::LoadConstantOp load) {
          uint32_t index = tables.constantIndex(load.getValue());
          return Action(fb::Action::LoadParameter,
                        fb::CreateLoadParameter(builder, index, bufferOf(load.getBuffer())).Union());
        })
        .Case([&](plan::LoadIndexOp load) {
          auto what = load.getWhat() == "start" ? fb::IndexKind::Start : fb::IndexKind::Extent;
          auto tile = static_cast<uint32_t>(tables.tileIndex(load.getTile()));
          return Action(fb::Action::LoadIndex, fb::CreateLoadIndex(builder, bufferOf(load.getBuffer()), tile,
                                                                   static_cast<uint32_t>(load.getDim()), what)
                                                   .Union());
        })
        .Case([&](plan::LoadInputOp load) {
          auto index = static_cast<uint32_t>(load.getInput());
          return Action(fb::Action::LoadInput, fb::CreateLoadInput(builder, index, bufferOf(load.getBuffer()),
                                                                   tables.tileIndex(load.getTileAttr()),
                                                                   tables.tileIndex(load.getWithinAttr()))
                                                   .Union());
        })
        .Case([&](plan::StoreOutputOp store) {
          auto index = static_cast<uint32_t>(store.getOutput());
          return Action(fb::Action::StoreOutput, fb::CreateStoreOutput(builder, index, bufferOf(store.getBuffer()),
                                                                       tables.tileIndex(store.getTileAttr()),
                                                                       tables.tileIndex(store.getWithinAttr()))
                                                     .Union());
        });
  }

  /// All tensors of a collective but for the first; absent where it has no others.
  Offset<flatbuffers::Vector<Offset<fb::Operand>>> moreOperands(ArrayRef<runtime::Operand> operands) {
    std::vector<Offset<fb::Operand>> more;
    for (const runtime::Operand &operand : operands.drop_front())
      more.push_back(
          fb::CreateOperand(builder, operand.source, operand.target, operand.sourceTile, operand.targetTile));
    return more.empty() ? 0 : builder.CreateVector(more);
  }

  flatbuffers::Offset<flatbuffers::Vector<uint32_t>> axisList(ArrayRef<int64_t> axes) {
    return builder.CreateVector(std::vector<uint32_t>(axes.begin(), axes.end()));
  }

  static fb::ExchangeKind exchangeKind(StringRef name) {
    return llvm::StringSwitch<fb::ExchangeKind>(name)
        .Case("all_gather", fb::ExchangeKind::AllGather)
        .Case("all_to_all", fb::ExchangeKind::AllToAll)
        .Case("permute", fb::ExchangeKind::Permute)
        .Case("halo_exchange", fb::ExchangeKind::HaloExchange)
        .Case("slice", fb::ExchangeKind::Slice)
        .Case("broadcast", fb::ExchangeKind::Broadcast)
        .Default(fb::ExchangeKind::General);
  }

  static fb::Combiner combinerOf(StringRef name) {
    return llvm::StringSwitch<fb::Combiner>(name)
        .Case("product", fb::Combiner::Product)
        .Case("max", fb::Combiner::Max)
        .Case("min", fb::Combiner::Min)
        .Default(fb::Combiner::Sum);
  }

  /// The node at whose place an instruction stands, or what it is for: a parameter, an input, an output. A collective
  /// of several tensors has the first one's: "conv1 and 11 more".
  std::string nodeOf(Operation &op) {
    if (auto load = dyn_cast<plan::LoadParameterOp>(op))
      return load.getParameter().str();
    if (auto load = dyn_cast<plan::LoadInputOp>(op))
      return inputNames[load.getInput()];
    if (auto store = dyn_cast<plan::StoreOutputOp>(op))
      return outputNames[store.getOutput()];
    SmallVector<StringRef> names = getNodeNames(op.getLoc());
    std::string name = names.empty() ? "" : names.front().str();
    auto communication = dyn_cast<plan::Communication>(op);
    size_t tensors = communication ? communication.getFilledBuffers().size() : 1;
    return tensors == 1 ? name : name + " and " + std::to_string(tensors - 1) + " more";
  }

  Offset<flatbuffers::Vector<Offset<fb::Instruction>>> instructions(Region &section) {
    std::vector<Offset<fb::Instruction>> list;
    for (Operation &op : section.front()) {
      auto instruction = cast<plan::Instruction>(op);
      std::vector<Offset<fb::Wait>> waits;
      for (plan::WaitAttr wait : instruction.getWaitList())
        waits.push_back(
            fb::CreateWait(builder, static_cast<uint32_t>(wait.getQueue()), static_cast<uint32_t>(wait.getValue())));
      auto [kind, body] = action(op);
      auto node = tables.text(nodeOf(op));
      auto waitList = builder.CreateVector(waits);
      list.push_back(fb::CreateInstruction(builder, node, static_cast<uint32_t>(instruction.getQueueIndex()), waitList,
                                           kind, body, static_cast<uint32_t>(instruction.getOrderIndex())));
    }
    return builder.CreateVector(list);
  }

  //===-- programs --------------------------------------------------------------------------------------------===//

  Offset<flatbuffers::Vector<Offset<fb::Buffer>>> bufferList(plan::ProgramOp program) {
    std::vector<Offset<fb::Buffer>> list;
    for (auto buffer : program.getBody().front().getOps<plan::BufferOp>()) {
      int32_t viewOf = buffer.getWhole() ? static_cast<int32_t>(bufferOf(buffer.getWhole())) : -1;
      buffers[buffer.getBuffer()] = static_cast<uint32_t>(list.size());
      auto name = tables.text(buffer.getName());
      list.push_back(
          fb::CreateBuffer(builder, name, tables.type(buffer.getBuffer().getType().getTensor()),
                           static_cast<uint64_t>(buffer.getOffset()) + (buffer.getHost() ? runtime::hostOffset : 0),
                           static_cast<uint64_t>(buffer.getBytes()), viewOf));
    }
    return builder.CreateVector(list);
  }

  static fb::QueueKind queueKind(StringRef name) {
    return llvm::StringSwitch<fb::QueueKind>(name)
        .Case("send", fb::QueueKind::Send)
        .Case("receive", fb::QueueKind::Receive)
        .Case("collective", fb::QueueKind::Collective)
        .Case("host", fb::QueueKind::Host)
        .Default(fb::QueueKind::Compute);
  }

  Offset<fb::Program> program(plan::ProgramOp program) {
    std::vector<fb::QueueKind> queues;
    for (StringRef name : program.getQueues().getAsValueRange<StringAttr>())
      queues.push_back(queueKind(name));
    auto queueList = builder.CreateVector(queues);
    auto bufferTable = bufferList(program);
    Offset<flatbuffers::Vector<Offset<fb::Instruction>>> prepare, body;
    for (Operation &section : program.getBody().front())
      if (section.getNumRegions() != 0)
        (isa<plan::PrepareOp>(section) ? prepare : body) = instructions(section.getRegion(0));
    std::vector<Offset<fb::State>> state;
    for (auto lasting : program.getBody().front().getOps<plan::StateOp>())
      state.push_back(fb::CreateState(builder, tables.parameterIndex(lasting.getParameter()),
                                      bufferOf(lasting.getBuffer()), tables.tileIndex(lasting.getTileAttr())));
    auto stateTable = builder.CreateVector(state);
    return fb::CreateProgram(builder, tables.meshIndex(program.getMesh()), queueList,
                             static_cast<uint64_t>(program.getArenaBytes()),
                             static_cast<uint64_t>(program.getLiveBytes()), bufferTable, prepare, body, stateTable,
                             static_cast<uint64_t>(program.getHostBytes()));
  }

  //===-- the entry -------------------------------------------------------------------------------------------===//

  /// `classes`: of labels, null of others.
  Offset<fb::Port> port(StringRef name, Type type, IntegerAttr classes, StringAttr parameter) {
    auto nameText = tables.text(name);
    return fb::CreatePort(builder, nameText, tables.type(cast<RankedTensorType>(type)),
                          classes ? static_cast<uint64_t>(classes.getInt()) : 0,
                          parameter ? tables.parameterIndex(parameter.getValue()) + 1 : 0);
  }

  /// `isFirst`: of the first entry, about which the search knows more than the simulator.
  Offset<fb::Operator> operatorOf(const OperatorRow &row, bool isFirst) {
    auto name = tables.text(row.name), kind = tables.text(row.kind), split = tables.text(row.split),
         decidedBy = tables.text(row.decidedBy), kernel = tables.text(row.kernel),
         fusedWith = tables.text(row.fusedWith);
    auto inputs = builder.CreateVector(row.inputs);
    auto shape = builder.CreateVector(row.shape);
    OperatorReport expected;
    if (options.report && isExpected)
      expected = options.report->operators.lookup(row.name);
    if (!options.report || !isFirst)
      expected = {row.seconds, row.communicationSeconds, "", -1, expected.stage};
    auto alternative = tables.text(expected.alternative);
    std::vector<Offset<flatbuffers::String>> splits;
    for (const std::string &each : row.splits)
      splits.push_back(tables.text(each));
    auto splitList = builder.CreateVector(splits);
    std::vector<uint32_t> parameters;
    for (const std::string &parameter : row.parameters)
      if (auto index = tables.findParameter(parameter))
        parameters.push_back(*index);
    llvm::sort(parameters);
    auto parameterList = builder.CreateVector(parameters);
    Offset<fb::KeyExchange> keys;
    if (row.keys)
      keys = fb::CreateKeyExchange(builder, row.keys->isRing, static_cast<uint32_t>(row.keys->devices),
                                   row.keys->ringSeconds, row.keys->gatheredSeconds, row.keys->ringBytes,
                                   row.keys->gatheredBytes);
    return fb::CreateOperator(builder, name, kind, tables.meshIndex(row.mesh), split, decidedBy, kernel, fusedWith,
                              inputs, row.flops, row.bytes, row.receivedBytes, row.parameterBytes, row.resultBytes,
                              expected.seconds, shape, row.ways, expected.stage, expected.communicationSeconds,
                              alternative, expected.alternativeSeconds, splitList, parameterList, keys);
  }

  Offset<fb::Stage> stage(const runtime::PlanStage &from, StringRef mesh) {
    auto memory = fb::CreateMemoryUse(builder, from.memory.parameters, from.memory.gradients, from.memory.optimizer,
                                      from.memory.activations, from.memory.transient, from.memory.host);
    auto recompute = tables.text(from.recompute);
    return fb::CreateStage(builder, tables.meshIndex(mesh), from.forward, from.backwardInput, from.backwardWeight,
                           from.send, from.perStep, from.inFlight, memory, recompute, from.zero, from.optimizerInHost);
  }

  Offset<fb::Prediction> prediction(const runtime::Prediction &from, ArrayRef<std::string> stageMeshes) {
    std::vector<Offset<fb::Degree>> degrees;
    for (const runtime::Degree &degree : from.degrees) {
      auto name = tables.text(degree.name);
      degrees.push_back(fb::CreateDegree(builder, name, degree.ways));
    }
    std::vector<Offset<fb::Stage>> stages;
    for (auto [expected, mesh] : llvm::zip_equal(from.stages, stageMeshes))
      stages.push_back(stage(expected, mesh));
    std::vector<Offset<fb::Alternative>> alternatives;
    for (const runtime::Alternative &other : from.alternatives) {
      auto name = tables.text(other.name), whyNot = tables.text(other.whyNot);
      alternatives.push_back(fb::CreateAlternative(builder, name, other.seconds, other.peakBytes, whyNot));
    }
    auto machine = tables.text(from.machine), schedule = tables.text(from.schedule),
         machineFile = tables.text(from.machineFile);
    auto degreeList = builder.CreateVector(degrees);
    auto stageList = builder.CreateVector(stages);
    auto alternativeList = builder.CreateVector(alternatives);
    auto peaks = builder.CreateVector(from.peakBytes);
    return fb::CreatePrediction(builder, machine, from.training, from.stepSeconds, from.lowerBoundSeconds,
                                from.modelFlops, from.microbatches, schedule, degreeList, stageList, alternativeList,
                                from.memoryLimit, peaks, from.simulatedSeconds, machineFile, from.chunks);
  }

  /// Where a graph's placed reads say that devices keep parameters: of a graph without programs, which say it
  /// themselves.
  std::vector<Offset<fb::Home>> homesOf(dfg::GraphOp graph) {
    std::vector<Offset<fb::Home>> homes;
    SymbolTable symbols(module);
    for (auto read : graph.getBody().front().getOps<dfg::ReadOp>()) {
      dist::PlaceAttr place = dist::getPlace(read);
      if (!place)
        continue;
      dist::MeshShape mesh(symbols.lookup<dist::MeshOp>(place.getMesh().getValue()));
      auto layouts = findLayouts(read, mesh);
      if (failed(layouts))
        continue;
      plan::TileAttr tile = plan::toTileUnlessWhole(layouts->results.front(), mesh, module.getContext());
      auto parameter = symbols.lookup<dfg::ParameterOp>(read.getParameter());
      bool isFloat = isa<FloatType>(cast<ShapedType>(read.getType()).getElementType());
      homes.push_back(fb::CreateHome(builder, tables.parameterIndex(read.getParameter()),
                                     tables.meshIndex(place.getMesh().getValue()), tables.tileIndex(tile),
                                     parameter.getState() || isFloat));
    }
    return homes;
  }

  /// `isFirst`: what a search expects is said of the first entry. `times`: what the simulator says of this one, or
  /// null.
  Offset<fb::Entry> entry(dfg::GraphOp graph, bool isFirst, const EntryTimes *times) {
    std::vector<Offset<fb::Port>> inputs, outputs;
    inputNames.clear();
    outputNames.clear();
    auto addPort = [&](std::vector<Offset<fb::Port>> &list, std::vector<std::string> &names, StringRef name,
                       const char *fallback, Type type, StringAttr parameter, IntegerAttr classes = {}) {
      names.push_back(name.empty() ? fallback + std::to_string(names.size()) : name.str());
      list.push_back(port(names.back(), type, classes, parameter));
    };
    for (auto [index, type] : llvm::enumerate(graph.getArgumentTypes()))
      addPort(inputs, inputNames, graph.getInputName(index), "input", type,
              graph.getArgAttrOfType<StringAttr>(index, dfg::versionAttrName),
              graph.getArgAttrOfType<IntegerAttr>(index, dfg::classesAttrName));
    for (auto [index, type] : llvm::enumerate(graph.getResultTypes()))
      addPort(outputs, outputNames, graph.getOutputName(index), "output", type,
              graph.getResultAttrOfType<StringAttr>(index, dfg::versionAttrName));
    std::vector<Offset<fb::Program>> programs;
    for (plan::ProgramOp op : programsOf(graph))
      programs.push_back(program(op));
    std::vector<Offset<fb::Operator>> operators;
    for (const OperatorRow &row : collectOperatorRows(graph, times ? times->seconds : InstructionSeconds()))
      operators.push_back(operatorOf(row, isFirst));
    auto name = tables.text(graph.getSymName());
    auto inputList = builder.CreateVector(inputs);
    auto outputList = builder.CreateVector(outputs);
    auto programList = builder.CreateVector(programs);
    auto operatorList = builder.CreateVector(operators);
    auto homeList = builder.CreateVector(programs.empty() ? homesOf(graph) : std::vector<Offset<fb::Home>>());
    auto tileList = tables.writeTiles();
    Offset<fb::Prediction> expected;
    if (options.report && isFirst)
      expected = prediction(options.report->prediction, options.report->stageMeshes);
    else if (times)
      expected = prediction(times->prediction, {});
    auto samples = graph->getAttrOfType<IntegerAttr>(dfg::samplesAttrName);
    auto bucket = graph->getAttrOfType<IntegerAttr>(dfg::bucketAttrName);
    return fb::CreateEntry(builder, name, inputList, outputList, programList, operatorList, tileList, expected,
                           samples ? static_cast<uint64_t>(samples.getInt()) : 0,
                           bucket ? static_cast<uint64_t>(bucket.getInt()) : 0, homeList);
  }

  ModuleOp module;
  const EmitOptions &options;
  flatbuffers::FlatBufferBuilder builder;
  PlanTables tables;
  std::vector<std::string> inputNames, outputNames;
  /// The length of sequences that the report is about, and whether the entry at hand is for it.
  Attribute expectedBucket;
  bool isExpected = true;
  llvm::DenseMap<Value, uint32_t> buffers;
};

} // namespace

llvm::Expected<std::vector<char>> emitPlan(ModuleOp module, const EmitOptions &options) {
  return PlanEmitter(module, options).emit();
}

} // namespace cleave
