// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Imports damaged copies of a model: cut at every length, and with every byte changed in one of four ways, by turns, or
// with --all in all of them. None may crash or pass as something that MLIR's verifier does not accept; how many were
// rejected is printed.
//
//   damaged-models MODEL COPY [--all]

#include "dialects/dfg/Dfg.h"
#include "passes/import/Import.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <array>

using namespace cleave;
using namespace mlir;

/// 0 where the copy imports, else the failure's exit code.
static int importBytes(MLIRContext &context, const std::string &path, StringRef bytes) {
  std::error_code error;
  {
    llvm::raw_fd_ostream stream(path, error);
    stream << bytes;
  }
  ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
  WeightsStore weights;
  ImportReport report;
  auto module = importOnnx(context, path, ImportOptions(), weights, report);
  return succeeded(module) ? 0 : static_cast<int>(report.failure);
}

int main(int argc, char **argv) {
  bool inAllWays = argc == 4 && StringRef(argv[3]) == "--all";
  if (argc != 3 && !inAllWays)
    return 2;
  auto buffer = llvm::MemoryBuffer::getFile(argv[1]);
  if (!buffer)
    return 1;
  std::string whole = (*buffer)->getBuffer().str(), path = argv[2];
  MLIRContext context(MLIRContext::Threading::DISABLED);
  std::array<unsigned, 5> outcomes = {};
  for (size_t length = 0; length < whole.size(); ++length)
    ++outcomes[importBytes(context, path, StringRef(whole).take_front(length))];
  llvm::outs() << "cut: " << outcomes[0] << " imported of " << whole.size() << "\n";
  outcomes = {};
  constexpr std::array<unsigned, 4> changes = {0x01, 0x08, 0x80, 0xff};
  for (size_t position = 0; position < whole.size(); ++position)
    for (size_t way = 0; way < changes.size(); ++way) {
      if (!inAllWays && way != position % changes.size())
        continue;
      std::string copy = whole;
      copy[position] = static_cast<char>(copy[position] ^ changes[way]);
      ++outcomes[importBytes(context, path, copy)];
    }
  llvm::outs() << "changed: imported " << outcomes[0] << ", diagnosed " << outcomes[1] << ", usage " << outcomes[2]
               << ", unsupported " << outcomes[3] << ", rejected " << outcomes[4] << "\n";
  llvm::outs() << "no crash\n";
  return 0;
}
