// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The model while it is imported: which values there are, which are known, and what becomes a parameter.

#ifndef CLEAVE_PASSES_IMPORT_GRAPHIMPORTER_H
#define CLEAVE_PASSES_IMPORT_GRAPHIMPORTER_H

#include "dialects/dfg/Dfg.h"
#include "passes/import/Import.h"
#include "passes/import/ImportedValue.h"
#include "passes/import/OnnxProto.h"
#include "passes/import/SamplePositions.h"
#include "passes/import/TensorReader.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <chrono>
#include <deque>

namespace cleave {

class NodeImporter;

/// The names of the main graph, of one call of a function of the model, or of one run of a node's subgraph.
struct Scope {
  /// What is put before names of nodes and values: "" or the calls' names, each with a slash.
  std::string prefix;
  /// The version of each operator set by its domain; the default domain is "".
  std::map<std::string, int64_t> versions;
  llvm::StringMap<ImportedValue *> values;
  /// Dequantized weights of products whose other operand is dequantized, too: they are multiplied as integers.
  llvm::StringSet<> quantizedWeights;
  /// How often each name is read in the scope.
  llvm::StringMap<int64_t> uses;
  unsigned depth = 0;
  /// The group (`ctx_group`) of the call, for nodes of the body that name none.
  std::string group;
  /// The scope around a subgraph, whose values its nodes may read, too.
  const Scope *outer = nullptr;

  /// The value of this name here or around; null where there is none.
  ImportedValue *find(llvm::StringRef name) const {
    for (const Scope *scope = this; scope; scope = scope->outer)
      if (ImportedValue *value = scope->values.lookup(name))
        return value;
    return nullptr;
  }
};

/// The shape that the model gives a reshape for the samples that it declares, and the dimension that holds them.
struct DeclaredShape {
  llvm::SmallVector<int64_t> shape;
  size_t samplesDim = 0;
};

/// Imports one model.
class GraphImporter {
public:
  GraphImporter(mlir::MLIRContext *context, std::shared_ptr<onnx::ModelProto> model, std::string folder,
                const ImportOptions &options, WeightsStore &weights, ImportReport &report);

  llvm::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> run();

  mlir::MLIRContext *getContext() const { return context; }
  TensorReader &getReader() { return reader; }
  /// Whether the graph is to be trained.
  bool isTraining() const { return options.training; }
  bool keepsDropout() const { return options.training || options.keepsDropout; }

  /// Where operators are built: at the end of the graph.
  mlir::OpBuilder builderAtEnd();

  /// Makes a value that an operator of the graph computes known, by computing it from graph inputs whose values are
  /// bound now. Fails where that cannot be; `inputs` then names the graph inputs whose values are missing, or nothing
  /// where others than inputs hinder it.
  llvm::FailureOr<HostTensor> bindValue(mlir::Value value, llvm::SmallVectorImpl<std::string> &inputs);

  /// Reports an error of the model as a whole, or of one value.
  mlir::LogicalResult fail(ImportFailure failure, const llvm::Twine &message);
  /// Notes why the import fails, after an error was reported; the first reason counts.
  void noteFailure(ImportFailure failure);

private:
  friend class NodeImporter;

  // Declarations: inputs, initializers, outputs (GraphInputs.cpp).
  mlir::LogicalResult importInitializers(Scope &scope, const onnx::GraphProto &proto);
  mlir::LogicalResult importInputs(Scope &scope);
  llvm::FailureOr<mlir::RankedTensorType> inputType(const onnx::ValueInfoProto &input,
                                                    llvm::SmallVectorImpl<std::string> &unbound);
  mlir::LogicalResult checkOptions();
  mlir::LogicalResult bindInput(ImportedValue &input, const HostTensor &value);

  // What the model says besides its operators (Declarations.cpp).
  /// An error where a declared type contradicts what operators give.
  mlir::LogicalResult checkDeclaredTypes(const Scope &scope);
  /// A warning for each attribute that the node's operator does not have: it may be misspelt.
  void warnOfAttributes(const NodeImporter &node);

  /// Chooses `samples`, from the options and what the model declares.
  void chooseSamples();
  /// Whether dimension 0 of the input is the batch: that of the first input which no initializer fixes, or one that is
  /// declared alike.
  bool countsSamples(const onnx::ValueInfoProto &input) const;
  /// The samples that the model declares; nothing where it leaves them open, or none are given in their place.
  std::optional<int64_t> declaredSamples() const;
  /// How the model has its samples in the shape that the node reshapes to; null where it has none there, or the shape
  /// does not say. Found by an import with the samples that it declares: with a single one, any dimension of 1 may be
  /// theirs.
  const DeclaredShape *declaredShape(llvm::StringRef node);

