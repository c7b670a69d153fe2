// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Signal processing: window functions and mel filters, which are constants, and Fourier transforms as matrix products.

#include "passes/import/NodeImporter.h"
#include "passes/import/OperatorTable.h"

#include <cmath>
#include <numbers>

using namespace mlir;

namespace cleave {

/// The largest matrix of a Fourier transform and the longest window, in elements.
static constexpr int64_t largestTable = int64_t(1) << 24;

/// A tensor of computed numbers, of f32 or f64.
static HostTensor makeTable(Type element, ArrayRef<int64_t> shape, llvm::function_ref<double(int64_t)> value) {
  char *writable = nullptr;
  HostTensor table = HostTensor::allocate(RankedTensorType::get(shape, element), writable);
  for (int64_t i = 0, e = table.getNumElements(); i < e; ++i) {
    if (element.isF64())
      reinterpret_cast<double *>(writable)[i] = value(i);
    else
      reinterpret_cast<float *>(writable)[i] = static_cast<float>(value(i));
  }
  return table;
}

/// The type that the node asks for; null, with the reason noted, for those in which tables are not computed.
static Type tableType(NodeImporter &node) {
  Type element = elementTypeFromOnnx(node.getContext(), static_cast<int>(node.integer("output_datatype", 1)));
  if (element && (element.isF32() || element.isF64()))
    return element;
  (void)node.unsupported("results other than f32 and f64 are not known");
  return {};
}

/// An integer input that must be known, from `low` to `largestTable`.
static FailureOr<int64_t> knownSize(NodeImporter &node, unsigned index, int64_t low) {
  FailureOr<double> number = node.knownNumber(index);
  if (failed(number))
    return failure();
  if (!(*number >= static_cast<double>(low) && *number <= static_cast<double>(largestTable)))
    return FailureOr<int64_t>(
        node.error("expects input " + Twine(index) + " to be from " + Twine(low) + " to " + Twine(largestTable)));
  return static_cast<int64_t>(*number);
}

//===-- windows -----------------------------------------------------------------------------------------------===//

/// a - b cos(2 pi i / n) + c cos(4 pi i / n), with n the size, or one less where the window is symmetric.
static ImportResults importWindow(NodeImporter &node, double a, double b, double c) {
  FailureOr<int64_t> size = knownSize(node, 0, 0);
  Type element = tableType(node);
  if (failed(size) || !element)
    return failure();
  int64_t period = node.integer("periodic", 1) ? *size : *size - 1;
  HostTensor window = makeTable(element, *size, [&](int64_t i) {
    double angle = period == 0 ? 0.0 : 2.0 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(period);
    return a - b * std::cos(angle) + c * std::cos(2.0 * angle);
  });
  return SmallVector<NodeResult, 1>{window};
}

static ImportResults importHann(NodeImporter &node) { return importWindow(node, 0.5, 0.5, 0.0); }
static ImportResults importHamming(NodeImporter &node) { return importWindow(node, 25.0 / 46.0, 21.0 / 46.0, 0.0); }
static ImportResults importBlackman(NodeImporter &node) { return importWindow(node, 0.42, 0.5, 0.08); }

/// Triangular filters whose corners lie at equal distances on the mel scale, bins of the spectrum x filters.
static ImportResults importMelWeights(NodeImporter &node) {
  FailureOr<int64_t> filters = knownSize(node, 0, 1), length = knownSize(node, 1, 1), rate = knownSize(node, 2, 1);
  FailureOr<double> low = node.knownNumber(3), high = node.knownNumber(4);
  Type element = tableType(node);
  if (failed(filters) || failed(length) || failed(rate) || failed(low) || failed(high) || !element)
    return failure();
  int64_t bins = *length / 2 + 1;
  if (*filters > largestTable / bins)
    return node.error("expects a matrix of at most " + Twine(largestTable) + " elements");
  auto toMel = [](double hertz) { return 2595.0 * std::log10(1.0 + hertz / 700.0); };
  double lowMel = toMel(*low), step = (toMel(*high) - lowMel) / static_cast<double>(*filters + 2);
  auto corner = [&](int64_t i) {
    double hertz = 700.0 * (std::pow(10.0, (static_cast<double>(i) * step + lowMel) / 2595.0) - 1.0);
    return std::floor(static_cast<double>(*length + 1) * hertz / static_cast<double>(*rate));
  };
  HostTensor matrix = makeTable(element, {bins, *filters}, [&](int64_t index) {
    auto bin = static_cast<double>(index / *filters);
    int64_t filter = index % *filters;
    double left = corner(filter), centre = corner(filter + 1), right = corner(filter + 2);
    if (bin == centre)
      return 1.0;
    if (bin >= left && bin < centre)
      return (bin - left) / (centre - left);
    return bin > centre && bin < right ? (right - bin) / (right - centre) : 0.0;
  });
  return SmallVector<NodeResult, 1>{matrix};
}

//===-- Fourier transforms ------------------------------------------------------------------------------------===//

namespace {
/// A transform of `length` numbers. The input is given in `given` of them, the others being zero, each of one or two
/// parts; `results` are wanted.
struct Fourier {
  int64_t length = 0, given = 0, parts = 1, results = 0, resultParts = 2;
  bool isInverse = false;
  /// The input is the first half of a spectrum whose second half mirrors it.
  bool isHalf = false;

