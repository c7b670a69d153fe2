// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Resampling of images: Resize and Upsample. Positions and weights are known at import, so that each dimension becomes
// a sum of look-ups at fixed positions.

#include "passes/import/OperatorTable.h"
#include "passes/import/Positions.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;

namespace cleave {

/// Of how many positions, or weights between positions, tables are made at import.
static constexpr int64_t mostPositions = int64_t(1) << 24;

/// The largest number of a region, in lengths of the input: positions that follow from it stay numbers.
static constexpr double largestRegion = 1e9;

namespace {
/// How a tensor is resampled, by the names of ONNX.
struct Method {
  std::string mode, coordinates, nearest, policy;
  double cubicCoefficient = -0.75, outsideValue = 0.0;
  bool excludeOutside = false, antialias = false;
};

/// One dimension: its sizes and the region of the input that is read.
struct Resampled {
  int64_t from = 0, to = 0;
  double scale = 1.0, start = 0.0, end = 1.0;
};

/// An input element that an output element is made of.
struct Tap {
  int64_t position = 0;
  double weight = 0.0;
};
} // namespace

/// Where output element `x` lies in the input. Where `scale` was given, the output's length is that times the input's,
/// as ONNX's reference has it, also where it is no whole number. The nearest element is found by quotients in float32,
/// as in other implementations: they may be whole numbers where those in float64 are a little less. Weights between
/// elements follow from exact positions.
static double sourceOf(const Method &method, const Resampled &dim, int64_t index) {
  auto x = static_cast<double>(index), from = static_cast<double>(dim.from), length = dim.scale * from;
  auto scaled = [&](double position) -> double {
    if (method.mode != "nearest")
      return position / dim.scale;
    return static_cast<float>(position) / static_cast<float>(dim.scale);
  };
  StringRef mode = method.coordinates;
  if (mode == "asymmetric")
    return scaled(x);
  if (mode == "align_corners")
    return length == 1.0 ? 0.0 : x * (from - 1.0) / (length - 1.0);
  if (mode == "tf_half_pixel_for_nn")
    return scaled(x + 0.5);
  if (mode == "pytorch_half_pixel" && dim.to <= 1)
    return 0.0;
  if (mode == "tf_crop_and_resize")
    return length > 1.0 ? dim.start * (from - 1.0) + x * (dim.end - dim.start) * (from - 1.0) / (length - 1.0)
                        : 0.5 * (dim.start + dim.end) * (from - 1.0);
  double half = scaled(x + 0.5) - 0.5;
  if (mode == "half_pixel_symmetric")
    return from / 2.0 * (1.0 - static_cast<double>(dim.to) / length) + half;
  return half;
}

static int64_t nearestTo(const Method &method, double x) {
  StringRef mode = method.nearest;
  if (mode == "floor")
    return static_cast<int64_t>(std::floor(x));
  if (mode == "ceil")
    return static_cast<int64_t>(std::ceil(x));
  return static_cast<int64_t>(mode == "round_prefer_ceil" ? std::floor(x + 0.5) : std::ceil(x - 0.5));
}

/// The interpolation kernel at a distance. Cubic: Keys, Cubic convolution interpolation for digital image processing,
/// 1981.
static double kernel(const Method &method, double distance) {
  double t = std::abs(distance), a = method.cubicCoefficient;
  if (method.mode == "linear")
    return std::max(1.0 - t, 0.0);
  if (t <= 1.0)
    return ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0;
  return t < 2.0 ? ((t - 5.0) * t + 8.0) * t * a - 4.0 * a : 0.0;
}

/// What one output element is made of; positions outside have moved to the edge.
static SmallVector<Tap> tapsOf(const Method &method, const Resampled &dim, double x) {
  auto atEdge = [&](int64_t position) { return std::clamp<int64_t>(position, 0, dim.from - 1); };
  if (method.mode == "nearest")
    return {{atEdge(nearestTo(method, x)), 1.0}};
  // Where the output is smaller, antialiasing widens the kernel.
  double shrink = method.antialias ? std::min(dim.scale, 1.0) : 1.0;
  double reach = (method.mode == "linear" ? 1.0 : 2.0) / shrink;
  // Farther out than the kernel reaches each tap is the edge. A region may lie where doubles are no longer dense enough
  // to count positions.
  auto length = static_cast<double>(dim.from);
  x = std::clamp(x, -reach - 1.0, length + reach);
  SmallVector<Tap> taps;
  double total = 0.0;
  for (auto position = static_cast<int64_t>(std::floor(x - reach)) + 1; static_cast<double>(position) < x + reach;
       ++position) {
    bool isOutside = position < 0 || position >= dim.from;
    double weight = kernel(method, (static_cast<double>(position) - x) * shrink);
    if (isOutside && method.excludeOutside)
      continue;
    taps.push_back({atEdge(position), weight});
    total += weight;
  }
  if (method.antialias || method.excludeOutside)
    for (Tap &tap : taps)
      tap.weight /= total;
  return taps;
}

/// One dimension as a sum of look-ups, one for each of the elements that an output element is made of.
static Value resampleByLookUp(NodeImporter &node, Value value, int64_t dim, ArrayRef<SmallVector<Tap>> taps,
                              bool isWeighted) {
  auto length = static_cast<int64_t>(taps.size());
  SmallVector<int64_t> along(NodeImporter::typeOf(value).getRank() - dim, 1);
  along[0] = length;
  size_t most = 1;
  for (const SmallVector<Tap> &of : taps)
    most = std::max(most, of.size());
  Value sum;
  for (size_t number = 0; number < most; ++number) {
    SmallVector<int64_t> positions;
    SmallVector<double> weights;
    for (const SmallVector<Tap> &of : taps) {
      Tap tap = number < of.size() ? of[number] : Tap();
      positions.push_back(tap.position);
      weights.push_back(tap.weight);
    }
    Value part = node.emit<dfg::GatherOp>({value, integerConstant(node, positions, length)}, node.attr("dim", dim));
    if (isWeighted)
      part = node.emit<dfg::MulOp>({part, realConstant(node, NodeImporter::elementOf(value), weights, along)});
    sum = sum ? node.emit<dfg::AddOp>({sum, part}) : part;
  }
  return sum;
}

/// One dimension as a matrix product, where an output element is made of many.
static Value resampleByProduct(NodeImporter &node, Value value, int64_t dim, ArrayRef<SmallVector<Tap>> taps) {
  RankedTensorType type = NodeImporter::typeOf(value);
  auto from = type.getDimSize(dim), to = static_cast<int64_t>(taps.size());
  SmallVector<double> matrix(from * to, 0.0);
  for (int64_t i = 0; i < to; ++i)
    for (const Tap &tap : taps[i])
      matrix[tap.position * to + i] += tap.weight;
  Value weights = realConstant(node, type.getElementType(), matrix, {from, to}),
        product = node.emit<dfg::DotGeneralOp>({value, weights}, {node.attr("lhs_batch", ArrayRef<int64_t>()),
                                                                  node.attr("rhs_batch", ArrayRef<int64_t>()),
                                                                  node.attr("lhs_contracting", ArrayRef<int64_t>(dim)),
                                                                  node.attr("rhs_contracting", ArrayRef<int64_t>(0))});
  // The product has its dimension last.
  SmallVector<int64_t> permutation = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank() - 1));
  permutation.insert(permutation.begin() + dim, type.getRank() - 1);
  return node.transpose(product, permutation);
}

