// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A side is what one device would be: a thread with its team, its kernels and its memory.

#include "runtime/profile/KernelTimer.h"

#include "runtime/Generator.h"
#include "runtime/drivers/cpu/CoreSet.h"
#include "runtime/drivers/cpu/CpuArena.h"
#include "runtime/drivers/cpu/CpuExecutable.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <omp.h>
#include <thread>

namespace cleave::runtime {
namespace {

constexpr size_t warmups = 3, fewestSamples = 7, mostSamples = 40;
constexpr double enoughSeconds = 0.03;
/// Copies of operands take no more than this, but at least two are made.
constexpr uint64_t mostBytes = uint64_t(1) << 30;

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

constexpr size_t chunkBytes = 4096, patternBytes = 64 * chunkBytes;

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

/// One use's operands: several copies of what lasts, and several of what passes.
class Operands {
public:
  static Expected<Operands> make(const Kernel &kernel, const KernelUse &use) {
    Operands operands(kernel, use);
    uint64_t lasting = 0, passing = 0;
    for (const KernelUse::Block &block : use.blocks)
      (block.lasts ? lasting : passing) += padded(block.bytes);
    operands.lastingStride = lasting;
    operands.passingStride = passing;
    operands.lastingCopies = copies(lasting, use.lastingDistance);
    operands.passingCopies = copies(passing, use.passingDistance);
    auto memory = CpuArena::allocate(operands.lastingCopies * lasting + operands.passingCopies * passing + padded(1));
    if (!memory)
      return memory.error();
    operands.memory = std::move(*memory);
    for (uint64_t turn = 0; turn != std::max(operands.lastingCopies, operands.passingCopies); ++turn)
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
  Operands(const Kernel &kernel, const KernelUse &use) : kernel(&kernel), use(&use), addresses(use.arguments.size()) {
    std::array<uint64_t, 2> at = {};
    for (const KernelUse::Block &block : use.blocks) {
      starts.push_back(at[block.lasts]);
      at[block.lasts] += padded(block.bytes);
    }
  }

  static uint64_t padded(uint64_t bytes) { return (bytes + 63) / 64 * 64; }
  static uint64_t copies(uint64_t bytes, uint64_t footprint) {
    if (bytes == 0)
      return 1;
    uint64_t most = std::max<uint64_t>(2, mostBytes / bytes);
    return std::clamp<uint64_t>((footprint + bytes - 1) / bytes, 1, std::min<uint64_t>(most, 4096));
  }

  std::byte *address(uint64_t turn, size_t argument) const {
    const KernelUse::Argument &place = use->arguments[argument];
    bool lasts = use->blocks[place.block].lasts;
    uint64_t copy = lasts ? turn % lastingCopies * lastingStride
                          : lastingCopies * lastingStride + turn % passingCopies * passingStride;
    return memory.bytes().data() + copy + starts[place.block] + place.offset;
  }

  /// Inputs last: those that share bytes with an output have their values.
  void fillArguments(uint64_t turn, bool all) {
    size_t inputs = kernel->inputs.size();
    for (size_t i = use->arguments.size(); i-- != 0;) {
      if (!all && !use->arguments[i].isWarm)
        continue;
      bool isOutput = i >= inputs && i - inputs < kernel->outputs.size();
      ElementType element = i < inputs ? kernel->inputs[i].element
                            : isOutput ? kernel->outputs[i - inputs].element
                                       : ElementType::U8;
      fill(element, address(turn, i), use->arguments[i].bytes);
    }
  }

  const Kernel *kernel;
  const KernelUse *use;
  std::vector<uint64_t> starts; ///< by block, in its copy
  uint64_t lastingStride = 0, passingStride = 0, lastingCopies = 1, passingCopies = 1;
  CpuArena memory;
  std::vector<void *> addresses;
};

/// What one device would be.
struct Side {
  CoreSet cores; ///< none: any
  unsigned threads = 1;
  std::unique_ptr<CpuExecutable> executable;

