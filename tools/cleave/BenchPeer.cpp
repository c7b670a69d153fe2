// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Starts the script that runs a peer, and reads what it prints.

#include "tools/cleave/BenchPeer.h"

#include "tools/cleave/ChildRun.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

#include <cstdlib>
#include <optional>

namespace cleave::tool {

namespace {

/// A peer, the program that runs its script, and where else than on the path that is looked for first.
struct PeerKind {
  llvm::StringLiteral name, title, program, script;
  const char *variable, *place;
};

/// Debian's PyTorch is for Debian's Python, which need not be the first on the path.
constexpr PeerKind kinds[] = {{"onnxruntime", "ONNX Runtime", "node", "onnxruntime.mjs", nullptr, nullptr},
                              {"torch", "PyTorch", "python3", "torch_peer.py", "CLEAVE_PYTHON", "/usr/bin/python3"}};

/// The script, seen from the build folder's bin/ (build/bin/cleave) or from an installation.
std::string findScript(llvm::StringRef name) {
  static int anchor;
  llvm::SmallString<256> folder(llvm::sys::fs::getMainExecutable("cleave", &anchor));
  llvm::sys::path::remove_filename(folder);
  for (llvm::StringRef relative : {"../../tools/bench", "../share/cleave"}) {
    llvm::SmallString<256> candidate(folder);
    llvm::sys::path::append(candidate, relative, name);
    llvm::sys::path::remove_dots(candidate, /*remove_dot_dot=*/true);
    if (llvm::sys::fs::exists(candidate))
      return candidate.str().str();
  }
  return "";
}

std::string findProgram(const PeerKind &kind) {
  const char *given = kind.variable ? std::getenv(kind.variable) : nullptr;
  for (const char *place : {given, kind.place})
    if (place && llvm::sys::fs::can_execute(place))
      return place;
  auto found = llvm::sys::findProgramByName(kind.program);
  return found ? *found : "";
}

/// What a script reads, as its head says.
std::string textOf(const PeerRequest &request) {
  llvm::json::Object files, dims;
  for (const auto &[name, file] : request.inputs)
    files[name] = file;
  for (const auto &[name, size] : request.dims)
    dims[name] = size;
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(llvm::json::Object{{"model", request.model},
                                                                         {"inputs", std::move(files)},
                                                                         {"dims", std::move(dims)},
                                                                         {"threads", request.threads},
                                                                         {"repeat", request.repeat}});
  return text;
}

} // namespace

std::vector<std::string> BenchPeer::names() {
  std::vector<std::string> names;
  for (const PeerKind &kind : kinds)
    names.push_back(kind.name.str());
  return names;
}

Expected<BenchPeer> BenchPeer::create(const std::string &name, const std::string &script) {
  const PeerKind &kind = *llvm::find_if(kinds, [&](const PeerKind &known) { return known.name == name; });
  BenchPeer peer;
  peer.title = kind.title;
  peer.script = script.empty() ? findScript(kind.script) : script;
  if (peer.script.empty() || !llvm::sys::fs::exists(peer.script))
    return makeError(Status::Failure, "--against ", name, " expects the script tools/bench/", kind.script.str(),
                     ", got none", script.empty() ? "; name it with --peer-script" : " at \"" + script + "\"");
  peer.program = findProgram(kind);
  if (peer.program.empty())
    return makeError(Status::Failure, "--against ", name, " expects the program \"", kind.program.str(),
                     "\" on the path, got none; tools/setup installs it");
  return peer;
}

Expected<BenchPeer::Result> BenchPeer::measure(const PeerRequest &request) const {
  auto run = runChild(program, {script, textOf(request)});
  if (!run)
    return run.error();
  if (run->code != 0)
    return makeError(Status::Failure, title, " expects to run \"", request.model, "\", got exit code ", run->code, ": ",
                     run->complaints);
  auto parsed = llvm::json::parse(run->output);
  const llvm::json::Object *object = parsed ? parsed->getAsObject() : nullptr;
  std::optional<double> median = object ? object->getNumber("median_ms") : std::nullopt;
  if (!parsed)
    consumeError(parsed.takeError());
  if (!median)
    return makeError(Status::Failure, title, "'s script expects to answer with median_ms, got \"", run->output, "\"");
  return Result{object->getString("version").value_or("").str(), object->getString("variant").value_or("").str(),
                *median};
}

} // namespace cleave::tool
