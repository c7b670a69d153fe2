// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows from the placed graph, completed from the programs.

#include "passes/emit/OperatorRows.h"

#include "dialects/dfg/Dfg.h"
#include "dialects/dist/Dist.h"
#include "dialects/dist/Layout.h"
#include "dialects/plan/Plan.h"
#include "passes/cost/CostAnalysis.h"
#include "passes/schedule/KernelWork.h"
#include "passes/schedule/NodeNames.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

#include <numeric>

using namespace mlir;

namespace cleave {
namespace {

class RowCollector {
public:
  RowCollector(dfg::GraphOp graph, const InstructionSeconds &seconds)
      : graph(graph), symbols(graph->getParentOfType<ModuleOp>()), seconds(seconds) {}

  std::vector<OperatorRow> run() {
    for (Operation &op : graph.getBody().front())
      if (isPartOfNode(op))
        addOperator(op);
    for (Operation &op : graph.getBody().front())
      if (isPartOfNode(op))
        addInputs(*rowOf(dfg::getNodeName(op.getLoc())), op);
    for (OperatorRow &row : rows)
      llvm::sort(row.inputs);
    for (auto [index, program] : llvm::enumerate(programsOf(graph)))
      for (Operation &section : program.getBody().front())
        for (Region &region : section.getRegions()) {
          for (Operation &instruction : region.front())
            addInstruction(instruction, isa<plan::BodyOp>(section), program.getMesh());
          if (isa<plan::BodyOp>(section) && index < seconds.size())
            addTimes(region.front(), seconds[index], program.getMesh());
        }
    for (OperatorRow &row : rows) {
      nameKernel(row);
      sumTimes(row);
    }
    return std::move(rows);
  }

private:
  //===-- from the graph --------------------------------------------------------------------------------------===//

  /// Parameters' homes are no operators of the model.
  static bool isPartOfNode(Operation &op) {
    return dist::getPlace(&op) && !isa<dfg::ReadOp, dfg::WriteOp>(op) && !dfg::getNodeName(op.getLoc()).empty();
  }

  OperatorRow *rowOf(StringRef node) {
    auto found = indices.find(node);
    return found == indices.end() ? nullptr : &rows[found->second];
  }

  void addOperator(Operation &op) {
    StringRef name = dfg::getNodeName(op.getLoc());
    auto [entry, isNew] = indices.try_emplace(name, static_cast<uint32_t>(rows.size()));
    if (isNew)
      rows.emplace_back();
    OperatorRow &row = rows[entry->second];
    dist::PlaceAttr place = dist::getPlace(&op);
    row.name = name;
    row.kind = dfg::getNodeKind(op.getLoc());
    OpCost cost;
    if (auto costed = dyn_cast<CostInterface>(op))
      cost = costed.getCost();
    row.flops += cost.flops;
    row.bytes += cost.bytesRead + cost.bytesWritten;
    // The operator that does most of the node's work speaks for it.
    auto [most, isFirst] = mainFlops.try_emplace(name, cost.flops);
    uint32_t ways = 1;
    std::string split = describeSplit(op, place, ways);
    if (isFirst || cost.flops > most->second) {
      most->second = cost.flops;
      row.mesh = place.getMesh().getValue();
      row.decidedBy = place.getBy().getValue();
      row.split = split;
      row.ways = ways;
    }
    if (isDecision)
      row.splits.push_back(std::move(split));
    if (auto keys = dist::getKeyExchange(&op))
      row.keys = keys;
    row.resultBytes = 0;
    for (Type type : op.getResultTypes())
      row.resultBytes += static_cast<double>(tensorBytes(type));
    if (auto type = op.getNumResults() ? dyn_cast<RankedTensorType>(op.getResult(0).getType()) : nullptr)
      row.shape.assign(type.getShape().begin(), type.getShape().end());
  }

  /// "batch/data 2, out_channel/model 4"; a factor goes by its alias. `ways`, which is 1, becomes the number of parts.
  std::string describeSplit(Operation &op, dist::PlaceAttr place, uint32_t &ways) {
    auto splittable = dyn_cast<SplitInterface>(op);
    auto mesh = symbols.lookup<dist::MeshOp>(place.getMesh().getValue());
    if (!splittable || !mesh || !place.getSplit())
      return "";
    dist::MeshShape shape(mesh);
    SmallVector<std::string> parts;
    for (const Factor &factor : splittable.getSplitRule().factors) {
      auto axes = place.getSplit().getFactors().getAs<ArrayAttr>(factor.name);
      if (!axes)
        continue;
      std::string &text = parts.emplace_back(factor.alias.empty() ? factor.name : factor.alias);
      for (auto axis : axes.getAsRange<StringAttr>()) {
        text += ("/" + axis.getValue() + " " + Twine(shape.ways(axis))).str();
        ways *= static_cast<uint32_t>(shape.ways(axis));
      }
    }
    return llvm::join(parts, ", ");
  }

