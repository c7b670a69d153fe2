// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// YAML files of every kind, and measured profiles, into their readers; what reads goes on into the command that it is
// for, whose JSON must parse. The first line says the kind: "# machine", "# placement", "# stages", "# costs" or
// "# profile".

#include "Outcome.h"
#include "ScratchFolder.h"

#include "passes/cost/MachineFile.h"
#include "passes/cost/ProfiledCost.h"
#include "passes/planner/PlacementFile.h"
#include "runtime/Error.h"
#include "runtime/profile/Profile.h"
#include "tools/cleave/Command.h"
#include "tools/cleave/CostGraphFile.h"
#include "tools/cleave/StageFile.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

#include <cctype>
#include <cstdio>

using namespace cleave;
using fuzz::countOutcome;
using fuzz::fail;
using fuzz::ScratchFolder;

namespace {

/// Searches for more devices take long; readers take any number.
constexpr size_t mostDevicesToPlanFor = 16;

constexpr int success = 0;

int runCommand(std::vector<std::string> words) {
  words.insert(words.begin(), "cleave");
  std::vector<char *> arguments;
  for (std::string &word : words)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  int code = tool::runCommandLine(static_cast<int>(words.size()), arguments.data());
  if (code == static_cast<int>(runtime::Status::Internal))
    fail("internal error of cleave " + words[1]);
  return code;
}

/// An error of a reader begins with the file, and where it is not about the file as a whole, line and column.
template <typename T> bool isRead(llvm::Expected<T> value, const std::string &file) {
  if (value) {
    llvm::cantFail(value.takeError());
    return true;
  }
  std::string message = llvm::toString(value.takeError());
  size_t at = message.find(file + ":");
  if (at == std::string::npos || !std::isdigit(static_cast<unsigned char>(message[at + file.size() + 1])))
    fail("the message names no line of the file: " + message);
  countOutcome("refused by the reader");
  return false;
}

class YamlFuzzer {
public:
  YamlFuzzer() {
    // Commands say what they have done; what was measured of this machine is not used.
    if (!std::freopen("/dev/null", "w", stdout))
      fail("cannot leave standard output");
    setenv("CLEAVE_CACHE", std::filesystem::absolute(scratch.file("")).c_str(), 1);
    if (runCommand({"zoo", "mlp", "--layers", "2", "--inputs", "8", "--hidden", "8", "--classes", "4", "--batch", "8",
                    "-o", scratch.file("mlp.onnx")}) != success ||
        runCommand({"compile", scratch.file("mlp.onnx"), "--machine", "host:2", "--strategy", "data", "-o",
                    scratch.file("mlp.plan")}) != success)
      fail("the model cannot be made");
  }

  void take(std::string_view text) {
    std::string kind(text.substr(0, text.find('\n')));
    if (kind == "# machine")
      takeMachine(text);
    else if (kind == "# placement")
      takePlacement(text);
    else if (kind == "# stages")
      takeStages(text);
    else if (kind == "# costs")
      takeCosts(text);
    else if (kind == "# profile")
      takeProfile(text.substr(kind.size() + 1));
    else
      countOutcome("of no kind");
    scratch.expectOnly({"mlp.onnx", "mlp.plan"});
  }

private:
  /// Runs what writes `json`, which is there and parses, or not there at all. Removes it.
  bool runForJson(const std::vector<std::string> &words, const std::string &json) {
    int code = runCommand(words);
    std::string text = scratch.read(json);
    if (code != success && !text.empty())
      fail("a command that failed has written " + json);
    if (code == success) {
      auto parsed = llvm::json::parse(text);
      if (!parsed)
        fail(json + " is no JSON: " + llvm::toString(parsed.takeError()));
    }
    std::filesystem::remove(scratch.file(json));
    return code == success;
  }

