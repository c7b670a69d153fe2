// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A side is what one device would be: a thread with its team, its kernels and its memory.

#include "runtime/profile/KernelTimer.h"

#include "runtime/Generator.h"
#include "runtime/drivers/cpu/ComputeTeam.h"
#include "runtime/drivers/cpu/CoreSet.h"
#include "runtime/drivers/cpu/CpuArena.h"
#include "runtime/drivers/cpu/CpuExecutable.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>
#include <thread>

namespace cleave::runtime {
namespace {

/// Kernels take turns in several rounds, so that a slow moment of the machine falls on a part of a kernel's samples.
constexpr size_t rounds = 3, warmups = 2, fewestSamples = 5, mostSamples = 40;
constexpr double enoughSeconds = 0.01;
/// Copies of operands take no more than this, but at least two are made.
constexpr uint64_t mostBytes = uint64_t(1) << 30;

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

constexpr size_t chunkBytes = 1 << 14, patternBytes = 16 * chunkBytes;

/// What operands hold: numbers as a normalized layer makes them, of both signs, because kernels that choose by values
/// take longer where these change; 0 where they may be indices.
std::span<const std::byte> patternOf(ElementType element) {
  static const std::vector<std::vector<std::byte>> patterns = [] {
    std::vector<std::vector<std::byte>> made;
    for (unsigned number = 0; number != numElementTypes; ++number) {
      made.emplace_back(patternBytes);
      auto type = static_cast<ElementType>(number);
      if (isFloatingPoint(type))
        generate({Distribution::Normal, 0, 1, 1}, type, made.back());
    }
    return made;
  }();
  return patterns[static_cast<size_t>(element)];
}

/// Fills with the pattern; what is large enough, by all threads of the team, as a kernel would write it.
void fill(ElementType element, std::byte *to, uint64_t bytes) {
  static constexpr uint64_t worthATeam = 1 << 16;
  std::span<const std::byte> pattern = patternOf(element);
  auto chunks = static_cast<int64_t>((bytes + chunkBytes - 1) / chunkBytes);
#pragma omp parallel for schedule(static) if (bytes >= worthATeam)
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    uint64_t begin = static_cast<uint64_t>(chunk) * chunkBytes;
    std::memcpy(to + begin, pattern.data() + begin % patternBytes, std::min<uint64_t>(chunkBytes, bytes - begin));
  }
}

/// What a side's kernels are timed on, kept from one to the next: numbers that are only read, and bytes that are
/// written.
class OperandMemory {
public:
  /// At least so many bytes of numbers as patternOf has them for f32.
  Expected<std::byte *> numbers(uint64_t bytes) { return reserve(readOnly, bytes); }
  Expected<std::byte *> written(uint64_t bytes) { return reserve(changing, bytes); }

private:
  static Expected<std::byte *> reserve(CpuArena &arena, uint64_t bytes) {
    if (arena.bytes().size() < bytes) {
      arena = CpuArena();
      auto made = CpuArena::allocate(std::bit_ceil(bytes));
      if (!made)
        return made.error();
      arena = std::move(*made);
      // So that no page is touched for the first time while a kernel is timed.
      fill(ElementType::F32, arena.bytes().data(), arena.bytes().size());
    }
    return arena.bytes().data();
  }

  CpuArena readOnly, changing;
};

/// One use's operands: several copies of what lasts, and several of what passes.
class Operands {
public:
  static Expected<Operands> make(const Kernel &kernel, const KernelUse &use, OperandMemory &memory) {
    Operands operands(kernel, use);
    operands.layOut();
    for (bool written : {false, true}) {
      uint64_t bytes = padded(1);
      for (bool lasts : {false, true}) {
        operands.begins[lasts][written] = bytes;
        bytes += operands.copies[lasts] * operands.strides[lasts][written];
      }
      auto reserved = written ? memory.written(bytes) : memory.numbers(bytes);
      if (!reserved)
        return reserved.error();
      operands.memory[written] = *reserved;
    }
    for (uint64_t turn = 0; turn != std::max(operands.copies[0], operands.copies[1]); ++turn)
      operands.fillArguments(turn, /*all=*/true);
    return operands;
  }

  /// The addresses of a turn's arguments, of which those that are warm in a step have been written just now.
  void *const *prepare(uint64_t turn) {
    fillArguments(turn, /*all=*/false);
    for (size_t i = 0; i != use->arguments.size(); ++i)
      addresses[i] = address(turn, i);
    return addresses.data();
  }

private:
  Operands(const Kernel &kernel, const KernelUse &use)
      : kernel(&kernel), use(&use), isWritten(use.blocks.size()), addresses(use.arguments.size()) {}

