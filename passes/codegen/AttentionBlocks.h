// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A fusion of operators on scores of attention, which are divided into blocks: what it reads is arranged outside, so
// that its loops read it in order, and inside scores are made as the graph makes them.

#ifndef CLEAVE_PASSES_CODEGEN_ATTENTIONBLOCKS_H
#define CLEAVE_PASSES_CODEGEN_ATTENTIONBLOCKS_H

#include "dialects/dfg/ScoreMasks.h"
#include "dialects/dfg/TensorType.h"

#include <map>

namespace cleave {

/// The two sequences of attention.
enum class Side { Queries, Keys };

/// An operand of a product of attention: which dimensions are batches, which the queries (behind what else lies before
/// them) or the keys, and the one left.
struct SideTensor {
  Side side;
  mlir::Value value;
  llvm::SmallVector<int64_t> batch, along;
  int64_t size;

  int64_t getSize() const { return tensorType(value).getDimSize(size); }
  /// All of them, as above.
  llvm::SmallVector<int64_t> getOrder() const;
};

/// Of the product of queries and keys, or of the result's gradient and the values.
SideTensor lhsOf(dfg::DotGeneralOp product);
SideTensor rhsOf(dfg::DotGeneralOp product);
/// What a product sums up with weights or their gradient, which are `use`; the dimensions of queries in the order of
/// theirs.
SideTensor summedWith(mlir::OpOperand &use, Side side);

/// Builds a fusion in front of an operator, `place`. Scores in it are leading..., rows, blocks, groups, columns: rows
/// are the queries and columns the keys, or the other way round. The leading dimensions are those of dfg::Attention, of
/// which `batchDims` are batches of the products: by keys all of them are.
class AttentionBlocks {
public:
  /// `size`: of what is summed up over columns, all of it together. `band`: of queries less keys, outside of which
  /// scores add nothing.
  AttentionBlocks(const dfg::Attention &found, Side rows, int64_t size, mlir::Operation *place,
                  const std::optional<dfg::ScoreBand> &band);

  /// Outside of the fusion this value stands for one of the graph: sums that are known in another way.
  void replace(mlir::Value value, mlir::Value by) { replaced[value] = by; }

  //===-- inside ----------------------------------------------------------------------------------------------===//

  /// An operator of one result.
  template <typename Op, typename... Args> mlir::Value make(Args &&...args) {
    return Op::create(inside, location, std::forward<Args>(args)...);
  }
  mlir::Value reduce(mlir::Value value, dfg::ReduceKind kind, llvm::ArrayRef<int64_t> dims);
  /// With `count` dimensions of one element behind the others.
  mlir::Value expanded(mlir::Value value, unsigned count);
  /// What the graph has as `value`, of the size of the scores.
  mlir::Value scores(mlir::Value value);

  /// The scores with that number in the place of columns that there are not.
  mlir::Value withoutPadding(mlir::Value scores, mlir::Value number);

  /// The sums over each block of scores times a tensor of the columns: batch, block, what else leads, rows, size.
  mlir::Value sumBlocks(mlir::Value scores, const SideTensor &tensor);
  /// Those of scores within a block.
  llvm::SmallVector<int64_t> columnDims() const { return {blockDim + 1, blockDim + 2}; }

  /// The blocks' sums, each times the number of its block and row, together.
  mlir::Value weighBlocks(mlir::Value weights, mlir::Value sums);

  /// A constant of no dimensions, which the kernel reads.
  mlir::Value scalar(double number);

  //===-- outside ---------------------------------------------------------------------------------------------===//

  /// Ends the fusion. Returns its results, whose dimensions are the leading ones, rows and perhaps one more, sliced to
  /// the rows without padding and to the last dimension's size of `sizes`, where that has an entry for the result.
  llvm::SmallVector<mlir::Value> finish(llvm::ArrayRef<mlir::Value> results, llvm::ArrayRef<int64_t> sizes,
                                        llvm::ArrayRef<mlir::Operation *> operators);

  /// What the product gives whose sums these are, by leading dimensions and rows.
  mlir::Value asProduct(mlir::Value sums, mlir::OpOperand &use);

  /// By query, the sum of a tensor of the queries times another one of the same elements, in the type of `sums`.
  mlir::Value sumRows(const SideTensor &tensor, mlir::Value other, dfg::ReduceOp sums);

  int64_t getBlockDim() const { return blockDim; }
  int64_t getBatchDims() const { return batchDims; }

