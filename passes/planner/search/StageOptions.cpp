// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From what an interval amounts to, to the ways in which a stage can run it.

#include "passes/planner/search/Searcher.h"

namespace cleave::search {

/// Software that joins no gradients while it computes does not send beside computing either: activations to the next
/// stage in the forward pass, their gradients to the one before in the backward pass (Megatron-LM,
/// p2p_communication.py, waits and synchronizes after each exchange).
double Searcher::waitsAt(unsigned at, const Choice &choice) {
  bool isEnd = at % intervals.numLayers() == 0;
  return isEnd || machine.executor.overlapsGradients
             ? 0
             : sendSecondsAt(at, choice.kind, choice.devices, stages::Hop::BetweenHosts, batchScales[choice.setting]);
}

std::vector<Recompute> Searcher::recomputeOf(const Choice &choice) const {
  return choice.byPiece ? *choice.byPiece
                        : std::vector(intervals.cutsOf(choice.first, choice.last).size() - 1, choice.recompute);
}

Recomputation Searcher::recomputationOf(const IntervalSums &sums, const Choice &choice) {
  if (!choice.byPiece)
    return search::recomputationOf(sums, choice.recompute);
  return search::recomputationOf(intervals.sumsByPiece(choice.first, choice.last, choice.setting, choice.weights),
                                 *choice.byPiece);
}

stages::StageOption Searcher::optionOf(const IntervalSums &sums, const Recomputation &again, const Choice &choice) {
  unsigned zero = choice.zero;
  stages::StageOption option;
  // Beside a stage that is all of the model there is no other.
  if (choice.last - choice.first != intervals.numLayers())
    option.steadySlowdown = slowdownsOf(choice.kind, choice.devices).steady;
  option.forward = sums.forward;
  option.backward = request.training ? sums.backward + again.seconds : 0;
  const Executor &executor = machine.executor;
  // What is sent beside computing slows down what it hides behind.
  auto sending = [&](bool overlaps, double sent, double seconds) {
    return overlaps ? std::max(sent, seconds + hidden * std::min(sent, seconds)) : seconds + sent;
  };
  OffloadDelay delay = offloadDelay(again.offloaded * offloads[choice.setting], option.forward, option.backward);
  option.forward += delay.forward;
  option.backward += delay.backward;
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
    option.backward = withHost(option.backward, sums.backwardHost + again.host);
  option.forward += waitsAt(choice.last, choice);
  if (request.training)
    option.backward += waitsAt(choice.first, choice);
  double update = sums.update;
  if (double optimizer = sums.optimizer + sums.inHost; zero >= 1 && optimizer > 0)
    update *= (sums.optimizerShared + sums.inHostShared) / optimizer;
  // Stages change their parameters when all of them are nearly done.
  update *= option.steadySlowdown;
  // Gradients are joined while the last microbatch's backward pass still runs; what sticks out is seen.
  double seen = executor.overlapsGradients ? sums.joinedAfter(option.backward) : sums.reduction;
  double joining = seen + hidden * (sums.reduction - seen);
  if (request.training)
    option.perStep = joining + update + sharedSeconds(choice.first, choice.last, choice.kind, choice.devices) +
                     (zero == 1 || zero == 2 ? sums.regathering : 0);
  option.fixedBytes = sums.stateBytes(zero) + (sums.transient + again.transient) + executor.memory;
  option.microbatchBytes = request.training ? std::min(sums.saved, again.bytes) : 0;
  // What was computed again is not kept for gradients of weights that wait: those run with the others.
  bool mayWait = request.training && !choice.byPiece && choice.recompute == Recompute::None;
  option.backwardWeight = mayWait ? std::min(sums.backwardWeights, option.backward) : 0;
  return option;
}

StageKeeping Searcher::fixedKeepingOf(unsigned kind) const {
  StageKeeping fixed;
  fixed.recompute = request.recompute;
  fixed.zero = request.zero;
  if (unsigned pin = runs[kind].pin; pin != none) {
    const StageKeeping &own = request.pinned[pin].keeping;
    if (own.recompute || !own.bySegment.empty()) {
      fixed.recompute = own.recompute;
      fixed.bySegment = own.bySegment;
    }
    fixed.zero = own.zero ? own.zero : fixed.zero;
  }
  return fixed;
}

void Searcher::addOption(Choice choice, const stages::StageOption &option, std::vector<stages::StageOption> &options) {
  auto isNoBetter = [](const stages::StageOption &left, const stages::StageOption &right) {
    return right.seconds() <= left.seconds() && right.perStep <= left.perStep && right.fixedBytes <= left.fixedBytes &&
           right.microbatchBytes <= left.microbatchBytes;
  };
  if (llvm::any_of(options, [&](const stages::StageOption &other) { return isNoBetter(option, other); }))
    return;
  llvm::erase_if(options, [&](const stages::StageOption &other) { return isNoBetter(other, option); });
  options.push_back(option);
  options.back().id = choices.size();
  choices.push_back(std::move(choice));
}

void Searcher::addOptions(Choice choice, int64_t microbatches, const IntervalSums &sums,
                          std::vector<stages::StageOption> &options) {
  StageKeeping fixed = fixedKeepingOf(choice.kind);
  bool isFixed = fixed.recompute || !fixed.bySegment.empty();
  bool isWhole = choice.last - choice.first == intervals.numLayers();
  auto forEachZero = [&](llvm::function_ref<void()> visit) {
    for (unsigned zero = 0; zero <= 3; ++zero) {
      if ((!request.training && zero > 0) || (fixed.zero && zero != *fixed.zero))
        continue;
      bool keepsLess = zero > 0 && (sums.stateBytes(zero) < sums.stateBytes(zero - 1) ||
                                    sums.hostBytes(zero) < sums.hostBytes(zero - 1));
      if (!fixed.zero && zero > 0 && (!memoryBinds || !keepsLess))
        continue;
      choice.zero = zero;
      // Where the machine does not say how much there is, somebody asked for it.
      if (hostRooms[choice.kind] > 0 && sums.hostBytes(zero) > hostRooms[choice.kind])
        continue;
      visit();
    }
  };
  for (Recompute recompute : waysToKeep(offloads[choice.setting] > 0)) {
    if (!fixed.bySegment.empty() || (!request.training && recompute != Recompute::None) ||
        (fixed.recompute && recompute != *fixed.recompute))
      continue;
    if (!isFixed && recompute != Recompute::None && !memoryBinds)
      continue;
    if (!isFixed && recompute == Recompute::Offload &&
        !fitsInHost(search::recomputationOf(sums, recompute).offloaded, sums, choice, microbatches))
      continue;
    choice.recompute = recompute;
    forEachZero([&] { addOption(choice, optionOf(sums, choice), options); });
  }
  choice.recompute = Recompute::None;
  if (fixed.bySegment.size() + 1 == intervals.cutsOf(choice.first, choice.last).size()) {
    choice.byPiece = std::make_shared<const std::vector<Recompute>>(fixed.bySegment);
    forEachZero([&] { addOption(choice, optionOf(sums, choice), options); });
  }
  if (!isFixed && isWhole && request.training && memoryBinds)
    forEachZero([&] {
      if (std::optional<Choice> made = choiceToFit(choice, microbatches, sums))
        addOption(*made, optionOf(sums, *made), options);
    });
}

bool Searcher::fitsInHost(double bytes, const IntervalSums &sums, const Choice &choice, int64_t microbatches) const {
  return sums.hostBytes(choice.zero) + mostInFlight(choice.first, microbatches) * bytes <= hostRooms[choice.kind];
}

std::optional<double> Searcher::inFlightByPiece(int64_t microbatches) const {
  std::optional<double> least;
  for (auto [schedule, chunks] : schedules(microbatches))
    if (schedule.drains())
      least = std::min(least.value_or(std::numeric_limits<double>::infinity()),
                       schedule.microbatchesInFlight({1, static_cast<unsigned>(microbatches), chunks}, 0));
  return least;
}

std::optional<Choice> Searcher::choiceToFit(Choice choice, int64_t microbatches, const IntervalSums &sums) {
  std::optional<double> inFlight = inFlightByPiece(microbatches);
  if (!inFlight)
    return std::nullopt;
  // Stages are compared with their memory in another order of sums.
  constexpr double spare = 1;
  double left = memoryOf(choice.kind) - sums.stateBytes(choice.zero) - sums.transient - machine.executor.memory - spare;
  auto fits = [&](const Recomputation &again) { return again.transient + *inFlight * again.bytes <= left; };
  if (left < 0 || fits(search::recomputationOf(sums, Recompute::None)))
    return std::nullopt;
  auto isOfUse = [&](const Recomputation &again) {
    return fullMicrobatches(microbatches) * optionOf(sums, again, choice).seconds() < toBeat();
  };
  // Most grids are too slow even where nothing is computed again.
  if (!isOfUse({}))
    return std::nullopt;
  double mostSeconds = std::numeric_limits<double>::infinity();
  double offload = offloads[choice.setting];
  for (Recompute uniform : waysToKeep(offload > 0))
    if (Recomputation again = search::recomputationOf(sums, uniform);
        fits(again) && (again.offloaded == 0 || fitsInHost(again.offloaded, sums, choice, microbatches)))
      mostSeconds = std::min(
          mostSeconds, again.seconds + offloadDelay(again.offloaded * offload, sums.forward, sums.backward).seconds());
  std::vector<IntervalSums> pieces = intervals.sumsByPiece(choice.first, choice.last, choice.setting, choice.weights);
  Recomputation least;
  least.seconds = leastRecomputeSeconds(pieces, left, *inFlight, offload);
  if (least.seconds >= mostSeconds || !isOfUse(least))
    return std::nullopt;
  std::vector<Recompute> byPiece = recomputeToFit(pieces, left, *inFlight, mostSeconds, offload);
  if (offload > 0 && !byPiece.empty() &&
      !fitsInHost(search::recomputationOf(pieces, byPiece).offloaded, sums, choice, microbatches))
    byPiece = recomputeToFit(pieces, left, *inFlight, mostSeconds);
  if (byPiece.empty() || llvm::all_equal(byPiece))
    return std::nullopt;
  choice.byPiece = std::make_shared<const std::vector<Recompute>>(std::move(byPiece));
  return choice;
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
      searcher.addOptions({first, last, kind, devices, setting, shape, weight, Recompute::None, 0}, microbatches, *sums,
                          entry->second);
    }
  }
  return entry->second;
}

