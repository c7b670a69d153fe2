// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Medians of what is left for a class of kernels, class by class.

#include "passes/cost/Calibration.h"

#include "passes/cost/CurveFit.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <map>

using namespace llvm;

namespace cleave {

//===-- operators ---------------------------------------------------------------------------------------------===//

namespace {

/// A class of kernels whose share of the rate is one number or curve of the machine's.
struct ClassKey {
  std::string kind, elementType, costClass;
  auto operator<=>(const ClassKey &) const = default;
};

} // namespace

/// From this many terms of a sum, rows and columns on, products in tiles reach what the largest do.
static constexpr double ample = 512;
/// A curve that says something of smaller ones says it of all up to this.
static constexpr double small = 128;

/// The key of `efficiency` that a kernel's time depends on; products in tiles that are shallow or narrow depend on
/// "depth" or "width", others that take as long as reading and writing their matrices on "streaming".
static StringRef efficiencyClassOf(const KernelWork &work, const OperatorCost &cost, bool inTiles) {
  if (work.costClass != CostClass::Contraction)
    return costClassName(work.costClass);
  auto extents = inTiles ? work.extents() : std::nullopt;
  if (extents && extents->inner < ample)
    return "depth";
  if (extents && std::min(extents->rows, extents->columns) < ample)
    return "width";
  KernelWork withoutBytes = work;
  withoutBytes.bytes = 0;
  return cost.seconds(withoutBytes) < cost.seconds(work) ? "streaming" : "contraction";
}

/// Multiplies the share of what is smaller than ample.
static void scaleSmall(EfficiencyCurve &curve, double factor) {
  if (curve.points.empty())
    curve.points = {{small, 1}, {ample, 1}};
  for (EfficiencyCurve::Point &point : curve.points)
    point.share *= point.size < ample ? factor : 1;
}

/// Multiplies what a kind says of a class and an element type; the class's own entry stays as it is for others.
static void scaleShare(DeviceKind &kind, const ClassKey &key, double factor) {
  std::string name = key.costClass + "." + key.elementType;
  const TileModel *tiles = kind.findTiles(key.elementType);
  if (tiles && is_contained({"contraction", "depth", "width"}, key.costClass)) {
    TileModel own = *tiles;
    if (key.costClass == "contraction")
      own.sustained *= factor;
    else
      scaleSmall(key.costClass == "depth" ? own.depth : own.width, factor);
    kind.tiles["contraction." + key.elementType] = own;
    return;
  }
  const EfficiencyCurve *known = kind.findCurve(key.costClass, key.elementType);
  EfficiencyCurve curve = known ? *known : EfficiencyCurve{{{1, 1}}};
  for (EfficiencyCurve::Point &point : curve.points)
    point.share *= factor;
  kind.efficiency[name] = curve;
}

static double errorOf(const MeasuredOperator &measured, const Machine &machine) {
  return std::abs(predictedSeconds(measured, machine) / measured.seconds - 1);
}

/// By class, the operators that spend most of their time in it, and those seconds over what is left for them.
static std::map<ClassKey, std::vector<std::pair<const MeasuredOperator *, double>>>
ratiosByClass(const Machine &machine, ArrayRef<MeasuredOperator> operators) {
  std::map<ClassKey, std::vector<std::pair<const MeasuredOperator *, double>>> result;
  for (const MeasuredOperator &measured : operators) {
    const DeviceKind &kind = machine.kinds.at(measured.kind);
    OperatorCost cost(kind, measured.elementType);
    bool inTiles = kind.findTiles(measured.elementType) != nullptr;
    std::map<std::string, double> seconds;
    double all = 0;
    for (const KernelWork &work : measured.kernels) {
      double launched = cost.seconds(work);
      // Launches are no share of a rate.
      seconds[efficiencyClassOf(work, cost, inTiles).str()] += launched - cost.launchSeconds();
      all += launched;
    }
    if (all < clearOfHost * hostSeconds(measured, machine))
      continue;
    for (auto &[costClass, own] : seconds)
      if (double left = measured.seconds - (all - own); own > all / 2 && left > 0)
        result[{measured.kind, measured.elementType, costClass}].emplace_back(&measured, own / left);
  }
  return result;
}

/// What the host takes for a call, by the operators that it keeps waiting; none where there are too few.
static std::optional<double> measuredDispatch(const Machine &machine, ArrayRef<MeasuredOperator> operators) {
  std::vector<double> calls;
  for (const MeasuredOperator &measured : operators) {
    OperatorCost cost(machine.kinds.at(measured.kind), measured.elementType);
    double device = 0;
    for (const KernelWork &work : measured.kernels)
      device += cost.seconds(work);
    if (clearOfHost * device < hostSeconds(measured, machine))
      calls.push_back(measured.seconds / static_cast<double>(measured.kernels.size()));
  }
  return calls.size() < fewestOperators ? std::nullopt : std::optional(medianOf(calls));
}

std::vector<CalibratedClass> calibrate(Machine &machine, ArrayRef<MeasuredOperator> operators) {
  constexpr unsigned mostRounds = 10;
  constexpr double settled = 1e-3;
  Machine before = machine;
  if (auto dispatch = measuredDispatch(machine, operators)) {
    machine.executor.backwardDispatch *= *dispatch / machine.executor.dispatch;
    machine.executor.dispatch = *dispatch;
  }
  std::map<ClassKey, double> factors;
  for (unsigned round = 0; round < mostRounds; ++round) {
    double change = 0;
    for (auto &[key, ratios] : ratiosByClass(machine, operators)) {
      if (ratios.size() < fewestOperators)
        continue;
      auto values = make_second_range(ratios);
      double factor = medianOf({values.begin(), values.end()});
      scaleShare(machine.kinds.at(key.kind), key, factor);
      auto [known, isNew] = factors.try_emplace(key, 1);
      known->second *= factor;
      change = std::max(change, std::abs(factor - 1));
    }
    if (change < settled)
      break;
  }
  std::vector<CalibratedClass> classes;
  auto last = ratiosByClass(machine, operators);
  for (auto &[key, factor] : factors) {
    CalibratedClass &learnt = classes.emplace_back();
    learnt.kind = key.kind;
    learnt.key = key.costClass + "." + key.elementType;
    learnt.factor = factor;
    std::vector<double> errors, errorsBefore;
    for (auto &[measured, ratio] : last[key]) {
      errors.push_back(errorOf(*measured, machine));
      errorsBefore.push_back(errorOf(*measured, before));
    }
    learnt.operators = static_cast<unsigned>(errors.size());
    learnt.before = medianOf(errorsBefore);
    learnt.after = medianOf(errors);
  }
  return classes;
}

//===-- steps -------------------------------------------------------------------------------------------------===//

double stepFactor(ArrayRef<std::pair<double, double>> measuredAndPredicted) {
  std::vector<double> ratios;
  for (auto [measured, predicted] : measuredAndPredicted)
    ratios.push_back(measured / predicted);
  return medianOf(ratios);
}

static void slow(LinkSpec &link, double factor) {
  link.bandwidth /= factor;
  link.combine /= factor;
  link.latency *= factor;
  link.start *= factor;
}

Machine withCalibration(Machine machine) {
  double factor = std::exchange(machine.calibration, {}).step;
  if (factor == 1)
    return machine;
  for (auto &[name, kind] : machine.kinds) {
    for (auto &[type, peak] : kind.peak)
      peak /= factor;
    kind.bandwidth /= factor;
    kind.launch *= factor;
    kind.step *= factor;
    if (kind.host.bandwidth > 0)
      slow(kind.host, factor);
  }
  auto slowNetwork = [&](std::optional<NetworkSpec> &network) {
    if (network)
      slow(network->link, factor);
  };
  for (HostSpec &host : machine.hosts) {
    if (host.link)
      slow(*host.link, factor);
    for (SwitchSpec &part : host.switches) {
      slow(part.link, factor);
      slow(part.up, factor);
    }
    for (PairSpec &pair : host.pairs)
      slow(pair.link, factor);
    slowNetwork(host.network);
  }
  slowNetwork(machine.network);
  for (ZoneLinkSpec &link : machine.links)
    slow(link.link, factor);
  machine.executor.dispatch *= factor;
  machine.executor.backwardDispatch *= factor;
  return machine;
}

} // namespace cleave
