// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Everything that a plan says about one operator.

#include "compiler/Figures.h"
#include "tools/cleave/Explain.h"
#include "tools/cleave/TextTable.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"

using namespace llvm;

namespace cleave::tool {

using runtime::GpuKernel;
using runtime::GpuLaunch;
using runtime::Instruction;
using runtime::Kernel;
using runtime::LibraryKernel;
using runtime::NativeKernel;
using runtime::Operator;
using runtime::Phase;

/// A line of the list: what, padded, and its value.
static void printFact(raw_ostream &out, StringRef what, const Twine &value) {
  out << "  " << left_justify(what, 15) << value << "\n";
}

static void printNeighbours(raw_ostream &out, const PlanSummary &summary, StringRef what, ArrayRef<uint32_t> indices,
                            const Operator &op) {
  for (uint32_t index : indices) {
    const Operator &other = summary.entry.operators[index];
    bool crosses = summary.deviceOf(other) != summary.deviceOf(op);
    printFact(out, what,
              other.name + " (" + other.kind + " " + shapeText(other.shape) + ") on " + summary.deviceNames(other) +
                  (crosses ? ", another device" : ""));
  }
}

static void printAttributes(raw_ostream &out, const LibraryKernel &body) {
  for (const runtime::Attribute &attribute : body.attributes) {
    std::string values;
    raw_string_ostream stream(values);
    interleave(attribute.ints, stream, " ");
    interleave(attribute.reals, stream, " ");
    printFact(out, "", attribute.name + " = " + values);
  }
  for (const runtime::PostOp &postOp : body.postOps) {
    std::string text;
    raw_string_ostream stream(text);
    stream << "then " << postOp.kind;
    if (postOp.argument >= 0)
      stream << " with input " << postOp.argument;
    printFact(out, "", text);
  }
}

static void printKernel(raw_ostream &out, const Kernel &kernel) {
  printFact(out, "kernel", kernel.name);
  if (const auto *library = std::get_if<LibraryKernel>(&kernel.body)) {
    printFact(out, "library",
              library->library + " " + library->operation +
                  (library->implementation.empty() ? "" : ", " + library->implementation));
    printAttributes(out, *library);
  } else if (const auto *native = std::get_if<NativeKernel>(&kernel.body)) {
    printFact(out, "native code", native->symbol + ", divisible into " + Twine(native->parallelExtent));
  } else {
    for (const GpuLaunch &launch : std::get<GpuKernel>(kernel.body).launches)
      printFact(out, "GPU code", launch.symbol + ", " + Twine(launch.blocks) + " blocks of " + Twine(launch.threads));
  }
  for (const runtime::TensorType &type : kernel.inputs)
    printFact(out, "reads", type.text());
  for (const runtime::TensorType &type : kernel.outputs)
    printFact(out, "writes", type.text());
  if (kernel.scratchBytes)
    printFact(out, "scratch", bytesText(static_cast<double>(kernel.scratchBytes)));
}

/// Where the operator's results go in every step: a line a mesh.
static void printTransfers(raw_ostream &out, const PlanSummary &summary, StringRef node) {
  for (auto [i, transfer] : enumerate(summary.transfers)) {
    const std::vector<uint32_t> &devices = summary.plan.meshes[transfer.toMesh].devices;
    if (transfer.node == node && transfer.to == devices.front())
      printFact(out, "sent to",
                summary.deviceNames(devices) + ", " + bytesText(static_cast<double>(transfer.bytes)) +
                    (devices.size() > 1 ? " a device and step" : " a step"));
  }
}

/// The instructions that carry the operator's name, or the name of the operator that it is fused with.
static void printInstructions(raw_ostream &out, const PlanSummary &summary, StringRef node) {
  for (const runtime::Program &program : summary.entry.programs)
    for (Phase phase : {Phase::Prepare, Phase::Body})
      for (const Instruction &instruction : program.instructions(phase)) {
        if (instruction.node != node)
          continue;
        uint32_t device = summary.plan.meshes[program.mesh].devices.front();
        std::string text;
        raw_string_ostream stream(text);
        stream << "#" << instruction.order << " " << actionName(instruction.action);
        if (const auto *call = std::get_if<runtime::Call>(&instruction.action))
          stream << " " << summary.plan.kernels[call->kernel].name;
        stream << " on " << summary.plan.devices[device].name << "'s "
               << queueKindName(program.queues[instruction.queue]) << " queue";
        if (phase == Phase::Prepare)
          stream << ", once before the first step";
        for (const runtime::Wait &wait : instruction.waits)
          stream << ", after " << wait.value << " on " << queueKindName(program.queues[wait.queue]);
        printFact(out, "instruction", text);
      }
}

/// What the planner expects of it, and what it would have chosen else.
static void printPrediction(raw_ostream &out, const PlanSummary &summary, const Operator &op) {
  const runtime::Prediction *prediction = summary.prediction();
  if (prediction && prediction->stages.size() > 1)
    printFact(out, "stage", Twine(op.stage) + " of " + Twine(prediction->stages.size()));
  if (op.predictedSeconds >= 0)
    printFact(out, "predicted",
              secondsText(op.predictedSeconds) +
                  (op.communicationSeconds > 0
                       ? ", of which " + secondsText(op.communicationSeconds) + " to bring its operands into place"
                       : ""));
  if (op.alternative.empty())
    return;
  std::string cost;
  if (op.alternativeSeconds >= 0)
    cost = ", with which a step would take " + secondsText(op.alternativeSeconds);
  if (op.alternativeSeconds >= 0 && prediction && prediction->stepSeconds > 0)
    cost += " (" + changeText(op.alternativeSeconds, prediction->stepSeconds) + ")";
  printFact(out, "best other", op.alternative + cost);
}

/// How keys and values come to attention, and why.
static void printKeys(raw_ostream &out, const runtime::KeyExchange &keys) {
  auto costOf = [](double seconds, double bytes) { return secondsText(seconds) + " and " + bytesText(bytes); };
  std::string ring = costOf(keys.ringSeconds, keys.ringBytes),
              gathered = costOf(keys.gatheredSeconds, keys.gatheredBytes);
  printFact(out, "keys, values",
            keys.ring ? "in a ring of " + std::to_string(keys.devices) + ": " + ring + ", gathered " + gathered
                      : "gathered from " + std::to_string(keys.devices) + ": " + gathered + ", in a ring " + ring);
}

void explainOperator(raw_ostream &out, const PlanSummary &summary, uint32_t index) {
  const Operator &op = summary.entry.operators[index];
  out << op.name << ": " << op.kind << ", operator " << index + 1 << " of " << summary.entry.operators.size() << "\n";
  const runtime::Mesh &mesh = summary.plan.meshes[op.mesh];
  printFact(out, "device", summary.deviceNames(op) + " (mesh " + meshText(mesh) + ")");
  printFact(out, "split",
            !op.split.empty()          ? op.split
            : mesh.devices.size() == 1 ? "none: one device computes it whole"
                                       : "none: every device computes it whole");
  printFact(out, "decided by", op.decidedBy);
  printFact(out, "result", shapeText(op.shape) + ", " + bytesText(op.resultBytes));
  printFact(out, "work", workText(op.flops));
  printFact(out, "moves", bytesText(op.bytes) + ", of which parameters " + bytesText(op.parameterBytes));
  printFact(out, "receives", bytesText(op.receivedBytes) + " from other devices");
  printPrediction(out, summary, op);
  if (op.keys)
    printKeys(out, *op.keys);
  if (!op.fusedWith.empty())
    printFact(out, "fused with", op.fusedWith + ", whose kernel computes it too");
  else if (op.kernel.empty() && !summary.entry.isDecision())
    printFact(out, "kernel", "none: nothing to compute");
  for (const Kernel &kernel : summary.plan.kernels)
    if (!op.kernel.empty() && kernel.name == op.kernel)
      printKernel(out, kernel);
  for (const Operator &other : summary.entry.operators)
    if (other.fusedWith == op.name)
      printFact(out, "also computes", other.name + " (" + other.kind + ")");
  printNeighbours(out, summary, "input", op.inputs, op);
  printNeighbours(out, summary, "read by", summary.consumersOf(index), op);
  printTransfers(out, summary, op.name);
  for (const CollectiveSummary &collective : summary.collectives)
    if (llvm::is_contained(collective.nodes, op.name))
      printFact(out, "collective",
                collective.kind + (collective.nodes.size() == 1 ? "" : " of " + collective.node) +
                    ", after which a device has " + bytesText(static_cast<double>(collective.bytes)));
  printInstructions(out, summary, op.fusedWith.empty() ? op.name : op.fusedWith);
}

} // namespace cleave::tool
