// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// NAME-replay [--seconds S] [--memory MIB] [--keep-going] MUTATIONS SEED PATH...: gives a fuzzer the files at the
// paths, of folders all of theirs, and then as many mutations of them, each of one to four steps; the i-th is made from
// seed SEED + i. Stands in for libFuzzer where only known cases are wanted, or where the compiler has no libFuzzer: it
// knows nothing of coverage.
//
// A process of its own takes the inputs, and another watches it: one that crashes, takes more than S seconds of a
// core's time, or six times as long in all, or more memory than MIB is written to a file and ends the run; with
// --keep-going the rest follows in a new process.

#include "Mutation.h"
#include "Outcome.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

extern "C" {
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
__attribute__((weak)) int LLVMFuzzerInitialize(int *argc, char ***argv);
__attribute__((weak)) size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);
}

using namespace cleave::fuzz;

namespace {

using Clock = std::chrono::steady_clock;

struct Limits {
  double seconds = 60;
  uint64_t mebibytes = 4096;
  bool keepsGoing = false;
};

/// The largest of something, and the input that it belongs to.
struct Most {
  double value = 0;
  uint64_t input = 0;

  void add(double other, uint64_t number) {
    if (other > value)
      *this = {other, number};
  }
};

/// What both processes see; the input's bytes follow it.
struct Watched {
  std::atomic<uint64_t> input = 0;
  std::atomic<int64_t> begin = 0; ///< of the input, in the clock's nanoseconds; 0: none is being taken
  std::atomic<double> before = 0; ///< seconds that the process had computed then
  std::atomic<uint64_t> size = 0;
  Most slowest, largest;
  OutcomeCounts outcomes = {};

  uint8_t *bytes() { return reinterpret_cast<uint8_t *>(this + 1); }
};

int64_t nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

/// A number of /proc/PID/status, in KiB; 0 where there is none.
uint64_t memoryOf(pid_t process, std::string_view key) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key))
      return std::strtoull(line.c_str() + key.size() + 1, nullptr, 10);
  return 0;
}

