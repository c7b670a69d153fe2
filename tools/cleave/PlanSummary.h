// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What people want to know of a plan: who computes what, what each device holds, what crosses between devices.

#ifndef CLEAVE_TOOLS_CLEAVE_PLANSUMMARY_H
#define CLEAVE_TOOLS_CLEAVE_PLANSUMMARY_H

#include "runtime/Plan.h"
#include "tools/cleave/JsonStream.h"

#include "llvm/ADT/StringMap.h"

#include <optional>

namespace cleave::tool {

/// Sums over the operators and the program of one device.
struct DeviceSummary {
  uint32_t operators = 0;
  double flops = 0, bytes = 0, receivedBytes = 0, parameterBytes = 0;
  uint64_t arenaBytes = 0, liveBytes = 0; ///< 0 when the device runs no program
  double stageBytes = 0;                  ///< predicted for the device's stages
};

/// A tensor that one device gives to another in every step.
struct Transfer {
  std::string node;                  ///< the model node that makes it
  uint32_t from = 0, to = 0;         ///< indices of devices
  uint32_t fromMesh = 0, toMesh = 0; ///< of which the devices are members
  uint64_t bytes = 0;
  std::vector<std::string> consumers; ///< operators on `toMesh` that read the node's results
};

/// What crosses from one stage, or mesh, to another in the graph.
struct MeshCut {
  uint32_t fromStage = 0, toStage = 0, fromMesh = 0, toMesh = 0;
  double bytes = 0; ///< that transfers bring in a step; before there are any, of whole tensors, each once
  std::vector<uint32_t> producers; ///< indices of operators
};

/// Communication inside of a mesh in every step.
struct CollectiveSummary {
  std::string node; ///< the model node that it is for; of several tensors "conv1 and 11 more"
  std::string kind; ///< "all_reduce", "all_gather", …
  uint32_t mesh = 0;
  uint64_t bytes = 0;             ///< what each device holds afterwards
  std::vector<std::string> nodes; ///< of all tensors that travel together
};

/// A verified plan's entry, summed up. Refers to the plan, which must outlive it.
class PlanSummary {
public:
  PlanSummary(const runtime::PlanContents &plan, const runtime::Entry &entry);

  const runtime::PlanContents &plan;
  const runtime::Entry &entry;
  std::vector<DeviceSummary> devices;         ///< one a device of the plan
  std::vector<Transfer> transfers;            ///< in the plan's order
  std::vector<CollectiveSummary> collectives; ///< in the plan's order; not those in which nothing moves
  std::vector<MeshCut> cuts;                  ///< between stages and meshes
  double flops = 0, bytes = 0;                ///< sums over all operators, a step

  /// What is expected of a step; null where nobody predicted anything.
  const runtime::Prediction *prediction() const { return entry.prediction ? &*entry.prediction : nullptr; }
  /// Whether a search has made the prediction: it knows stages, degrees, a bound and alternatives then.
  bool isSearched() const { return entry.prediction && entry.prediction->stepSeconds >= 0; }
  /// How much longer a step takes than the lower bound, as a part of the bound. Negative, but for rounding, where the
  /// bound is wrong.
  std::optional<double> gap() const;
  /// "17 s for all plans searched; this one is at most 2.0 % above, as simulated 9.1 % above it"; empty without a
  /// bound.
  std::string boundText() const;
  /// Whether a device of the plan has something to do in the entry.
  bool isBusy(uint32_t device) const { return devices[device].operators != 0 || devices[device].arenaBytes != 0; }
  /// Devices of the plan that have nothing to do in the entry.
  size_t numIdle() const;
  /// How many, and why; empty where all are busy.
  std::string idleText() const;
  /// Floating-point operations of the model a busy device and second, at the predicted step time.
  std::optional<double> modelFlopsRate() const;
  /// The same in words; empty where it is not known.
  std::string modelFlopsText() const;
  /// Bytes that a device needs: predicted, or where nobody predicted it, the device's arenas, or those of its stages.
  double peakBytes(uint32_t device) const;
  /// Of the fullest device.
  double peakBytes() const;
  /// The first device of the operator's mesh.
  uint32_t deviceOf(const runtime::Operator &op) const { return plan.meshes[op.mesh].devices.front(); }
  /// Names of the devices that compute the operator, joined by commas; three or more in a row as "cpu0..cpu3".
  std::string deviceNames(const runtime::Operator &op) const;
  /// The same for the devices of these indices.
  std::string deviceNames(const std::vector<uint32_t> &devices) const;
  /// Whether the two are computed by the same devices in the same stage.
  static bool sameMesh(const runtime::Operator &a, const runtime::Operator &b) {
    return a.mesh == b.mesh && a.stage == b.stage;
  }
  /// What computes it, briefly: a library's operation ("convolution"), "native ADD" for compiled code, "in NODE" where
  /// another node's kernel does, or "-" where there is nothing to compute.
  std::string computedBy(const runtime::Operator &op) const;
  /// Whether a kernel is the operator's own; before there are kernels, every operator counts.
  bool hasOwnKernel(const runtime::Operator &op) const {
    return entry.isDecision() || (!op.kernel.empty() && op.fusedWith.empty());
  }
  /// Indices of the operators that read the results of operator `index`.
  const std::vector<uint32_t> &consumersOf(uint32_t index) const { return consumers[index]; }

private:
  void addOperators();
  void addPrograms();
  void addCollectives(const runtime::Program &program);
  void addTransfers(const runtime::Program &program);
  void addStages();
  void addTransferredCuts();
  void addCuts();

  std::vector<std::vector<uint32_t>> consumers; ///< by operator
  llvm::StringMap<std::vector<uint32_t>> consumersOfNode;
};

/// Floating-point operations of a step: by the search where it knows those of all its samples and passes, else the sum
/// over the operators.
double stepWork(const PlanSummary &summary);

/// "data 8 x pipeline 4", or "" where there are none.
std::string degreesText(const std::vector<runtime::Degree> &degrees);

/// "grid: data 2 x model 4", or the mesh's name where it has no axes.
std::string meshText(const runtime::Mesh &mesh);

/// A factor that a split cuts, and the axes along which.
struct SplitFactor {
  llvm::StringRef factor;
  llvm::SmallVector<llvm::StringRef, 2> axes;
};
/// Reads an operator's split, "batch/data 2, out_channel/model 4/x 2"; the text must outlive what is returned.
std::vector<SplitFactor> readSplit(llvm::StringRef text);

/// "64x56x56", or "scalar".
std::string shapeText(const std::vector<int64_t> &shape);

/// Adds the summary's keys to the JSON object that `json` has open (docs/formats.md).
void writeSummary(JsonStream &json, const PlanSummary &summary);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_PLANSUMMARY_H