  void addInputs(OperatorRow &row, Operation &op) {
    for (Value operand : op.getOperands()) {
      Operation *producer = operand.getDefiningOp();
      if (!producer)
        continue;
      if (auto read = dyn_cast<dfg::ReadOp>(producer)) {
        if (parametersOf[row.name].insert(read.getParameterAttr())) {
          row.parameterBytes += static_cast<double>(tensorBytes(read.getType()));
          row.parameters.push_back(read.getParameter().str());
        }
        continue;
      }
      auto found = indices.find(dfg::getNodeName(producer->getLoc()));
      if (found != indices.end() && &rows[found->second] != &row && !llvm::is_contained(row.inputs, found->second))
        row.inputs.push_back(found->second);
    }
  }

  //===-- from the programs -----------------------------------------------------------------------------------===//

  /// A kernel call that belongs to a node.
  struct Candidate {
    bool inBody = false, computes = false, isAnchor = false;
    double seconds = -1;
    StringRef kernel, anchor;

    /// Calls of every step count before those of prepare, what computes before changes of layout, then the node's own
    /// calls before those that it is fused with, then the longest.
    auto rank() const { return std::tuple(inBody, computes, isAnchor, seconds); }
  };

  /// A change of layout carries the name of the node whose result it moves.
  static bool isLayoutChange(const KernelSignature &signature) {
    return signature.inputs.size() == 1 && signature.outputs.size() == 1 &&
           signature.inputs[0] != signature.outputs[0] &&
           plan::withoutLayout(signature.inputs[0]) == plan::withoutLayout(signature.outputs[0]);
  }

  /// What a call takes on the devices of a mesh.
  double secondsOf(Operation *kernel, StringRef mesh) {
    // Decisions alone have no programs, and ask nothing.
    if (!costs)
      costs.emplace(graph->getParentOfType<ModuleOp>());
    auto [known, isNew] = calls.try_emplace(kernel);
    if (isNew)
      known->second = getKernelCall(kernel);
    return costs->callSeconds(symbols.lookup<dist::MeshOp>(mesh), known->second.work, known->second.elementType);
  }

  void addInstruction(Operation &instruction, bool inBody, StringRef mesh) {
    if (auto call = dyn_cast<plan::CallOp>(instruction)) {
      SmallVector<StringRef> names = getNodeNames(call.getLoc());
      Operation *kernel = symbols.lookup(call.getKernel());
      double seconds = secondsOf(kernel, mesh);
      bool computes = !isLayoutChange(getKernelSignature(kernel));
      for (StringRef name : names) {
        Candidate candidate{inBody, computes, name == names.front(), seconds, call.getKernel(), names.front()};
        Candidate &best = candidates[name];
        if (candidate.rank() > best.rank())
          best = candidate;
      }
    }
    auto communication = dyn_cast<plan::Communication>(instruction);
    if (!communication || !inBody)
      return;
    auto grid = symbols.lookup<dist::MeshOp>(mesh);
    for (unsigned tensor = 0; tensor != communication.getFilledBuffers().size(); ++tensor)
      if (OperatorRow *row = beneficiaryOf(communication, tensor, mesh))
        row->receivedBytes +=
            communication.getReceivedBytes(tensor, grid.getAxisSizes()) * static_cast<double>(grid.getDevices().size());
  }

  /// What a node's kernels take goes to it alone, also where they compute others besides.
  void addTimes(Block &body, ArrayRef<double> seconds, StringRef mesh) {
    for (auto [instruction, own] : llvm::zip_equal(body, seconds)) {
      if (isa<plan::CallOp, plan::CopyOp, plan::OffloadOp, plan::FetchOp>(instruction)) {
        SmallVector<StringRef> names = getNodeNames(instruction.getLoc());
        if (!names.empty())
          computation[names.front()] += own;
      } else if (auto communication = dyn_cast<plan::Communication>(instruction)) {
        addCommunication(communication, own, mesh);
      }
    }
  }