static Value resample(NodeImporter &node, Value value, int64_t dim, const Method &method, const Resampled &size) {
  SmallVector<SmallVector<Tap>> taps;
  for (int64_t i = 0; i < size.to; ++i)
    taps.push_back(tapsOf(method, size, sourceOf(method, size, i)));
  if (method.antialias && size.scale < 1.0)
    return resampleByProduct(node, value, dim, taps);
  return resampleByLookUp(node, value, dim, taps, method.mode != "nearest");
}

/// Elements whose position along a dimension is outside the input get the value for it.
static Value replaceOutside(NodeImporter &node, Value value, int64_t dim, const Method &method, const Resampled &size) {
  SmallVector<double> outside;
  for (int64_t i = 0; i < size.to; ++i) {
    double x = sourceOf(method, size, i);
    outside.push_back(x < 0.0 || x > static_cast<double>(size.from - 1) ? 1.0 : 0.0);
  }
  if (!value || llvm::none_of(outside, [](double flag) { return flag != 0.0; }))
    return value;
  SmallVector<int64_t> perPosition(NodeImporter::typeOf(value).getRank() - dim, 1);
  perPosition[0] = size.to;
  Value flags = node.cast(realConstant(node, node.getBuilder().getF32Type(), outside, perPosition),
                          node.getBuilder().getI1Type());
  return node.emit<dfg::SelectOp>({flags, node.scalar(NodeImporter::elementOf(value), method.outsideValue), value});
}

