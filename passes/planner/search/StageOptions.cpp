// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From what an interval amounts to, to the ways in which a stage can run it.

#include "passes/planner/search/Searcher.h"

namespace cleave::search {

double keptBytes(const IntervalSums &sums, Recompute recompute, bool checkpoints) {
  double begun = checkpoints ? sums.checkpoints : 0;
  switch (recompute) {
  case Recompute::None:
    return sums.saved;
  case Recompute::Selective:
    return sums.savedProducts + begun;
  case Recompute::Full:
    return begun;
  }
  return sums.saved;
}

/// Seconds of the host for computing again.
static double repeatedHost(const IntervalSums &sums, Recompute recompute) {
  return recompute == Recompute::None ? 0 : sums.forwardHost;
}

double transientBytes(const IntervalSums &sums, Recompute recompute) {
  switch (recompute) {
  case Recompute::None:
    return sums.transient;
  case Recompute::Selective:
    return sums.transient + sums.largestRest;
  case Recompute::Full:
    return sums.transient + sums.largestPiece;
  }
  return sums.transient;
}

/// Seconds that are computed again in the backward pass.
static double repeatedSeconds(const IntervalSums &sums, Recompute recompute) {
  switch (recompute) {
  case Recompute::None:
    return 0;
  case Recompute::Selective:
    return std::max(0.0, sums.forward - sums.forwardExchange - sums.contractions);
  case Recompute::Full:
    return sums.forward - sums.unrepeated;
  }
  return 0;
}

/// Software that joins no gradients while it computes does not send beside computing either: activations to the next
/// stage in the forward pass, their gradients to the one before in the backward pass (Megatron-LM,
/// p2p_communication.py, waits and synchronizes after each exchange).
double Searcher::waitsAt(unsigned at, const Choice &choice) {
  bool isEnd = at % intervals.numLayers() == 0;
  return isEnd || machine.executor.overlapsGradients ? 0
                                                     : sendSecondsAt(at, choice.devices, batchScales[choice.setting]);
}

stages::StageOption Searcher::optionOf(const IntervalSums &sums, const Choice &choice) {
  Recompute recompute = choice.recompute;
  unsigned zero = choice.zero;
  stages::StageOption option;
  // Beside a stage that is all of the model there is no other.
  if (choice.last - choice.first != intervals.numLayers())
    option.steadySlowdown = slowdownsOf(choice.kind, choice.devices).steady;
  option.forward = sums.forward;
  option.backward = request.training ? sums.backward + repeatedSeconds(sums, recompute) : 0;
  const Executor &executor = machine.executor;
  // What is sent beside computing slows down what it hides behind.
  auto sending = [&](bool overlaps, double sent, double seconds) {
    return overlaps ? std::max(sent, seconds + hidden * std::min(sent, seconds)) : seconds + sent;
  };
  if (zero == 3) {
    option.forward = sending(executor.overlapsGathers, sums.gathering, option.forward);
    option.backward = sending(executor.overlapsGathers, sums.gathering, option.backward);
  }
  auto withHost = [&](double seconds, double host) {
    return executor.blocks ? seconds + host : std::max(seconds, host);
  };
  // A replica that keeps a share of the gradients cannot add up the others: each microbatch's are reduce-scattered,
  // half of an all-reduce (Rajbhandari et al., ZeRO, 2020, section 7). The last microbatch's are counted below.
  double last = batchScales[choice.setting] / batchScale(1);
  if (request.training && zero >= 2 && last < 1)
    option.backward =
        last * option.backward + (1 - last) * sending(executor.overlapsGradients, sums.reduction / 2, option.backward);
  option.forward = withHost(option.forward, sums.forwardHost);
  if (request.training)
    option.backward = withHost(option.backward, sums.backwardHost + repeatedHost(sums, recompute));
  option.forward += waitsAt(choice.last, choice);
  if (request.training)
    option.backward += waitsAt(choice.first, choice);
  double update = zero >= 1 && sums.optimizer > 0 ? sums.update * sums.optimizerShared / sums.optimizer : sums.update;
  // Stages change their parameters when all of them are nearly done.
  update *= option.steadySlowdown;
  // Gradients are joined while the last microbatch's backward pass still runs; what sticks out is seen.
  double joining = executor.overlapsGradients ? std::max(0.0, sums.reduction - option.backward) +
                                                    hidden * std::min(sums.reduction, option.backward)
                                              : sums.reduction;
  option.perStep = request.training ? joining + update : 0;
  option.fixedBytes = sums.stateBytes(zero) + transientBytes(sums, recompute) + executor.memory;
  option.microbatchBytes = request.training ? std::min(sums.saved, keptBytes(sums, recompute)) : 0;
  // What was computed again is not kept for gradients of weights that wait: those run with the others.
  bool mayWait = request.training && recompute == Recompute::None;
  option.backwardWeight = mayWait ? std::min(sums.backwardWeights, option.backward) : 0;
  return option;
}

FixedKeeping Searcher::fixedKeepingOf(unsigned kind) const {
  FixedKeeping fixed = {request.recompute, request.zero};
  if (unsigned pin = runs[kind].pin; pin != none) {
    const FixedKeeping &own = request.pinned[pin].keeping;
    fixed.recompute = own.recompute ? own.recompute : fixed.recompute;
    fixed.zero = own.zero ? own.zero : fixed.zero;
  }
  return fixed;
}

void Searcher::addOptions(Choice choice, const IntervalSums &sums, std::vector<stages::StageOption> &options) {
  auto [fixedRecompute, fixedZero] = fixedKeepingOf(choice.kind);
  for (Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full}) {
    if ((!request.training && recompute != Recompute::None) || (fixedRecompute && recompute != *fixedRecompute))
      continue;
    if (!fixedRecompute && recompute != Recompute::None && !memoryBinds)
      continue;
    for (unsigned zero = 0; zero <= 3; ++zero) {
      if ((!request.training && zero > 0) || (fixedZero && zero != *fixedZero))
        continue;
      if (!fixedZero && zero > 0 && sums.stateBytes(zero) >= sums.stateBytes(zero - 1))
        continue;
      if (!fixedZero && zero > 0 && !memoryBinds)
        continue;
      choice.recompute = recompute;
      choice.zero = zero;
      stages::StageOption option = optionOf(sums, choice);
      option.id = choices.size();
      bool dominated = llvm::any_of(options, [&](const stages::StageOption &other) {
        return other.seconds() <= option.seconds() && other.perStep <= option.perStep &&
               other.fixedBytes <= option.fixedBytes && other.microbatchBytes <= option.microbatchBytes;
      });
      if (dominated)
        continue;
      llvm::erase_if(options, [&](const stages::StageOption &other) {
        return option.seconds() <= other.seconds() && option.perStep <= other.perStep &&
               option.fixedBytes <= other.fixedBytes && option.microbatchBytes <= other.microbatchBytes;
      });
      choices.push_back(choice);
      options.push_back(option);
    }
  }
}