  /// Tensors that travel together share the time by their bytes.
  void addCommunication(plan::Communication shared, double own, StringRef mesh) {
    auto grid = symbols.lookup<dist::MeshOp>(mesh);
    auto tensors = static_cast<unsigned>(shared.getFilledBuffers().size());
    std::vector<double> bytes;
    for (unsigned tensor = 0; tensor != tensors; ++tensor)
      bytes.push_back(shared.getReceivedBytes(tensor, grid.getAxisSizes()));
    double all = std::accumulate(bytes.begin(), bytes.end(), 0.0);
    for (unsigned tensor = 0; tensor != tensors; ++tensor)
      if (OperatorRow *row = beneficiaryOf(shared, tensor, mesh))
        communication[row->name] += own * (all > 0 ? bytes[tensor] / all : 1.0 / tensors);
  }

  void sumTimes(OperatorRow &row) {
    double computing = computation.lookup(row.name), communicating = communication.lookup(row.name);
    if (seconds.empty() || (!row.fusedWith.empty() && computing + communicating == 0))
      return;
    row.seconds = computing + communicating;
    row.communicationSeconds = communicating;
  }

  void nameKernel(OperatorRow &row) {
    auto found = candidates.find(row.name);
    if (found == candidates.end())
      return;
    row.kernel = found->second.kernel;
    if (!found->second.isAnchor && rowOf(found->second.anchor))
      row.fusedWith = found->second.anchor;
  }

  /// The node for which devices communicate: that of values that are joined, otherwise the one that reads what comes.
  OperatorRow *beneficiaryOf(plan::Communication communication, unsigned tensor, StringRef mesh) {
    SmallVector<StringRef> producer = getNodeNames(communication.getTensorLocation(tensor));
    OperatorRow *row = producer.empty() ? nullptr : rowOf(producer.front());
    if (communication.joinsValues() && row)
      return row;
    OperatorRow *consumer = consumerOf(communication, tensor, producer);
    return consumer || !row || row->mesh != mesh ? consumer : row;
  }

  /// The first node other than the producer that computes with what comes: what changes its layout on arrival carries
  /// the producer's name.
  OperatorRow *consumerOf(plan::Communication communication, unsigned tensor, ArrayRef<StringRef> producer) {
    llvm::SetVector<Value> received;
    received.insert(communication.getFilledBuffers()[tensor]);
    for (size_t next = 0; next != received.size(); ++next)
      for (Operation *user : received[next].getUsers())
        if (auto view = dyn_cast<plan::BufferOp>(user))
          received.insert(view.getBuffer());
    for (Operation *op = communication->getNextNode(); op; op = op->getNextNode()) {
      if (auto next = dyn_cast<plan::ExchangeOp>(op))
        for (auto [source, target] : llvm::zip_equal(next.getSources(), next.getTargets()))
          if (received.contains(source))
            received.insert(target);
      auto call = dyn_cast<plan::CallOp>(op);
      if (!call || llvm::none_of(call.getInputs(), [&](Value input) { return received.contains(input); }))
        continue;
      SmallVector<StringRef> names = getNodeNames(call.getLoc());
      if (ArrayRef<StringRef>(names) != producer)
        if (OperatorRow *row = names.empty() ? nullptr : rowOf(names.front()))
          return row;
      for (Value output : call.getOutputs()) {
        received.insert(output);
        for (Operation *user : output.getUsers())
          if (auto view = dyn_cast<plan::BufferOp>(user))
            received.insert(view.getBuffer());
      }
    }
    return nullptr;
  }

  dfg::GraphOp graph;
  SymbolTable symbols;
  const InstructionSeconds &seconds;
  const bool isDecision = programsOf(graph).empty();
  std::optional<CostAnalysis> costs;
  llvm::DenseMap<Operation *, KernelCall> calls; ///< By kernel.
  std::vector<OperatorRow> rows;
  llvm::StringMap<uint32_t> indices;
  /// The work of the operator that speaks for a node.
  llvm::StringMap<double> mainFlops;
  llvm::StringMap<llvm::SetVector<Attribute>> parametersOf;
  llvm::StringMap<Candidate> candidates;
  llvm::StringMap<double> computation, communication; ///< seconds by node
};

} // namespace

SmallVector<plan::ProgramOp> programsOf(dfg::GraphOp graph) {
  SmallVector<plan::ProgramOp> programs;
  std::string prefix = (graph.getSymName() + ".").str();
  for (auto program : graph->getParentOfType<ModuleOp>().getOps<plan::ProgramOp>())
    if (program.getSymName().starts_with(prefix))
      programs.push_back(program);
  return programs;
}

std::vector<OperatorRow> collectOperatorRows(dfg::GraphOp graph, const InstructionSeconds &seconds) {
  return RowCollector(graph, seconds).run();
}

} // namespace cleave