  /// What part `from` of input `i` contributes to part `to` of result `k`.
  double factor(int64_t i, int64_t from, int64_t k, int64_t to) const {
    double turn = 2.0 * std::numbers::pi * static_cast<double>(i * k % length) / static_cast<double>(length);
    double sine = isInverse ? std::sin(turn) : -std::sin(turn);
    double value = from == to ? std::cos(turn) : from == 0 ? sine : -sine;
    bool mirrored = isHalf && i > 0 && 2 * i != length;
    return value * (mirrored ? 2.0 : 1.0) / (isInverse ? static_cast<double>(length) : 1.0);
  }
};
} // namespace

/// Transforms along `dim`; the last dimension holds the parts.
static Value transform(NodeImporter &node, Value signal, int64_t dim, const Fourier &fourier) {
  if (!signal)
    return {};
  int64_t rank = NodeImporter::typeOf(signal).getRank();
  SmallVector<int64_t> shape = {fourier.given, fourier.parts, fourier.results, fourier.resultParts};
  int64_t elements = 1;
  for (int64_t size : shape)
    if (__builtin_mul_overflow(elements, size, &elements) || elements > largestTable) {
      (void)node.unsupported("transforms whose matrix has more than " + Twine(largestTable) +
                             " elements are not known");
      return {};
    }
  HostTensor table = makeTable(NodeImporter::elementOf(signal), shape, [&](int64_t index) {
    int64_t to = index % fourier.resultParts, rest = index / fourier.resultParts;
    int64_t k = rest % fourier.results, from = rest / fourier.results % fourier.parts;
    return fourier.factor(rest / fourier.results / fourier.parts, from, k, to);
  });
  Value matrix = node.use(*node.argument("fourier", table));
  Value product = node.dot(node.slice(signal, dim, 0, fourier.given), matrix, {}, {}, {dim, rank - 1}, {0, 1});
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, dim));
  order.push_back(rank - 2);
  for (int64_t i = dim; i < rank - 2; ++i)
    order.push_back(i);
  order.push_back(rank - 1);
  return node.transpose(product, order);
}

static bool isTransformable(NodeImporter &node) {
  Type element = node.type(0).getElementType();
  if (!element.isF32() && !element.isF64())
    (void)node.unsupported("transforms of types other than f32 and f64 are not known");
  else if (node.rank(0) < 2 || node.shape(0).back() < 1 || node.shape(0).back() > 2)
    (void)node.error("expects a last dimension of one or two parts");
  else
    return true;
  return false;
}

