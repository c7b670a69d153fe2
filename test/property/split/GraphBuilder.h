// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builds the graphs of the split test, and keeps account of the values: bounds, so that no operator is given what it is
// not defined on, and whether they are the same to the last bit however the graph is divided, without which no rounding
// and no comparison may follow.

#ifndef CLEAVE_TEST_PROPERTY_SPLIT_GRAPHBUILDER_H
#define CLEAVE_TEST_PROPERTY_SPLIT_GRAPHBUILDER_H

#include "test/property/split/Dice.h"

#include "dialects/dfg/Dfg.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/OwningOpRef.h"

namespace cleave::test {

/// Bounds of a value's elements.
struct Bounds {
  double low = -1, high = 1;
};

/// Whether an operator that is computed in another order, or by other code, gives the same bits.
enum class Rounding { Exact, Inexact };

/// The attribute of a graph's input that says how it is filled.
inline constexpr llvm::StringRef fillAttrName = "test.fill";

/// A graph in the making.
class GraphBuilder {
public:
  GraphBuilder(mlir::MLIRContext &context, uint64_t seed);

  Dice dice;

  mlir::OpBuilder &at() { return builder; }
  mlir::RankedTensorType type(mlir::Type element, llvm::ArrayRef<int64_t> shape) const {
    return mlir::RankedTensorType::get(shape, element);
  }
  mlir::Type i1() { return builder.getI1Type(); }
  mlir::Type i64() { return builder.getI64Type(); }
  mlir::DenseI64ArrayAttr array(llvm::ArrayRef<int64_t> values) { return builder.getDenseI64ArrayAttr(values); }

  /// A size of a dimension: one, primes, and numbers of many divisors.
  int64_t size();
  llvm::SmallVector<int64_t> shape(int64_t minRank, int64_t maxRank);

  /// A new input, parameter or constant.
  mlir::Value fresh(mlir::Type element, llvm::ArrayRef<int64_t> shape, Bounds bounds);
  /// A new input.
  mlir::Value input(mlir::Type element, llvm::ArrayRef<int64_t> shape, Bounds bounds);
  /// A value that was made before and has this type; else a new one.
  mlir::Value any(mlir::Type element, llvm::ArrayRef<int64_t> shape, Bounds bounds);
  /// The value, limited to an interval where it is not known to lie there.
  mlir::Value within(mlir::Value value, Bounds bounds);
  /// The value if it is exact, else a new one of its type and bounds.
  mlir::Value exact(mlir::Value value);

  Bounds boundsOf(mlir::Value value) const { return known.lookup(value).bounds; }
  bool isExact(mlir::Value value) const { return known.lookup(value).exact; }
  const std::vector<mlir::Value> &getValues() const { return values; }
  /// Offers the value to no further operator.
  void forget(mlir::Value value) { llvm::erase(values, value); }

  /// Appends an operator of one result. Integers are as they are whatever `bounds` says.
  template <typename Op, typename... Args> mlir::Value add(Rounding rounding, Bounds bounds, Args &&...args) {
    return note(Op::create(builder, nextLocation(), std::forward<Args>(args)...), rounding, bounds);
  }

  /// Ends the graph.
  mlir::OwningOpRef<mlir::ModuleOp> finish(llvm::ArrayRef<mlir::Value> outputs);

private:
  struct Knowledge {
    Bounds bounds;
    bool exact = true;
  };

  mlir::Location nextLocation();
  mlir::Value note(mlir::Operation *op, Rounding rounding, Bounds bounds);
  mlir::Value remember(mlir::Value value, Bounds bounds, bool exact);
  mlir::Value parameter(mlir::RankedTensorType type, Bounds bounds);
  mlir::Value constant(mlir::RankedTensorType type, Bounds bounds);

  mlir::OwningOpRef<mlir::ModuleOp> module;
  dfg::GraphOp graph;
  mlir::OpBuilder builder;
  llvm::DenseMap<mlir::Value, Knowledge> known;
  std::vector<mlir::Value> values;
  unsigned operators = 0, parameters = 0;
};

/// Shape and element type of a value.
llvm::ArrayRef<int64_t> shapeOf(mlir::Value value);
mlir::Type elementOf(mlir::Value value);
/// "f32", as Tensor calls it.
std::string elementName(mlir::Type element);

/// `#test.fill`: {low, high, seed}, for the input of a graph.
mlir::DictionaryAttr fillAttr(mlir::Builder builder, Bounds bounds, uint64_t seed);

} // namespace cleave::test

#endif // CLEAVE_TEST_PROPERTY_SPLIT_GRAPHBUILDER_H
