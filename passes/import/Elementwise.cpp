// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Arithmetic, comparisons and logic, element by element.

#include "passes/import/NodeImporter.h"
#include "passes/import/OperatorTable.h"

#include <limits>

using namespace mlir;

namespace cleave {

/// The second operand of a binary operator. Before operator set 7 it was broadcast only on demand, its dimensions
/// standing for those of the first operand from `axis` on.
static Value secondOperand(NodeImporter &node) {
  Value value = node.input(1);
  if (node.getVersion() >= 7)
    return value;
  if (!node.integer("broadcast", 0)) {
    if (node.shape(0) != node.shape(1)) {
      (void)node.error("expects operands of one shape, as \"broadcast\" is not set");
      return {};
    }
    return value;
  }
  int64_t left = node.rank(0), right = node.rank(1);
  int64_t axis = node.integer("axis", left - right);
  axis = axis < 0 ? axis + left : axis;
  if (axis < 0 || axis + right > left) {
    (void)node.error("expects the second operand's dimensions to fit the first's from \"axis\" on");
    return {};
  }
  SmallVector<int64_t> shape(node.shape(1));
  shape.resize(left - axis, 1);
  return node.reshape(value, shape);
}

template <typename OpTy> static ImportResults importBinary(NodeImporter &node) {
  return oneResult(node.emit<OpTy>({node.input(0), secondOperand(node)}));
}

template <dfg::Comparison comparison> static ImportResults importCompare(NodeImporter &node) {
  auto kind = node.getBuilder().getNamedAttr("comparison", dfg::ComparisonAttr::get(node.getContext(), comparison));
  return oneResult(node.emit<dfg::CompareOp>({node.input(0), secondOperand(node)}, kind));
}

/// Joins all inputs from left to right.
template <typename OpTy> static Value joinInputs(NodeImporter &node) {
  Value result = node.input(0);
  for (unsigned i = 1; i < node.getNumInputs(); ++i)
    result = node.hasInput(i) ? node.emit<OpTy>({result, node.input(i)}) : Value();
  return result;
}

template <typename OpTy> static ImportResults importVariadic(NodeImporter &node) {
  return oneResult(joinInputs<OpTy>(node));
}

static ImportResults importMean(NodeImporter &node) {
  Value sum = joinInputs<dfg::AddOp>(node);
  if (!sum || node.getNumInputs() == 1)
    return oneResult(sum);
  return oneResult(node.emit<dfg::DivOp>({sum, node.scalar(NodeImporter::elementOf(sum), node.getNumInputs())}));
}

static ImportResults importPow(NodeImporter &node) {
  Value base = node.input(0), exponent = secondOperand(node);
  if (!exponent)
    return failure();
  Type baseType = NodeImporter::elementOf(base), exponentType = NodeImporter::elementOf(exponent);
  // An integer to a real power is computed in reals.
  Type type = isa<FloatType>(exponentType) && !isa<FloatType>(baseType) ? exponentType : baseType;
  Value power = node.emit<dfg::PowOp>({node.cast(base, type), node.cast(exponent, type)});
  return oneResult(node.cast(power, baseType));
}

static ImportResults importMod(NodeImporter &node) {
  SmallVector<NamedAttribute> attributes;
  if (node.integer("fmod", 0))
    attributes.push_back(node.flag("truncated"));
  else if (isa<FloatType>(node.type(0).getElementType()))
    return node.error("expects \"fmod\" to be 1 for real numbers");
  return oneResult(node.emit<dfg::ModOp>({node.input(0), node.input(1)}, attributes));
}

static ImportResults importBitShift(NodeImporter &node) {
  std::string direction = node.text("direction", "");
  if (direction == "LEFT")
    return importBinary<dfg::ShiftLeftOp>(node);
  if (direction == "RIGHT")
    return importBinary<dfg::ShiftRightOp>(node);
  return node.error("expects \"direction\" to be \"LEFT\" or \"RIGHT\", got \"" + direction + "\"");
}

static ImportResults importWhere(NodeImporter &node) {
  return oneResult(node.emit<dfg::SelectOp>({node.input(0), node.input(1), node.input(2)}));
}

static ImportResults importCast(NodeImporter &node) {
  int64_t to = node.integer("to", 0);
  Type type = elementTypeFromOnnx(node.getContext(), static_cast<int>(to));
  if (!type)
    return node.unsupported("casts to " + onnxTypeName(static_cast<int>(to)) + " are not known");
  return oneResult(node.cast(node.input(0), type));
}

static ImportResults importCastLike(NodeImporter &node) {
  return oneResult(node.cast(node.input(0), node.type(1).getElementType()));
}

static ImportResults importIsNan(NodeImporter &node) {
  auto equal =
      node.getBuilder().getNamedAttr("comparison", dfg::ComparisonAttr::get(node.getContext(), dfg::Comparison::Equal));
  return oneResult(node.emit<dfg::NotOp>(node.emit<dfg::CompareOp>({node.input(0), node.input(0)}, equal)));
}

/// Infinities of the signs that count; an integer is none.
static ImportResults importIsInf(NodeImporter &node) {
  Value input = node.input(0);
  Type element = node.type(0).getElementType();
  auto equals = [&](double infinity) {
    auto equal = dfg::ComparisonAttr::get(node.getContext(), dfg::Comparison::Equal);
    return node.emit<dfg::CompareOp>({input, node.scalar(element, infinity)},
                                     node.getBuilder().getNamedAttr("comparison", equal));
  };
  constexpr double infinity = std::numeric_limits<double>::infinity();
  bool positive = node.integer("detect_positive", 1), negative = node.integer("detect_negative", 1);
  if (positive && negative)
    return oneResult(node.emit<dfg::OrOp>({equals(infinity), equals(-infinity)}));
  if (positive || negative)
    return oneResult(equals(positive ? infinity : -infinity));
  Value never = node.splat(RankedTensorType::get({}, node.getBuilder().getI1Type()), 0.0);
  return oneResult(node.broadcast(never, node.shape(0)));
}

static ImportResults importTan(NodeImporter &node) {
  Value input = node.input(0);
  return oneResult(node.emit<dfg::DivOp>({node.emit<dfg::SinOp>(input), node.emit<dfg::CosOp>(input)}));
}

static ImportResults importIdentity(NodeImporter &node) { return oneResult(node.input(0)); }

void addElementwiseOperators(OperatorTable &table) {
  constexpr unsigned any = OperatorTable::anyNumber;
  table.add("Identity", {importIdentity});
  table.add("Neg", {importUnary<dfg::NegOp>, 1, 1, Elements::Number});
  table.add("Abs", {importUnary<dfg::AbsOp>, 1, 1, Elements::Number});
  table.add("Sign", {importUnary<dfg::SignOp>, 1, 1, Elements::Number, 9});
  table.add("Not", {importUnary<dfg::NotOp>, 1, 1, Elements::Bool, 1});
  table.add("Exp", {importUnary<dfg::ExpOp>, 1, 1, Elements::Float});
  table.add("Log", {importUnary<dfg::LogOp>, 1, 1, Elements::Float});
  table.add("Sqrt", {importUnary<dfg::SqrtOp>, 1, 1, Elements::Float});
  table.add("Reciprocal", {importUnary<dfg::ReciprocalOp>, 1, 1, Elements::Float});
  table.add("Floor", {importUnary<dfg::FloorOp>, 1, 1, Elements::Float});
  table.add("Ceil", {importUnary<dfg::CeilOp>, 1, 1, Elements::Float});
  table.add("Round", {importUnary<dfg::RoundOp>, 1, 1, Elements::Float, 11});
  table.add("Sin", {importUnary<dfg::SinOp>, 1, 1, Elements::Float, 7});
  table.add("Cos", {importUnary<dfg::CosOp>, 1, 1, Elements::Float, 7});
  table.add("Tan", {importTan, 1, 1, Elements::Float, 7});
  table.add("Asin", {importUnary<dfg::AsinOp>, 1, 1, Elements::Float, 7});
  table.add("Acos", {importUnary<dfg::AcosOp>, 1, 1, Elements::Float, 7});
  table.add("Atan", {importUnary<dfg::AtanOp>, 1, 1, Elements::Float, 7});
  table.add("Sinh", {importUnary<dfg::SinhOp>, 1, 1, Elements::Float, 9});
  table.add("Cosh", {importUnary<dfg::CoshOp>, 1, 1, Elements::Float, 9});
  table.add("Asinh", {importUnary<dfg::AsinhOp>, 1, 1, Elements::Float, 9});
  table.add("Acosh", {importUnary<dfg::AcoshOp>, 1, 1, Elements::Float, 9});
  table.add("Atanh", {importUnary<dfg::AtanhOp>, 1, 1, Elements::Float, 9});
  table.add("Erf", {importUnary<dfg::ErfOp>, 1, 1, Elements::Float, 9});
  table.add("IsInf", {importIsInf, 1, 1, Elements::Float, 10});
  table.add("IsNaN", {importIsNan, 1, 1, Elements::Float, 9});
  table.add("Add", {importBinary<dfg::AddOp>, 2, 2, Elements::Number});
  table.add("Sub", {importBinary<dfg::SubOp>, 2, 2, Elements::Number});
  table.add("Mul", {importBinary<dfg::MulOp>, 2, 2, Elements::Number});
  table.add("Div", {importBinary<dfg::DivOp>, 2, 2, Elements::Number});
  table.add("Pow", {importPow, 2, 2, Elements::Number});
  table.add("Mod", {importMod, 2, 2, Elements::Number, 10});
  table.add("And", {importBinary<dfg::AndOp>, 2, 2, Elements::Bool});
  table.add("Or", {importBinary<dfg::OrOp>, 2, 2, Elements::Bool});
  table.add("Xor", {importBinary<dfg::XorOp>, 2, 2, Elements::Bool});
  table.add("BitShift", {importBitShift, 2, 2, Elements::Integer, 11});
  table.add("BitwiseAnd", {importBinary<dfg::AndOp>, 2, 2, Elements::Integer, 18});
  table.add("BitwiseOr", {importBinary<dfg::OrOp>, 2, 2, Elements::Integer, 18});
  table.add("BitwiseXor", {importBinary<dfg::XorOp>, 2, 2, Elements::Integer, 18});
  table.add("BitwiseNot", {importUnary<dfg::NotOp>, 1, 1, Elements::Integer, 18});
  table.add("Equal", {importCompare<dfg::Comparison::Equal>, 2, 2});
  table.add("Less", {importCompare<dfg::Comparison::Less>, 2, 2});
  table.add("Greater", {importCompare<dfg::Comparison::Greater>, 2, 2});
  table.add("LessOrEqual", {importCompare<dfg::Comparison::LessOrEqual>, 2, 2, Elements::Any, 12});
  table.add("GreaterOrEqual", {importCompare<dfg::Comparison::GreaterOrEqual>, 2, 2, Elements::Any, 12});
  table.add("Min", {importVariadic<dfg::MinOp>, 1, any, Elements::Number});
  table.add("Max", {importVariadic<dfg::MaxOp>, 1, any, Elements::Number});
  table.add("Sum", {importVariadic<dfg::AddOp>, 1, any, Elements::Number});
  table.add("Mean", {importMean, 1, any, Elements::Float});
  table.add("Where", {importWhere, 3, 3, Elements::Bool, 9});
  table.add("Cast", {importCast});
  table.add("CastLike", {importCastLike, 2, 2, Elements::Any, 15});
}

} // namespace cleave
