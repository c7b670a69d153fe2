// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A run is told from others by a variable in the environment of its processes.

#include "MpiRun.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace cleave::runtime::test {

namespace fs = std::filesystem;

static std::string read(const fs::path &path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

size_t countOf(const std::string &text, const std::string &part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

bool MpiRun::isPossible() { return std::system("mpirun --version >/dev/null 2>&1") == 0; }

MpiRun::MpiRun(const fs::path &folder, const std::vector<std::string> &arguments, const std::string &fault,
               const std::vector<std::string> &before)
    : folder(folder) {
  static std::atomic<unsigned> runs{0};
  mark = "CLEAVE_TEST_RUN=" + std::to_string(getpid()) + "." + std::to_string(++runs);
  std::vector<std::string> words = before;
  for (const char *word : {"mpirun", "-q", "--allow-run-as-root", "--oversubscribe"})
    words.push_back(word);
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char *> argv;
  for (std::string &word : words)
    argv.push_back(word.data());
  argv.push_back(nullptr);
  // What an earlier run has said is not this one's.
  for (const char *file : {"out", "err"})
    std::ofstream(folder / file, std::ios::trunc);
  child = fork();
  if (child != 0)
    return;
  std::string path = fs::path(CLEAVE_RUN).parent_path().string() + ":" + std::getenv("PATH");
  bool fine = chdir(folder.c_str()) == 0 && setenv("PATH", path.c_str(), 1) == 0 && putenv(mark.data()) == 0;
  if (!fault.empty())
    fine &= setenv("CLEAVE_FAULT", fault.c_str(), 1) == 0;
  fine &= dup2(open("/dev/null", O_RDONLY), STDIN_FILENO) >= 0;
  fine &= dup2(open("out", O_WRONLY | O_APPEND), STDOUT_FILENO) >= 0;
  fine &= dup2(open("err", O_WRONLY | O_APPEND), STDERR_FILENO) >= 0;
  if (fine)
    execvp(argv.front(), argv.data());
  _exit(127);
}

MpiRun::~MpiRun() {
  if (child == 0)
    return;
  for (const RankProcess &each : processes())
    kill(each.process, SIGKILL);
  waitpid(child, nullptr, 0);
}

std::optional<int> MpiRun::wait(std::chrono::seconds limit) {
  auto until = Clock::now() + limit;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (Clock::now() > until) {
      for (const RankProcess &each : processes())
        kill(each.process, SIGKILL);
      return std::nullopt;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  child = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::vector<RankProcess> MpiRun::processes() const {
  std::vector<RankProcess> found;
  std::error_code ignored;
  for (const auto &entry : fs::directory_iterator("/proc", ignored)) {
    std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos)
      continue;
    std::string environment = '\0' + read(entry.path() / "environ") + '\0';
    if (environment.find('\0' + mark + '\0') == std::string::npos)
      continue;
    RankProcess &process = found.emplace_back();
    process.process = static_cast<pid_t>(std::stol(name));
    constexpr std::string_view variable = "OMPI_COMM_WORLD_RANK=";
    if (size_t at = environment.find('\0' + std::string(variable)); at != std::string::npos)
      process.rank = static_cast<unsigned>(std::stoul(environment.substr(at + 1 + variable.size())));
    process.isGuard = read(entry.path() / "comm") == "cleave-guard\n";
  }
  return found;
}

bool MpiRun::leavesNothing(std::chrono::seconds limit) const {
  for (auto until = Clock::now() + limit; !processes().empty();) {
    if (Clock::now() > until)
      return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

std::string MpiRun::errors() const { return read(folder / "err"); }

} // namespace cleave::runtime::test