  static uint64_t padded(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

  ElementType elementOf(size_t argument) const {
    size_t inputs = kernel->inputs.size();
    if (argument < inputs)
      return kernel->inputs[argument].element;
    argument -= inputs;
    return argument < kernel->outputs.size() ? kernel->outputs[argument].element : ElementType::U8;
  }

  /// Which blocks are written, where they begin in a copy, and how many copies there are.
  void layOut() {
    for (size_t i = 0; i != use->arguments.size(); ++i)
      if (i >= kernel->inputs.size() || elementOf(i) != ElementType::F32)
        isWritten[use->arguments[i].block] = true;
    for (size_t i = 0; i != use->blocks.size(); ++i) {
      uint64_t &stride = strides[use->blocks[i].lasts][isWritten[i]];
      starts.push_back(stride);
      stride += padded(use->blocks[i].bytes);
    }
    for (bool lasts : {false, true}) {
      uint64_t bytes = strides[lasts][0] + strides[lasts][1];
      uint64_t distance = lasts ? use->lastingDistance : use->passingDistance;
      if (bytes)
        copies[lasts] =
            std::clamp<uint64_t>((distance + bytes - 1) / bytes, 1, std::clamp<uint64_t>(mostBytes / bytes, 2, 4096));
    }
  }

  std::byte *address(uint64_t turn, size_t argument) const {
    const KernelUse::Argument &place = use->arguments[argument];
    bool lasts = use->blocks[place.block].lasts, written = isWritten[place.block];
    return memory[written] + begins[lasts][written] + turn % copies[lasts] * strides[lasts][written] +
           starts[place.block] + place.offset;
  }

  /// Fills what is warm; with `all`, the inputs that are not numbers of the memory yet. Inputs last: those that share
  /// bytes with an output have their values.
  void fillArguments(uint64_t turn, bool all) {
    for (size_t i = use->arguments.size(); i-- != 0;) {
      const KernelUse::Argument &argument = use->arguments[i];
      if (all ? i < kernel->inputs.size() && isWritten[argument.block] : argument.isWarm)
        fill(elementOf(i), address(turn, i), argument.bytes);
    }
  }

  const Kernel *kernel;
  const KernelUse *use;
  std::vector<bool> isWritten;  ///< by block
  std::vector<uint64_t> starts; ///< by block, in its copy
  // By whether they last, and whether they are written.
  uint64_t strides[2][2] = {}, begins[2][2] = {}, copies[2] = {1, 1};
  std::byte *memory[2] = {};
  std::vector<void *> addresses;
};

/// What one device would be.
struct Side {
  CoreSet cores; ///< none: any
  /// Of the team's threads, as in a step: the system may put two of them on one core. None: any.
  CoreSet places;
  unsigned threads = 1;
  std::unique_ptr<CpuExecutable> executable;

  /// Runs work on the side's cores.
  template <typename Work> std::thread run(Work work) const {
    return std::thread([this, work = std::move(work)] {
      stayOn(cores);
      ComputeTeam team(threads, places, cores.empty() ? availableCores() : cores);
      work(team);
    });
  }
};

/// Seconds of calls with no other device at work, and with all of them.
struct KernelSamples {
  std::vector<double> alone, busy;

  KernelTime time(const std::string &name) const {
    double one = medianOf(alone);
    return {one, busy.empty() ? one : std::max(one, medianOf(busy)), name};
  }

private:
  static double medianOf(std::vector<double> seconds) {
    std::ranges::sort(seconds);
    return seconds[seconds.size() / 2];
  }
};

class KernelTimer {
public:
  /// Memory for each device.
  KernelTimer(const Plan &plan, const Program &program, std::span<OperandMemory> memory, unsigned threads)
      : plan(plan), program(program), memory(memory), libraries(plan) {
    const size_t devices = memory.size();
    CoreSet all = availableCores();
    for (size_t i = 0; i != devices; ++i) {
      Side &side = sides.emplace_back();
      side.threads = threads;
      if (devices > 1 && devices * threads <= all.size())
        side.cores.assign(all.begin() + static_cast<ptrdiff_t>(i * threads),
                          all.begin() + static_cast<ptrdiff_t>((i + 1) * threads));
      // Of a single device, too, where it takes all cores.
      side.places = devices == 1 && threads == all.size() ? all : side.cores;
    }
  }

