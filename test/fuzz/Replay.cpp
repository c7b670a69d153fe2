// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// NAME-replay MUTATIONS SEED PATH...: gives a fuzzer the files at the paths, of folders all of theirs, and then as many
// mutations of them, each of one to four steps. Stands in for libFuzzer where only known cases are wanted, or where the
// compiler has no libFuzzer: it knows nothing of coverage.

#include "Mutation.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

extern "C" {
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
__attribute__((weak)) int LLVMFuzzerInitialize(int *argc, char ***argv);
__attribute__((weak)) size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);
}

using namespace cleave::fuzz;

static size_t mutate(std::vector<uint8_t> &file, size_t size, Random &random) {
  if (LLVMFuzzerCustomMutator)
    return LLVMFuzzerCustomMutator(file.data(), size, file.size(), static_cast<unsigned>(random.below(1u << 31)));
  return mutateBytes(file.data(), size, file.size(), random);
}

int main(int argc, char **argv) {
  if (argc < 4) {
    std::cerr << "usage: " << argv[0] << " MUTATIONS SEED PATH...\n";
    return 2;
  }
  if (LLVMFuzzerInitialize)
    LLVMFuzzerInitialize(&argc, &argv);
  std::vector<std::filesystem::path> paths;
  for (int i = 3; i != argc; ++i)
    if (std::filesystem::is_directory(argv[i]))
      std::copy(std::filesystem::directory_iterator(argv[i]), {}, std::back_inserter(paths));
    else
      paths.emplace_back(argv[i]);
  std::ranges::sort(paths); // folders have no order
  std::vector<std::vector<uint8_t>> files;
  for (const std::filesystem::path &path : paths) {
    std::ifstream stream(path, std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
    if (!stream) {
      std::cerr << "expected to read " << path << "\n";
      return 2;
    }
    LLVMFuzzerTestOneInput(files.back().data(), files.back().size());
  }
  uint64_t mutations = std::stoull(argv[1]), seed = std::stoull(argv[2]);
  if (files.empty()) {
    std::cerr << "expected files, found none\n";
    return 2;
  }
  for (uint64_t i = 0; i != mutations; ++i) {
    Random random(seed + i);
    const std::vector<uint8_t> &original = files[random.below(files.size())];
    std::vector<uint8_t> file = original;
    file.resize(original.size() * 4 + 4096);
    size_t size = original.size();
    for (uint64_t steps = 1 + random.below(4); steps != 0; --steps)
      size = mutate(file, size, random);
    // A copy of that size, so that a sanitizer sees what is read behind its end.
    std::vector<uint8_t> exact(file.data(), file.data() + size);
    LLVMFuzzerTestOneInput(exact.data(), exact.size());
  }
  std::cout << files.size() << " files and " << mutations << " mutations\n";
  return 0;
}
