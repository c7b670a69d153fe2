// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rooflines, and waves of tiles.

#include "passes/cost/OperatorCost.h"

#include "dialects/dfg/PlainScores.h"
#include "passes/cost/DefaultMachine.h"

#include "llvm/Support/ErrorHandling.h"

#include <cmath>
#include <limits>
#include <set>

using namespace llvm;

namespace cleave {

DeviceKind deviceKindOf(const Machine &machine, unsigned device) {
  const DeviceSpec &spec = machine.devices[device];
  if (auto known = machine.kinds.find(spec.kind); known != machine.kinds.end())
    return known->second;
  DeviceKind kind = defaultKind(spec.driver, spec.cores);
  kind.memory = spec.memoryLimit;
  return kind;
}

StringRef costClassName(CostClass costClass) {
  switch (costClass) {
  case CostClass::Contraction:
    return "contraction";
  case CostClass::Elementwise:
    return "elementwise";
  case CostClass::Reduction:
    return "reduction";
  case CostClass::Movement:
    return "movement";
  case CostClass::View:
    return "view";
  }
  llvm_unreachable("classes are listed above");
}

std::optional<KernelWork::Extents> KernelWork::extents() const {
  if (!(lhs > 0 && rhs > 0 && result > 0 && flops > 0))
    return std::nullopt;
  double sums = flops / 2;
  // Sizes that no product of matrices with so many operations has say nothing.
  constexpr double slack = 0.01;
  Extents extents;
  extents.batch = lhs / sums * rhs / sums * result;
  if (extents.batch < 1 - slack)
    return std::nullopt;
  extents.rows = std::max(1.0, sums / rhs);
  extents.columns = std::max(1.0, sums / lhs);
  extents.inner = std::max(1.0, sums / result);
  return extents;
}

KernelWork workOfCall(CostClass costClass, double flops, double bytes, StringRef routine, double lhs, double rhs,
                      double result) {
  if (costClass != CostClass::Contraction)
    return {costClass, 0, bytes};
  auto winograd = routine.consume_back(".winograd") ? KernelWork::Winograd::OfConstants : KernelWork::Winograd::None;
  return {costClass, flops, bytes, routine.contains("convolution"), lhs, rhs, result, winograd};
}

double hostCopySeconds(const DeviceKind &kind, double bytes) {
  constexpr LinkSpec slowest{12e9, 10e-6};
  if (kind.host.bandwidth > 0 || kind.isGpu()) {
    const LinkSpec &way = kind.host.bandwidth > 0 ? kind.host : slowest;
    return way.latency + bytes / way.bandwidth;
  }
  return OperatorCost(kind, "f32").seconds(CostClass::Movement, 0, bytes);
}

double bytesOfElement(StringRef elementType) {
  return elementType == "f64"                            ? 8
         : elementType == "bf16" || elementType == "f16" ? 2
         : elementType == "i8" || elementType == "f8"    ? 1
                                                         : 4;
}

OperatorCost::Products::Products(const DeviceKind &kind, StringRef elementType, double slowdown)
    : elementBytes(bytesOfElement(elementType)) {
  auto found = kind.peak.find(elementType.str());
  if (found == kind.peak.end())
    found = kind.peak.find("f32");
  peak = (found == kind.peak.end() || found->second <= 0 ? 1e12 : found->second) / slowdown;
  if (const EfficiencyCurve *known = kind.findCurve(costClassName(CostClass::Contraction), elementType))
    curve = *known;
  if (const TileModel *known = kind.findTiles(elementType))
    tiles = *known;
}

OperatorCost::OperatorCost(const DeviceKind &kind, StringRef elementType, double slowdown, StringRef linearType)
    : products(kind, elementType, slowdown), launch(kind.launch * slowdown), isProcessor(!kind.isGpu()),
      fusesAttention(kind.isGpu() && kind.fusesAttention && dfg::hasAttentionKernels(kind.chip)) {
  if (!linearType.empty() && linearType != elementType && kind.peak.contains(linearType.str()))
    linear.emplace(kind, linearType, slowdown);
  bandwidth = (kind.bandwidth > 0 ? kind.bandwidth : 1e10) / slowdown;
  for (CostClass costClass : {CostClass::Elementwise, CostClass::Reduction, CostClass::Movement})
    if (const EfficiencyCurve *curve = kind.findCurve(costClassName(costClass), elementType))
      efficiency[costClass] = *curve;
  if (const EfficiencyCurve *curve = kind.findCurve("convolution", elementType))
    convolution = *curve;
  if (const EfficiencyCurve *curve = kind.findCurve("winograd", elementType))
    winograd = *curve;
  if (const EfficiencyCurve *curve = kind.findCurve("winograd_training", elementType))
    winogradTraining = *curve;
  if (const EfficiencyCurve *curve = kind.findCurve("streaming", elementType))
    streaming = *curve;
  if (const EfficiencyCurve *curve = kind.findCurve("attention", elementType))
    attention = curve->at(1);
  const EfficiencyCurve *tuned = kind.findCurve("tuned_attention", elementType);
  tunedAttention = tuned ? tuned->at(1) : attention;
}

static double shareAt(const EfficiencyCurve *curve, double size) {
  return curve ? std::max(curve->at(std::max(size, 1.0)), 1e-6) : 1;
}

/// The largest power of two, of those that matter, that divides the bytes of a row.
static double alignmentOf(double elements, double elementBytes) {
  constexpr double most = 128;
  double alignment = elementBytes;
  double bytes = std::round(elements) * elementBytes;
  while (alignment < most && std::fmod(bytes, 2 * alignment) == 0)
    alignment *= 2;
  return alignment;
}

OperatorCost::OperatorCost(const Machine &machine, ArrayRef<unsigned> devices, StringRef elementType, double slowdown)
    : OperatorCost(deviceKindOf(machine, devices.front()), elementType, slowdown,
                   machine.executor.linearLayers.products) {
  std::set<std::string> seen = {machine.devices[devices.front()].kind};
  for (unsigned device : devices.drop_front())
    if (seen.insert(machine.devices[device].kind).second)
      others.emplace_back(deviceKindOf(machine, device), elementType, slowdown, machine.executor.linearLayers.products);
}

/// The tile with which the waves take least: a unit computes a tile at a time, and all begin the next wave together.
double OperatorCost::Products::seconds(const KernelWork::Extents &extents) const {
  double least = std::numeric_limits<double>::infinity();
  for (const TileModel::Tile &tile : tiles->tiles) {
    double count =
        std::round(extents.batch) * std::ceil(extents.rows / tile.rows) * std::ceil(extents.columns / tile.columns);
    double waves = std::ceil(count / tiles->units);
    least = std::min(least, waves * tile.rows * tile.columns / tile.share);
  }
  double rate = peak / tiles->units * tiles->sustained;
  if (!tiles->alignment.points.empty()) {
    double alignment = std::min(alignmentOf(extents.inner, elementBytes), alignmentOf(extents.columns, elementBytes));
    rate *= shareAt(&tiles->alignment, alignment);
  }
  return 2 * least * extents.inner / rate;
}

double OperatorCost::streamSeconds(double bytes) const {
  auto found = efficiency.find(CostClass::Elementwise);
  double own = bytes / (bandwidth * shareAt(found == efficiency.end() ? nullptr : &found->second, bytes));
  return slowest(own, [&](const OperatorCost &other) { return other.streamSeconds(bytes); });
}

double OperatorCost::seconds(const KernelWork &work) const {
  return slowest(ownSeconds(work), [&](const OperatorCost &other) { return other.seconds(work); });
}

/// Without a curve of their own they are computed as all convolutions.
const std::optional<EfficiencyCurve> &OperatorCost::curveOfSliding(KernelWork::Winograd kind) const {
  if (kind == KernelWork::Winograd::OfConstants && winograd)
    return winograd;
  return kind == KernelWork::Winograd::OfChanging && winogradTraining ? winogradTraining : convolution;
}

double OperatorCost::ownSeconds(const KernelWork &work) const {
  if (work.costClass == CostClass::View)
    return 0;
  if (work.costClass != CostClass::Contraction) {
    auto found = efficiency.find(work.costClass);
    const EfficiencyCurve *curve = found == efficiency.end() ? nullptr : &found->second;
    return launch + std::max(work.flops / products.peak, work.bytes / (bandwidth * shareAt(curve, work.bytes)));
  }
  const Products &type = work.isLinear && linear ? *linear : products;
  double bytes = std::max(0.0, work.bytes - (products.elementBytes - type.elementBytes) * (work.lhs + work.rhs));
  double reading = bytes / (bandwidth * shareAt(streaming ? &*streaming : nullptr, bytes));
  if (const auto &sliding = curveOfSliding(work.winograd); work.slides && sliding)
    return launch + std::max(work.flops / (type.peak * shareAt(&*sliding, work.flops)), reading);
  if (const auto &tiles = type.tiles; tiles && !work.slides)
    if (auto extents = work.extents()) {
      // Tiles that begin and end often hide little of their reading and writing.
      double share =
          shareAt(&tiles->depth, extents->inner) * shareAt(&tiles->width, std::min(extents->rows, extents->columns));
      return launch + std::max(type.seconds(*extents), reading) / share;
    }
  double share = type.curve ? shareAt(&*type.curve, work.flops) : type.tiles ? type.tiles->sustained : 1;
  return launch + std::max(work.flops / (type.peak * share), reading);
}

} // namespace cleave
