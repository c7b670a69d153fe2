// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The folder in which a fuzzer gives its inputs to what reads files, and sees what that leaves there.

#ifndef CLEAVE_TEST_FUZZ_SCRATCHFOLDER_H
#define CLEAVE_TEST_FUZZ_SCRATCHFOLDER_H

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace cleave::fuzz {

/// Ends the process: what was tested is wrong.
[[noreturn]] inline void fail(const std::string &message) {
  std::cerr << message << std::endl;
  std::abort();
}

/// A folder of this process in the working directory, which goes with it.
class ScratchFolder {
public:
  explicit ScratchFolder(const std::string &name) : path(name + "-" + std::to_string(getpid())) {
    std::filesystem::create_directories(path);
  }
  ~ScratchFolder() { clear(); }

  std::string file(const std::string &name) const { return path + "/" + name; }

  void write(const std::string &name, std::string_view bytes) const {
    std::filesystem::create_directories(std::filesystem::path(file(name)).parent_path());
    std::ofstream(file(name), std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

  std::string read(const std::string &name) const {
    std::ifstream stream(file(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  /// Fails where there is a file of another name.
  void expectOnly(const std::vector<std::string> &names) const {
    for (const auto &entry : std::filesystem::recursive_directory_iterator(path))
      if (std::string left = std::filesystem::relative(entry.path(), path).string();
          !entry.is_directory() && std::ranges::find(names, left) == names.end())
        fail("a file is left behind: " + left);
  }

  void clear() const { std::filesystem::remove_all(path); }

private:
  const std::string path;
};

} // namespace cleave::fuzz

#endif // CLEAVE_TEST_FUZZ_SCRATCHFOLDER_H