static ImportResults resampleAll(NodeImporter &node, const Method &method, ArrayRef<Resampled> dims) {
  Value value = node.input(0);
  Type element = node.type(0).getElementType();
  bool inReals = method.mode != "nearest" && !isa<FloatType>(element);
  if (inReals)
    value = node.cast(value, node.getBuilder().getF32Type());
  for (auto [dim, size] : llvm::enumerate(dims)) {
    bool same = size.from == size.to && (size.scale == 1.0 || method.coordinates == "align_corners") &&
                method.coordinates != "tf_crop_and_resize" && method.coordinates != "tf_half_pixel_for_nn";
    if (same)
      continue;
    if (size.from == 0)
      return node.error("expects elements to resize in dimension " + Twine(dim));
    int64_t work = 0;
    if (__builtin_mul_overflow(size.to, method.antialias ? size.from : 1, &work) || work > mostPositions)
      return node.unsupported("resizing of more than " + Twine(mostPositions) + " positions is not known");
    if (!value)
      return failure();
    value = resample(node, value, dim, method, size);
    if (method.coordinates == "tf_crop_and_resize")
      value = replaceOutside(node, value, dim, method, size);
  }
  return oneResult(inReals ? node.cast(value, element) : value);
}

//===-- what the node asks for --------------------------------------------------------------------------------===//

static FailureOr<Method> readMethod(NodeImporter &node) {
  Method method;
  bool old = node.getVersion() < 11 || node.getKind() == "Upsample";
  method.mode = node.text("mode", "nearest");
  method.coordinates = old ? "asymmetric" : node.text("coordinate_transformation_mode", "half_pixel");
  method.nearest = old ? "floor" : node.text("nearest_mode", "round_prefer_floor");
  method.policy = node.text("keep_aspect_ratio_policy", "stretch");
  method.cubicCoefficient = node.real("cubic_coeff_a", -0.75);
  method.outsideValue = node.real("extrapolation_value", 0.0);
  method.excludeOutside = node.integer("exclude_outside", 0);
  method.antialias = node.integer("antialias", 0);
  if (method.mode == "bilinear")
    method.mode = "linear";
  auto check = [&](StringRef name, StringRef value, ArrayRef<StringRef> known) {
    if (llvm::is_contained(known, value))
      return true;
    (void)node.error("expects \"" + name + "\" to be one of " + llvm::join(known, ", ") + ", got \"" + value + "\"");
    return false;
  };
  if (!check("mode", method.mode, {"nearest", "linear", "cubic"}) ||
      !check("coordinate_transformation_mode", method.coordinates,
             {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
              "tf_half_pixel_for_nn", "tf_crop_and_resize"}) ||
      !check("nearest_mode", method.nearest, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}) ||
      !check("keep_aspect_ratio_policy", method.policy, {"stretch", "not_larger", "not_smaller"}))
    return failure();
  return method;
}

/// The numbers of an input of reals, which must be known.
static FailureOr<SmallVector<double>> knownReals(NodeImporter &node, unsigned index) {
  FailureOr<HostTensor> tensor = node.known(index);
  if (failed(tensor))
    return failure();
  SmallVector<double> values;
  auto elements = tensor->toAttribute().tryGetValues<APFloat>();
  if (failed(elements))
    return FailureOr<SmallVector<double>>(node.error("expects input " + Twine(index) + " to hold real numbers"));
  for (APFloat value : *elements) {
    bool lossy = false;
    value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lossy);
    values.push_back(value.convertToDouble());
  }
  return values;
}

/// Whether a list is given: an input without elements stands for none.
static bool hasList(NodeImporter &node, unsigned index) {
  return node.hasInput(index) && node.type(index).getNumElements() != 0;
}

static LogicalResult applyScales(NodeImporter &node, ArrayRef<double> scales, ArrayRef<int64_t> axes,
                                 MutableArrayRef<Resampled> dims) {
  if (scales.size() != axes.size())
    return node.error("expects " + Twine(axes.size()) + " scales, got " + Twine(scales.size()));
  for (auto [axis, scale] : llvm::zip(axes, scales)) {
    // In float32, as other implementations: 5 times 2.6f is 13 there.
    double length = std::floor(static_cast<float>(dims[axis].from) * static_cast<float>(scale));
    if (!(scale > 0.0) || !(length < 1e15))
      return node.error("expects scales that are positive and not too large, got " + std::to_string(scale));
    dims[axis].scale = scale;
    dims[axis].to = static_cast<int64_t>(length);
  }
  return success();
}