  /// The same elements under another shape.
  mlir::Value reshaped(mlir::Value value, llvm::ArrayRef<int64_t> shape);

private:
  static llvm::SmallVector<int64_t> range(int64_t begin, int64_t end) { return llvm::to_vector(llvm::seq(begin, end)); }
  int64_t sizeOf(Side side) const { return type.getDimSize(type.getRank() - (side == Side::Queries ? 2 : 1)); }

  mlir::Value splat(mlir::OpBuilder &builder, mlir::RankedTensorType type, mlir::Attribute element);

  /// A value of the graph as the fusion's operand.
  mlir::Value read(mlir::Value value);

  //===-- outside ---------------------------------------------------------------------------------------------===//

  /// With the dimensions before the size in the order of the leading ones, and queries or keys: batch..., keys, size or
  /// leading..., queries, size. What was transposed for the product is read as it was before.
  mlir::Value ordered(const SideTensor &tensor);
  /// `value` with zeros behind its elements, up to those sizes.
  mlir::Value padded(mlir::Value value, llvm::ArrayRef<int64_t> sizes);
  /// The same along one dimension.
  mlir::Value padded(mlir::Value value, int64_t dim, int64_t size);

  /// With all leading dimensions that the fusion's products have as batches.
  mlir::Value withBatch(mlir::Value value, Side side);

  enum class Form { Rows, ColumnsFirst, ColumnsLast };

  /// Once for each tensor and form.
  mlir::Value readAs(const SideTensor &tensor, Form form);

  mlir::Value readRows(const SideTensor &tensor);

  /// Batch, block, group and the other two dimensions, with the columns of a group first or last of these. They lie
  /// side by side, as the sums that stand side by side in a vector do, and those of a block together.
  mlir::Value readColumns(const SideTensor &tensor, bool columnsFirst);

  /// The leading dimensions of what broadcasts to scores, given those of the scores and its own.
  llvm::SmallVector<int64_t> leadingOf(llvm::ArrayRef<int64_t> scores, llvm::ArrayRef<int64_t> own);

  /// A shape that broadcasts to scores, with two dimensions at least; none stays none.
  static llvm::SmallVector<int64_t> withTwoDims(llvm::ArrayRef<int64_t> shape);
  int64_t rowsIn(llvm::ArrayRef<int64_t> shape) const { return shape[shape.size() - (rows == Side::Queries ? 2 : 1)]; }
  int64_t columnsIn(llvm::ArrayRef<int64_t> shape) const {
    return shape[shape.size() - (rows == Side::Queries ? 1 : 2)];
  }

  /// The shape of a tensor that broadcasts to scores of that shape: with leading dimensions, padded rows, blocks,
  /// groups, columns; none for one without dimensions.
  llvm::SmallVector<int64_t> shapeInBlocks(llvm::ArrayRef<int64_t> scores, llvm::ArrayRef<int64_t> own);

  /// What operators between read beside scores of that shape; once for each.
  mlir::Value otherInBlocks(mlir::Value operand, llvm::ArrayRef<int64_t> scores);
  mlir::Value arrangedInBlocks(mlir::Value operand, llvm::ArrayRef<int64_t> shape);

  //===-- inside ----------------------------------------------------------------------------------------------===//

  /// The number of each column.
  mlir::Value columnNumbers();

  /// What is computed without inputs for scores of that shape.
  mlir::Value computedInBlocks(mlir::Value value, llvm::ArrayRef<int64_t> scores);

  /// Whether row and column lie in a band, of queries less keys.
  mlir::Value inBand(const dfg::ScoreBand &band);
  /// What a mask of the graph is for each row and column, where positions say so; null where they do not.
  mlir::Value maskInBlocks(mlir::Value mask);

  /// The operator on other operands.
  mlir::Value copyOf(mlir::Operation *op, llvm::ArrayRef<mlir::Value> operands, mlir::RankedTensorType result);

  bool isBetween(mlir::Operation *op) const;

  mlir::Value makeScores(mlir::Operation *op);

  dfg::Attention attention;
  mlir::Location location;
  mlir::OpBuilder outside, inside;
  mlir::Block *body;
  mlir::RankedTensorType type;
  Side rows;
  llvm::SmallVector<int64_t, 4> leading;
  int64_t batchDims, rowDim, blockDim;
  int64_t numRows, paddedRows, numColumns, block, blocks, groups;
  std::optional<dfg::ScoreBand> band;
  llvm::SmallVector<mlir::Value> operands;
  llvm::DenseMap<mlir::Value, mlir::Value> inBlocks, replaced;
  std::map<std::tuple<void *, Side, llvm::SmallVector<int64_t>, Form>, mlir::Value> arranged;
  std::map<std::pair<void *, llvm::SmallVector<int64_t>>, mlir::Value> others;
};

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_ATTENTIONBLOCKS_H
