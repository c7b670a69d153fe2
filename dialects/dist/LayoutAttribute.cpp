// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `#dist.layout` as text, and what it says about the types of those who carry it.

#include "dialects/dist/Layout.h"

#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::dist;

//===-- text --------------------------------------------------------------------------------------------------===//

static ParseResult parseAxisList(AsmParser &parser, SmallVectorImpl<StringAttr> &axes) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() -> ParseResult {
    std::string name;
    if (parser.parseString(&name))
      return failure();
    axes.push_back(parser.getBuilder().getStringAttr(name));
    return success();
  });
}

static ParseResult parseReach(AsmParser &parser, Reach &reach) {
  return failure(parser.parseLParen() || parser.parseInteger(reach.count) || parser.parseKeyword("step") ||
                 parser.parseInteger(reach.step) || parser.parseKeyword("before") ||
                 parser.parseInteger(reach.before) || parser.parseKeyword("extent") ||
                 parser.parseInteger(reach.extent) || parser.parseRParen());
}

static ParseResult parsePart(AsmParser &parser, Part &part) {
  SMLoc location = parser.getCurrentLocation();
  SmallVector<StringAttr> axes;
  if (parser.parseInteger(part.size) || (succeeded(parser.parseOptionalKeyword("by")) && parseAxisList(parser, axes)))
    return failure();
  part.axes.assign(axes);
  if (succeeded(parser.parseOptionalKeyword("shift")) &&
      (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                      [&] { return parser.parseInteger(part.shifts.emplace_back()); }) ||
       part.shifts.size() != part.axes.size() || llvm::any_of(part.shifts, [](int64_t shift) { return shift < 0; })))
    return parser.emitError(location, "expects a shift that is not negative for each axis");
  if (succeeded(parser.parseOptionalKeyword("reach")) && parseReach(parser, part.reach.emplace()))
    return failure();
  Reach reach = part.reach.value_or(Reach());
  if (part.size < 0 || reach.count < 0 || reach.step < 1 || reach.extent < 1)
    return parser.emitError(location, "expects sizes that are not negative, and positive steps and extents");
  return success();
}

static ParseResult parseDim(AsmParser &parser, DimParts &parts) {
  do
    if (parsePart(parser, parts.emplace_back()))
      return failure();
  while (succeeded(parser.parseOptionalStar()));
  return success();
}

Attribute LayoutAttr::parse(AsmParser &parser, Type) {
  Layout layout;
  if (parser.parseLess() || parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
        return parseDim(parser, layout.dims.emplace_back());
      }))
    return {};
  if (succeeded(parser.parseOptionalComma())) {
    StringRef name;
    SMLoc location = parser.getCurrentLocation();
    SmallVector<StringAttr> axes;
    if (parser.parseKeyword("partial") || parser.parseKeyword(&name) || parseAxisList(parser, axes))
      return {};
    auto combiner = findCombiner(name);
    if (!combiner || *combiner == Combiner::None || axes.empty()) {
      parser.emitError(location, "expects 'sum', 'product', 'max' or 'min', and a list of axes");
      return {};
    }
    layout.partial.assign(axes);
    layout.combiner = *combiner;
  }
  if (parser.parseGreater())
    return {};
  return layout.toAttribute(parser.getContext());
}

static void printAxisList(AsmPrinter &printer, ArrayRef<StringAttr> axes) {
  printer << '[';
  llvm::interleaveComma(axes, printer);
  printer << ']';
}

void LayoutAttr::print(AsmPrinter &printer) const {
  Layout layout = Layout::of(*this);
  auto printPart = [&](const Part &part) {
    printer << part.size;
    if (!part.axes.empty()) {
      printer << " by ";
      printAxisList(printer, part.axes);
    }
    if (!part.shifts.empty())
      printer << " shift [" << ArrayRef<int64_t>(part.shifts) << ']';
    if (part.reach)
      printer << " reach (" << part.reach->count << " step " << part.reach->step << " before " << part.reach->before
              << " extent " << part.reach->extent << ')';
  };
  printer << "<[";
  llvm::interleaveComma(layout.dims, printer,
                        [&](const DimParts &parts) { llvm::interleave(parts, printer, printPart, " * "); });
  printer << ']';
  if (!layout.partial.empty()) {
    printer << ", partial " << combinerName(layout.combiner) << ' ';
    printAxisList(printer, layout.partial);
  }
  printer << '>';
}

//===-- verification ------------------------------------------------------------------------------------------===//

/// An axis along which a part is shifted by as many devices as there are, or more.
static std::optional<StringAttr> findBeyond(const Part &part, const MeshShape &mesh) {
  for (auto [axis, shift] : llvm::zip(part.axes, part.shifts))
    if (shift >= mesh.ways(axis))
      return axis;
  return std::nullopt;
}

