// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `cleave bench --suite`: every model below a folder, ours and a peer's, each round of either in a process of its own,
// in turns.

#ifndef CLEAVE_TOOLS_CLEAVE_BENCHSUITE_H
#define CLEAVE_TOOLS_CLEAVE_BENCHSUITE_H

#include "tools/cleave/BenchPeer.h"

#include <filesystem>

namespace cleave::tool {

struct BenchSuiteOptions {
  std::string folder;
  /// The peer's name; empty: none.
  std::string peer, peerScript;
  std::vector<std::string> dims;
  std::vector<unsigned> threads;
  unsigned repeat = 20, warmup = 3, rounds = 5;
  /// What else our own runs are told, as on the command line.
  std::vector<std::string> flags;
  /// Where the results go as JSON and as Markdown; empty: nowhere.
  std::string json, markdown;
};

/// Of one sample at least.
double median(std::vector<double> samples);

/// "resnet50" for "models/resnet50/model.onnx": the folder tells such files apart.
std::string shortName(const std::filesystem::path &model);

/// The inputs of ONNX's test layout beside a model, test_data_set_0/input_N.pb, by "@N".
std::map<std::string, std::string> testInputs(const std::filesystem::path &model);

/// Sizes of "NAME=N", which compiling has checked.
std::map<std::string, int64_t> sizesOf(const std::vector<std::string> &dims);

/// Prints and writes the table. A model that one of the two does not run has a row that says why, and does not end the
/// others; Status::Failure where no model runs.
Error benchSuite(const BenchSuiteOptions &options);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_BENCHSUITE_H