  Error load() {
    Error error;
    for (Side &side : sides) {
      side.run([&](ComputeTeam &) {
            const Program *const one = &program;
            auto loaded = CpuExecutable::load(plan, std::span(&one, 1), libraries, side.threads);
            if (loaded)
              side.executable = std::move(*loaded);
            else
              error = loaded.error();
          })
          .join();
      if (error)
        return error;
    }
    return Error::success();
  }

  /// Another round of a use.
  Error sample(const KernelUse &use, KernelSamples &samples) {
    if (Error error = measure(use, 1, samples.alone))
      return error;
    return sides.size() == 1 ? Error::success() : measure(use, sides.size(), samples.busy);
  }

private:
  /// Adds the first side's calls while `count` sides call.
  Error measure(const KernelUse &use, size_t count, std::vector<double> &samples) {
    std::vector<Error> errors(count);
    bool isMeasured = false;
    std::atomic<size_t> ready = 0;
    std::atomic<bool> over = false;
    std::vector<std::thread> running;
    for (size_t i = 0; i != count; ++i)
      running.push_back(sides[i].run([&, i](ComputeTeam &team) {
        auto operands = Operands::make(plan->kernels[use.kernel], use, memory[i]);
        errors[i] = operands.error();
        for (++ready; ready != count;)
          std::this_thread::yield();
        std::vector<double> own;
        if (operands)
          own = callKernel(*sides[i].executable, use, *operands, team, i == 0 ? nullptr : &over);
        if (i == 0) {
          over = true;
          isMeasured = !own.empty();
          samples.insert(samples.end(), own.begin(), own.end());
        }
      }));
    for (std::thread &thread : running)
      thread.join();
    for (const Error &error : errors)
      if (error)
        return error;
    if (!isMeasured)
      return makeError(Status::Failure, "kernel \"", plan->kernels[use.kernel].name, "\" cannot be measured");
    return Error::success();
  }

  /// Calls until there are enough samples, or until `over`.
  static std::vector<double> callKernel(CpuExecutable &executable, const KernelUse &use, Operands &operands,
                                        ComputeTeam &team, const std::atomic<bool> *over) {
    std::vector<double> samples;
    double total = 0;
    for (uint64_t turn = 0;
         over ? !*over : samples.size() < fewestSamples || (total < enoughSeconds && samples.size() < mostSamples);
         ++turn) {
      void *const *arguments = operands.prepare(turn);
      team.settle();
      auto begin = Clock::now();
      if (executable.call(use.kernel, arguments))
        return {};
      double seconds = secondsSince(begin);
      if (turn >= warmups)
        samples.push_back(seconds);
      total += seconds;
    }
    return samples;
  }

  const Plan &plan;
  const Program &program;
  std::span<OperandMemory> memory;
  NativeLibraries libraries;
  std::vector<Side> sides;
};

} // namespace

Error profileKernels(const Plan &plan, const Entry &entry, size_t devices, unsigned cores, Profile &profile,
                     const std::function<void(size_t, size_t)> &progress) {
  struct Missing {
    KernelUse use;
    KernelTimer *timer;
    KernelSamples samples;
  };
  std::vector<OperandMemory> memory(devices);
  std::vector<std::unique_ptr<KernelTimer>> timers;
  std::map<uint64_t, Missing> missing;
  for (const Program &program : entry.programs) {
    auto timer = std::make_unique<KernelTimer>(plan, program, memory, cores);
    size_t before = missing.size();
    for (KernelUse &use : kernelUsesOf(program, cores))
      if (uint64_t key = Profile::keyOf(use.signature(*plan), devices, cores); !profile.kernel(key))
        missing.try_emplace(key, std::move(use), timer.get());
    if (missing.size() == before)
      continue;
    if (Error error = timer->load())
      return error;
    timers.push_back(std::move(timer));
  }
  size_t done = 0;
  for (size_t round = 0; round != rounds; ++round)
    for (auto &[key, one] : missing) {
      if (Error error = one.timer->sample(one.use, one.samples))
        return error.atNode(one.use.instruction->node);
      if (progress && ++done % rounds == 0)
        progress(done / rounds, missing.size());
    }
  for (auto &[key, one] : missing)
    profile.setKernel(key, one.samples.time(plan->kernels[one.use.kernel].name));
  return Error::success();
}

} // namespace cleave::runtime
