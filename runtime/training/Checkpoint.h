// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checkpoints: folders that hold what a training run needs to go on, whatever the plan and the number of its devices.
//
//   DIR/step-120/tensors    whole parameters and optimizer state, one after the other, each at a multiple of 64 bytes
//   DIR/step-120/manifest   text: where the loop is, the name, type and place of each tensor, checksums
//
// A checkpoint is written into a folder of another name, flushed to the disk, and then renamed: one that has its name
// is complete, whenever the process is killed. The last line of a manifest is the checksum of those before it, and the
// manifest has that of the tensors.

#ifndef CLEAVE_RUNTIME_TRAINING_CHECKPOINT_H
#define CLEAVE_RUNTIME_TRAINING_CHECKPOINT_H

#include "runtime/HostTensor.h"
#include "runtime/MappedFile.h"

#include <filesystem>
#include <functional>
#include <optional>

namespace cleave::runtime {

/// Where a run is. `sample` counts the samples of the epoch that steps have taken, out of `samples` in the data.
struct TrainPosition {
  uint64_t steps = 0, seed = 0, epoch = 0, sample = 0, samples = 0;
  /// Of the epoch's steps so far: how many, the sum of their losses, right predictions, and labels that were predicted.
  uint64_t epochSteps = 0;
  double lossSum = 0;
  uint64_t correct = 0, labels = 0;

  bool operator==(const TrainPosition &) const = default;
};

struct NamedTensor {
  std::string name;
  HostTensor tensor;
};

/// A checkpoint that was read. Tensors are views of its file, which stays mapped as long as this object.
struct Checkpoint {
  std::filesystem::path folder;
  TrainPosition position;
  std::vector<NamedTensor> tensors;
  std::shared_ptr<const MappedFile> file;
};

/// Reads and checks the checkpoint in a folder "step-N". Status::Rejected when anything is missing or damaged.
Expected<Checkpoint> readCheckpoint(const std::filesystem::path &folder);

/// The folder in which a run keeps its last checkpoints.
class CheckpointFolder {
public:
  /// Makes the folder if need be, and removes what a process that was killed has left there. Status::Failure when
  /// another process writes into it, or it takes no files.
  static Expected<CheckpointFolder> open(const std::filesystem::path &folder);
  CheckpointFolder(CheckpointFolder &&other) noexcept
      : folder(std::move(other.folder)), descriptor(std::exchange(other.descriptor, -1)) {}
  CheckpointFolder &operator=(CheckpointFolder &&) = delete;
  ~CheckpointFolder();

  /// The steps of which there is a checkpoint, latest first, whether they can be read or not.
  static std::vector<uint64_t> steps(const std::filesystem::path &folder);
  /// Where the checkpoint of a step is.
  static std::filesystem::path pathOf(const std::filesystem::path &folder, uint64_t step);
  /// The last checkpoint that can be read; nothing if there is none. `skipped` gets the error of each later one.
  static std::optional<Checkpoint> readLatest(const std::filesystem::path &folder,
                                              const std::function<void(const Error &)> &skipped);

  /// Writes the checkpoint of `position.steps`, and then removes all but the last two.
  Error write(const TrainPosition &position, std::span<const NamedTensor> tensors);

private:
  CheckpointFolder(std::filesystem::path folder, int descriptor) : folder(std::move(folder)), descriptor(descriptor) {}
  /// Writes to `aside`, which then becomes `final`.
  Error write(const TrainPosition &position, std::span<const NamedTensor> tensors, const std::filesystem::path &aside,
              const std::filesystem::path &final);
  Error removeAside(const std::filesystem::path &path);

  std::filesystem::path folder;
  int descriptor; ///< the folder's, locked
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_CHECKPOINT_H
