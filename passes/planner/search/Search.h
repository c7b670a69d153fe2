// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The search for the best plan: stages, their devices and grids, splits inside of them, microbatches, schedule,
// recomputation and sharding of optimizer state, together.

#ifndef CLEAVE_PASSES_PLANNER_SEARCH_SEARCH_H
#define CLEAVE_PASSES_PLANNER_SEARCH_SEARCH_H

#include "passes/pipeline/Schedule.h"
#include "passes/planner/Degrees.h"
#include "passes/planner/MeshSpec.h"
#include "passes/planner/search/Keeping.h"
#include "passes/planner/search/Piece.h"
#include "passes/planner/search/SearchGraph.h"
#include "passes/planner/solver/Solve.h"

#include <functional>
#include <limits>
#include <variant>

namespace cleave::search {

/// The most microbatches of a step.
inline constexpr int64_t mostMicrobatches = 1 << 16;

struct SearchRequest {
  bool training = false;
  /// Samples of a step; 0: the model's batch.
  int64_t batch = 0;
  /// Somebody fixed them; else the search chooses.
  std::optional<int64_t> microbatches;
  /// Whether the last microbatch may have fewer samples than the others, and take as much less time. Else all are
  /// equal.
  bool unequalMicrobatches = false;
  std::optional<pipeline::Schedule> schedule;
  /// The chunks of each stage, where the schedule has several.
  std::optional<unsigned> chunks;
  /// What all stages keep but those on pinned meshes that say it themselves.
  std::optional<Recompute> recompute;
  std::optional<unsigned> zero;
  /// Whether the optimizer's state is kept in the host's memory: on all stages, or on none.
  std::optional<bool> optimizerInHost;
  /// The grid of each stage to which nothing is pinned, and the number of all stages: one, if nothing is said of it and
  /// nothing is pinned.
  Degrees degrees;
  /// "f32", "bf16", "f16".
  std::string elementType = "f32";
  /// How keys and values of attention come to devices that have a part of the queries.
  Keys keys = Keys::Auto;
  /// With arithmetic narrower than f32: whether a step keeps parameters in f32 and rounds them where they are read, as
  /// plans that run do; else it keeps narrow ones, and f32 beside the optimizer's state.
  bool roundsParameters = false;
  /// With roundsParameters: whether what is rounded is kept, for libraries to read; kernels of our own round as they
  /// read.
  bool keepsRounded = true;
  /// Values of float32 that the optimizer keeps for each parameter.
  unsigned optimizerStates = 2;
  /// Bytes of a device; 0: those of the machine.
  double memoryLimit = 0;
  /// How much of a device's memory plans may take by the search's own account. The rest is for what that leaves out.
  double memoryShare = 1;
  solver::SolveOptions solver;
  /// Seconds after which the best plan so far is taken; 0: no limit.
  double timeBudget = 0;
  /// Whether the search ends then although there is no plan so far, and without saying how much memory is missing.
  bool mayFindNothing = false;
  /// The meshes of pinned operators, by Operator::pin: what is pinned to one is in a stage of just these devices and
  /// axes. They share no device. For inference other stages may be on their devices, too.
  std::vector<MeshSpec> pinned;
  /// A decision that was made before is costed: there is nothing to change but the machine.
  bool isDecided = false;
  /// Whether the bound is to be as tight as can be.
  bool certifies = true;
  /// Whether the plan is compared with what people would choose without a search.
  bool considersOthers = true;
  /// What somebody fixed about the splits of operators; axes are those of the mesh that the operator is pinned to.
  FixedFactors fixed;
  /// Whether the plan whose step costs least is wanted, by the machine's prices, and not the fastest one; it has to
  /// take at most `mostSeconds`.
  bool leastCost = false;
  double mostSeconds = std::numeric_limits<double>::infinity();
  /// Called with a line about the best plan so far, by one thread at a time.
  std::function<void(const std::string &)> progress;

  /// Bytes of a device that plans may take.
  double memoryOf(const DeviceSpec &device) const;
};

/// What the plan expects of one operator.
struct OperatorExpectation {
  double seconds = 0, exchange = 0; ///< Of a microbatch, forward and backward; of these, communication.
  /// By axis: the factors of the best other way to split it; nothing where there is none.
  std::optional<std::array<unsigned, 5>> alternative;
  double alternativeSeconds = 0; ///< Of a step with it.
};

/// Operators at [first, last) of the plan's order (FoundPlan::operatorAt) on a grid of devices.
struct FoundStage {
  unsigned first = 0, last = 0;
  unsigned pin = none; ///< Operators in it are pinned there: an index into SearchRequest::pinned.
  std::vector<unsigned> devices;
  std::vector<MeshAxis> axes;
  /// By operator and axis: the factor that is cut, or none.
  std::vector<std::array<unsigned, 5>> factors;
  std::vector<OperatorExpectation> operators;
  /// By operator: of the first product of attention over cut queries and keys how these come.
  std::vector<std::optional<dist::KeyExchange>> keys;
  double forward = 0, backward = 0; ///< Seconds of a microbatch, with communication.
  double backwardWeights = 0;       ///< Of `backward`, gradients of parameters.
  double exchange = 0;              ///< Of these, communication.
  double send = 0;                  ///< Seconds to the next stage, one way.
  double perStep = 0;               ///< Seconds a step: gradients that nothing hides, the optimizer.
  double parameters = 0, gradients = 0, optimizer = 0, activations = 0, transient = 0; ///< Bytes of a device.
  double inHost = 0;   ///< Bytes of its host: activations and optimizer's state that are kept there.
  double inFlight = 1; ///< Microbatches; a chunk of the stage keeps a part of one.
  /// Where the segments end that are computed again together, in the plan's order; the last one with the stage. What
  /// enters one that computes again is kept.
  std::vector<unsigned> segmentEnds;
  /// By segment.
  std::vector<Recompute> recompute;
  unsigned zero = 0;
  bool optimizerInHost = false;

  double bytes() const { return parameters + gradients + optimizer + activations + transient; }
};

/// A way to run the model, as it was considered.
struct Considered {
  std::string name;
  double seconds = -1, bytes = 0;
  std::string whyNot;
};

struct FoundPlan {
  std::vector<FoundStage> stages;
  int64_t microbatches = 1;
  pipeline::Schedule schedule;
  unsigned chunks = 1; ///< Of each stage.
  /// By position: the operator of the graph. Stages have their operators in a row there, chunk after chunk, where the
  /// model has other stages' chunks between these. Empty where it is the graph's order.
  std::vector<unsigned> order;
  double seconds = -1;
  /// No plan of those that the search looks among takes less under this model of costs. More than `seconds` would
  /// contradict that: it is not made to fit.
  double lowerBound = 0;
  double memoryLimit = 0;
  double modelFlops = 0; ///< Of a step, without recomputation.
  std::vector<Considered> considered;

  unsigned operatorAt(unsigned position) const { return order.empty() ? position : order[position]; }
  /// Bytes of a device, by its number: what its stages keep, and the most that one of them needs beside.
  std::vector<double> deviceBytes() const;
  /// Fullest device.
  double peakBytes() const;
};

/// Searches. The error is one for the user: Status::Usage for a request that makes no sense (the message names the
/// flag), Status::Infeasible where no plan fits, with what is missing and what would make it fit.
struct SearchFailure {
  bool infeasible = false;
  std::string message;
};
std::variant<FoundPlan, SearchFailure> findPlan(const SearchGraph &graph, const Machine &machine,
                                                const SearchRequest &request);

} // namespace cleave::search

#endif // CLEAVE_PASSES_PLANNER_SEARCH_SEARCH_H
