// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The frame of a graph: graph, parameters, constants, fusions.

#include "dialects/dfg/Dfg.h"

#include "mlir/Interfaces/FunctionImplementation.h"

using namespace mlir;

namespace cleave::dfg {

//===-- parameter ---------------------------------------------------------------------------------------------===//

LogicalResult ParameterOp::verify() {
  if (!isa<FileAttr, NormalAttr, UniformAttr, FillAttr>(getInit()))
    return emitOpError("expects #dfg.file, #dfg.normal, #dfg.uniform or #dfg.fill as its first value, got ")
           << getInit();
  return success();
}

LogicalResult ReadOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto parameter = symbols.lookupNearestSymbolFrom<ParameterOp>(*this, getParameterAttr());
  if (!parameter)
    return emitOpError("expects a 'dfg.parameter' named '") << getParameter() << "', found none";
  if (parameter.getTensorType() != getType())
    return emitOpError("expects the parameter's type ") << parameter.getTensorType() << ", got " << getType();
  return success();
}

//===-- graph -------------------------------------------------------------------------------------------------===//

void GraphOp::build(OpBuilder &builder, OperationState &state, StringRef name, FunctionType type) {
  state.addAttribute(SymbolTable::getSymbolAttrName(), builder.getStringAttr(name));
  state.addAttribute(getFunctionTypeAttrName(state.name), TypeAttr::get(type));
  Region *body = state.addRegion();
  Block *block = new Block;
  body->push_back(block);
  for (Type input : type.getInputs())
    block->addArgument(input, state.location);
}

ParseResult GraphOp::parse(OpAsmParser &parser, OperationState &result) {
  auto buildType = [](Builder &builder, ArrayRef<Type> inputs, ArrayRef<Type> results,
                      function_interface_impl::VariadicFlag,
                      std::string &) { return builder.getFunctionType(inputs, results); };
  return function_interface_impl::parseFunctionOp(parser, result, /*allowVariadic=*/false,
                                                  getFunctionTypeAttrName(result.name), buildType,
                                                  getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
}

void GraphOp::print(OpAsmPrinter &printer) {
  function_interface_impl::printFunctionOp(printer, *this, /*isVariadic=*/false, getFunctionTypeAttrName(),
                                           getArgAttrsAttrName(), getResAttrsAttrName());
}

LogicalResult GraphOp::verify() {
  for (Type type : llvm::concat<const Type>(getArgumentTypes(), getResultTypes()))
    if (auto tensor = dyn_cast<RankedTensorType>(type); !tensor || !tensor.hasStaticShape())
      return emitOpError("expects inputs and outputs to be tensors of static shape, got ") << type;
  return success();
}

StringRef GraphOp::getInputName(unsigned index) {
  auto name = getArgAttrOfType<StringAttr>(index, "dfg.name");
  return name ? name.getValue() : StringRef();
}

StringRef GraphOp::getOutputName(unsigned index) {
  auto name = getResultAttrOfType<StringAttr>(index, "dfg.name");
  return name ? name.getValue() : StringRef();
}

LogicalResult ReturnOp::verify() {
  auto graph = cast<GraphOp>((*this)->getParentOp());
  if (getOperandTypes() != TypeRange(graph.getResultTypes()))
    return emitOpError("expects the graph's result types (")
           << graph.getResultTypes() << "), got (" << getOperandTypes() << ")";
  return success();
}

//===-- constant, opaque, fusion ------------------------------------------------------------------------------===//

LogicalResult ConstantOp::inferReturnTypes(MLIRContext *, std::optional<Location>, Adaptor adaptor,
                                           SmallVectorImpl<Type> &types) {
  types.push_back(adaptor.getValue().getShapedType());
  return success();
}

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

SplitRule OpaqueOp::getSplitRule() {
  SplitRule rule;
  auto wholeTensor = [&](Type type) {
    TensorFactors dims;
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      for (int64_t size : tensor.getShape())
        dims.push_back(
            {rule.addFactor("unknown" + std::to_string(rule.factors.size()), size, FactorKind::Unsplittable)});
    return dims;
  };
  for (Type type : getOperandTypes())
    rule.operands.push_back(wholeTensor(type));
  for (Type type : getResultTypes())
    rule.results.push_back(wholeTensor(type));
  return rule;
}

OpCost OpaqueOp::getCost() { return elementwiseCost(*this, 0.0); }

LogicalResult FusionOp::verify() {
  Block &block = getBody().front();
  if (block.getArgumentTypes() != getOperandTypes())
    return emitOpError("expects the region's argument types to equal the operand types (")
           << getOperandTypes() << "), got (" << block.getArgumentTypes() << ")";
  if (TypeRange(block.getTerminator()->getOperandTypes()) != TypeRange(getResultTypes()))
    return emitOpError("expects the yielded types to equal the result types (")
           << getResultTypes() << "), got (" << block.getTerminator()->getOperandTypes() << ")";
  return success();
}

OpCost FusionOp::getCost() {
  OpCost cost = elementwiseCost(*this, 0.0);
  for (Operation &op : getBody().front().without_terminator())
    if (auto inner = dyn_cast<CostInterface>(op)) {
      OpCost part = inner.getCost();
      cost.flops += part.flops;
      if (part.costClass == CostClass::Contraction)
        cost.costClass = CostClass::Contraction;
    }
  return cost;
}

} // namespace cleave::dfg
