// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `#plan.tile` as text, and what it says about the buffers of those who carry it.

#include "dialects/plan/TileVerification.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::plan;

//===-- text --------------------------------------------------------------------------------------------------===//

namespace {
/// How axes cut a dimension; `shifts` and `ways` are those of all axes, or of none.
struct Cuts {
  SmallVector<int64_t> axes, blocks, shifts, ways;
};
} // namespace

static ParseResult parseCut(AsmParser &parser, Cuts &cuts) {
  if (parser.parseInteger(cuts.axes.emplace_back()) || parser.parseKeyword("of") ||
      parser.parseInteger(cuts.blocks.emplace_back()))
    return failure();
  if (failed(parser.parseOptionalKeyword("shift")))
    return success();
  return failure(parser.parseInteger(cuts.shifts.emplace_back()) || parser.parseKeyword("of") ||
                 parser.parseInteger(cuts.ways.emplace_back()));
}

static ParseResult parseDim(AsmParser &parser, SmallVectorImpl<TileDimAttr> &dims) {
  SMLoc location = parser.getCurrentLocation();
  int64_t size = 0, step = 1, before = 0;
  Cuts cuts;
  auto &[axes, blocks, shifts, ways] = cuts;
  if (parser.parseInteger(size))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("by")) &&
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] { return parseCut(parser, cuts); }))
    return failure();
  int64_t length = blocks.empty() ? size : blocks.back();
  if (succeeded(parser.parseOptionalKeyword("window")) &&
      (parser.parseLParen() || parser.parseInteger(length) || parser.parseKeyword("step") ||
       parser.parseInteger(step) || parser.parseKeyword("before") || parser.parseInteger(before) ||
       parser.parseRParen()))
    return failure();
  if (size < 0 || length < 0 || step < 1 ||
      llvm::any_of(
          axes, [](int64_t axis) { return axis < 0; }) ||
      llvm::any_of(blocks, [](int64_t block) { return block < 0; }))
    return parser.emitError(location, "expects axes and sizes that are not negative, and a positive step");
  bool fit = llvm::all_of(llvm::zip(shifts, ways),
                          [](auto pair) { return std::get<0>(pair) >= 0 && std::get<0>(pair) < std::get<1>(pair); });
  if (!fit || (!shifts.empty() && shifts.size() != axes.size()))
    return parser.emitError(location, "expects shifts of all axes or none, each less than the axis's size");
  dims.push_back(TileDimAttr::get(parser.getContext(), size, axes, blocks, length, step, before, shifts, ways));
  return success();
}

Attribute TileAttr::parse(AsmParser &parser, Type) {
  SmallVector<TileDimAttr> dims;
  if (parser.parseLess() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] { return parseDim(parser, dims); }) ||
      parser.parseGreater())
    return {};
  return TileAttr::get(parser.getContext(), dims);
}

void TileAttr::print(AsmPrinter &printer) const {
  auto printDim = [&](TileDimAttr dim) {
    printer << dim.getSize();
    if (!dim.getAxes().empty()) {
      printer << " by [";
      llvm::interleaveComma(llvm::seq<size_t>(0, dim.getAxes().size()), printer, [&](size_t cut) {
        printer << dim.getAxes()[cut] << " of " << dim.getBlocks()[cut];
        if (!dim.getShifts().empty())
          printer << " shift " << dim.getShifts()[cut] << " of " << dim.getWays()[cut];
      });
      printer << ']';
    }
    if (dim.isWindow())
      printer << " window (" << dim.getLength() << " step " << dim.getStep() << " before " << dim.getBefore() << ')';
  };
  printer << "<[";
  llvm::interleaveComma(getDims(), printer, printDim);
  printer << "]>";
}

//===-- counts ------------------------------------------------------------------------------------------------===//

int64_t TileAttr::getTensorElements() const {
  int64_t product = 1;
  for (TileDimAttr dim : getDims())
    product *= dim.getSize();
  return product;
}

int64_t TileAttr::getBufferElements() const {
  int64_t product = 1;
  for (TileDimAttr dim : getDims())
    product *= dim.getLength();
  return product;
}

//===-- verification ------------------------------------------------------------------------------------------===//

static LogicalResult verifyAxes(Operation *op, TileAttr tile, dist::MeshOp mesh) {
  llvm::SmallSet<int64_t, 4> seen;
  auto count = static_cast<int64_t>(mesh.getAxisSizes().size());
  for (TileDimAttr dim : tile.getDims())
    for (int64_t axis : dim.getAxes())
      if (axis >= count || !seen.insert(axis).second)
        return op->emitOpError("expects axes of mesh '")
               << mesh.getSymName() << "', which has " << count << ", each once, got " << axis << " in " << tile;
  return success();
}

LogicalResult cleave::plan::verifyTile(Operation *op, TileAttr tile, dist::MeshOp mesh, Value buffer, TileRole role) {
  if (!tile)
    return success();
  if (failed(verifyAxes(op, tile, mesh)))
    return failure();
  if (role == TileRole::Source && llvm::any_of(tile.getDims(), [](TileDimAttr dim) { return dim.isWindow(); }))
    return op->emitOpError("expects windows only in what it fills, got ") << tile;
  if (!buffer)
    return success();
  RankedTensorType type = cast<BufferType>(buffer.getType()).getTensor();
  if (getLayout(type) || type.getNumElements() != tile.getBufferElements())
    return op->emitOpError("expects a dense buffer of ")
           << tile.getBufferElements() << " elements for " << tile << ", got " << type;
  return success();
}

LogicalResult cleave::plan::verifySameTensor(Operation *op, TileAttr source, TileAttr target) {
  if (source && target && source.getTensorElements() != target.getTensorElements())
    return op->emitOpError("expects tiles of one tensor, got ") << source << " and " << target;
  return success();
}