static LogicalResult applySizes(NodeImporter &node, ArrayRef<int64_t> sizes, ArrayRef<int64_t> axes,
                                const Method &method, MutableArrayRef<Resampled> dims) {
  if (sizes.size() != axes.size() || llvm::any_of(sizes, [](int64_t size) { return size < 0; }))
    return node.error("expects " + Twine(axes.size()) + " sizes that are not negative");
  std::optional<double> common;
  for (auto [axis, size] : llvm::zip(axes, sizes)) {
    if (dims[axis].from == 0)
      return node.error("expects elements to resize in dimension " + Twine(axis));
    dims[axis].to = size;
    dims[axis].scale = static_cast<double>(size) / static_cast<double>(dims[axis].from);
    double scale = dims[axis].scale, sofar = common.value_or(scale);
    common = method.policy == "not_larger" ? std::min(sofar, scale) : std::max(sofar, scale);
  }
  if (method.policy == "stretch")
    return success();
  for (int64_t axis : axes) {
    dims[axis].scale = *common;
    dims[axis].to = static_cast<int64_t>(std::floor(*common * static_cast<double>(dims[axis].from) + 0.5));
  }
  return success();
}

static ImportResults importResize(NodeImporter &node) {
  FailureOr<Method> method = readMethod(node);
  if (failed(method))
    return failure();
  SmallVector<Resampled> dims;
  for (int64_t size : node.shape(0))
    dims.push_back({size, size});
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(0, node.rank(0)));
  if (std::optional<SmallVector<int64_t>> given = node.integers("axes")) {
    if (failed(node.axes(*given, node.rank(0))))
      return failure();
    axes = *given;
    for (int64_t &axis : axes)
      axis = axis < 0 ? axis + node.rank(0) : axis;
  }
  // Operator set 10 has no region: scales come first.
  bool old = node.getVersion() < 11;
  if (hasList(node, old ? 1 : 2)) {
    FailureOr<SmallVector<double>> scales = knownReals(node, old ? 1 : 2);
    if (failed(scales) || failed(applyScales(node, *scales, axes, dims)))
      return failure();
  } else {
    FailureOr<SmallVector<int64_t>> sizes = node.knownIntegers(3);
    if (failed(sizes) || failed(applySizes(node, *sizes, axes, *method, dims)))
      return failure();
  }
  if (method->coordinates == "tf_crop_and_resize") {
    FailureOr<SmallVector<double>> region = knownReals(node, 1);
    if (failed(region))
      return failure();
    if (region->size() != 2 * axes.size())
      return node.error("expects " + Twine(2 * axes.size()) + " numbers for the region, got " + Twine(region->size()));
    for (auto [index, axis] : llvm::enumerate(axes)) {
      dims[axis].start = (*region)[index];
      dims[axis].end = (*region)[axes.size() + index];
      for (double number : {dims[axis].start, dims[axis].end})
        if (!(std::abs(number) <= largestRegion))
          return node.error("expects numbers of at most " + llvm::formatv("{0:e0}", largestRegion).str() +
                            " in amount for the region, got " + llvm::formatv("{0:e}", number).str());
    }
  }
  return resampleAll(node, *method, dims);
}

/// Before operator set 9 the scales are an attribute.
static ImportResults importUpsample(NodeImporter &node) {
  FailureOr<Method> method = readMethod(node);
  if (failed(method))
    return failure();
  SmallVector<Resampled> dims;
  for (int64_t size : node.shape(0))
    dims.push_back({size, size});
  SmallVector<double> scales;
  if (std::optional<SmallVector<float>> given = node.reals("scales")) {
    scales.assign(given->begin(), given->end());
  } else {
    FailureOr<SmallVector<double>> known = knownReals(node, 1);
    if (failed(known))
      return failure();
    scales = *known;
  }
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(0, node.rank(0)));
  if (failed(applyScales(node, scales, axes, dims)))
    return failure();
  return resampleAll(node, *method, dims);
}

void addResizeOperators(OperatorTable &table) {
  table.add("Resize", {importResize, 1, 4, Elements::Number, 10});
  table.add("Upsample", {importUpsample, 1, 2, Elements::Number, 7, 9});
}

} // namespace cleave
