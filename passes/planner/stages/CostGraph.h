// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A graph of operators with measured costs, and what stages of it with replicas cost: the model of PipeDream (Narayanan
// et al. 2019, "PipeDream: generalized pipeline parallelism for DNN training", section 3.1). Stages are ranges of a
// topological order.

#ifndef CLEAVE_PASSES_PLANNER_STAGES_COSTGRAPH_H
#define CLEAVE_PASSES_PLANNER_STAGES_COSTGRAPH_H

#include "passes/planner/stages/StageSearch.h"

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace cleave::stages {

/// What an operator takes for a batch on one device, and what it makes.
struct CostOp {
  std::string name, kind;
  std::vector<unsigned> inputs; ///< Indices of operators.
  double forward = 0, backward = 0;
  double activation = 0, parameters = 0; ///< bytes

  double seconds() const { return forward + backward; }
};

struct CostGraph {
  std::vector<CostOp> ops;
};

/// Brings the operators into a topological order that changes theirs as little as possible. Where some depend on each
/// other in a circle: false, and the graph stays as it is.
bool sortTopologically(CostGraph &graph);

/// What communication between the devices of a machine takes.
class ReplicaLinks {
public:
  virtual ~ReplicaLinks() = default;
  /// Seconds of an all-reduce among neighbouring devices.
  virtual double allReduceSeconds(double bytes, unsigned devices) = 0;
  /// Between stages: bytes a second of a device, and the seconds until the first byte arrives.
  virtual double bandwidth() = 0;
  virtual double latency() = 0;
};

/// Stages of a graph with replicas: what one batch takes in a stage of c seconds, w bytes of parameters, a_in and a_out
/// bytes of activations that enter and leave it, on r devices with links of B bytes a second.
///
///   steady   replicas take turns with batches, and add their gradients up after each turn; a stage's device sends and
///            receives while it computes:
///              max((c + allreduce(w, r)) / r, 2 a_in / (B r), 2 a_out / (B r))
///   step     replicas share each batch, and add their gradients up once a step; sends add latency:
///              c / r, and allreduce(w, r) a step
///
/// Activations go directly from the stage that makes them to those that need them, back as gradients.
class ReplicatedStages : public StageCosts {
public:
  enum class Mode { Steady, Step };
  /// The graph and the links must outlive the costs.
  ReplicatedStages(const CostGraph &graph, ReplicaLinks &links, Mode mode);

  const std::vector<StageOption> &options(unsigned first, unsigned last, unsigned kind, unsigned devices) override;
  uint64_t classOf(unsigned first, unsigned last) override;
  double transferSeconds(unsigned at, unsigned kind, unsigned devices, Hop hop) override;

  /// Bytes of a batch that enter operators [first, last) from those before, and leave them to those behind.
  double entering(unsigned first, unsigned last) { return rowOf(first).entering[last - first]; }
  double leaving(unsigned first, unsigned last) { return rowOf(first).leaving[last - first]; }
  /// Seconds of a batch on one device, and bytes of parameters.
  double seconds(unsigned first, unsigned last) const {
    return sumOf(forward, first, last) + sumOf(backward, first, last);
  }
  double parameterBytes(unsigned first, unsigned last) const { return sumOf(parameters, first, last); }

private:
  /// By the length of ranges that begin at one operator.
  struct Row {
    std::vector<double> entering, leaving;
  };
  const Row &rowOf(unsigned first);
  StageOption makeOption(unsigned first, unsigned last, unsigned devices);
  static double sumOf(const std::vector<double> &sums, unsigned first, unsigned last) {
    return sums[last] - sums[first];
  }

  const CostGraph &graph;
  ReplicaLinks &links;
  Mode mode;
  std::vector<double> forward, backward, parameters, activations; ///< Sums of the operators before.
  std::vector<unsigned> lastUse; ///< By operator: the last one that reads it; itself where there is none.
  std::map<unsigned, Row> rows;
  std::unordered_map<uint64_t, std::vector<StageOption>> known;
};

} // namespace cleave::stages

#endif // CLEAVE_PASSES_PLANNER_STAGES_COSTGRAPH_H
