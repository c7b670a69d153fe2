// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RoiAlign: averages of regions of images, whose positions are data. Images become tables of one row an element, so
// that no image is copied for a region. Source: He, Gkioxari, Dollar, Girshick, Mask R-CNN, 2017.

#include "passes/import/OperatorTable.h"
#include "passes/import/Positions.h"

using namespace mlir;

namespace cleave {

namespace {
/// Samples of all regions along one dimension, [regions, samples]: the two elements around each, and their weights.
struct RegionTaps {
  Value positions[2], weights[2];
};

class RegionSampler {
public:
  RegionSampler(NodeImporter &node, int64_t perBin)
      : node(node), perBin(perBin), element(node.type(1).getElementType()) {}

  RegionTaps tapsAlong(int64_t coordinate, int64_t size, int64_t bins);
  /// The average over the samples of each bin: [regions, rows, columns, channels].
  Value average(const RegionTaps &rows, const RegionTaps &columns, int64_t rowBins, int64_t columnBins);

private:
  Value add(Value a, Value b) { return node.emit<dfg::AddOp>({a, b}); }
  Value sub(Value a, Value b) { return node.emit<dfg::SubOp>({a, b}); }
  Value mul(Value a, Value b) { return node.emit<dfg::MulOp>({a, b}); }
  Value real(double value) { return node.scalar(element, value); }

  NodeImporter &node;
  int64_t perBin;
  Type element;
};
} // namespace

/// `coordinate` is the column of input 1 where regions start; they end two columns further.
RegionTaps RegionSampler::tapsAlong(int64_t coordinate, int64_t size, int64_t bins) {
  // Before operator set 16 pixels were points, and no region was smaller than one.
  bool half = node.getVersion() >= 16 && node.text("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  Value scale = real(node.real("spatial_scale", 1.0));
  Value start = sub(mul(partOf(node, node.input(1), 1, coordinate, coordinate + 1), scale), real(half ? 0.5 : 0.0));
  Value end = sub(mul(partOf(node, node.input(1), 1, coordinate + 2, coordinate + 3), scale), real(half ? 0.5 : 0.0));
  Value length = sub(end, start);
  if (!half)
    length = node.emit<dfg::MaxOp>({length, real(1.0)});
  int64_t samples = bins * perBin;
  SmallVector<double> centres;
  for (int64_t i = 0; i < samples; ++i)
    centres.push_back((static_cast<double>(i) + 0.5) / static_cast<double>(samples));
  Value source = add(start, mul(length, realConstant(node, element, centres, {1, samples})));
  // Up to one outside, the edge counts; further outside, nothing does.
  auto last = static_cast<double>(size - 1);
  Value isNear =
      node.emit<dfg::AndOp>({compare(node, source, dfg::Comparison::GreaterOrEqual, real(-1.0)),
                             compare(node, source, dfg::Comparison::LessOrEqual, real(static_cast<double>(size)))});
  Value inside = node.emit<dfg::ClampOp>(source, {node.real64("low", 0.0), node.real64("high", last)});
  Value floor = node.emit<dfg::FloorOp>(inside), rest = sub(inside, floor), zero = real(0.0);
  Value first = node.cast(floor, node.getBuilder().getI64Type());
  Value second = node.emit<dfg::MinOp>({add(first, integerConstant(node, 1, {})), integerConstant(node, size - 1, {})});
  return {
      {first, second},
      {node.emit<dfg::SelectOp>({isNear, sub(real(1.0), rest), zero}), node.emit<dfg::SelectOp>({isNear, rest, zero})}};
}

Value RegionSampler::average(const RegionTaps &rows, const RegionTaps &columns, int64_t rowBins, int64_t columnBins) {
  ArrayRef<int64_t> shape = node.shape(0);
  int64_t regions = node.shape(1)[0], channels = shape[1], image = shape[2] * shape[3];
  int64_t height = rowBins * perBin, width = columnBins * perBin;
  Value table = node.reshape(node.transpose(node.input(0), {0, 2, 3, 1}), {shape[0] * image, channels});
  Value batch =
      fromStart(node, node.cast(node.input(2), node.getBuilder().getI64Type()), integerConstant(node, shape[0], {}));
  Value offset = node.reshape(mul(batch, integerConstant(node, image, {})), {regions, 1, 1});
  Value sum;
  for (int row = 0; row < 2; ++row)
    for (int column = 0; column < 2; ++column) {
      Value y = mul(rows.positions[row], integerConstant(node, shape[3], {}));
      Value position = add(add(offset, node.reshape(y, {regions, height, 1})),
                           node.reshape(columns.positions[column], {regions, 1, width}));
      Value weight = mul(node.reshape(rows.weights[row], {regions, height, 1, 1}),
                         node.reshape(columns.weights[column], {regions, 1, width, 1}));
      Value part = mul(node.emit<dfg::GatherOp>({table, position}, node.attr("dim", int64_t(0))), weight);
      sum = sum ? add(sum, part) : part;
    }
  Value bins = node.reshape(sum, {regions, rowBins, perBin, columnBins, perBin, channels});
  return node.mean(bins, {2, 4}, /*keepDims=*/false);
}

static ImportResults importRoiAlign(NodeImporter &node) {
  int64_t rowBins = node.integer("output_height", 1), columnBins = node.integer("output_width", 1);
  int64_t perBin = node.integer("sampling_ratio", 0);
  if (node.rank(0) != 4 || node.rank(1) != 2 || node.shape(1)[1] != 4 || node.rank(2) != 1 ||
      node.shape(2)[0] != node.shape(1)[0] || node.type(0).getElementType() != node.type(1).getElementType())
    return node.error("expects images, regions of four numbers, and the image of each region");
  if (node.text("mode", "avg") != "avg")
    return node.unsupported("maxima of regions are not known");
  if (perBin <= 0)
    return node.unsupported("samples as many as a region is large are not known");
  constexpr int64_t most = int64_t(1) << 20;
  if (rowBins < 1 || columnBins < 1 || std::max({rowBins, columnBins, perBin}) > most ||
      node.type(0).getNumElements() == 0)
    return node.error("expects images that are not empty and results of a tensor's size");
  RegionSampler sampler(node, perBin);
  RegionTaps rows = sampler.tapsAlong(1, node.shape(0)[2], rowBins);
  RegionTaps columns = sampler.tapsAlong(0, node.shape(0)[3], columnBins);
  return oneResult(node.transpose(sampler.average(rows, columns, rowBins, columnBins), {0, 3, 1, 2}));
}

void addRegionOperators(OperatorTable &table) { table.add("RoiAlign", {importRoiAlign, 3, 3, Elements::Float, 10}); }

} // namespace cleave
