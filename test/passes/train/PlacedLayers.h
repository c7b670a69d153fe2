// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Models of equal layers, each on a mesh of its own choice, for tests of stages and schedules.

#ifndef CLEAVE_TEST_PASSES_TRAIN_PLACEDLAYERS_H
#define CLEAVE_TEST_PASSES_TRAIN_PLACEDLAYERS_H

#include "passes/train/TrainingStep.h"

#include "runtime/Plan.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <memory>

namespace cleave::test {

/// A layer: x -> relu(x w), with w of width x width. The model's result is the sum of what the last one gives.
struct PlacedLayers {
  int64_t samples = 2, width = 8; ///< Samples of a microbatch.
  /// By layer: its mesh, one of "m0", "m1", …
  std::vector<unsigned> meshes;
  /// The devices of each mesh, which divide the samples.
  unsigned devicesOfMesh = 1;
  std::string driver = "null";
  /// Whether collectives may share messages: what travels together is there together.
  bool combines = true;
  /// Whether the module's machine is one on which products alone take time, instead of the default machine.
  bool onlyProductsTakeTime = false;

  unsigned numMeshes() const;
  std::string text() const;
};

/// A placed model and its context.
struct PlacedModule {
  explicit PlacedModule(const std::string &text);
  dfg::GraphOp graph() const;

  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

/// The plan of the model's training step; none, and a failed test, where a stage fails.
std::optional<runtime::Plan> compileStep(const PlacedLayers &layers, const TrainingOptions &options);

} // namespace cleave::test

#endif // CLEAVE_TEST_PASSES_TRAIN_PLACEDLAYERS_H
