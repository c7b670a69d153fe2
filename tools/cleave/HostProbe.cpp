// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns what models took into kinds of devices and links.

#include "tools/cleave/HostProbe.h"

#include "passes/cost/CurveFit.h"
#include "passes/cost/HostCache.h"
#include "passes/cost/MachineFile.h"
#include "runtime/drivers/cpu/HostFeatures.h"
#include "tools/cleave/ProbeModels.h"
#include "tools/cleave/ProbeRun.h"
#include "tools/cleave/ProgressBar.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"

#include <chrono>
#include <cmath>

namespace cleave::tool {
namespace {

/// A folder that goes with everything in it.
class TemporaryFolder {
public:
  Error create() {
    if (std::error_code code = llvm::sys::fs::createUniqueDirectory("cleave-probe", path))
      return makeError(Status::Failure, "cannot make a temporary folder: ", code.message());
    return Error::success();
  }
  ~TemporaryFolder() {
    if (!path.empty())
      llvm::sys::fs::remove_directories(path);
  }
  std::string name() const { return path.str().str(); }

private:
  llvm::SmallString<128> path;
};

/// The events of one step each.
std::map<uint64_t, std::vector<ProbeEvent>> byStep(const std::vector<ProbeEvent> &events) {
  std::map<uint64_t, std::vector<ProbeEvent>> result;
  for (const ProbeEvent &event : events)
    result[event.step].push_back(event);
  return result;
}

/// The part of an event during which one of `others` ran, too.
double overlapOf(const ProbeEvent &event, const std::vector<ProbeEvent> &others) {
  double together = 0;
  for (const ProbeEvent &other : others)
    together += std::max(0.0, std::min(event.end, other.end) - std::max(event.begin, other.begin));
  return event.seconds() > 0 ? together / event.seconds() : 0;
}

/// A placement file of two groups.
std::string placementOf(llvm::StringRef first, unsigned firstDevice, llvm::StringRef second, unsigned secondDevice) {
  return ("groups: { first: [\"" + first + "\"], second: [\"" + second +
          "\"] }\ndevices: { first: " + llvm::Twine(firstDevice) + ", second: " + llvm::Twine(secondDevice) + " }\n")
      .str();
}

class HostProber {
public:
  explicit HostProber(const HostProbeOptions &options)
      : options(options), progress(options.cores.size() * 4 + 8),
        twoDevices("host:2x" + std::to_string(std::max(1u, hostCores() / 2))) {}

  Expected<HostMeasurement> run();

private:
  Expected<ProbeRun> measure(const llvm::Twine &what, onnx::ModelProto model, const std::string &machine,
                             const std::string &placement = "");
  Error measureKind(unsigned cores);
  Error measureNeighbours();
  Error measureOverlap();
  Error measureLinks();
  Expected<double> transferSeconds(int64_t bytes);
  Expected<double> reductionSeconds(int64_t bytes);
  void addSamples(const ProbeRun &run, double launchSeconds);

