// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One node of the model while it is imported: its inputs, its attributes with their types checked, and the building
// of dfg operators in its name.

#ifndef CLEAVE_PASSES_IMPORT_NODEIMPORTER_H
#define CLEAVE_PASSES_IMPORT_NODEIMPORTER_H

#include "dialects/dfg/Dfg.h"
#include "passes/import/ImportedValue.h"
#include "passes/import/OnnxProto.h"
#include "passes/import/TensorReader.h"

#include "mlir/IR/Builders.h"

#include "llvm/ADT/StringSet.h"

namespace cleave {

class GraphImporter;
struct Scope;

/// What the import functions see of a node. Building operators never aborts: `emit` gives a null value and reports an
/// error where operands do not fit, and null operands give null results, so that only a function's end has to check.
class NodeImporter {
public:
  NodeImporter(GraphImporter &graph, Scope &scope, const onnx::NodeProto &proto, std::string name, int64_t version,
               llvm::ArrayRef<ImportedValue *> inputs);

  llvm::StringRef getName() const { return name; }
  llvm::StringRef getKind() const { return proto.op_type(); }
  mlir::Location getLoc() const { return location; }
  /// The version of the operator set that the node is written for.
  int64_t getVersion() const { return version; }
  /// Whether the graph is to be trained.
  bool isTraining() const;
  /// Whether dropout is an operator.
  bool keepsDropout() const;
  /// `shape`, to which the model reshapes an input, for the samples that the graph is imported with in place of those
  /// that the model declares; as it is where that does not apply.
  llvm::SmallVector<int64_t> rebatch(unsigned index, llvm::ArrayRef<int64_t> shape);
  /// Repeats those of the node's inputs that depend on no sample for each of them, where the model has a single one and
  /// the others have them as a dimension other than `dim`.
  void repeatForSamples(llvm::MutableArrayRef<mlir::Value> values, int64_t dim);
  const onnx::NodeProto &getProto() const { return proto; }

  //===-- inputs and outputs ---------------------------------------------------------------------------------===//

  unsigned getNumInputs() const { return inputs.size(); }
  bool hasInput(unsigned index) const { return index < inputs.size() && inputs[index]; }
  /// The value of an input; null where it is absent.
  mlir::Value input(unsigned index) { return hasInput(index) ? use(*inputs[index]) : mlir::Value(); }
  /// A value of the model as an operand.
  mlir::Value use(ImportedValue &value);
  /// The type of an input that is present.
  mlir::RankedTensorType type(unsigned index) const { return inputs[index]->type; }
  llvm::ArrayRef<int64_t> shape(unsigned index) const { return type(index).getShape(); }
  int64_t rank(unsigned index) const { return type(index).getRank(); }
  ImportedValue *imported(unsigned index) const { return inputs[index]; }
  /// Whether the result is the right operand of a product of dequantized tensors.
  bool isQuantizedWeight() const;
  /// Makes an input with known elements a parameter where an operator uses it, and leaves the node to run time: its
  /// elements are not folded into wider ones.
  void keepAsParameter(unsigned index);
  bool isLeftToRunTime() const { return leftToRunTime; }
  /// Whether somebody may read an output.
  bool hasOutput(unsigned index) const {
    return static_cast<int>(index) < proto.output_size() && !proto.output(index).empty();
  }

  /// The elements of an input that is present, if they are known.
  std::optional<HostTensor> knownIfAny(unsigned index);
  /// The elements of an input, which must be known. Where a graph input fixes them, its value is asked for; where they
  /// are computed from data, the node is not supported.
  llvm::FailureOr<HostTensor> known(unsigned index);
  /// The same for any value of the model; `what` follows from it.
  llvm::FailureOr<HostTensor> known(ImportedValue &value, llvm::StringRef what = "the result's shape");
  /// The elements of an input of integers, which must be known.
  llvm::FailureOr<llvm::SmallVector<int64_t>> knownIntegers(unsigned index);
  /// The only element of an input, as a double, which must be known.
  llvm::FailureOr<double> knownNumber(unsigned index);
  /// Integers that are an attribute up to some version and an input later; `nullopt` where the node has neither.
  llvm::FailureOr<std::optional<llvm::SmallVector<int64_t>>> attributeOrInput(llvm::StringRef attribute,
                                                                              unsigned index);

  //===-- attributes -----------------------------------------------------------------------------------------===//
  // A wrong type is an error; the fallback is returned all the same, and the node fails at its end.

