// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The list of templates, held against the dialect.

#include "test/property/split/OperatorTemplates.h"

using namespace mlir;

namespace cleave::test {

bool OperatorTemplate::accepts(RankedTensorType type) const {
  Type element = type.getElementType();
  bool fits = elements == Elements::Any || (elements == Elements::Bool && element.isInteger(1)) ||
              (elements == Elements::Float && isa<FloatType>(element)) ||
              (elements == Elements::Number && !element.isInteger(1)) ||
              (elements == Elements::Integer && isa<IntegerType>(element) && !element.isInteger(1));
  return fits && type.getRank() >= minRank && type.getRank() <= maxRank;
}

Type OperatorTemplate::randomElement(Builder builder, Dice &dice) const {
  if (elements == Elements::Bool)
    return builder.getI1Type();
  if (elements != Elements::Integer && !dice.oneIn(3))
    return builder.getF32Type();
  switch (elements == Elements::Integer ? dice.between(3, 7)
                                        : dice.below(elements == Elements::Float    ? 3
                                                     : elements == Elements::Number ? 8
                                                                                    : 9)) {
  case 0:
    return builder.getF64Type();
  case 1:
    return builder.getF16Type();
  case 2:
    return builder.getBF16Type();
  case 3:
    return builder.getIntegerType(8);
  case 4:
    return builder.getIntegerType(16);
  case 5:
    return builder.getI32Type();
  case 6:
    return builder.getI64Type();
  case 7:
    return builder.getIntegerType(8, /*isSigned=*/false);
  default:
    return builder.getI1Type();
  }
}

const TemplateList &operatorTemplates() {
  static const TemplateList list = [] {
    TemplateList made;
    addElementwiseTemplates(made);
    addContractionTemplates(made);
    addGradientTemplates(made);
    addIndexingTemplates(made);
    addMovementTemplates(made);
    addReductionTemplates(made);
    return made;
  }();
  return list;
}

std::vector<std::string> operatorsWithoutTemplate(MLIRContext &context) {
  std::vector<std::string> missing;
  for (RegisteredOperationName name : context.getRegisteredOperationsByDialect("dfg")) {
    StringRef mnemonic = name.getStringRef().drop_front(strlen("dfg."));
    // What is opaque cannot run, parameters are operands of all templates, and what moves to the host's memory comes
    // back as it left: each of both alone has no split.
    StringRef full = name.getStringRef();
    if (!name.hasInterface<SplitInterface>() ||
        llvm::is_contained({dfg::OpaqueOp::getOperationName(), dfg::ReadOp::getOperationName(),
                            dfg::WriteOp::getOperationName(), dfg::OffloadOp::getOperationName(),
                            dfg::FetchOp::getOperationName()},
                           full))
      continue;
    if (llvm::none_of(operatorTemplates(), [&](const OperatorTemplate &known) { return known.name == mnemonic; }))
      missing.push_back(mnemonic.str());
  }
  return missing;
}

} // namespace cleave::test
