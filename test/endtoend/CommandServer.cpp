// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs commands of `cleave` one after the other in one process, which loads, links and registers everything once: that
// is four fifths of what a small command takes. On the standard input, a command a line:
//
//   SECONDS NUMBER          the most that it may take, and how many arguments follow, each with a zero behind it
//
// and on the standard output what became of it, with so many bytes of its output and of its errors behind:
//
//   CODE BYTES BYTES        the exit code, or minus the signal that ended it; "late" for one that took too long
//
// If a command ends its process, by a signal or by itself, the next one runs in a new process: a fork of this program,
// which has loaded everything and run nothing.

#include "runtime/drivers/cpu/Spinning.h"
#include "tools/cleave/Command.h"

#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <iostream>
#include <memory>
#include <poll.h>
#include <string>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

/// How many commands share a process, which bounds what they leak.
constexpr int commandsOfOneProcess = 100;

/// A file in memory, which commands write their output to, each from the start.
class OutputFile {
public:
  OutputFile() : file(memfd_create("output", 0)) {}
  ~OutputFile() { close(file); }
  void takePlaceOf(int stream) const { dup2(file, stream); }
  void clear() const {
    if (ftruncate(file, 0) == 0)
      lseek(file, 0, SEEK_SET);
  }
  std::string read() const {
    std::string text(static_cast<size_t>(lseek(file, 0, SEEK_END)), '\0');
    ssize_t count = pread(file, text.data(), text.size(), 0);
    text.resize(count < 0 ? 0 : static_cast<size_t>(count));
    return text;
  }

private:
  int file;
};

/// Numbers between this process and a command's; false where the other end is closed.
bool send(int pipe, size_t number) { return write(pipe, &number, sizeof number) == sizeof number; }
bool receive(int pipe, size_t &number) { return read(pipe, &number, sizeof number) == sizeof number; }

/// A process that runs commands until it is closed or one of them ends it.
class CommandProcess {
public:
  CommandProcess() {
    int toProcess[2], toUs[2];
    if (pipe2(toProcess, O_CLOEXEC) != 0 || pipe2(toUs, O_CLOEXEC) != 0 || (process = fork()) < 0) {
      std::perror("fork");
      exit(1);
    }
    if (process == 0) {
      close(toProcess[1]);
      close(toUs[0]);
      signal(SIGPIPE, SIG_DFL);
      runCommands(toProcess[0], toUs[1]);
    }
    close(toProcess[0]);
    close(toUs[1]);
    commands = toProcess[1];
    codes = toUs[0];
    handle = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  }

  ~CommandProcess() {
    close(commands);
    if (!hasEnded)
      end();
    close(codes);
    close(handle);
  }

  /// The exit code, minus the signal, or "late".
  std::string run(const std::vector<std::string> &arguments, int seconds) {
    output.clear();
    errors.clear();
    ++count;
    send(commands, arguments.size());
    for (const std::string &argument : arguments) {
      send(commands, argument.size());
      if (write(commands, argument.data(), argument.size()) < 0)
        break; // The process has ended, which is seen below.
    }
    pollfd events[] = {{codes, POLLIN, 0}, {handle, POLLIN, 0}};
    bool isLate = poll(events, 2, seconds * 1000) == 0;
    size_t code = 0;
    if (!isLate && (events[0].revents & POLLIN) && receive(codes, code))
      return std::to_string(code);
    if (isLate)
      kill(-process, SIGKILL);
    int status = end();
    if (isLate)
      return "late";
    return std::to_string(WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status));
  }

  bool canRunMore() const { return !hasEnded && count < commandsOfOneProcess; }
  std::string outputText() const { return output.read(); }
  std::string errorText() const { return errors.read(); }

private:
  OutputFile output, errors;
  pid_t process = 0;
  int commands = -1, codes = -1, handle = -1, count = 0;
  bool hasEnded = false;

  int end() {
    int status = 0;
    waitpid(process, &status, 0);
    hasEnded = true;
    return status;
  }

  /// The other process's part: a group of its own, so that whatever it starts ends with it.
  [[noreturn]] void runCommands(int from, int to) const {
    setpgid(0, 0);
    if (!freopen("/dev/null", "r", stdin))
      exit(1);
    output.takePlaceOf(STDOUT_FILENO);
    errors.takePlaceOf(STDERR_FILENO);
    for (size_t number = 0; receive(from, number);) {
      std::vector<std::string> arguments(number);
      for (std::string &argument : arguments) {
        size_t size = 0;
        receive(from, size);
        argument.resize(size);
        for (size_t read = 0; read < size;) {
          ssize_t more = ::read(from, argument.data() + read, size - read);
          if (more <= 0)
            exit(1);
          read += static_cast<size_t>(more);
        }
      }
      std::vector<char *> words;
      for (std::string &argument : arguments)
        words.push_back(argument.data());
      words.push_back(nullptr);
      int code = cleave::tool::runCommandLine(static_cast<int>(number), words.data());
      std::cout.flush();
      std::fflush(nullptr);
      send(to, static_cast<size_t>(code));
    }
    exit(0);
  }
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

} // namespace

int main(int argc, char **argv) {
  cleave::runtime::limitSpinning(argv);
  signal(SIGPIPE, SIG_IGN);
  std::unique_ptr<CommandProcess> process;
  int seconds = 0;
  for (std::vector<std::string> arguments; readCommand(seconds, arguments);) {
    if (!process || !process->canRunMore()) {
      process.reset(); // The next one must not inherit its pipes, whose end tells it to stop.
      process = std::make_unique<CommandProcess>();
    }
    std::string code = process->run(arguments, seconds), out = process->outputText(), err = process->errorText();
    std::cout << code << ' ' << out.size() << ' ' << err.size() << '\n' << out << err << std::flush;
  }
  return 0;
}
