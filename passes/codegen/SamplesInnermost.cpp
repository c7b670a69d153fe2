// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds where samples side by side pay, and brings operands and results into that order.

#include "passes/codegen/SamplesInnermost.h"

#include "passes/codegen/DimensionOrder.h"

#include "dialects/dfg/Dfg.h"
#include "dialects/dist/Dist.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace cleave {

/// The order of dimensions in which the first lies innermost.
static SmallVector<int64_t> samplesInnermost(int64_t rank) {
  auto order = llvm::to_vector(llvm::seq<int64_t>(1, rank));
  order.push_back(0);
  return order;
}

bool liesBySamples(Value value, const ReplacedValues &values) {
  RankedTensorType type = tensorType(values.current(value));
  auto order = type.getRank() > 2 ? permutationOf(type) : std::nullopt;
  return order && ArrayRef(*order) == ArrayRef(samplesInnermost(type.getRank()));
}

bool meetsSamples(Value value, const ReplacedValues &values) {
  RankedTensorType type = tensorType(value);
  plan::LayoutAttr layout = type.getRank() > 2 ? values.layoutOfCompany(value) : nullptr;
  return layout && RankedTensorType::get(type.getShape(), type.getElementType(), layout) ==
                       laidType(type, samplesInnermost(type.getRank()));
}

namespace {

/// Which of an operator's tensors have the samples, those of the first operand's dimension 0, as their dimension 0.
struct Samples {
  explicit Samples(Operation *op) {
    SplitRule rule = cast<SplitInterface>(op).getSplitRule();
    const DimFactors &samples = rule.operands[0][0];
    for (const TensorFactors &dims : rule.operands)
      operands.push_back(!dims.empty() && dims[0] == samples);
    result = !rule.results[0].empty() && rule.results[0][0] == samples;
  }
  SmallVector<bool, 3> operands;
  bool result;
};

} // namespace

/// A product over windows, of all channels and without padding: what our own kernels tile in registers.
static bool hasPlainWindows(Operation *op, const LibraryCall &call) {
  auto cost = dyn_cast<CostInterface>(op);
  auto groups = call.parameters.getAs<DenseI64ArrayAttr>("groups");
  auto before = call.parameters.getAs<DenseI64ArrayAttr>("pads_begin");
  auto after = call.parameters.getAs<DenseI64ArrayAttr>("pads_end");
  if (!cost || cost.getCost().costClass != CostClass::Contraction || !groups || !before || !after || groups[0] != 1)
    return false;
  return llvm::all_of(llvm::concat<const int64_t>(before.asArrayRef(), after.asArrayRef()),
                      [](int64_t pad) { return pad == 0; });
}

bool isBetterBySamples(Operation *op, const LibraryCall &call, const ReplacedValues &values, int64_t lanes) {
  if (!hasPlainWindows(op, call) || tensorType(op->getOperand(0)).getDimSize(0) % lanes != 0)
    return false;
  Samples samples(op);
  for (auto [operand, sampled] : llvm::zip_equal(op->getOperands(), samples.operands)) {
    RankedTensorType type = tensorType(values.current(operand));
    if (sampled && plan::getLayout(type) && !permutationOf(type))
      return false;
  }
  // The library goes along the channels of the result, or along the outputs of a filter.
  int64_t channels = tensorType(op->getResult(0)).getDimSize(samples.result ? 1 : 0);
  return 5 * channels <= 4 * static_cast<int64_t>(llvm::alignTo(static_cast<uint64_t>(channels), lanes));
}

void computeBySamples(Operation *op, ReplacedValues &values) {
  OpBuilder builder(op);
  IRMapping mapping;
  Samples samples(op);
  for (auto [operand, sampled] : llvm::zip_equal(op->getOperands(), samples.operands)) {
    if (!sampled) {
      mapping.map(operand, values.denseOf(builder, operand));
      continue;
    }
    RankedTensorType type = plan::withoutLayout(tensorType(operand));
    SmallVector<int64_t> order = samplesInnermost(type.getRank());
    Value laid = values.inLayout(builder, operand, laidType(type, order));
    Value lies = plan::ViewOp::create(builder, operand.getLoc(), permuted(type, order), laid);
    mapping.map(operand, dfg::TransposeOp::create(builder, operand.getLoc(), type, lies,
                                                  builder.getDenseI64ArrayAttr(invertPermutationVector(order))));
  }
  Value made = builder.clone(*op, mapping)->getResult(0);
  values.replace(op);
  if (samples.result)
    values.lay(op, made, samplesInnermost(tensorType(made).getRank()));
  else
    op->getResult(0).replaceAllUsesWith(made);
}

} // namespace cleave