static ImportResults importDft(NodeImporter &node) {
  if (!isTransformable(node))
    return failure();
  bool isInput = node.getVersion() >= 20;
  int64_t given = isInput ? -2 : node.integer("axis", 1);
  if (isInput && node.hasInput(2)) {
    FailureOr<SmallVector<int64_t>> axis = node.knownIntegers(2);
    if (failed(axis))
      return failure();
    if (axis->size() != 1)
      return node.error("expects one axis, got " + Twine(axis->size()));
    given = axis->front();
  }
  FailureOr<int64_t> dim = node.axis(given, node.rank(0));
  if (failed(dim))
    return failure();
  if (*dim == node.rank(0) - 1)
    return node.error("expects an axis before the last, which holds the parts");
  int64_t size = node.shape(0)[*dim];
  bool isHalf = node.integer("onesided", 0);
  Fourier fourier;
  fourier.isInverse = node.integer("inverse", 0);
  fourier.isHalf = isHalf && fourier.isInverse;
  fourier.parts = node.shape(0).back();
  fourier.length = fourier.isHalf ? 2 * (size - 1) : size;
  if (node.hasInput(1)) {
    FailureOr<int64_t> length = knownSize(node, 1, 1);
    if (failed(length))
      return failure();
    fourier.length = *length;
  }
  if (fourier.length < 1)
    return node.error("expects a signal of at least one number");
  fourier.given = std::min(size, fourier.isHalf ? fourier.length / 2 + 1 : fourier.length);
  fourier.results = isHalf && !fourier.isInverse ? fourier.length / 2 + 1 : fourier.length;
  fourier.resultParts = fourier.isHalf ? 1 : 2;
  return oneResult(transform(node, node.input(0), *dim, fourier));
}

/// Frames of the signal, each times the window, transformed.
static ImportResults importStft(NodeImporter &node) {
  if (!isTransformable(node))
    return failure();
  if (node.rank(0) != 3)
    return node.error("expects a signal of rank 3");
  FailureOr<int64_t> step = knownSize(node, 1, 1);
  if (failed(step))
    return failure();
  int64_t size = node.shape(0)[1], length = node.hasInput(2) ? node.type(2).getNumElements() : size;
  if (node.hasInput(3)) {
    FailureOr<int64_t> given = knownSize(node, 3, 1);
    if (failed(given))
      return failure();
    length = *given;
  }
  if (length < 1 || length > size || (node.hasInput(2) && node.type(2).getNumElements() != length))
    return node.error("expects frames of the window's length and at most the signal's (" + Twine(size) + "), got " +
                      Twine(length));
  int64_t frames = (size - length) / *step + 1;
  if (frames > largestTable / length)
    return node.unsupported("more than " + Twine(largestTable) + " elements in all frames are not known");
  char *writable = nullptr;
  HostTensor places =
      HostTensor::allocate(RankedTensorType::get({frames, length}, node.getBuilder().getI64Type()), writable);
  for (int64_t i = 0; i < frames * length; ++i)
    reinterpret_cast<int64_t *>(writable)[i] = i / length * *step + i % length;
  Value signal = node.emit<dfg::GatherOp>({node.input(0), node.use(*node.argument("frames", places))},
                                          node.attr("dim", int64_t(1)));
  if (node.hasInput(2))
    signal = node.emit<dfg::MulOp>({signal, node.reshape(node.input(2), {length, 1})});
  Fourier fourier;
  fourier.length = fourier.given = length;
  fourier.parts = node.shape(0).back();
  fourier.results = node.integer("onesided", 1) ? length / 2 + 1 : length;
  return oneResult(transform(node, signal, 2, fourier));
}

void addSignalOperators(OperatorTable &table) {
  table.add("HannWindow", {importHann, 1, 1, Elements::Number, 17});
  table.add("HammingWindow", {importHamming, 1, 1, Elements::Number, 17});
  table.add("BlackmanWindow", {importBlackman, 1, 1, Elements::Number, 17});
  table.add("MelWeightMatrix", {importMelWeights, 5, 5, Elements::Number, 17});
  table.add("DFT", {importDft, 1, 3, Elements::Float, 17});
  table.add("STFT", {importStft, 2, 4, Elements::Float, 17});
}

} // namespace cleave
