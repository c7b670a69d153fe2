// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Registers the dialect, and reads node names from locations.

#include "dialects/dfg/Dfg.h"
#include "dialects/dfg/PortAttributes.h"
#include "dialects/dfg/ScoreMasks.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace cleave::dfg;

#include "dialects/dfg/DfgOpsDialect.cpp.inc"
#include "dialects/dfg/DfgOpsEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/dfg/DfgOpsAttributes.cpp.inc"

void DfgDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/dfg/DfgOpsAttributes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/dfg/DfgOps.cpp.inc"
      >();
}

Operation *DfgDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type, Location loc) {
  auto elements = dyn_cast<ElementsAttr>(value);
  if (!elements || elements.getType() != type)
    return nullptr;
  return ConstantOp::create(builder, loc, type, elements);
}

LogicalResult DfgDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  bool isOfGraph = attribute.getName() == samplesAttrName || attribute.getName() == bucketAttrName;
  if (isOfGraph && isa<GraphOp>(op) && isa<IntegerAttr>(attribute.getValue()))
    return success();
  if (attribute.getName() == scoreMaskAttrName && isa<ParameterOp, ConstantOp>(op) &&
      isa<ScoreMaskAttr>(attribute.getValue()))
    return success();
  if (attribute.getName() == numberAttrName && isa<ParameterOp>(op) && isa<FloatAttr>(attribute.getValue()))
    return success();
  // On a fusion, and on the kernel that it becomes.
  if (attribute.getName() == bandAttrName && op->getNumRegions() > 0 && isa<BandAttr>(attribute.getValue()))
    return success();
  return op->emitOpError("carries the attribute '")
         << attribute.getName().getValue() << "', expected it on an argument or result of 'dfg.graph'";
}

LogicalResult BandAttr::verify(function_ref<InFlightDiagnostic()> emitError, unsigned rows, int64_t blocks,
                               int64_t columns, std::optional<int64_t> lower, std::optional<int64_t> upper) {
  if (blocks < 1 || columns < 1)
    return emitError() << "expects blocks of columns, got " << blocks << " of " << columns;
  if ((!lower && !upper) || (lower && upper && *lower > *upper))
    return emitError() << "expects a lower bound, an upper one, or both in order";
  return success();
}

static LogicalResult verifyPortAttribute(Operation *op, NamedAttribute attribute) {
  if (attribute.getName() == versionAttrName && isa<StringAttr>(attribute.getValue()))
    return success();
  if (attribute.getName() != "dfg.name" || !isa<StringAttr>(attribute.getValue()))
    return op->emitOpError("expects only the string attribute 'dfg.name' on arguments and results, got '")
           << attribute.getName().getValue() << "'";
  return success();
}

LogicalResult DfgDialect::verifyRegionArgAttribute(Operation *op, unsigned region, unsigned argument,
                                                   NamedAttribute attribute) {
  if (attribute.getName() == classesAttrName && isa<IntegerAttr>(attribute.getValue()))
    return success();
  return verifyPortAttribute(op, attribute);
}

LogicalResult DfgDialect::verifyRegionResultAttribute(Operation *op, unsigned region, unsigned result,
                                                      NamedAttribute attribute) {
  if (attribute.getName() == countsAttrName && isa<UnitAttr>(attribute.getValue()))
    return success();
  return verifyPortAttribute(op, attribute);
}

StringRef cleave::dfg::getNodeName(Location location) {
  if (auto name = location->findInstanceOf<NameLoc>())
    return name.getName();
  return {};
}

StringRef cleave::dfg::getNodeKind(Location location) {
  if (auto name = location->findInstanceOf<NameLoc>())
    if (auto kind = dyn_cast<NameLoc>(name.getChildLoc()))
      return kind.getName();
  return {};
}

Location cleave::dfg::getNodeLocation(MLIRContext *context, StringRef name, StringRef kind) {
  return NameLoc::get(StringAttr::get(context, name), NameLoc::get(StringAttr::get(context, kind)));
}
