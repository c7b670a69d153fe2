// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Keeps what the program says in temporary files.

#include "tools/cleave/ChildRun.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"

namespace cleave::tool {

Expected<ChildRun> runChild(const std::string &program, const std::vector<std::string> &arguments) {
  llvm::SmallString<128> output, complaints;
  for (llvm::SmallString<128> *file : {&output, &complaints})
    if (std::error_code code = llvm::sys::fs::createTemporaryFile("cleave-run", "txt", *file))
      return makeError(Status::Failure, "cannot make a temporary file: ", code.message());
  llvm::FileRemover removeOutput(output), removeComplaints(complaints);
  std::vector<llvm::StringRef> words = {program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  ChildRun run;
  run.code = llvm::sys::ExecuteAndWait(program, words, std::nullopt,
                                       {llvm::StringRef(""), llvm::StringRef(output), llvm::StringRef(complaints)}, 0,
                                       0, &run.complaints);
  auto read = [](llvm::StringRef path) {
    auto buffer = llvm::MemoryBuffer::getFile(path);
    return buffer ? (*buffer)->getBuffer().trim().str() : std::string();
  };
  run.output = read(output);
  if (run.complaints.empty())
    run.complaints = read(complaints);
  return run;
}

} // namespace cleave::tool
