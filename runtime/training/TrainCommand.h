// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The command that trains: the whole of `cleave train` and `cleave-run train`, once there is a plan.

#ifndef CLEAVE_RUNTIME_TRAINING_TRAINCOMMAND_H
#define CLEAVE_RUNTIME_TRAINING_TRAINCOMMAND_H

#include "runtime/ParameterSource.h"
#include "runtime/Plan.h"
#include "runtime/tensorfile/TensorFile.h"
#include "runtime/training/LearningRate.h"

#include <iosfwd>

namespace cleave::runtime {

class Processes;

/// Writes trained parameters into a copy of the plan's model; made by whoever can read models.
class ModelExport {
public:
  virtual ~ModelExport() = default;
  /// Why the model has no place for parameters of these names and types, before they are trained.
  virtual Error check(std::span<const std::pair<std::string, TensorType>> parameters) = 0;
  virtual Error write(const std::string &path, std::span<const ArchiveMember> parameters) = 0;
};

/// The entries of a plan for training; where there are some for several lengths of sequences, a slash and the length
/// follow (Entry::bucket).
inline constexpr const char *trainEntryName = "train", *evaluateEntryName = "evaluate";
/// Of plans whose pipelines go on from step to step (TrainContext::PipelineEnds).
inline constexpr const char *fillEntryName = "fill", *drainEntryName = "drain";

/// What the user asked for. Bindings are "NAME=FILE", where NAME is an input's name or "@" and its position.
struct TrainOptions {
  std::vector<std::string> data, evaluation, scales;
  /// Of a plan for sequences of text: "bytes", "characters" or "words", and the file of a vocabulary that all but bytes
  /// need (Vocabulary.h). Empty: words with a vocabulary, bytes without.
  std::string tokens, vocabularyFile;
  std::optional<uint64_t> epochs, steps;
  unsigned inFlight = 2;
  std::string checkpointFolder;
  uint64_t checkpointEvery = 0;
  bool resume = false;
  std::optional<uint64_t> seed; ///< without one: 0, or that of the run that goes on
  std::string jsonFile, traceFile, exportFile;
  bool jsonSteps = false;
  /// Of this run, in the place of the plan's or the checkpoint's (LearningRate.h).
  LearningRate::Request learningRate;
  std::string weightsFile;            ///< an archive of first values for the model's parameters
  ModelExport *modelExport = nullptr; ///< for an `exportFile` that ends in .onnx; null: not to be had
  uint64_t logEvery = 0;              ///< steps from line to line about the loss; 0: none
  std::string logFile;                ///< the same as CSV, by default of every step
  /// Of a plan with replicas (asynchronous/ReplicaLoop.h): what is tried on them, whether others go on without one that
  /// fails, and files of what they did and of what they are to do.
  std::vector<std::string> trials;
  bool goOnWithout = false;
  std::string recordFile, replayFile;
  /// Whether notices go to a terminal, which progress may be shown on.
  bool isTerminal = false;
  /// Those that run the plan together, null for one alone, and their devices (see divideDevices).
  Processes *processes = nullptr;
  std::vector<std::string> devicesOfRank;
};

/// Trains: verifies the plan, reads the data, goes on from a checkpoint if asked to, and runs epochs, with evaluation
/// after each and checkpoints. Results go to `out`, progress, notices and errors to `err`. Returns the exit code. Of
/// several processes rank 0 writes and reports for all. With checkpoints or an export a signal that asks to end is
/// obeyed after the current step (StopSignals.h), with what would be written at the end, and makes the exit code.
int trainPlan(const Plan &plan, ParameterSource &parameters, const TrainOptions &options, std::ostream &out,
              std::ostream &err);

/// The same with standard output and standard error.
int trainPlan(const Plan &plan, ParameterSource &parameters, TrainOptions options);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_TRAINCOMMAND_H