/// Every axis must be the mesh's and stand once.
static LogicalResult verifyAxes(Operation *op, LayoutAttr attribute, const Layout &layout, const MeshShape &mesh) {
  llvm::SmallPtrSet<Attribute, 4> seen;
  auto check = [&](ArrayRef<StringAttr> axes) -> LogicalResult {
    for (StringAttr axis : axes)
      if (!mesh.find(axis) || !seen.insert(axis).second)
        return op->emitOpError("expects axes of its mesh, each once, got ") << axis << " in " << attribute;
    return success();
  };
  for (const DimParts &parts : layout.dims)
    for (const Part &part : parts)
      if (failed(check(part.axes)))
        return failure();
      else if (auto beyond = findBeyond(part, mesh))
        return op->emitOpError("expects shifts of less than the ")
               << mesh.ways(*beyond) << " devices of axis " << *beyond << ", got " << attribute;
  return check(layout.partial);
}

/// `type` must be what a device holds of a tensor in that layout.
static LogicalResult verifyLocalType(Operation *op, LayoutAttr attribute, Type type, const MeshShape &mesh) {
  Layout layout = Layout::of(attribute);
  if (failed(verifyAxes(op, attribute, layout, mesh)))
    return failure();
  auto tensor = cast<RankedTensorType>(type);
  SmallVector<int64_t> shape = layout.localShape(mesh);
  if (ArrayRef<int64_t>(shape) != tensor.getShape())
    return op->emitOpError("expects a tensor of shape [") << shape << "] for " << attribute << ", got " << type;
  return success();
}

static SmallVector<int64_t> globalShape(const Layout &layout) {
  SmallVector<int64_t> shape;
  for (const DimParts &parts : layout.dims) {
    int64_t &size = shape.emplace_back(1);
    for (const Part &part : parts)
      size *= part.size;
  }
  return shape;
}

/// Verifies the layouts of one of a collective's tensors.
static LogicalResult verifyTensor(Operation *op, unsigned index, const MeshShape &shape) {
  auto collective = cast<Collective>(op);
  LayoutAttr from = collective.getFromLayout(index), to = collective.getToLayout(index);
  if (failed(verifyLocalType(op, from, op->getOperand(index).getType(), shape)) ||
      failed(verifyLocalType(op, to, op->getResult(index).getType(), shape)))
    return failure();
  Layout source = Layout::of(from), target = Layout::of(to);
  if (globalShape(source) != globalShape(target))
    return op->emitOpError("expects two layouts of one tensor, got ") << from << " and " << to;
  bool joins = isa<AllReduceOp, ReduceScatterOp>(op);
  bool fewer = llvm::all_of(target.partial, [&](StringAttr axis) { return llvm::is_contained(source.partial, axis); });
  if (!fewer || (!joins && source.partial != target.partial) || (isa<AllReduceOp>(op) && source.dims != target.dims))
    return op->emitOpError("expects to join partial values where it is a reduction, and only there, got ")
           << from << " and " << to;
  return success();
}

LogicalResult cleave::dist::verifyCollective(Operation *op, SymbolTableCollection &symbols) {
  auto program = dyn_cast_or_null<ProgramOp>(op->getParentOp());
  auto mesh = program ? symbols.lookupNearestSymbolFrom<MeshOp>(op, program.getMeshAttr()) : MeshOp();
  if (!mesh)
    return op->emitOpError("expects the program around it to have a mesh");
  MeshShape shape(mesh);
  auto collective = cast<Collective>(op);
  for (unsigned index = 0; index != op->getNumOperands(); ++index) {
    if (getElementTypeOrSelf(op->getOperand(index)) != getElementTypeOrSelf(op->getOperand(0)))
      return op->emitOpError("expects tensors of one element type, got ") << op->getOperandTypes();
    if (failed(verifyTensor(op, index, shape)))
      return failure();
    if (joinedAxes(collective, index, shape) != joinedAxes(collective, 0, shape))
      return op->emitOpError("expects tensors that are joined along the same axes, got ")
             << collective.getFromLayout(0) << " and " << collective.getFromLayout(index);
  }
  return success();
}

/// Verifies that there is a parameter of which `type` is the local part in that layout.
static LogicalResult verifyParameterPart(Operation *op, SymbolTableCollection &symbols, FlatSymbolRefAttr parameter,
                                         LayoutAttr layout, Type type) {
  MeshOp mesh = getMesh(op);
  if (!mesh)
    return op->emitOpError("expects the program around it to have a mesh");
  if (!symbols.lookupNearestSymbolFrom(op, parameter))
    return op->emitOpError("expects a parameter named '") << parameter.getValue() << "', found none";
  return verifyLocalType(op, layout, type, MeshShape(mesh));
}

LogicalResult ShardOfOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyParameterPart(*this, symbols, getParameterAttr(), getLayout(), getType());
}

LogicalResult WriteOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyParameterPart(*this, symbols, getParameterAttr(), getLayout(), getValue().getType());
}