  /// Runs work on the side's cores.
  template <typename Work> std::thread run(Work work) const {
    return std::thread([this, work = std::move(work)] {
      stayOn(cores);
      omp_set_num_threads(static_cast<int>(threads));
      work();
    });
  }
};

class KernelTimer {
public:
  KernelTimer(const Plan &plan, const Program &program, size_t devices, unsigned threads)
      : plan(plan), program(program), libraries(plan) {
    CoreSet all = availableCores();
    for (size_t i = 0; i != devices; ++i) {
      Side &side = sides.emplace_back();
      side.threads = threads;
      if (devices > 1 && devices * threads <= all.size())
        side.cores.assign(all.begin() + static_cast<ptrdiff_t>(i * threads),
                          all.begin() + static_cast<ptrdiff_t>((i + 1) * threads));
    }
  }

  Error load() {
    Error error;
    for (Side &side : sides) {
      side.run([&] {
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

  Expected<KernelTime> time(const KernelUse &use) {
    const Kernel &kernel = plan->kernels[use.kernel];
    KernelTime result{0, 0, kernel.name};
    auto alone = measure(use, 1);
    if (!alone)
      return alone.error();
    result.alone = result.busy = *alone;
    if (sides.size() == 1)
      return result;
    auto busy = measure(use, sides.size());
    if (!busy)
      return busy.error();
    result.busy = std::max(*alone, *busy);
    return result;
  }

private:
  /// The median of the first side's calls while `count` sides call.
  Expected<double> measure(const KernelUse &use, size_t count) {
    std::vector<Error> errors(count);
    std::vector<double> samples;
    std::atomic<size_t> ready = 0;
    std::atomic<bool> over = false;
    std::vector<std::thread> running;
    for (size_t i = 0; i != count; ++i)
      running.push_back(sides[i].run([&, i] {
        auto operands = Operands::make(plan->kernels[use.kernel], use);
        errors[i] = operands.error();
        for (++ready; ready != count;)
          std::this_thread::yield();
        std::vector<double> own;
        if (operands)
          own = sample(*sides[i].executable, use, *operands, i == 0 ? nullptr : &over);
        if (i == 0) {
          over = true;
          samples = std::move(own);
        }
      }));
    for (std::thread &thread : running)
      thread.join();
    for (const Error &error : errors)
      if (error)
        return error;
    if (samples.empty())
      return makeError(Status::Failure, "kernel \"", plan->kernels[use.kernel].name, "\" cannot be measured");
    std::ranges::sort(samples);
    return samples[samples.size() / 2];
  }

  /// Calls until there are enough samples, or until `over`.
  static std::vector<double> sample(CpuExecutable &executable, const KernelUse &use, Operands &operands,
                                    const std::atomic<bool> *over) {
    std::vector<double> samples;
    double total = 0;
    for (uint64_t turn = 0;
         over ? !*over : samples.size() < fewestSamples || (total < enoughSeconds && samples.size() < mostSamples);
         ++turn) {
      void *const *arguments = operands.prepare(turn);
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
  NativeLibraries libraries;
  std::vector<Side> sides;
};

} // namespace

Error profileKernels(const Plan &plan, const Entry &entry, size_t devices, unsigned cores, Profile &profile,
                     const std::function<void(size_t, size_t)> &progress) {
  struct Missing {
    const Program *program;
    std::map<uint64_t, KernelUse> uses;
  };
  std::vector<Missing> missing;
  size_t total = 0, done = 0;
  std::set<uint64_t> seen;
  for (const Program &program : entry.programs) {
    Missing &here = missing.emplace_back(Missing{&program, {}});
    for (KernelUse &use : kernelUsesOf(*plan, program, cores))
      if (uint64_t key = Profile::keyOf(use.signature(*plan), devices, cores);
          !profile.kernel(key) && seen.insert(key).second)
        here.uses.emplace(key, std::move(use));
    total += here.uses.size();
  }
  for (const Missing &here : missing) {
    if (here.uses.empty())
      continue;
    KernelTimer timer(plan, *here.program, devices, cores);
    if (Error error = timer.load())
      return error;
    for (const auto &[key, use] : here.uses) {
      auto time = timer.time(use);
      if (!time)
        return time.error().atNode(use.instruction->node);
      profile.setKernel(key, *time);
      if (progress)
        progress(++done, total);
    }
  }
  return Error::success();
}

} // namespace cleave::runtime