double Costs::transferSeconds(unsigned at, unsigned kind, unsigned devices, stages::Hop hop) {
  return searcher.sendSecondsAt(at, kind, devices, hop, searcher.batchScale(microbatches));
}

/// The receiving devices get a part each, all at once.
double Searcher::sendSecondsAt(unsigned at, unsigned kind, unsigned devices, stages::Hop hop, double batchScale) {
  const Boundary &boundary = graph.boundaries[at <= intervals.numLayers() ? at : at - intervals.numLayers()];
  double bytes = (boundary.batchedBytes * batchScale + boundary.otherBytes) * precision().activation;
  unsigned lanes = std::min<unsigned>(devices, machine.devices.size() / 2);
  return lanes == 0 ? 0 : sendSeconds(bytes / lanes, linkOf(kind, lanes, hop));
}

double Searcher::sharedBytes(unsigned first, unsigned last) const {
  if (!request.training || graph.shared.empty() || last - first == intervals.numLayers())
    return 0;
  auto count = static_cast<unsigned>(graph.operators.size());
  unsigned begin = operatorsBefore(first), end = operatorsBefore(last);
  double bytes = 0;
  for (const SharedParameter &shared : graph.shared) {
    auto before = [&](unsigned at) { return llvm::lower_bound(shared.readers, at) - shared.readers.begin(); };
    // Layers from the first one on again come after the last one.
    unsigned again = std::max(begin, count) - count, lastAgain = std::max(end, count) - count;
    auto here = static_cast<size_t>(before(end) - before(begin) + before(lastAgain) - before(again));
    if (here != 0 && here != shared.readers.size())
      bytes += shared.bytes;
  }
  return bytes * (precision().parameter + precision().gradient);
}

