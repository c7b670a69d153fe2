// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Keeps the reproducer's text ready, so that a crash handler needs no more than system calls.

#include "tools/cleave/Reproducer.h"

#include "runtime/Error.h"

#include "llvm/Support/Signals.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unistd.h>
#include <utility>

namespace cleave::tool {

static constexpr int internalError = static_cast<int>(runtime::Status::Internal);

/// The text and the pattern of its file's name; never freed, since a crash may come at any time.
struct Reproducer {
  std::string text, file;
};
static std::atomic<Reproducer *> kept;

void keepReproducer(std::string text) {
  const char *folder = std::getenv("TMPDIR");
  std::string file = std::string(folder && *folder ? folder : "/tmp") + "/cleave-reproducer-XXXXXX.mlir";
  delete kept.exchange(new Reproducer{std::move(text), std::move(file)});
}

static void writeAll(int file, const char *data, size_t size) {
  while (size > 0) {
    ssize_t written = ::write(file, data, size);
    if (written <= 0)
      return;
    data += written;
    size -= static_cast<size_t>(written);
  }
}

static void say(const char *text) { writeAll(STDERR_FILENO, text, std::strlen(text)); }

/// Writes the reproducer with system calls alone.
static void writeReproducer() {
  Reproducer *reproducer = kept.exchange(nullptr);
  if (!reproducer)
    return;
  char *path = reproducer->file.data();
  int file = ::mkstemps(path, static_cast<int>(std::strlen(".mlir")));
  if (file < 0)
    return;
  writeAll(file, reproducer->text.data(), reproducer->text.size());
  ::close(file);
  say("note: the module that shows it was written to ");
  say(path);
  say("; please report it\n");
}

static void crash(void *) {
  say("error: internal error, cleave crashed\n");
  writeReproducer();
  ::_exit(internalError);
}

/// Ends the process by the signal, with no file left half written.
static void endBy(int signal) {
  llvm::sys::RunInterruptHandlers();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void installCrashHandler() {
  // LLVM keeps few handlers, and processes that run many command lines need one.
  static bool isInstalled = false;
  if (!std::exchange(isInstalled, true))
    llvm::sys::AddSignalHandler(crash, nullptr);
  // LLVM counts these among crashes, but the terminal or the system sends them.
  for (int signal : {SIGQUIT, SIGXCPU})
    std::signal(signal, endBy);
  // Whoever writes a file that grows beyond the limit gets an error, and says so.
  std::signal(SIGXFSZ, SIG_IGN);
}

int reportInternalError(llvm::StringRef message) {
  say(("error: internal error: " + message.str() + "\n").c_str());
  writeReproducer();
  return internalError;
}

} // namespace cleave::tool