/// The seconds that a process has computed, all threads together.
double processorSeconds(pid_t process) {
  std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
  std::string text((std::istreambuf_iterator<char>(stat)), {});
  // The name, which may hold anything, ends at the last parenthesis; times are the 12th and 13th word after it.
  std::istringstream words(text.substr(text.find_last_of(')') + 1));
  std::string word;
  double ticks = 0;
  for (int i = 1; i <= 13 && words >> word; ++i)
    if (i >= 12)
      ticks += std::stod(word);
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

/// So that the peak is that of the next input alone.
void forgetPeakMemory() { std::ofstream("/proc/self/clear_refs") << 5; }

size_t mutate(std::vector<uint8_t> &file, size_t size, Random &random) {
  if (LLVMFuzzerCustomMutator)
    return LLVMFuzzerCustomMutator(file.data(), size, file.size(), static_cast<unsigned>(random.below(1u << 31)));
  return mutateBytes(file.data(), size, file.size(), random);
}

class Replay {
public:
  Replay(std::vector<std::vector<uint8_t>> files, uint64_t mutations, uint64_t seed, const Limits &limits)
      : files(std::move(files)), total(this->files.size() + mutations), seed(seed), limits(limits) {
    size_t longest = 0;
    for (const std::vector<uint8_t> &file : this->files)
      longest = std::max(longest, roomFor(file));
    void *memory = mmap(nullptr, sizeof(Watched) + longest, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      throw std::bad_alloc();
    watched = new (memory) Watched;
    outcomeCounts = &watched->outcomes;
  }

  /// How many inputs failed.
  uint64_t run() {
    uint64_t failed = 0;
    for (uint64_t next = 0; next != total;) {
      watched->begin = 0; // one that was killed has left its own
      watched->input = next;
      pid_t process = fork();
      if (process < 0)
        throw std::runtime_error("cannot start a process");
      if (process == 0)
        take(next);
      if (const char *reason = watch(process)) {
        ++failed;
        keepInput(reason);
        next = limits.keepsGoing ? watched->input + 1 : total;
      } else {
        next = total;
      }
    }
    return failed;
  }

  void print() const {
    std::cout << "slowest: " << watched->slowest.value << " s of a core, " << nameOf(watched->slowest.input)
              << "; largest: " << watched->largest.value << " MiB, " << nameOf(watched->largest.input) << "\n";
    for (const OutcomeCounts::Row &row : watched->outcomes.rows)
      if (row.count != 0)
        std::cout << "  " << row.count << " " << row.name.data() << "\n";
  }

private:
  static size_t roomFor(const std::vector<uint8_t> &file) { return file.size() * 4 + 4096; }

  std::string nameOf(uint64_t input) const {
    return input < files.size() ? "file " + std::to_string(input)
                                : "seed " + std::to_string(seed + input - files.size());
  }

  std::vector<uint8_t> inputOf(uint64_t number) const {
    if (number < files.size())
      return files[number];
    Random random(seed + number - files.size());
    const std::vector<uint8_t> &original = files[random.below(files.size())];
    std::vector<uint8_t> file = original;
    file.resize(roomFor(original));
    size_t size = original.size();
    for (uint64_t steps = 1 + random.below(4); steps != 0; --steps)
      size = mutate(file, size, random);
    // A copy of that size, so that a sanitizer sees what is read behind its end.
    return {file.data(), file.data() + size};
  }

  [[noreturn]] void take(uint64_t first) {
    for (uint64_t number = first; number != total; ++number) {
      std::vector<uint8_t> input = inputOf(number);
      std::memcpy(watched->bytes(), input.data(), input.size());
      watched->size = input.size();
      watched->input = number;
      forgetPeakMemory();
      int64_t begin = nanoseconds();
      watched->before = processorSeconds(getpid());
      watched->begin = begin;
      LLVMFuzzerTestOneInput(input.data(), input.size());
      watched->begin = 0;
      watched->slowest.add(processorSeconds(getpid()) - watched->before, number);
      watched->largest.add(static_cast<double>(memoryOf(getpid(), "VmHWM:")) / 1024, number);
    }
    std::exit(0); // what the fuzzer keeps cleans up
  }

  /// Why the process ended before all inputs were taken; null where it did not.
  const char *watch(pid_t process) const {
    const char *reason = nullptr;
    auto pause = std::chrono::milliseconds(1);
    for (int status = 0;;
         std::this_thread::sleep_for(pause), pause = std::min(pause * 2, std::chrono::milliseconds(50))) {
      if (waitpid(process, &status, WNOHANG) == process)
        return reason ? reason : WIFEXITED(status) && WEXITSTATUS(status) == 0 ? nullptr : "crash";
      int64_t begin = watched->begin;
      if (begin != 0 && (processorSeconds(process) - watched->before > limits.seconds ||
                         static_cast<double>(nanoseconds() - begin) * 1e-9 > 6 * limits.seconds))
        reason = "timeout";
      else if (memoryOf(process, "VmRSS:") / 1024 > limits.mebibytes)
        reason = "memory";
      if (reason)
        kill(process, SIGKILL);
    }
  }

  void keepInput(const char *reason) const {
    std::string path = std::string(reason) + "-" + nameOf(watched->input);
    std::ranges::replace(path, ' ', '-');
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char *>(watched->bytes()), static_cast<std::streamsize>(watched->size));
    std::cout << reason << " of " << nameOf(watched->input) << ", written to " << path << std::endl;
  }

  const std::vector<std::vector<uint8_t>> files;
  const uint64_t total, seed;
  const Limits limits;
  Watched *watched = nullptr;
};

/// The files at the paths, of folders all of theirs.
std::vector<std::vector<uint8_t>> readFiles(const std::vector<std::string> &arguments) {
  std::vector<std::filesystem::path> paths;
  for (const std::string &argument : arguments)
    if (std::filesystem::is_directory(argument))
      std::copy(std::filesystem::directory_iterator(argument), {}, std::back_inserter(paths));
    else
      paths.emplace_back(argument);
  std::ranges::sort(paths); // folders have no order
  std::vector<std::vector<uint8_t>> files;
  for (const std::filesystem::path &path : paths) {
    std::ifstream stream(path, std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
    if (!stream)
      throw std::runtime_error("expected to read " + path.string());
  }
  if (files.empty())
    throw std::runtime_error("expected files, found none");
  return files;
}

} // namespace

int main(int argc, char **argv) {
  const char *program = argv[0];
  if (LLVMFuzzerInitialize)
    LLVMFuzzerInitialize(&argc, &argv);
  std::vector<std::string> words(argv + 1, argv + argc);
  try {
    Limits limits;
    auto takeNext = [&] {
      std::string word = words.empty() ? "" : words.front();
      words.erase(words.begin(), words.begin() + !words.empty());
      return word;
    };
    while (!words.empty() && words.front().starts_with("--")) {
      std::string option = takeNext();
      if (option == "--keep-going")
        limits.keepsGoing = true;
      else if (option == "--seconds")
        limits.seconds = std::stod(takeNext());
      else if (option == "--memory")
        limits.mebibytes = std::stoull(takeNext());
      else
        throw std::invalid_argument(option);
    }
    uint64_t mutations = std::stoull(takeNext()), seed = std::stoull(takeNext());
    std::vector<std::vector<uint8_t>> files = readFiles(words);
    size_t count = files.size();
    Replay replay(std::move(files), mutations, seed, limits);
    uint64_t failed = replay.run();
    std::cout << count << " files and " << mutations << " mutations, " << failed << " failed\n";
    replay.print();
    return failed != 0;
  } catch (const std::invalid_argument &) {
    std::cerr << "usage: " << program << " [--seconds S] [--memory MIB] [--keep-going] MUTATIONS SEED PATH...\n";
  } catch (const std::exception &error) {
    std::cerr << error.what() << "\n";
  }
  return 2;
}
