// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Standard models as ONNX files, of any size, with or without weights.

#ifndef CLEAVE_PASSES_ZOO_ZOO_H
#define CLEAVE_PASSES_ZOO_ZOO_H

#include "passes/import/OnnxProto.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <map>
#include <string>

namespace cleave {

/// How a standard model is written.
struct ZooOptions {
  /// The model's numbers by name ("batch", "hidden", ...); those left out take their defaults.
  std::map<std::string, int64_t> numbers;
  /// Write the weights into the file. Without, they are RandomNormal nodes, whose values are drawn when the model is
  /// loaded; both ways give the same values.
  bool weights = false;
  /// Every weight's seed follows from this one and its position.
  uint64_t seed = 1;
  /// Numbers that are left open: dimensions of that name, whose size is said when the model is loaded.
  std::vector<std::string> symbolic;
};

/// A number of a model that users may set.
struct ZooNumber {
  std::string name;
  int64_t value;
  std::string meaning;
  int64_t largest = 1 << 24, smallest = 1;
  bool mayBeSymbolic = false; ///< ZooOptions::symbolic may name it
};

/// A model that the zoo can build.
struct ZooModel {
  std::string name, summary;
  llvm::SmallVector<ZooNumber> numbers;
};

/// All models, with the defaults of their numbers.
llvm::ArrayRef<ZooModel> getZooModels();

/// Builds a model. Errors name what is unknown or out of range, and what there is.
llvm::Expected<onnx::ModelProto> buildZooModel(llvm::StringRef name, const ZooOptions &options);

} // namespace cleave

#endif // CLEAVE_PASSES_ZOO_ZOO_H