  // Nodes (GraphImporter.cpp, Functions.cpp, Subgraphs.cpp, OpaqueNodes.cpp).
  mlir::LogicalResult importNodes(Scope &scope, const google::protobuf::RepeatedPtrField<onnx::NodeProto> &nodes);
  /// Counts a node; an error that names it where that is more than the limits allow.
  mlir::LogicalResult countNode(const std::string &name);
  /// Counts an operator that a node becomes; false where that is more than the limits allow.
  bool countOperator() { return ++numOperators <= options.limits.nodes; }
  mlir::LogicalResult importNode(Scope &scope, const onnx::NodeProto &proto);
  mlir::LogicalResult importKnownKind(Scope &scope, NodeImporter &node, llvm::StringRef kind);
  mlir::LogicalResult importOpaque(Scope &scope, NodeImporter &node, llvm::StringRef reason);
  mlir::LogicalResult importCall(Scope &scope, const onnx::NodeProto &call, const onnx::FunctionProto &function,
                                 llvm::StringRef name, llvm::ArrayRef<ImportedValue *> inputs);
  const onnx::FunctionProto *findFunction(const onnx::NodeProto &node) const;
  /// A scope with the initializers of a node's subgraph, which all its runs share.
  llvm::FailureOr<Scope> openSubgraph(const Scope &scope, NodeImporter &node, const onnx::GraphProto &subgraph);
  /// Imports the subgraph's nodes once, their names below `name`, and gives the subgraph's outputs.
  llvm::FailureOr<llvm::SmallVector<ImportedValue *>> importSubgraph(const Scope &shared, NodeImporter &node,
                                                                     const onnx::GraphProto &subgraph,
                                                                     llvm::StringRef name,
                                                                     llvm::ArrayRef<ImportedValue *> arguments);
  std::optional<onnx::TypeProto> opaqueType(const std::string &output);
  std::string groupOf(const Scope &scope, const onnx::NodeProto &proto, llvm::StringRef name) const;

  // Values (Values.cpp).
  ImportedValue *addValue(std::string name, mlir::RankedTensorType type);
  mlir::LogicalResult define(Scope &scope, llvm::StringRef name, ImportedValue *value);
  /// The elements of the node's results where all its inputs are known and its operators can be evaluated.
  std::optional<llvm::SmallVector<HostTensor>> evaluate(NodeImporter &node, llvm::ArrayRef<NodeResult> results);
  /// Counts bytes that are made at import; false where a model asks for more than any needs.
  bool takeFoldedBytes(uint64_t bytes);
  void useAtRunTime(NodeImporter &node);
  mlir::Value materialize(ImportedValue &value, mlir::OpBuilder &builder);
  static void countUses(Scope &scope, const google::protobuf::RepeatedPtrField<onnx::NodeProto> &nodes);
  void releaseUses(Scope &scope, const onnx::NodeProto &node);
  void removeUnused();
  void placeParameters();
  mlir::LogicalResult finish(Scope &scope);

  mlir::MLIRContext *context;
  std::shared_ptr<onnx::ModelProto> model;
  std::string folder;
  const ImportOptions &options;
  WeightsStore &weights;
  ImportReport &report;
  TensorReader reader;

  mlir::OwningOpRef<mlir::ModuleOp> module;
  dfg::GraphOp graph;
  std::deque<ImportedValue> values;
  llvm::StringSet<> symbols;
  llvm::DenseMap<mlir::Value, ImportedValue *> graphInputs;
  llvm::DenseSet<mlir::Value> batchedInputs;
  llvm::StringSet<> fixedInputs; ///< names of initializers
  const onnx::TensorShapeProto::Dimension *samplesDim = nullptr;
  std::optional<int64_t> samples;                 ///< in place of the model's
  std::optional<SamplePositions> samplePositions; ///< with samples in place of the model's
  bool recordsShapes = false;                     ///< imports for what declaredShape says
  std::optional<llvm::StringMap<DeclaredShape>> declaredShapes;
  llvm::MapVector<mlir::Operation *, ImportedValue *> parameters;
  llvm::DenseMap<mlir::Value, ImportedValue *> reads;
  llvm::StringMap<const onnx::TypeProto *> declaredTypes;
  std::unique_ptr<onnx::GraphProto> inferred;
  llvm::StringMap<std::string> groups;
  std::map<std::string, int64_t> dims;
  llvm::StringMap<const onnx::FunctionProto *> functions;
  llvm::StringSet<> warned;
  bool failureNoted = false;
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  uint64_t numNodes = 0, numOperators = 0, foldedBytes = 0;
};

} // namespace cleave

#endif // CLEAVE_PASSES_IMPORT_GRAPHIMPORTER_H
