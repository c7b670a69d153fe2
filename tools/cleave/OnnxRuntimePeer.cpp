// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Starts node with the script that runs ONNX Runtime, and reads what it prints.

#include "tools/cleave/OnnxRuntimePeer.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

#include <optional>

using namespace llvm;

namespace cleave::tool {

/// The script, seen from the build folder's bin/ (build/bin/cleave) or from an installation.
static std::string findScript() {
  static int anchor;
  SmallString<256> folder(sys::fs::getMainExecutable("cleave", &anchor));
  sys::path::remove_filename(folder);
  for (StringRef relative : {"../../tools/bench", "../share/cleave"}) {
    SmallString<256> candidate(folder);
    sys::path::append(candidate, relative, "onnxruntime.mjs");
    sys::path::remove_dots(candidate, /*remove_dot_dot=*/true);
    if (sys::fs::exists(candidate))
      return candidate.str().str();
  }
  return "";
}

Expected<OnnxRuntimePeer> OnnxRuntimePeer::create(const std::string &script) {
  OnnxRuntimePeer peer;
  peer.script = script.empty() ? findScript() : script;
  if (peer.script.empty() || !sys::fs::exists(peer.script))
    return makeError(Status::Failure, "--against onnxruntime expects the script tools/bench/onnxruntime.mjs, got none",
                     script.empty() ? "; name it with --peer-script" : " at \"" + script + "\"");
  auto node = sys::findProgramByName("node");
  if (!node)
    return makeError(Status::Failure, "--against onnxruntime expects the program \"node\" on the path, got none; "
                                      "tools/setup installs it");
  peer.node = *node;
  return peer;
}

Expected<OnnxRuntimePeer::Result> OnnxRuntimePeer::measure(const std::string &model,
                                                           const std::map<std::string, std::string> &inputs,
                                                           unsigned threads, unsigned repeat) const {
  SmallString<128> answer, complaints;
  for (SmallString<128> *file : {&answer, &complaints})
    if (std::error_code code = sys::fs::createTemporaryFile("cleave-bench", "txt", *file))
      return makeError(Status::Failure, "cannot make a temporary file: ", code.message());
  FileRemover removeAnswer(answer), removeComplaints(complaints);
  json::Object files;
  for (const auto &[name, file] : inputs)
    files[name] = file;
  std::string request;
  raw_string_ostream(request) << json::Value(
      json::Object{{"model", model}, {"inputs", std::move(files)}, {"threads", threads}, {"repeat", repeat}});
  std::string message;
  int code = sys::ExecuteAndWait(node, {node, script, request}, std::nullopt,
                                 {StringRef(""), StringRef(answer), StringRef(complaints)}, 0, 0, &message);
  auto read = [](StringRef path) {
    auto buffer = MemoryBuffer::getFile(path);
    return buffer ? (*buffer)->getBuffer().trim().str() : std::string();
  };
  if (code != 0)
    return makeError(Status::Failure, "ONNX Runtime expects to run \"", model, "\", got exit code ", code, ": ",
                     message.empty() ? read(complaints) : message);
  auto parsed = json::parse(read(answer));
  const json::Object *object = parsed ? parsed->getAsObject() : nullptr;
  std::optional<double> median = object ? object->getNumber("median_ms") : std::nullopt;
  if (!parsed)
    consumeError(parsed.takeError());
  if (!median)
    return makeError(Status::Failure, "ONNX Runtime's script expects to answer with median_ms, got \"", read(answer),
                     "\"");
  return Result{object->getString("version").value_or("").str(), *median};
}

} // namespace cleave::tool