Costs::Costs(Searcher &searcher, int64_t microbatches)
    : searcher(searcher), microbatches(microbatches), weights(searcher.weightsOf(microbatches)) {}

bool Costs::growsWithLayers() const {
  constexpr unsigned manyLayers = 48;
  return searcher.intervals.numLayers() > manyLayers;
}

uint64_t Costs::classOf(unsigned first, unsigned last) { return searcher.classOf(first, last); }

const std::vector<stages::StageOption> &Costs::options(unsigned first, unsigned last, unsigned kind, unsigned devices) {
  auto key = std::tuple(static_cast<unsigned>(classOf(first, last)), kind, devices);
  auto [entry, isNew] = known.try_emplace(key);
  if (!isNew || !searcher.mayBeOn(kind, first, last, /*asPart=*/false))
    return entry->second;
  // What is divided by all devices without rest is still too much: nothing here is worth a search, unless to find out
  // how much it really takes.
  double least = searcher.stateBytes(first, last) / devices;
  if (least > (searcher.explains ? searcher.leastBytes : searcher.memoryOf(kind))) {
    if (!searcher.shapesOf(kind, devices).empty())
      entry->second.push_back({0, 0, 0, least, 0, 0});
    return entry->second;
  }
  const std::vector<Shape> &shapes = searcher.shapesOf(kind, devices);
  bool isWhole = last - first == searcher.intervals.numLayers();
  for (unsigned shape = 0; shape != shapes.size(); ++shape) {
    if (!searcher.mayBeOnGrid(kind, devices, shapes[shape], microbatches, isWhole))
      continue;
    unsigned setting = searcher.settingOf(kind, devices, shape, microbatches);
    bool fits = false;
    for (const Weights &weight : weights) {
      // Choices that save memory are for those that lack it.
      if ((weight.secondsPerByte > 0 || weight.ringsOnly) && fits)
        break;
      const IntervalSums *sums = searcher.intervals.best(first, last, setting, weight);
      if (!sums)
        continue;
      fits |= searcher.fits(*sums, kind, first, microbatches);
      searcher.addOptions({first, last, kind, devices, setting, shape, weight, Recompute::None, 0}, *sums,
                          entry->second);
    }
  }
  return entry->second;
}