  bool hasAttribute(llvm::StringRef attribute) const;
  /// Whether somebody has asked for an attribute of this name.
  bool asksFor(llvm::StringRef attribute) const { return asked.contains(attribute); }
  int64_t integer(llvm::StringRef attribute, int64_t fallback);
  double real(llvm::StringRef attribute, double fallback);
  /// The float itself where `real` gives the shortest decimal that names it.
  double exactReal(llvm::StringRef attribute, double fallback);
  std::string text(llvm::StringRef attribute, llvm::StringRef fallback);
  std::optional<llvm::SmallVector<int64_t>> integers(llvm::StringRef attribute);
  std::optional<llvm::SmallVector<float>> reals(llvm::StringRef attribute);
  std::optional<llvm::SmallVector<std::string>> texts(llvm::StringRef attribute);
  const onnx::TensorProto *tensor(llvm::StringRef attribute);
  const onnx::GraphProto *subgraph(llvm::StringRef attribute);
  /// Reads a tensor attribute's elements.
  llvm::FailureOr<HostTensor> read(const onnx::TensorProto &tensor);

  /// `axis` counted from the front; an error where it is not a dimension of `rank`.
  llvm::FailureOr<int64_t> axis(int64_t axis, int64_t rank);
  /// The same for several, which must be distinct; sorted.
  llvm::FailureOr<llvm::SmallVector<int64_t>> axes(llvm::ArrayRef<int64_t> axes, int64_t rank);

  //===-- subgraphs ------------------------------------------------------------------------------------------===//

  /// A scope with the subgraph's initializers, which all its runs share.
  llvm::FailureOr<Scope> open(const onnx::GraphProto &subgraph);
  /// Imports the subgraph once, in a scope that `open` gave; nodes are named below the node's name and `part`.
  llvm::FailureOr<llvm::SmallVector<ImportedValue *>> run(const Scope &shared, const onnx::GraphProto &subgraph,
                                                          llvm::StringRef part,
                                                          llvm::ArrayRef<ImportedValue *> arguments);
  /// A value that a subgraph reads: one that the node computed, or a known one.
  ImportedValue *argument(llvm::StringRef name, mlir::Value value);
  ImportedValue *argument(llvm::StringRef name, HostTensor known);

  //===-- errors ---------------------------------------------------------------------------------------------===//

  /// The node is malformed.
  mlir::LogicalResult error(const llvm::Twine &message);
  /// The node is imported as `dfg.opaque`, for this reason.
  mlir::LogicalResult unsupported(const llvm::Twine &reason);
  bool hasFailed() const { return hasError; }
  const std::string &getUnsupportedReason() const { return reason; }

  //===-- building -------------------------------------------------------------------------------------------===//

  mlir::OpBuilder &getBuilder() { return builder; }
  mlir::MLIRContext *getContext() { return builder.getContext(); }

  mlir::NamedAttribute attr(llvm::StringRef key, llvm::ArrayRef<int64_t> values) {
    return builder.getNamedAttr(key, builder.getDenseI64ArrayAttr(values));
  }
  mlir::NamedAttribute attr(llvm::StringRef key, int64_t value) {
    return builder.getNamedAttr(key, builder.getI64IntegerAttr(value));
  }
  mlir::NamedAttribute real64(llvm::StringRef key, double value) {
    return builder.getNamedAttr(key, builder.getF64FloatAttr(value));
  }
  mlir::NamedAttribute flag(llvm::StringRef key) { return builder.getNamedAttr(key, builder.getUnitAttr()); }

  /// Builds an operator whose result type follows from its operands.
  template <typename OpTy>
  mlir::Value emit(mlir::ValueRange operands, llvm::ArrayRef<mlir::NamedAttribute> attributes = {}) {
    if (llvm::is_contained(operands, mlir::Value()))
      return {};
    mlir::DictionaryAttr dictionary = builder.getDictionaryAttr(attributes);
    typename OpTy::Properties properties{};
    auto report = [&] { return mlir::emitError(location); };
    if constexpr (OpTy::hasProperties())
      if (mlir::failed(OpTy::setPropertiesFromAttr(properties, dictionary, report)))
        return fail();
    llvm::SmallVector<mlir::Type> types;
    if (mlir::failed(OpTy::inferReturnTypes(getContext(), location, operands, dictionary,
                                            mlir::OpaqueProperties(&properties), {}, types)))
      return fail();
    return create(OpTy::getOperationName(), operands, types.front(), attributes);
  }
  /// Builds an operator of a given result type.
  template <typename OpTy>
  mlir::Value emitAs(mlir::RankedTensorType type, mlir::ValueRange operands,
                     llvm::ArrayRef<mlir::NamedAttribute> attributes = {}) {
    if (!type || llvm::is_contained(operands, mlir::Value()))
      return {};
    return create(OpTy::getOperationName(), operands, type, attributes);
  }

