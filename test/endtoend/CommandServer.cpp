// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs commands of `cleave` in processes of their own that need not be loaded and linked each time, which is more than
// half of what a small command takes. On the standard input, a command a line:
//
//   SECONDS NUMBER          the most that it may take, and how many arguments follow, each with a zero behind it
//
// and on the standard output what became of it, with so many bytes of its output and of its errors behind:
//
//   CODE BYTES BYTES        the exit code, or minus the signal that ended it; "late" for one that took too long

#include "tools/cleave/Command.h"

#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <poll.h>
#include <string>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

/// A file in memory, which a command writes its output to.
class OutputFile {
public:
  OutputFile() : file(memfd_create("output", 0)) {}
  ~OutputFile() { close(file); }
  void takePlaceOf(int stream) const { dup2(file, stream); }
  std::string read() const {
    std::string text(static_cast<size_t>(lseek(file, 0, SEEK_END)), '\0');
    ssize_t count = pread(file, text.data(), text.size(), 0);
    text.resize(count < 0 ? 0 : static_cast<size_t>(count));
    return text;
  }

private:
  int file;
};

bool readCommand(int &seconds, std::vector<std::string> &arguments) {
  size_t count = 0;
  if (!(std::cin >> seconds >> count))
    return false;
  std::cin.get(); // the end of the line
  arguments.assign(count, "");
  for (std::string &argument : arguments)
    std::getline(std::cin, argument, '\0');
  return static_cast<bool>(std::cin);
}

/// The child's part: a group of its own, so that whatever it starts ends with it.
[[noreturn]] void runCommand(std::vector<std::string> &arguments, const OutputFile &output, const OutputFile &errors) {
  setpgid(0, 0);
  freopen("/dev/null", "r", stdin);
  output.takePlaceOf(STDOUT_FILENO);
  errors.takePlaceOf(STDERR_FILENO);
  std::vector<char *> words;
  for (std::string &argument : arguments)
    words.push_back(argument.data());
  words.push_back(nullptr);
  exit(cleave::tool::runCommandLine(static_cast<int>(words.size()) - 1, words.data()));
}

/// The exit code, minus the signal, or "late".
std::string waitFor(pid_t child, int seconds) {
  int handle = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
  pollfd ended{handle, POLLIN, 0};
  bool isLate = poll(&ended, 1, seconds * 1000) == 0;
  if (isLate)
    kill(-child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  close(handle);
  if (isLate)
    return "late";
  return std::to_string(WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status));
}

} // namespace

int main() {
  int seconds = 0;
  for (std::vector<std::string> arguments; readCommand(seconds, arguments);) {
    OutputFile output, errors;
    std::fflush(nullptr);
    pid_t child = fork();
    if (child == 0)
      runCommand(arguments, output, errors);
    if (child < 0) {
      std::perror("fork");
      return 1;
    }
    std::string code = waitFor(child, seconds), out = output.read(), err = errors.read();
    std::cout << code << ' ' << out.size() << ' ' << err.size() << '\n' << out << err << std::flush;
  }
  return 0;
}
