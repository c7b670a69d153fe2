// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The tables of a plan file that its programs refer to: devices, meshes, parameters, native objects, kernels.

#ifndef CLEAVE_PASSES_EMIT_PLANTABLES_H
#define CLEAVE_PASSES_EMIT_PLANTABLES_H

#include "dialects/dfg/Dfg.h"
#include "dialects/dist/Dist.h"
#include "dialects/plan/Plan.h"
#include "passes/emit/EmitPlan.h"

#include "runtime/plan_generated.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

namespace cleave {

/// An internal error with that message.
llvm::Error makePlanError(const llvm::Twine &message);

/// Writes the tables into a builder. Equal strings and types are written once.
class PlanTables {
public:
  PlanTables(mlir::ModuleOp module, const EmitOptions &options, flatbuffers::FlatBufferBuilder &builder)
      : module(module), options(options), builder(builder), isDecision(module.getOps<plan::ProgramOp>().empty()) {}

  /// Writes all tables. Constants and kernels that no instruction uses are left out, and so are parameters, unless
  /// there are no programs: then those stand here that graphs read, without their values.
  llvm::Error write();

  flatbuffers::Offset<flatbuffers::String> text(llvm::StringRef text);
  flatbuffers::Offset<fb::TensorType> type(mlir::RankedTensorType type);

  /// Indices by symbol.
  uint32_t meshIndex(llvm::StringRef mesh) const { return meshIndices.lookup(mesh); }
  uint32_t kernelIndex(llvm::StringRef kernel) const { return kernelIndices.lookup(kernel); }
  uint32_t parameterIndex(llvm::StringRef parameter) const { return parameterIndices.lookup(parameter); }
  /// Nothing where the parameter is left out.
  std::optional<uint32_t> findParameter(llvm::StringRef parameter) const;
  uint32_t constantIndex(mlir::Attribute value) const { return constantIndices.lookup(value); }

  /// The index of a tile in the entry's table, where it is added when first asked for; -1 for none.
  int32_t tileIndex(plan::TileAttr tile);
  /// The tiles that were asked for since the last call: those of an entry.
  flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<fb::Tile>>> writeTiles();

  std::vector<flatbuffers::Offset<fb::Device>> devices;
  std::vector<flatbuffers::Offset<fb::Mesh>> meshes;
  std::vector<flatbuffers::Offset<fb::Parameter>> parameters;
  std::vector<flatbuffers::Offset<fb::NativeObject>> objects;
  std::vector<flatbuffers::Offset<fb::Kernel>> kernels;

private:
  void writeDevices();
  void writeMeshes();
  llvm::Error writeParameters();
  llvm::Error writeConstants();
  llvm::Error writeObjects();
  llvm::Error writeKernels();
  llvm::Error reserveInline(uint64_t bytes);
  void writeParameter(dfg::ParameterOp parameter);
  flatbuffers::Offset<void> libraryBody(plan::LibraryKernelOp kernel);
  flatbuffers::Offset<void> nativeBody(plan::NativeKernelOp kernel);
  flatbuffers::Offset<void> gpuBody(plan::NativeKernelOp kernel);
  flatbuffers::Offset<fb::Attribute> attribute(mlir::NamedAttribute attribute);
  void writeKernel(mlir::Operation *kernel, fb::KernelBody kind, flatbuffers::Offset<void> body);

  mlir::ModuleOp module;
  const EmitOptions &options;
  flatbuffers::FlatBufferBuilder &builder;
  const bool isDecision; ///< There are no programs.
  llvm::DenseMap<mlir::Type, flatbuffers::Offset<fb::TensorType>> types;
  llvm::StringMap<uint32_t> meshIndices, kernelIndices, parameterIndices, objectIndices;
  llvm::MapVector<mlir::Attribute, uint32_t> constantIndices;
  llvm::MapVector<plan::TileAttr, int32_t> tileIndices;
  uint64_t inlineBytes = 0;
};

} // namespace cleave

#endif // CLEAVE_PASSES_EMIT_PLANTABLES_H
