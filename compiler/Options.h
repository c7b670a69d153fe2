// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a compilation is told: about the model, and about where and how it is to run. One table names every option of
// the second kind once, for command lines, for the settings that a plan keeps, and for passes.

#ifndef CLEAVE_COMPILER_OPTIONS_H
#define CLEAVE_COMPILER_OPTIONS_H

#include "compiler/Messages.h"

#include "passes/import/Import.h"

#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace cleave {

/// What is said about a model.
struct ModelOptions {
  std::string model;                       ///< an ONNX file, or a module in text form (.mlir)
  std::vector<std::string> dims, bindings; ///< "NAME=N" and "NAME=FILE"
  std::optional<int64_t> samples;          ///< ImportOptions::samples
  std::optional<int64_t> openSamples;      ///< ImportOptions::openSamples
  std::string weights;                     ///< an archive of weights in the place of the model's; empty: its own
  bool training = false;                   ///< ImportOptions::training
  bool keepsDropout = false;               ///< ImportOptions::keepsDropout

  ImportLimits limits;
};

/// What is said about where and how a model is to run. Each member but `batchNormGroups` is a row of the table below,
/// which says what it means.
struct TargetOptions {
  std::string machine = "host", strategy, placementFile, degrees, executor, cpu;
  bool reference = false, noLibraries = false, noCombine = false, tf32 = false, noFusedAttention = false,
       noWinograd = false;
  std::string keys = "auto";
  /// What the search takes.
  bool train = false;
  int64_t batch = 0, maxBatch = 0;
  unsigned chunks = 0;
  std::vector<int64_t> batches;
  std::string microbatches = "auto", schedule = "auto", recompute = "auto", zero = "auto", optimizerMemory = "auto",
              elementType = "f32", optimizer = "adam", memory, solver = "elimination";
  double timeBudget = 0;
  std::string objective = "throughput", mostStep;
  /// What a training step computes besides; without a loss a plan for training holds decisions alone.
  std::string loss, optimizerOptions, rateSchedule = "constant", buckets, batchNorm = "device", sync, keeper = "first";
  double learningRate = 0, clipNorm = 0, expertCapacity = 0;
  bool noDropout = false;
  unsigned replicas = 0;
  uint64_t seed = 0;
  unsigned threads = 0;
  /// Of how many parts of a microbatch each batch normalization takes its statistics, in the graph's order, instead of
  /// those that devices have.
  std::vector<int64_t> batchNormGroups;
};

/// A row of the table of options.
struct TargetOption {
  using Member = std::variant<std::string TargetOptions::*, bool TargetOptions::*, int64_t TargetOptions::*,
                              unsigned TargetOptions::*, uint64_t TargetOptions::*, double TargetOptions::*,
                              std::vector<int64_t> TargetOptions::*>;

  const char *name; ///< "learning-rate": without dashes before it
  Member member;
  const char *help;
  /// What help calls the value; empty: what its type is called.
  const char *valueName = "";
  /// The texts that are allowed; empty: any.
  std::vector<std::string> choices = {};
  /// The least and the largest number that are allowed; numbers of floating point are never negative.
  std::optional<std::pair<int64_t, int64_t>> range = {};
  /// Whether help says the default.
  bool showsDefault = false;
};

/// All rows.
const std::vector<TargetOption> &targetOptions();

/// The row of that name; null where there is none.
const TargetOption *findTargetOption(llvm::StringRef name);

/// The value as text, as setOption reads it: numbers with as many digits as it takes to read the same, lists by commas,
/// flags as "true" and "false".
std::string optionText(const TargetOptions &options, const TargetOption &row);

/// Gives an option the value that a text says. Status::Usage, with what is expected, where the row does not allow it.
Error setOption(TargetOptions &options, const TargetOption &row, llvm::StringRef text);

/// The shortest text that reads as the same number.
std::string shortestText(double number);

} // namespace cleave

#endif // CLEAVE_COMPILER_OPTIONS_H