double Searcher::sharedSeconds(unsigned first, unsigned last, unsigned kind, unsigned devices) {
  double bytes = sharedBytes(first, last);
  unsigned lanes = std::min<unsigned>(devices, machine.devices.size() / 2);
  return bytes == 0 || lanes == 0 ? 0 : sendSeconds(bytes / lanes, linkOf(kind, lanes, stages::Hop::BetweenRuns));
}

unsigned evenHostSize(const Machine &machine, const Run &run) {
  auto hostAt = [&](unsigned at) { return machine.devices[run.devices[at]].host; };
  for (unsigned at = 1; at != run.count(); ++at)
    if ((hostAt(at) == hostAt(at - 1)) == (at % run.hostSize == 0))
      return 1;
  return run.count() % run.hostSize == 0 ? run.hostSize : 1;
}

/// The slowest link between neighbouring groups of `lanes` devices.
static LinkSpec slowestOn(const Topology &topology, llvm::ArrayRef<unsigned> devices, unsigned lanes) {
  LinkSpec slowest{std::numeric_limits<double>::infinity(), 0};
  for (unsigned from = 0; from + 2 * lanes <= devices.size(); from += lanes)
    slowest = slowerOf(slowest, topology.across(devices.slice(from, lanes), devices.slice(from + lanes, lanes)));
  return slowest;
}

