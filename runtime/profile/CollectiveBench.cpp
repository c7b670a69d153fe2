// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each operation is a plan with one communication, run without an executor by a thread a device. The ceiling is the
// same number of threads that only copy. Several processes measure together; the slowest one's time counts.

#include "runtime/profile/CollectiveBench.h"

#include "runtime/Communicator.h"
#include "runtime/FileReplacement.h"
#include "runtime/HostTensor.h"
#include "runtime/Json.h"
#include "runtime/Processes.h"
#include "runtime/Reduction.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <iomanip>
#include <thread>

namespace cleave::runtime {
namespace {

/// A plan of one mesh (or two of one device) with one communication of f32, and each site's buffers' elements.
struct Setup {
  PlanContents plan;
  /// The share of `bytes` that crosses between devices; bytes that all devices together read and write.
  double busShare = 1;
  uint64_t reads = 0, writes = 0;
};

TileDim uncut(int64_t size) { return {size, {}, size}; }
TileDim cut(int64_t size, uint32_t devices) { return {size, {{0, size / devices}}, size / devices}; }

/// Adds a mesh and its program with one buffer for each of `lengths`.
Program &addProgram(PlanContents &plan, const std::vector<uint32_t> &devices, const std::vector<int64_t> &lengths) {
  Program program;
  program.mesh = static_cast<uint32_t>(plan.meshes.size());
  plan.meshes.push_back({"m", {{"devices", static_cast<uint32_t>(devices.size())}}, devices});
  for (int64_t length : lengths)
    program.buffers.push_back(
        {"b", {ElementType::F32, {length}, {}}, 0, static_cast<uint64_t>(length) * sizeof(float), -1});
  return plan.entries[0].programs.emplace_back(std::move(program));
}

/// One exchange within the mesh of all devices.
Setup exchangeSetup(uint32_t devices, Tile source, Tile target) {
  Setup setup;
  setup.plan.entries.resize(1);
  std::vector<uint32_t> all(devices);
  for (uint32_t i = 0; i != devices; ++i)
    all[i] = i;
  auto from = static_cast<int64_t>(*bufferElements(source)), to = static_cast<int64_t>(*bufferElements(target));
  addProgram(setup.plan, all, {from, to}).body = {{"", 0, {}, Exchange{{{0, 1, 0, 1}}, 0}, 0}};
  setup.plan.entries[0].tiles = {std::move(source), std::move(target)};
  setup.reads = setup.writes = devices * static_cast<uint64_t>(to) * sizeof(float);
  return setup;
}

Setup reduceSetup(uint32_t devices, int64_t elements, bool scatters) {
  Setup setup = exchangeSetup(devices, {{uncut(elements)}}, {{uncut(elements)}});
  Program &program = setup.plan.entries[0].programs[0];
  program.body[0].action = AllReduce{{{0, 1}}, 0, {0}, Combiner::Sum};
  if (!scatters)
    return setup;
  setup.plan.entries[0].tiles = {{{cut(elements, devices)}}};
  program.body[0].action = ReduceScatter{{{0, 1, -1, 0}}, 0, {0}, Combiner::Sum};
  program.buffers[1].bytes /= devices;
  setup.writes /= devices;
  return setup;
}

Setup allReduce(uint32_t devices, int64_t elements) {
  Setup setup = reduceSetup(devices, elements, false);
  setup.busShare = 2.0 * (devices - 1) / devices;
  return setup;
}
Setup reduceScatter(uint32_t devices, int64_t elements) {
  Setup setup = reduceSetup(devices, elements, true);
  setup.busShare = 1.0 * (devices - 1) / devices;
  return setup;
}
Setup allGather(uint32_t devices, int64_t elements) {
  Setup setup = exchangeSetup(devices, {{cut(elements, devices)}}, {{uncut(elements)}});
  setup.busShare = 1.0 * (devices - 1) / devices;
  return setup;
}
Setup allToAll(uint32_t devices, int64_t elements) {
  int64_t block = elements / devices;
  Setup setup = exchangeSetup(devices, {{cut(devices, devices), uncut(devices), uncut(block)}},
                              {{uncut(devices), cut(devices, devices), uncut(block)}});
  setup.busShare = 1.0 * (devices - 1) / devices;
  return setup;
}
/// A dimension of one element that is cut: only the first device has it.
Setup broadcast(uint32_t devices, int64_t elements) {
  return exchangeSetup(devices, {{{1, {{0, 1}}, 1}, uncut(elements)}}, {{uncut(1), uncut(elements)}});
}
/// Every device gives to the next; the first gets zeros.
Setup permute(uint32_t devices, int64_t elements) {
  TileDim shifted = cut(devices, devices);
  shifted.before = 1;
  return exchangeSetup(devices, {{cut(devices, devices), uncut(elements)}}, {{shifted, uncut(elements)}});
}
/// From one device to another, each in a mesh of its own.
Setup send(uint32_t, int64_t elements) {
  Setup setup;
  setup.plan.entries.resize(1);
  addProgram(setup.plan, {0}, {elements}).body = {{"", 0, {}, Send{0, 1, 0}, 0}};
  addProgram(setup.plan, {1}, {elements}).body = {{"", 0, {}, Receive{0, 0, 0}, 0}};
  setup.reads = setup.writes = static_cast<uint64_t>(elements) * sizeof(float);
  return setup;
}

struct Operation {
  const char *name;
  Setup (*setup)(uint32_t devices, int64_t elements);
};
constexpr std::array<Operation, 7> operations = {{{"all_reduce", allReduce},
                                                  {"all_gather", allGather},
                                                  {"reduce_scatter", reduceScatter},
                                                  {"all_to_all", allToAll},
                                                  {"broadcast", broadcast},
                                                  {"permute", permute},
                                                  {"send", send}}};

/// Seconds that work(thread, iteration) takes on all threads at once, the best mean of several rounds. As many
/// iterations as take about a twentieth of a second.
double bestSeconds(uint32_t threads, const CollectiveBenchOptions &options,
                   const std::function<void(uint32_t, uint64_t)> &work) {
  uint64_t done = 0;
  auto slowest = [&](double seconds) { return options.processes ? options.processes->maximum(seconds) : seconds; };
  auto run = [&](uint64_t iterations) {
    (void)slowest(0); // all begin together
    std::vector<std::thread> running;
    auto begin = std::chrono::steady_clock::now();
    for (uint32_t thread = 0; thread != threads; ++thread)
      running.emplace_back([&, thread] {
        for (uint64_t i = 0; i != iterations; ++i)
          work(thread, done + i);
      });
    for (std::thread &thread : running)
      thread.join();
    done += iterations;
    return slowest(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  };
  uint64_t iterations = 1;
  while (run(iterations) < 0.05 && iterations < 1 << 16)
    iterations *= 2;
  double best = run(iterations);
  for (unsigned round = 1; round < options.rounds; ++round)
    best = std::min(best, run(iterations));
  return best / static_cast<double>(iterations);
}

Expected<HostTensor> buffer(uint64_t bytes) {
  return HostTensor::allocate({ElementType::F32, {static_cast<int64_t>(bytes / sizeof(float))}, {}});
}

/// Seconds in which the threads together read `reads` and write `writes` bytes, past the caches or not, whichever is
/// faster. Copies as much as is written, and reads the rest.
Expected<double> ceiling(uint32_t threads, const CollectiveBenchOptions &options, uint64_t reads, uint64_t writes) {
  uint32_t parts = std::max(1u, threads);
  uint64_t copied = writes / parts, extra = (reads - std::min(reads, writes)) / parts;
  std::vector<HostTensor> sources, targets;
  for (uint32_t i = 0; i != threads; ++i) {
    auto source = buffer(copied + extra), target = buffer(copied);
    if (!source || !target)
      return source ? target.error() : source.error();
    sources.push_back(*source);
    targets.push_back(*target);
  }
  std::vector<std::byte> sinks(threads * 64);
  double best = 0;
  for (bool streams : {false, true}) {
    double seconds = bestSeconds(threads, options, [&](uint32_t thread, uint64_t) {
      const std::byte *source = sources[thread].bytes().data();
      copyBytes(source, targets[thread].bytes().data(), copied, streams);
      // The largest of all bytes: nothing but reading.
      constexpr uint64_t chunk = 4096;
      std::array<std::byte, chunk> largest = {};
      std::byte *to = largest.data();
      for (uint64_t at = 0; at + chunk <= extra; at += chunk) {
        std::array<const std::byte *, 2> from = {largest.data(), source + copied + at};
        combine(ElementType::U8, Combiner::Max, from, std::span(&to, 1), chunk, false);
      }
      sinks[thread * 64] = largest[0];
    });
    best = best == 0 ? seconds : std::min(best, seconds);
  }
  return best;
}

Error agree(const CollectiveBenchOptions &options, const Error &error) {
  return options.processes ? options.processes->agree(error) : error;
}

/// A participant for each site that is here, with buffers of its own.
Error makeParticipants(const Channels &channels, const std::function<bool(uint32_t)> &isHere,
                       std::vector<Participant> &participants, std::vector<HostTensor> &tensors) {
  for (uint32_t site = 0; site != channels.sites().size(); ++site) {
    if (!isHere(site))
      continue;
    const Program &program = *channels.sites()[site].program;
    const Action &action = program.body[0].action;
    Participant participant{site, {}, {}, {}, {}};
    for (const PlanBuffer &planned : program.buffers) {
      auto tensor = buffer(planned.bytes);
      if (!tensor)
        return tensor.error();
      tensors.push_back(*tensor);
      bool first = &planned == &program.buffers.front();
      if (first && !std::holds_alternative<Receive>(action))
        participant.source = tensor->bytes();
      else
        participant.target = tensor->bytes();
    }
    participants.push_back(participant);
  }
  return Error::success();
}

/// What the transport's own operation takes; 0 where it has none.
double peerSeconds(const Operation &operation, const std::vector<Participant> &participants,
                   const CollectiveBenchOptions &options) {
  Participant own = participants.empty() ? Participant() : participants.front();
  auto peer = options.processes->peerOf(operation.name, own.source, own.target);
  return peer ? bestSeconds(1, options, [&](uint32_t, uint64_t) { peer(); }) : 0;
}

Expected<CollectiveResult> measure(const Operation &operation, uint64_t bytes, const CollectiveBenchOptions &options) {
  Setup setup = operation.setup(options.devices, static_cast<int64_t>(bytes / sizeof(float)));
  const Entry &entry = setup.plan.entries[0];
  auto rankOfDevice = divideDevices(options.devices, options.processes ? options.processes->count() : 1, {});
  if (!rankOfDevice)
    return rankOfDevice.error();
  std::vector<uint32_t> rankOfSite;
  for (const Site &site : sitesOf(setup.plan, entry))
    rankOfSite.push_back((*rankOfDevice)[site.device]);
  uint32_t rank = options.processes ? options.processes->rank() : 0;
  auto isHere = [&](uint32_t site) { return rankOfSite[site] == rank; };
  Channels channels(setup.plan, entry, sitesOf(setup.plan, entry), isHere);
  std::vector<Participant> participants;
  std::vector<HostTensor> tensors;
  if (Error error = agree(options, makeParticipants(channels, isHere, participants, tensors)))
    return error;
  auto communicator = options.processes ? options.processes->createCommunicator(channels, rankOfSite)
                                        : Expected(createLocalCommunicator(channels));
  if (!communicator)
    return communicator.error();
  bool reduces = std::holds_alternative<ReduceChannel>(channels.of(Phase::Body).at(0));
  auto threads = static_cast<uint32_t>(participants.size());
  CollectiveResult result{operation.name, bytes};
  result.seconds = bestSeconds(threads, options, [&](uint32_t thread, uint64_t step) {
    Transfer transfer{Phase::Body, 0, step};
    (void)(reduces ? (*communicator)->reduce(transfer, participants[thread])
                   : (*communicator)->exchange(transfer, participants[thread]));
  });
  result.algbw = static_cast<double>(bytes) / result.seconds;
  result.busbw = result.algbw * setup.busShare;
  if (options.processes && options.processes->count() == options.devices)
    result.peerSeconds = peerSeconds(operation, participants, options);
  if (!options.ceiling)
    return result;
  uint64_t sites = channels.sites().size();
  auto ceilingSeconds = ceiling(threads, options, setup.reads * threads / sites, setup.writes * threads / sites);
  if (!ceilingSeconds)
    return ceilingSeconds.error();
  result.ceilingSeconds = *ceilingSeconds;
  result.ceilingRate = static_cast<double>(setup.reads + setup.writes) / *ceilingSeconds;
  return result;
}

std::string peerText(const CollectiveResult &result) {
  std::ostringstream text;
  if (result.peerSeconds != 0)
    text << std::fixed << std::setprecision(1) << std::setw(13) << result.peerSeconds * 1e6 << std::setprecision(2)
         << std::setw(10) << result.seconds / result.peerSeconds;
  return text.str();
}

void print(const std::vector<CollectiveResult> &results, const CollectiveBenchOptions &options, std::ostream &out) {
  std::ostringstream text;
  if (options.processes)
    text << options.processes->count() << " processes, ";
  text << options.devices << " devices, f32; GB/s; ceiling: their cores reading and writing the same number of bytes\n"
       << "operation            bytes      time us    algbw    busbw  ceiling us  ceiling   time/ceiling"
       << (options.processes ? "       MPI us  time/MPI\n" : "\n") << std::fixed;
  for (const CollectiveResult &result : results)
    text << std::left << std::setw(14) << result.operation << std::right << std::setw(12) << result.bytes
         << std::setprecision(1) << std::setw(13) << result.seconds * 1e6 << std::setprecision(2) << std::setw(9)
         << result.algbw / 1e9 << std::setw(9) << result.busbw / 1e9 << std::setprecision(1) << std::setw(12)
         << result.ceilingSeconds * 1e6 << std::setprecision(2) << std::setw(9) << result.ceilingRate / 1e9
         << std::setw(15) << result.seconds / result.ceilingSeconds << peerText(result) << "\n";
  out << text.str();
}

void writeJson(const std::vector<CollectiveResult> &results, const CollectiveBenchOptions &options, std::ostream &out) {
  out << "{\n  \"devices\": " << options.devices
      << ",\n  \"processes\": " << (options.processes ? options.processes->count() : 1) << ",\n  \"collectives\": [";
  for (size_t i = 0; i != results.size(); ++i) {
    out << (i ? "," : "") << "\n    {\"operation\": " << JsonString{results[i].operation}
        << ", \"bytes\": " << results[i].bytes << ", \"seconds\": " << JsonNumber{results[i].seconds}
        << ", \"algbw\": " << JsonNumber{results[i].algbw} << ", \"busbw\": " << JsonNumber{results[i].busbw}
        << ", \"ceiling_seconds\": " << JsonNumber{results[i].ceilingSeconds}
        << ", \"ceiling_bytes_per_second\": " << JsonNumber{results[i].ceilingRate}
        << (results[i].peerSeconds != 0 ? ", \"mpi_seconds\": " : "");
    if (results[i].peerSeconds != 0)
      out << JsonNumber{results[i].peerSeconds};
    out << "}";
  }
  out << "\n  ]\n}\n";
}

} // namespace

std::vector<std::string> collectiveNames() {
  std::vector<std::string> names;
  for (const Operation &operation : operations)
    names.emplace_back(operation.name);
  return names;
}

Expected<std::vector<CollectiveResult>> measureCollectives(const CollectiveBenchOptions &options) {
  if (options.devices < 2 || options.rounds == 0)
    return makeError(Status::Usage, "collectives expect at least two devices and one round, got ", options.devices,
                     " and ", options.rounds);
  std::vector<CollectiveResult> results;
  for (const std::string &name : options.operations.empty() ? collectiveNames() : options.operations) {
    auto operation = std::ranges::find(operations, name, &Operation::name);
    if (operation == operations.end())
      return makeError(Status::Usage, "\"", name, "\" is not a collective that is measured");
    for (uint64_t bytes : options.sizes) {
      if (bytes == 0 || bytes % (sizeof(float) * options.devices) != 0)
        return makeError(Status::Usage, "expects sizes that ", options.devices, " devices can share in whole f32, got ",
                         bytes, " bytes");
      auto result = measure(*operation, bytes, options);
      if (!result)
        return result.error();
      results.push_back(std::move(*result));
    }
  }
  return results;
}

int runCollectiveBench(const CollectiveBenchOptions &options, std::ostream &out, std::ostream &err) {
  auto results = measureCollectives(options);
  Error error = results.error();
  bool isFirst = !options.processes || options.processes->rank() == 0;
  if (!error && isFirst) {
    if (options.jsonFile != "-")
      print(*results, options, out);
    if (!options.jsonFile.empty())
      error = replaceTextFile(options.jsonFile, [&](std::ostream &file) { writeJson(*results, options, file); });
  }
  if (error && isFirst)
    err << error.report();
  return static_cast<int>(error.status());
}

} // namespace cleave::runtime
