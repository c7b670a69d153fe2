// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products with weights of a few bits (domain com.microsoft), as exporters of language models write them: each block of
// a row has a scale and a zero point. The weights are expanded at import and become a parameter of reals.

#include "passes/import/NodeImporter.h"
#include "passes/import/OperatorTable.h"
#include "passes/import/QuantizationParts.h"

using namespace mlir;

namespace cleave {

namespace {
/// One MatMulNBits node: its matrix of `rows` x `columns` lies row by row, each row padded to whole blocks.
class QuantizedMatrix {
public:
  QuantizedMatrix(NodeImporter &node)
      : node(node), rows(node.integer("N", 0)), columns(node.integer("K", 0)), bits(node.integer("bits", 4)),
        blockSize(node.integer("block_size", 0)) {}

  ImportResults build();

private:
  LogicalResult checkAttributes();
  LogicalResult readInputs();
  LogicalResult readZeros();
  FailureOr<HostTensor> read(unsigned index, int64_t count, StringRef what);
  HostTensor expand() const;

  NodeImporter &node;
  int64_t rows, columns, bits, blockSize, blocks = 0, blockBytes = 0;
  HostTensor packed;
  SmallVector<float> scales, zeros;
};
} // namespace

LogicalResult QuantizedMatrix::checkAttributes() {
  if (node.isTraining())
    return node.unsupported("quantized weights cannot be trained");
  if (bits != 2 && bits != 4 && bits != 8)
    return node.unsupported("weights of " + Twine(bits) + " \"bits\" are not known");
  if (node.integer("weight_prepacked", 0))
    return node.unsupported("weights in a device's order (\"weight_prepacked\") are not known");
  if (node.hasInput(4))
    return node.unsupported("columns in another order (\"g_idx\") are not known");
  constexpr int64_t most = int64_t(1) << 31;
  if (rows < 1 || columns < 1 || rows > most || columns > most)
    return node.error("expects \"N\" and \"K\" to be the sizes of a matrix");
  if (blockSize < 16 || blockSize > most || (blockSize & (blockSize - 1)) != 0)
    return node.error("expects \"block_size\" to be a power of two from 16 on, got " + Twine(blockSize));
  if (node.rank(0) < 1 || node.shape(0).back() != columns)
    return node.error("expects an input whose last dimension is \"K\" (" + Twine(columns) + ")");
  if (node.hasInput(5) && node.shape(5) != ArrayRef<int64_t>(rows))
    return node.error("expects a bias of \"N\" (" + Twine(rows) + ") elements");
  blocks = (columns + blockSize - 1) / blockSize;
  blockBytes = blockSize * bits / 8;
  return success();
}

/// The elements of an input, which must be known and `count` in number.
FailureOr<HostTensor> QuantizedMatrix::read(unsigned index, int64_t count, StringRef what) {
  if (node.type(index).getNumElements() != count)
    return FailureOr<HostTensor>(
        node.error("expects " + Twine(count) + " " + what + ", got " + Twine(node.type(index).getNumElements())));
  return node.known(*node.imported(index), "what the weights are");
}

/// A zero point a block: packed as the weights are (the rows apart), given as reals, or in the middle of the range.
LogicalResult QuantizedMatrix::readZeros() {
  if (!node.hasInput(3)) {
    zeros.assign(rows * blocks, static_cast<float>(1u << (bits - 1)));
    return success();
  }
  if (isa<FloatType>(node.type(3).getElementType())) {
    FailureOr<SmallVector<float>> given = knownReals(node, 3, rows * blocks, "zero points");
    if (failed(given))
      return failure();
    zeros = std::move(*given);
    return success();
  }
  int64_t rowBytes = (blocks * bits + 7) / 8;
  FailureOr<HostTensor> given = read(3, rows * rowBytes, "bytes of zero points");
  if (failed(given))
    return failure();
  if (!given->getElementType().isInteger(8))
    return node.error("expects zero points to be bytes or reals");
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t block = 0; block < blocks; ++block)
      zeros.push_back(static_cast<float>(packedNumber(*given, row * rowBytes, block, bits)));
  return success();
}

LogicalResult QuantizedMatrix::readInputs() {
  int64_t bytes = 0;
  if (__builtin_mul_overflow(rows * blocks, blockBytes, &bytes))
    return node.error("expects weights that fit into memory");
  FailureOr<HostTensor> weights = read(1, bytes, "bytes of weights");
  if (failed(weights))
    return failure();
  if (!weights->getElementType().isInteger(8))
    return node.error("expects weights to be bytes");
  packed = *weights;
  FailureOr<SmallVector<float>> factors = knownReals(node, 2, rows * blocks, "scales");
  if (failed(factors) || failed(readZeros()))
    return failure();
  scales = std::move(*factors);
  return success();
}

HostTensor QuantizedMatrix::expand() const {
  char *bytes = nullptr;
  auto type = RankedTensorType::get({rows, columns}, Float32Type::get(node.getContext()));
  HostTensor tensor = HostTensor::allocate(type, bytes);
  auto *result = reinterpret_cast<float *>(bytes);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) {
      int64_t block = row * blocks + column / blockSize;
      auto number = static_cast<float>(packedNumber(packed, block * blockBytes, column % blockSize, bits));
      *result++ = (number - zeros[block]) * scales[block];
    }
  return tensor;
}

ImportResults QuantizedMatrix::build() {
  if (failed(checkAttributes()) || failed(readInputs()))
    return failure();
  Value weights = node.cast(node.weight("weights", expand()), node.type(0).getElementType());
  Value product = node.dot(node.input(0), weights, {}, {}, {node.rank(0) - 1}, {1});
  return oneResult(node.hasInput(5) ? node.emit<dfg::AddOp>({product, node.input(5)}) : product);
}

void addBlockQuantizationOperators(OperatorTable &table) {
  table.add("com.microsoft.MatMulNBits",
            {[](NodeImporter &node) { return QuantizedMatrix(node).build(); }, 3, 6, Elements::Float, 1});
}

} // namespace cleave