LinkSpec Searcher::linkBetweenHosts(const Run &run, unsigned lanes) const {
  llvm::ArrayRef<unsigned> devices = run.devices;
  unsigned hostSize = evenHostSize(machine, run);
  if (hostSize == 1 && run.count() > 1)
    return slowestOn(topology, devices, lanes);
  unsigned apart = run.count() > hostSize ? std::min(std::max(lanes, hostSize), run.count() - lanes) : lanes;
  return topology.across(devices.take_front(lanes), devices.slice(apart, lanes));
}

LinkSpec Searcher::linkBetweenRuns(unsigned kind, unsigned lanes) const {
  LinkSpec slowest{std::numeric_limits<double>::infinity(), 0};
  for (auto [other, run] : llvm::enumerate(runs))
    if (kind != other)
      slowest = slowerOf(slowest, topology.across(llvm::ArrayRef(runs[kind].devices).take_front(lanes),
                                                  llvm::ArrayRef(run.devices).take_front(lanes)));
  return slowest;
}

const LinkSpec &Searcher::linkOf(unsigned kind, unsigned lanes, stages::Hop hop) {
  auto [entry, isNew] = links.try_emplace({kind, lanes, hop});
  LinkSpec &link = entry->second;
  if (!isNew)
    return link;
  const Run &run = runs[kind];
  llvm::ArrayRef<unsigned> devices = run.devices;
  unsigned some = std::min(lanes, run.count() / 2);
  // Whatever is pinned where: so that no pin makes a plan seem faster.
  if (!request.pinned.empty())
    link = slowestOn(topology, busy, std::min<unsigned>(lanes, busy.size() / 2));
  else if (hop == stages::Hop::WithinHost && some != 0 && 2 * lanes <= evenHostSize(machine, run))
    link = topology.across(devices.take_front(lanes), devices.slice(lanes, lanes));
  else if (some != 0 && (hop != stages::Hop::BetweenRuns || runs.size() == 1))
    link = linkBetweenHosts(run, some);
  else
    link = linkBetweenRuns(kind, lanes);
  return link;
}

} // namespace cleave::search