  /// What commands say about a plan.
  void describe(const std::string &plan) {
    std::string file = scratch.file(plan);
    if (!runForJson({"explain", file, "--json", scratch.file("explain.json"), "-o", scratch.file("explain.txt")},
                    "explain.json"))
      fail("the plan cannot be explained");
    std::filesystem::remove(scratch.file("explain.txt"));
    runForJson({"explain", file, "--format", "json", "-o", scratch.file("explain.json")}, "explain.json");
    runForJson({"export", file, "--format", "json", "-o", scratch.file("export.json")}, "export.json");
    runForJson({"simulate", file, "--steps", "2", "--json", scratch.file("simulate.json"), "--trace",
                scratch.file("trace.json")},
               "simulate.json");
    if (std::string trace = scratch.read("trace.json"); !trace.empty())
      if (auto parsed = llvm::json::parse(trace); !parsed)
        fail("the trace is no JSON: " + llvm::toString(parsed.takeError()));
    std::filesystem::remove(scratch.file("trace.json"));
  }

  void planFor(std::vector<std::string> options) {
    std::vector<std::string> words = {"compile", scratch.file("mlp.onnx"),    "-o", scratch.file("fuzzed.plan"),
                                      "--json",  scratch.file("compile.json")};
    words.insert(words.end(), options.begin(), options.end());
    if (!runForJson(words, "compile.json"))
      return countOutcome("read; no plan");
    describe("fuzzed.plan");
    std::filesystem::remove(scratch.file("fuzzed.plan"));
    std::filesystem::remove(scratch.file("fuzzed.plan.weights"));
    countOutcome("read and planned with");
  }

  void takeMachine(std::string_view text) {
    scratch.write("machine.yaml", text);
    std::string file = scratch.file("machine.yaml");
    size_t devices = 0;
    auto machine = readMachineFile(file);
    if (machine)
      devices = machine->devices.size();
    if (isRead(std::move(machine), file)) {
      if (devices > mostDevicesToPlanFor) {
        countOutcome("read; many devices");
      } else {
        planFor({"--machine", file, "--train", "--batch", "16", "--search-seconds", "0.5"});
      }
    }
    std::filesystem::remove(file);
  }

  void takePlacement(std::string_view text) {
    scratch.write("placement.yaml", text);
    std::string file = scratch.file("placement.yaml");
    if (isRead(readPlacementFile(file), file)) {
      planFor({"--machine", "null:4", "--strategy", "place", "--place", file});
      planFor({"--machine", "v100-16g:4", "--strategy", "auto", "--train", "--batch", "16", "--place", file,
               "--search-seconds", "0.5"});
    }
    std::filesystem::remove(file);
  }

  void takeStages(std::string_view text) {
    scratch.write("stages.yaml", text);
    std::string file = scratch.file("stages.yaml");
    if (isRead(tool::readStageFile(file), file)) {
      for (const char *schedule : {"1f1b", "zb-auto"}) {
        bool done = runForJson({"schedule", "--stages", file, "--schedule", schedule, "--microbatches", "6", "--json",
                                scratch.file("schedule.json"), "-o", scratch.file("schedule.txt")},
                               "schedule.json");
        std::filesystem::remove(scratch.file("schedule.txt"));
        countOutcome(done ? "read and scheduled" : "read; no schedule");
      }
    }
    std::filesystem::remove(file);
  }

  void takeCosts(std::string_view text) {
    scratch.write("costs.yaml", text);
    std::string file = scratch.file("costs.yaml");
    if (isRead(tool::readCostGraph(file), file)) {
      bool done = runForJson({"partition", file, "--machine", "v100-16g:4", "--microbatches", "4", "--json",
                              scratch.file("partition.json")},
                             "partition.json");
      countOutcome(done ? "read and partitioned" : "read; not partitioned");
    }
    std::filesystem::remove(file);
  }

  void takeProfile(std::string_view text) {
    std::string file = hostProfileFile(), name = std::filesystem::path(file).filename();
    scratch.write(name, text);
    auto profile = runtime::Profile::read(file);
    if (!profile && profile.error().message().find(name + "\":") == std::string::npos)
      fail("the message names no line of the file: " + profile.error().message());
    countOutcome(profile ? "read: a profile" : "refused by the reader");
    // One that is damaged is noted, and not used.
    describe("mlp.plan");
    std::filesystem::remove(file);
  }

  ScratchFolder scratch{"fuzzed-yaml"};
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static YamlFuzzer fuzzer;
  fuzzer.take({reinterpret_cast<const char *>(data), size});
  return 0;
}
