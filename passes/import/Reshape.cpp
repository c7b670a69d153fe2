// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operators that change the shape and leave the elements in their order, and those that ask for the shape.

#include "passes/import/NodeImporter.h"
#include "passes/import/OperatorTable.h"

using namespace mlir;

namespace cleave {

/// Zero keeps the input's dimension (unless `allowzero`), one -1 takes what is left.
static ImportResults importReshape(NodeImporter &node) {
  FailureOr<SmallVector<int64_t>> shape = node.knownIntegers(1);
  if (failed(shape))
    return failure();
  bool allowZero = node.getVersion() >= 14 && node.integer("allowzero", 0);
  int64_t open = -1, fixed = 1;
  for (auto [index, size] : llvm::enumerate(*shape)) {
    if (size == 0 && !allowZero) {
      if (static_cast<int64_t>(index) >= node.rank(0))
        return node.error("expects a dimension of its input for the 0 at position " + Twine(index));
      size = node.shape(0)[index];
    }
  }
  *shape = node.rebatch(0, *shape);
  for (auto [index, size] : llvm::enumerate(*shape)) {
    if (size == -1 && open < 0) {
      open = index;
      continue;
    }
    if (size < 0)
      return node.error("expects sizes, 0 and at most one -1, got " + Twine(size));
    if (__builtin_mul_overflow(fixed, size, &fixed))
      return node.error("expects a shape whose product is no larger than its input");
  }
  if (open >= 0) {
    int64_t count = node.type(0).getNumElements();
    if (fixed == 0 || count % fixed != 0)
      return node.error("expects a shape that divides " + Twine(count) + " elements, got a product of " + Twine(fixed) +
                        " without the -1");
    (*shape)[open] = count / fixed;
  }
  return oneResult(node.reshape(node.input(0), *shape));
}

static ImportResults importFlatten(NodeImporter &node) {
  int64_t rank = node.rank(0), axis = node.integer("axis", 1);
  if (axis < -rank || axis > rank)
    return node.error("expects an axis up to the rank " + Twine(rank) + ", got " + Twine(axis));
  axis = axis < 0 ? axis + rank : axis;
  ArrayRef<int64_t> shape = node.shape(0);
  return oneResult(node.reshape(node.input(0),
                                {llvm::product_of(shape.take_front(axis)), llvm::product_of(shape.drop_front(axis))}));
}

static ImportResults importSqueeze(NodeImporter &node) {
  auto given = node.attributeOrInput("axes", 1);
  if (failed(given))
    return failure();
  FailureOr<SmallVector<int64_t>> axes = SmallVector<int64_t>();
  if (*given)
    axes = node.axes(**given, node.rank(0));
  if (failed(axes))
    return failure();
  SmallVector<int64_t> shape;
  for (auto [index, size] : llvm::enumerate(node.shape(0))) {
    bool named = llvm::is_contained(*axes, static_cast<int64_t>(index));
    if (named && size != 1)
      return node.error("expects dimension " + Twine(index) + " to be 1, got " + Twine(size));
    if (*given ? !named : size != 1)
      shape.push_back(size);
  }
  return oneResult(node.reshape(node.input(0), shape));
}

static ImportResults importUnsqueeze(NodeImporter &node) {
  auto given = node.attributeOrInput("axes", 1);
  if (failed(given))
    return failure();
  if (!*given)
    return node.error("expects \"axes\"");
  int64_t rank = node.rank(0) + static_cast<int64_t>((*given)->size());
  FailureOr<SmallVector<int64_t>> axes = node.axes(**given, rank);
  if (failed(axes))
    return failure();
  SmallVector<int64_t> shape;
  for (int64_t dim = 0, next = 0; dim < rank; ++dim)
    shape.push_back(llvm::is_contained(*axes, dim) ? 1 : node.shape(0)[next++]);
  return oneResult(node.reshape(node.input(0), shape));
}

static HostTensor integerTensor(NodeImporter &node, ArrayRef<int64_t> values, bool isScalar) {
  SmallVector<int64_t> shape;
  if (!isScalar)
    shape.push_back(values.size());
  char *writable = nullptr;
  HostTensor tensor = HostTensor::allocate(RankedTensorType::get(shape, node.getBuilder().getI64Type()), writable);
  std::copy(values.begin(), values.end(), reinterpret_cast<int64_t *>(writable));
  return tensor;
}

static ImportResults importShape(NodeImporter &node) {
  int64_t rank = node.rank(0);
  auto clip = [&](int64_t position) { return std::clamp<int64_t>(position < 0 ? position + rank : position, 0, rank); };
  int64_t start = clip(node.integer("start", 0)), end = clip(node.integer("end", rank));
  ArrayRef<int64_t> part = node.shape(0).slice(start, std::max<int64_t>(end - start, 0));
  return SmallVector<NodeResult, 1>{integerTensor(node, part, /*isScalar=*/false)};
}

static ImportResults importSize(NodeImporter &node) {
  return SmallVector<NodeResult, 1>{integerTensor(node, node.type(0).getNumElements(), /*isScalar=*/true)};
}

/// Blocks of channels become squares of the image: seen as [n, b, b, c, h, w] or, with `CRD`, [n, c, b, b, h, w].
static ImportResults importDepthToSpace(NodeImporter &node) {
  int64_t block = node.integer("blocksize", 0);
  std::string mode = node.text("mode", "DCR");
  if (node.rank(0) != 4 || block < 1 || block > 1 << 20 || node.shape(0)[1] % (block * block) != 0)
    return node.error("expects a batch of images whose channels divide by the square of \"blocksize\"");
  int64_t n = node.shape(0)[0], c = node.shape(0)[1] / (block * block), h = node.shape(0)[2], w = node.shape(0)[3];
  Value result = mode == "CRD"
                     ? node.transpose(node.reshape(node.input(0), {n, c, block, block, h, w}), {0, 1, 4, 2, 5, 3})
                     : node.transpose(node.reshape(node.input(0), {n, block, block, c, h, w}), {0, 3, 4, 1, 5, 2});
  return oneResult(node.reshape(result, {n, c, h * block, w * block}));
}

static ImportResults importSpaceToDepth(NodeImporter &node) {
  int64_t block = node.integer("blocksize", 0);
  if (node.rank(0) != 4 || block < 1 || block > 1 << 20 || node.shape(0)[2] % block != 0 ||
      node.shape(0)[3] % block != 0)
    return node.error("expects a batch of images whose sizes divide by \"blocksize\"");
  int64_t n = node.shape(0)[0], c = node.shape(0)[1], h = node.shape(0)[2] / block, w = node.shape(0)[3] / block;
  Value blocks = node.transpose(node.reshape(node.input(0), {n, c, h, block, w, block}), {0, 3, 5, 1, 2, 4});
  return oneResult(node.reshape(blocks, {n, c * block * block, h, w}));
}

void addReshapeOperators(OperatorTable &table) {
  table.add("Reshape", {importReshape, 2, 2});
  table.add("Flatten", {importFlatten});
  table.add("Squeeze", {importSqueeze, 1, 2});
  table.add("Unsqueeze", {importUnsqueeze, 1, 2});
  table.add("Shape", {importShape});
  table.add("Size", {importSize});
  table.add("DepthToSpace", {importDepthToSpace});
  table.add("SpaceToDepth", {importSpaceToDepth});
}

} // namespace cleave
