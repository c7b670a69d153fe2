// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checkpoints from which training goes on: a manifest, and after its line "checksum" the tensors. Where the first line
// is "sealed", checksums are made to fit what they are of, so that mutations get past them.

#include "Outcome.h"
#include "ScratchFolder.h"

#include "runtime/Error.h"
#include "runtime/training/Manifest.h"
#include "tools/cleave/Command.h"

#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

#include <charconv>
#include <cstdio>
#include <cstring>
#include <sstream>

using namespace cleave;
using fuzz::countOutcome;
using fuzz::fail;
using fuzz::ScratchFolder;

namespace {

int runCommand(std::vector<std::string> words) {
  words.insert(words.begin(), "cleave");
  std::vector<char *> arguments;
  for (std::string &word : words)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  return tool::runCommandLine(static_cast<int>(words.size()), arguments.data());
}

std::string sumOf(std::string_view bytes) {
  runtime::Fnv1a sum;
  sum.add(std::as_bytes(std::span(bytes)));
  std::ostringstream text;
  text << std::hex << sum.value();
  return text.str();
}

/// The manifest's lines with the size and the checksum of the tensors, and its own at the end.
std::string sealed(std::string_view manifest, std::string_view tensors) {
  std::string text;
  while (!manifest.empty()) {
    std::string_view line = manifest.substr(0, manifest.find('\n'));
    manifest.remove_prefix(std::min(manifest.size(), line.size() + 1));
    if (line.starts_with("tensors "))
      text += "tensors " + std::to_string(tensors.size()) + " " + sumOf(tensors) + "\n";
    else
      text += std::string(line) + "\n";
  }
  return text + "checksum " + sumOf(text) + "\n";
}

/// An IDX file: bytes that count up to `period`.
std::string idx(std::initializer_list<unsigned> shape, unsigned period) {
  std::string bytes = {0, 0, 8, static_cast<char>(shape.size())};
  unsigned count = 1;
  for (unsigned size : shape) {
    bytes += {0, 0, 0, static_cast<char>(size)};
    count *= size;
  }
  for (unsigned i = 0; i != count; ++i)
    bytes += static_cast<char>(i * 7 % period);
  return bytes;
}

class CheckpointFuzzer {
public:
  CheckpointFuzzer() {
    if (!std::freopen("/dev/null", "w", stdout))
      fail("cannot leave standard output");
    scratch.write("input.idx", idx({20, 8}, 256));
    scratch.write("labels.idx", idx({20}, 4));
    if (runCommand({"zoo", "mlp", "--layers", "2", "--inputs", "8", "--hidden", "8", "--classes", "4", "--batch", "8",
                    "-o", scratch.file("mlp.onnx")}) != 0 ||
        runCommand({"compile", scratch.file("mlp.onnx"), "--machine", "host:1x1", "--strategy", "single", "--train",
                    "--loss", "cross-entropy", "-o", scratch.file("mlp.plan")}) != 0)
      fail("the plan cannot be made");
  }

  void take(std::string_view text) {
    bool seals = text.starts_with("sealed\n");
    text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
    size_t at = text.find("\nchecksum ");
    size_t head = at == std::string_view::npos ? text.size() : at + 1;
    size_t body = at == std::string_view::npos ? text.size() : std::min(text.find('\n', head), text.size() - 1) + 1;
    std::string_view tensors = text.substr(body);
    scratch.write("run/step-3/tensors", tensors);
    scratch.write("run/step-3/manifest",
                  seals ? sealed(text.substr(0, head), tensors) : std::string(text.substr(0, body)));
    resume();
    std::filesystem::remove_all(scratch.file("run"));
  }

private:
  void resume() {
    int code = runCommand({"train",
                           scratch.file("mlp.plan"),
                           "--trust-plan",
                           "--data",
                           "@0=" + scratch.file("input.idx"),
                           "--data",
                           "@1=" + scratch.file("labels.idx"),
                           "--eval",
                           "@0=" + scratch.file("input.idx"),
                           "--eval",
                           "@1=" + scratch.file("labels.idx"),
                           "--epochs",
                           "3",
                           "--steps",
                           "5",
                           "--checkpoint",
                           scratch.file("run"),
                           "--resume",
                           "--json",
                           scratch.file("train.json"),
                           "--json-steps"});
    if (code == static_cast<int>(runtime::Status::Internal))
      fail("internal error");
    std::string json = scratch.read("train.json");
    if (!json.empty())
      if (auto parsed = llvm::json::parse(json); !parsed)
        fail("the report is no JSON: " + llvm::toString(parsed.takeError()));
    std::filesystem::remove(scratch.file("train.json"));
    // Each checkpoint is whole, and nothing else is there.
    for (const auto &entry : std::filesystem::directory_iterator(scratch.file("run")))
      if (!entry.path().filename().string().starts_with("step-") ||
          !std::filesystem::exists(entry.path() / "manifest") || !std::filesystem::exists(entry.path() / "tensors"))
        fail("what is no checkpoint is left behind: " + entry.path().string());
    countOutcome(code == 0 ? "training went on" : "refused, or it ended");
  }

  ScratchFolder scratch{"fuzzed-checkpoint"};
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static CheckpointFuzzer fuzzer;
  if (size != 0)
    fuzzer.take({reinterpret_cast<const char *>(data), size});
  return 0;
}