  /// A constant of one element, of rank 0.
  mlir::Value scalar(mlir::Type elementType, double value);
  mlir::Value constant(const HostTensor &tensor);
  /// A weight that the import computes: a parameter named below the node. An error where the model's constants become
  /// larger than memory should hold.
  mlir::Value weight(llvm::StringRef part, HostTensor tensor);
  /// A constant with one value everywhere.
  mlir::Value splat(mlir::RankedTensorType type, double value);
  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  mlir::Value broadcast(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  mlir::Value transpose(mlir::Value value, llvm::ArrayRef<int64_t> permutation);
  mlir::Value cast(mlir::Value value, mlir::Type elementType);
  /// Elements [start, limit) of one dimension, every `stride`th.
  mlir::Value slice(mlir::Value value, int64_t dim, int64_t start, int64_t limit, int64_t stride = 1);
  mlir::Value concat(llvm::ArrayRef<mlir::Value> values, int64_t dim);
  mlir::Value compare(mlir::Value lhs, mlir::Value rhs, dfg::Comparison comparison);
  mlir::Value dot(mlir::Value lhs, mlir::Value rhs, llvm::ArrayRef<int64_t> lhsBatch, llvm::ArrayRef<int64_t> rhsBatch,
                  llvm::ArrayRef<int64_t> lhsContracting, llvm::ArrayRef<int64_t> rhsContracting);
  mlir::Value reduce(mlir::Value value, dfg::ReduceKind kind, llvm::ArrayRef<int64_t> dims, bool keepDims);
  /// The mean over `dims`.
  mlir::Value mean(mlir::Value value, llvm::ArrayRef<int64_t> dims, bool keepDims);
  /// A vector of one value a channel (dimension 1) in the shape in which it broadcasts over a tensor of `rank`.
  mlir::Value perChannel(mlir::Value value, int64_t rank);

  static mlir::RankedTensorType typeOf(mlir::Value value) {
    return llvm::cast<mlir::RankedTensorType>(value.getType());
  }
  static mlir::Type elementOf(mlir::Value value) { return typeOf(value).getElementType(); }

  /// Takes an operator that was built elsewhere for the node.
  void addOperation(mlir::Operation *op) { operations.push_back(op); }
  /// Takes back what was built so far.
  void eraseOperations();

  /// The node's operators so far, and what stands for its known inputs.
  llvm::ArrayRef<mlir::Operation *> getOperations() const { return operations; }
  const llvm::MapVector<mlir::Value, ImportedValue *> &getPlaceholders() const { return placeholders; }

private:
  mlir::Value create(llvm::StringRef operation, mlir::ValueRange operands, mlir::Type type,
                     llvm::ArrayRef<mlir::NamedAttribute> attributes);
  mlir::Value fail();
  const onnx::AttributeProto *find(llvm::StringRef attribute, int type);

  GraphImporter &graph;
  Scope &scope;
  const onnx::NodeProto &proto;
  std::string name;
  int64_t version;
  llvm::SmallVector<ImportedValue *> inputs;
  mlir::Location location;
  mlir::OpBuilder builder;
  llvm::SmallVector<mlir::Operation *> operations;
  llvm::MapVector<mlir::Value, ImportedValue *> placeholders;
  llvm::DenseMap<ImportedValue *, mlir::Value> placeholderOf;
  mutable llvm::StringSet<> asked;
  std::string reason;
  bool hasError = false, leftToRunTime = false;
};

/// A node's only result.
inline ImportResults oneResult(mlir::Value value) { return llvm::SmallVector<NodeResult, 1>{NodeResult(value)}; }

/// A node of one input and no attributes, which is an operator of the graph.
template <typename OpTy> ImportResults importUnary(NodeImporter &node) {
  return oneResult(node.emit<OpTy>(node.input(0)));
}

} // namespace cleave

#endif // CLEAVE_PASSES_IMPORT_NODEIMPORTER_H
