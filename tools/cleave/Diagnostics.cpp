// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Prints diagnostics and finds out which node or line a location means.

#include "tools/cleave/Diagnostics.h"

#include "dialects/dfg/Dfg.h"
#include "runtime/Printable.h"
#include "tools/cleave/Reproducer.h"

#include "llvm/Support/Process.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

using namespace mlir;

namespace cleave::tool {

static void print(raw_ostream::Colors color, StringRef kind, const llvm::Twine &message) {
  raw_ostream &out = llvm::errs();
  const char *noColor = std::getenv("NO_COLOR");
  bool colored = out.has_colors() && (!noColor || !*noColor);
  if (colored)
    out.changeColor(color, /*Bold=*/true);
  out << kind << ":";
  if (colored)
    out.resetColor();
  out << " " << runtime::printableMessage(message.str()) << "\n";
}

void printError(const llvm::Twine &message) { print(raw_ostream::RED, "error", message); }
void printWarning(const llvm::Twine &message) { print(raw_ostream::MAGENTA, "warning", message); }
void printNote(const llvm::Twine &message) { print(raw_ostream::CYAN, "note", message); }

int report(const Error &error) {
  if (!error.message().empty())
    printError(error.message());
  if (!error.node().empty())
    printNote("at node \"" + error.node() + "\"");
  return static_cast<int>(error.status());
}

/// "file:line:column: " where the location says so, else "".
static std::string filePosition(Location location) {
  std::string text;
  location->walk([&](Location inner) {
    auto position = dyn_cast<FileLineColLoc>(inner);
    if (!position)
      return WalkResult::advance();
    llvm::raw_string_ostream(text) << position.getFilename().getValue() << ":" << position.getLine() << ":"
                                   << position.getColumn() << ": ";
    return WalkResult::interrupt();
  });
  return text;
}

static void print(Diagnostic &diagnostic) {
  std::string message = filePosition(diagnostic.getLocation()) + diagnostic.str();
  switch (diagnostic.getSeverity()) {
  case DiagnosticSeverity::Error:
    printError(message);
    break;
  case DiagnosticSeverity::Warning:
    printWarning(message);
    break;
  case DiagnosticSeverity::Note:
  case DiagnosticSeverity::Remark:
    printNote(message);
    break;
  }
  // A name without a kind is the graph's.
  StringRef node = dfg::getNodeName(diagnostic.getLocation());
  if (!dfg::getNodeKind(diagnostic.getLocation()).empty() && message.find(node.str()) == std::string::npos)
    printNote("at node \"" + node + "\"");
  for (Diagnostic &note : diagnostic.getNotes())
    print(note);
}

namespace {

class Console : public Messages {
public:
  void diagnostic(Diagnostic &diagnostic) override { print(diagnostic); }
  void warning(const std::string &text) override { printWarning(text); }
  void note(const std::string &text) override { printNote(text); }
  void progress(const std::string &line) override {
    if (llvm::sys::Process::StandardErrIsDisplayed())
      llvm::errs() << "\r\033[Ksearch: best so far " << line;
  }
  void endProgress() override {
    if (llvm::sys::Process::StandardErrIsDisplayed())
      llvm::errs() << "\r\033[K";
  }
  void reproducer(std::string text) override { keepReproducer(std::move(text)); }
  void internalError(const std::string &message) override { reportInternalError(message); }
};

} // namespace

Messages &console() {
  static Console console;
  return console;
}

DiagnosticPrinter::DiagnosticPrinter(MLIRContext *context)
    : ScopedDiagnosticHandler(context, [](Diagnostic &diagnostic) {
        print(diagnostic);
        return success();
      }) {}

} // namespace cleave::tool