  const HostProbeOptions &options;
  ProgressBar progress;
  std::string twoDevices;
  TemporaryFolder folder;
  HostMeasurement result;
  std::map<std::string, std::vector<CallSample>> samples; ///< of the present kind, by prefix
  std::vector<double> spreads;
  double neighbourSlowdown = 1, overlapSlowdown = 1;
};

Expected<ProbeRun> HostProber::measure(const llvm::Twine &what, onnx::ModelProto model, const std::string &machine,
                                       const std::string &placement) {
  progress.next(what);
  return ProbeRun::measure({std::move(model), machine, placement, options.seconds}, folder.name());
}

//===-- kinds -------------------------------------------------------------------------------------------------===//

/// A launch is what passes from one call that has nothing to do to the next.
CallSample launchTimes(const ProbeRun &run) {
  std::vector<double> periods, durations;
  for (auto &[step, events] : byStep(run.kernels("launch/")))
    for (size_t i = 1; i < events.size(); ++i) {
      periods.push_back(events[i].begin - events[i - 1].begin);
      durations.push_back(events[i].seconds());
    }
  return {quantileOf(std::move(periods), measuredQuantile), quantileOf(std::move(durations), measuredQuantile)};
}

/// Adds the nodes' times to `samples`, without what a call takes that does nothing, which is counted as a launch.
void HostProber::addSamples(const ProbeRun &run, double launchSeconds) {
  for (auto &[name, time] : run.nodeTimes()) {
    std::string prefix = name.substr(0, name.find('/'));
    bool byWork = isByWork(prefix);
    double size = byWork ? time.flops : time.bytes;
    // Calls not much longer than a launch say nothing of rates.
    if (prefix == "launch" || prefix == "fresh" || prefix == "end" || size <= 0 || time.seconds < 2 * launchSeconds)
      continue;
    double seconds = time.seconds - launchSeconds;
    samples[prefix].push_back({size, seconds});
    spreads.push_back(time.spread);
  }
}

/// The rate at which most bytes at once are moved: past all caches.
double memoryRate(const std::vector<CallSample> &samples) {
  double largest = 0;
  for (const CallSample &sample : samples)
    largest = std::max(largest, sample.size);
  std::vector<double> rates;
  for (const CallSample &sample : samples)
    if (sample.size >= largest / 2)
      rates.push_back(sample.rate());
  return medianOf(std::move(rates));
}

double bestRate(const std::vector<CallSample> &samples) {
  double best = 0;
  for (const CallSample &sample : samples)
    best = std::max(best, sample.rate());
  return best;
}

Error HostProber::measureKind(unsigned cores) {
  std::string name = hostKindName(cores), machine = "host:1x" + std::to_string(cores);
  samples.clear();
  auto launches = measure(name + ": launches", buildLaunches(), machine);
  if (!launches)
    return launches.error();
  CallSample launch = launchTimes(*launches);
  onnx::ModelProto (*models[])() = {buildProducts, buildConvolutions, buildMovements};
  const char *names[] = {"matrix products", "convolutions", "elementwise, reduction, movement"};
  for (auto [build, what] : llvm::zip(models, names)) {
    auto run = measure(name + ": " + what, build(), machine);
    if (!run)
      return run.error();
    addSamples(*run, launch.seconds);
  }
  DeviceKind &kind = result.machine.kinds[name];
  kind.driver = "cpu";
  kind.cores = cores;
  kind.memory = hostMemory() >> 20 << 20; // in whole MiB
  kind.launch = roundDigits(launch.size);
  kind.peak["f32"] = roundDigits(bestRate(samples["contraction"]));
  kind.bandwidth = roundDigits(memoryRate(samples["elementwise"]));
  for (auto &[prefix, calls] : samples) {
    bool byWork = isByWork(prefix);
    result.samples += calls.size();
    kind.efficiency[prefix] = fitCurve(calls, byWork ? kind.peak["f32"] : kind.bandwidth);
  }
  // oneDNN computes weights that change so, too: more slowly where pixels are few.
  if (auto winograd = kind.efficiency.find("winograd");
      winograd != kind.efficiency.end() && runtime::hostFeatures().contains("avx512f"))
    kind.efficiency["winograd_training"] = EfficiencyCurve(winograd->second);
  return Error::success();
}

//===-- two devices -------------------------------------------------------------------------------------------===//

/// How much longer the first device's kernels take while the second computes than while it rests.
Error HostProber::measureNeighbours() {
  auto alone =
      measure("two devices: one computes", buildNeighbours(), twoDevices, placementOf("*left/*", 0, "*right/*", 0));
  if (!alone)
    return alone.error();
  auto together =
      measure("two devices: both compute", buildNeighbours(), twoDevices, placementOf("*left/*", 0, "*right/*", 1));
  if (!together)
    return together.error();
  std::map<std::string, std::vector<double>> seconds, secondsAlone;
  for (const ProbeEvent &event : alone->kernels("left/"))
    secondsAlone[event.instruction->node].push_back(event.seconds());
  auto others = byStep(together->kernels("right/"));
  for (const ProbeEvent &event : together->kernels("left/"))
    if (overlapOf(event, others[event.step]) > 0.8)
      seconds[event.instruction->node].push_back(event.seconds());
  std::vector<double> slowdowns;
  for (auto &[node, times] : seconds)
    if (double single = quantileOf(secondsAlone[node], measuredQuantile); single > 0)
      slowdowns.push_back(quantileOf(times, measuredQuantile) / single);
  neighbourSlowdown = std::max(1.0, roundDigits(medianOf(std::move(slowdowns))));
  return Error::success();
}

/// How much longer products take while their device gives a tensor away.
Error HostProber::measureOverlap() {
  auto alone =
      measure("two devices: compute without transfers", buildOverlap(), twoDevices, placementOf("take/*", 0, "*", 0));
  if (!alone)
    return alone.error();
  auto together =
      measure("two devices: compute during transfers", buildOverlap(), twoDevices, placementOf("take/*", 1, "*", 0));
  if (!together)
    return together.error();
  std::vector<double> single, during;
  for (const ProbeEvent &event : alone->kernels("work/"))
    single.push_back(event.seconds());
  auto receives = byStep(together->communications<runtime::Receive>());
  auto sends = byStep(together->communications<runtime::Send>());
  for (const ProbeEvent &event : together->kernels("work/")) {
    // Both ends are there: bytes move.
    double moving = std::min(overlapOf(event, receives[event.step]), overlapOf(event, sends[event.step]));
    if (moving > 0.5)
      during.push_back(event.seconds());
  }
  if (!single.empty() && !during.empty())
    overlapSlowdown = std::max(1.0, roundDigits(quantileOf(std::move(during), measuredQuantile) /
                                                quantileOf(std::move(single), measuredQuantile)));
  return Error::success();
}

/// From the end of a kernel on one device to the beginning of the next on the other.
Expected<double> HostProber::transferSeconds(int64_t bytes) {
  auto run = measure("two devices: transfers of " + llvm::Twine(bytes / 1024) + " KiB", buildTransfers(bytes),
                     twoDevices, placementOf("odd/*", 1, "*", 0));
  if (!run)
    return run.error();
  std::vector<ProbeEvent> events = run->kernels("even/"), others = run->kernels("odd/");
  events.insert(events.end(), others.begin(), others.end());
  std::vector<double> seconds;
  for (auto &[step, chain] : byStep(events)) {
    llvm::sort(chain, [](const ProbeEvent &a, const ProbeEvent &b) { return a.begin < b.begin; });
    for (size_t i = 1; i < chain.size(); ++i)
      if (chain[i].device != chain[i - 1].device)
        seconds.push_back(chain[i].begin - chain[i - 1].end);
  }
  return quantileOf(std::move(seconds), measuredQuantile);
}

/// From the moment at which both devices have computed their part to that at which both go on.
Expected<double> HostProber::reductionSeconds(int64_t bytes) {
  auto run =
      measure("two devices: all-reduces of " + llvm::Twine(bytes / 1024) + " KiB", buildReductions(bytes), twoDevices,
              "groups: { all: [\"*\"] }\ndevices: { all: [0, 1] }\n"
              "splits: { \"spread/*\": { d0: x }, \"sum/*\": { d0: x } }\n");
  if (!run)
    return run.error();
  auto kernels = byStep(run->kernels(""));
  std::vector<double> seconds;
  for (auto &[step, reductions] : byStep(run->communications<runtime::AllReduce>())) {
    std::map<const runtime::Instruction *, std::pair<double, double>> spans; // from ready to going on
    for (const ProbeEvent &reduction : reductions) {
      auto [span, isNew] = spans.try_emplace(reduction.instruction, 0.0, 0.0);
      for (const ProbeEvent &kernel : kernels[step])
        if (kernel.device == reduction.device && kernel.end <= reduction.begin)
          span->second.first = std::max(span->second.first, kernel.end);
      auto next = llvm::find_if(kernels[step], [&](const ProbeEvent &kernel) {
        return kernel.device == reduction.device && kernel.begin >= reduction.end;
      });
      if (next != kernels[step].end())
        span->second.second = std::max(span->second.second, next->begin);
    }
    for (auto [instruction, span] : spans)
      if (span.first > 0 && span.second > span.first)
        seconds.push_back(span.second - span.first);
  }
  return quantileOf(std::move(seconds), measuredQuantile);
}

Error HostProber::measureLinks() {
  constexpr int64_t few = 4 << 10, many = 4 << 20;
  CommunicationSample send, allReduce;
  std::tuple<const char *, Expected<double> (HostProber::*)(int64_t), CommunicationSample *> operations[] = {
      {"send", &HostProber::transferSeconds, &send}, {"all_reduce", &HostProber::reductionSeconds, &allReduce}};
  for (auto [name, measureBytes, sample] : operations) {
    auto fewSeconds = (this->*measureBytes)(few);
    if (!fewSeconds)
      return fewSeconds.error();
    auto manySeconds = (this->*measureBytes)(many);
    if (!manySeconds)
      return manySeconds.error();
    *sample = {{few, *fewSeconds}, {many, *manySeconds}};
    result.links.push_back({name, few, *fewSeconds, many, *manySeconds});
  }
  HostSpec &host = result.machine.hosts.emplace_back();
  host.link = fitLink(send, allReduce);
  host.cores = hostCores();
  host.devices.push_back({hostKindName(1), hostCores()});
  return Error::success();
}

Expected<HostMeasurement> HostProber::run() {
  auto begin = std::chrono::steady_clock::now();
  if (Error error = folder.create())
    return error;
  result.machine.name = "host";
  for (unsigned cores : options.cores)
    if (Error error = measureKind(cores))
      return error;
  for (auto measurePart : {&HostProber::measureNeighbours, &HostProber::measureOverlap, &HostProber::measureLinks})
    if (Error error = (this->*measurePart)())
      return error;
  for (auto &[name, kind] : result.machine.kinds) {
    kind.neighbourSlowdown = neighbourSlowdown;
    kind.overlapSlowdown = overlapSlowdown;
  }
  addDevices(result.machine);
  result.medianSpread = medianOf(spreads);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return std::move(result);
}

} // namespace

Expected<HostMeasurement> probeHost(const HostProbeOptions &options) { return HostProber(options).run(); }

} // namespace cleave::tool