double Costs::transferSeconds(unsigned at, unsigned devices) {
  return searcher.sendSecondsAt(at, devices, searcher.batchScale(microbatches));
}

/// The receiving devices get a part each, all at once.
double Searcher::sendSecondsAt(unsigned at, unsigned devices, double batchScale) {
  const Boundary &boundary = graph.boundaries[at <= intervals.numLayers() ? at : at - intervals.numLayers()];
  double bytes = (boundary.batchedBytes * batchScale + boundary.otherBytes) * precision().activation;
  unsigned lanes = std::min<unsigned>(devices, machine.devices.size() / 2);
  return lanes == 0 ? 0 : sendSeconds(bytes / lanes, linkOf(lanes));
}

/// Between as many devices and the same number of their neighbours, of another host where there are several.
const LinkSpec &Searcher::linkOf(unsigned lanes) {
  auto [entry, isNew] = links.try_emplace(lanes);
  if (!isNew)
    return entry->second;
  if (!machine.links.empty())
    return entry->second = linkOverZones(lanes);
  unsigned count = machine.devices.size(), apart = lanes;
  if (Run all = findRuns(machine, allDevices(machine)).front(); all.count() > all.hostSize)
    apart = std::min(std::max(lanes, all.hostSize), count - lanes);
  std::vector<unsigned> members(2 * static_cast<size_t>(lanes));
  std::iota(members.begin(), members.begin() + lanes, 0u);
  std::iota(members.begin() + lanes, members.end(), apart);
  return entry->second = lanes == 1 ? topology.between(members.front(), members.back())
                                    : topology.along(members, {2, static_cast<int64_t>(lanes)}, {0});
}

/// The slowest between any two stages: within a zone between neighbours, and between zones.
LinkSpec Searcher::linkOverZones(unsigned lanes) const {
  LinkSpec slowest{std::numeric_limits<double>::infinity(), 0};
  std::vector<Run> zones = findRuns(machine, busy);
  for (auto [index, zone] : llvm::enumerate(zones)) {
    llvm::ArrayRef<unsigned> devices = zone.devices;
    if (unsigned some = std::min(lanes, zone.count() / 2); some != 0) {
      unsigned apart =
          zone.count() > zone.hostSize ? std::min(std::max(some, zone.hostSize), zone.count() - some) : some;
      slowest = slowerOf(slowest, topology.across(devices.take_front(some), devices.slice(apart, some)));
    }
    for (auto [other, to] : llvm::enumerate(zones))
      if (index != other)
        slowest =
            slowerOf(slowest, topology.across(devices.take_front(lanes), llvm::ArrayRef(to.devices).take_front(lanes)));
  }
  return slowest;
}

} // namespace cleave::search
