// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Native kernels ask their operators; library kernels ask the table of routines below.

#include "passes/schedule/KernelWork.h"

#include "dialects/dfg/ScoreMasks.h"

using namespace mlir;

namespace cleave {

KernelSignature getKernelSignature(Operation *kernel) {
  KernelSignature signature;
  auto append = [](SmallVector<RankedTensorType> &list, TypeRange types) {
    for (Type type : types)
      list.push_back(cast<RankedTensorType>(type));
  };
  if (auto native = dyn_cast<plan::NativeKernelOp>(kernel)) {
    Block &body = native.getBody().front();
    append(signature.inputs, body.getArgumentTypes());
    append(signature.outputs, body.getTerminator()->getOperandTypes());
    signature.scratchBytes = native.getScratchBytes();
  } else {
    auto library = cast<plan::LibraryKernelOp>(kernel);
    auto type = cast<FunctionType>(library.getType());
    append(signature.inputs, type.getInputs());
    append(signature.outputs, type.getResults());
    signature.scratchBytes = library.getScratchBytes();
  }
  return signature;
}

static double elements(RankedTensorType type) { return static_cast<double>(type.getNumElements()); }

/// `count` shared out over the size of a dimension; 0 where there is no such dimension or it is empty.
static double perIndex(double count, RankedTensorType type, int64_t dim) {
  int64_t size = dim < type.getRank() ? type.getDimSize(dim) : 0;
  return size > 0 ? count / static_cast<double>(size) : 0;
}

//===-- routines of libraries ---------------------------------------------------------------------------------===//

namespace {

/// Of a routine or, if its name ends with a dot, of all routines that begin with it: the class of its work, and the
/// operations of a call without post operations.
struct RoutineWork {
  StringLiteral name;
  CostClass costClass;
  double (*flops)(const KernelSignature &signature, DictionaryAttr parameters);
};

/// Operations for each element of the first input or the first output.
template <int count> double perInput(const KernelSignature &signature, DictionaryAttr) {
  return count * elements(signature.inputs[0]);
}
template <int count> double perOutput(const KernelSignature &signature, DictionaryAttr) {
  return count * elements(signature.outputs[0]);
}
double none(const KernelSignature &, DictionaryAttr) { return 0; }

/// Each output element takes the weights of its channel once. Weights have as many elements with groups as without.
double convolutionFlops(const KernelSignature &signature, DictionaryAttr) {
  // Packed weights have windows of 3 x 3.
  if (signature.inputs[1].getRank() == 1)
    return 2 * 9 * elements(signature.outputs[0]) * static_cast<double>(signature.inputs[0].getDimSize(1));
  return 2 * elements(signature.outputs[0]) * perIndex(elements(signature.inputs[1]), signature.outputs[0], 1);
}
/// Each input element gives to the weights of its channel once.
double deconvolutionFlops(const KernelSignature &signature, DictionaryAttr) {
  return 2 * elements(signature.inputs[0]) * perIndex(elements(signature.inputs[1]), signature.inputs[0], 1);
}
/// Each element of the cotangent takes part in the gradient of each weight of its channel once.
double convolutionWeightsFlops(const KernelSignature &signature, DictionaryAttr) {
  return 2 * elements(signature.inputs[1]) * perIndex(elements(signature.outputs[0]), signature.inputs[1], 1);
}
double matmulFlops(const KernelSignature &signature, DictionaryAttr) {
  ArrayRef<int64_t> shape = signature.inputs[0].getShape();
  return shape.empty() ? 0 : 2 * elements(signature.outputs[0]) * static_cast<double>(shape.back());
}
/// The part of the rows whose matrix is here.
double partHere(int64_t matrices, DictionaryAttr parameters) {
  auto total = parameters.getAs<DenseI64ArrayAttr>("total");
  if (!total || total.empty() || total[0] < 1)
    return 1;
  return std::min(1.0, static_cast<double>(matrices) / static_cast<double>(total[0]));
}
double gatherFlops(const KernelSignature &signature, DictionaryAttr parameters) {
  ArrayRef<int64_t> matrices = signature.inputs[1].getShape();
  return matmulFlops(signature, parameters) * partHere(matrices.front(), parameters);
}
double scatterFlops(const KernelSignature &signature, DictionaryAttr parameters) {
  ArrayRef<int64_t> matrices = signature.outputs[0].getShape();
  double perMatrix = static_cast<double>(matrices[1]) * static_cast<double>(matrices[2]);
  return 2 * elements(signature.inputs.back()) * perMatrix * partHere(matrices.front(), parameters);
}
/// The products of scores of all queries and keys, of which a causal mask leaves half: two, and in the gradient five.
template <int products> double attentionFlops(const KernelSignature &signature, DictionaryAttr parameters) {
  auto isSet = [&](StringRef name) {
    auto value = parameters.getAs<DenseI64ArrayAttr>(name);
    return value && value.asArrayRef() == ArrayRef<int64_t>{1};
  };
  ArrayRef<int64_t> keys = signature.inputs[1].getShape();
  double positions = keys.size() == 4 ? static_cast<double>(keys[isSet("positions_first") ? 1 : 2]) : 0;
  return (isSet("causal") ? 0.5 : 1) * 2 * products * elements(signature.inputs[0]) * positions;
}
double innerProductFlops(const KernelSignature &signature, DictionaryAttr) {
  ArrayRef<int64_t> shape = signature.inputs[0].getShape();
  return shape.empty() ? 0 : 2 * static_cast<double>(shape.front()) * elements(signature.inputs[1]);
}
double windowOf(DictionaryAttr parameters) {
  double window = 1;
  if (auto kernel = parameters.getAs<DenseI64ArrayAttr>("kernel"))
    for (int64_t size : kernel.asArrayRef())
      window *= static_cast<double>(size);
  return window;
}
double poolingFlops(const KernelSignature &signature, DictionaryAttr parameters) {
  return windowOf(parameters) * elements(signature.outputs[0]);
}
double poolingGradientFlops(const KernelSignature &signature, DictionaryAttr parameters) {
  return windowOf(parameters) * elements(signature.inputs[0]);
}
double lrnFlops(const KernelSignature &signature, DictionaryAttr parameters) {
  auto size = parameters.getAs<DenseI64ArrayAttr>("size");
  double window = size && !size.empty() ? static_cast<double>(size[0]) : 1;
  return (2 * window + 10) * elements(signature.inputs[0]);
}

constexpr RoutineWork routines[] = {
    {"convolution", CostClass::Contraction, convolutionFlops},
    {"convolution_weights", CostClass::Contraction, convolutionWeightsFlops},
    {"deconvolution", CostClass::Contraction, deconvolutionFlops},
    {"matmul", CostClass::Contraction, matmulFlops},
    {"gather_matmul", CostClass::Contraction, gatherFlops},
    {"scatter_matmul", CostClass::Contraction, scatterFlops},
    {"inner_product", CostClass::Contraction, innerProductFlops},
    {"attention", CostClass::Contraction, attentionFlops<2>},
    {"attention_gradient", CostClass::Contraction, attentionFlops<5>},
    {"pooling.", CostClass::Reduction, poolingFlops},
    {"pooling_gradient.", CostClass::Reduction, poolingGradientFlops},
    {"softmax", CostClass::Reduction, perInput<5>},
    {"log_softmax", CostClass::Reduction, perInput<5>},
    {"layer_norm", CostClass::Reduction, perInput<7>},
    {"batch_norm", CostClass::Reduction, perInput<2>},
    {"lrn", CostClass::Reduction, lrnFlops},
    {"reduction.", CostClass::Reduction, perInput<1>},
    {"concat", CostClass::Movement, none},
    {"reorder", CostClass::Movement, none},
    {"winograd_weights", CostClass::Movement, none},
};

} // namespace

/// What the table does not know computes element by element.
static RoutineWork findRoutine(StringRef name) {
  name.consume_back(".winograd");
  for (const RoutineWork &routine : routines)
    if (routine.name == name || (routine.name.ends_with(".") && name.starts_with(routine.name)))
      return routine;
  return {"", CostClass::Elementwise, perOutput<1>};
}

static double bytesOf(ArrayRef<RankedTensorType> types) {
  double bytes = 0;
  for (RankedTensorType type : types)
    bytes += static_cast<double>(plan::storageBytes(type));
  return bytes;
}

static OpCost libraryWork(plan::LibraryKernelOp kernel, const KernelSignature &signature) {
  OpCost work;
  work.bytesRead = bytesOf(signature.inputs);
  work.bytesWritten = bytesOf(signature.outputs);
  RoutineWork routine = findRoutine(kernel.getRoutine());
  work.costClass = routine.costClass;
  size_t inputs = routine.costClass == CostClass::Contraction ? 2 : 1;
  if (signature.outputs.empty() || signature.inputs.size() < inputs)
    return work;
  work.flops = routine.flops(signature, kernel.getParameters()) +
               static_cast<double>(kernel.getPostOps().size()) * elements(signature.outputs[0]);
  return work;
}

//===-- native kernels ----------------------------------------------------------------------------------------===//

/// The operators' flops, of what a band leaves; of the kernel's inputs no more bytes than its operators read (a gather
/// reads a part). The class is the first of contraction, reduction, elementwise, movement that one of the operators
/// has.
static OpCost nativeWork(plan::NativeKernelOp kernel, const KernelSignature &signature) {
  OpCost work;
  work.costClass = CostClass::Movement;
  auto rank = [](CostClass costClass) {
    static constexpr CostClass order[] = {CostClass::Contraction, CostClass::Reduction, CostClass::Elementwise};
    return llvm::find(order, costClass) - std::begin(order);
  };
  for (Operation &op : kernel.getBody().front()) {
    auto costed = dyn_cast<CostInterface>(op);
    if (!costed)
      continue;
    OpCost cost = costed.getCost();
    work.flops += cost.flops;
    work.bytesRead += cost.bytesRead;
    if (rank(cost.costClass) < rank(work.costClass))
      work.costClass = cost.costClass;
  }
  if (auto band = kernel->getAttrOfType<dfg::BandAttr>(dfg::bandAttrName)) {
    int64_t rows = cast<RankedTensorType>(signature.outputs.front()).getDimSize(band.getRows());
    work.flops *= dfg::shareOfBlocks({band.getLower(), band.getUpper()}, rows, band.getBlocks(), band.getColumns());
  }
  work.bytesRead = std::min(work.bytesRead, bytesOf(signature.inputs));
  work.bytesWritten = bytesOf(signature.outputs);
  return work;
}

OpCost getKernelWork(Operation *kernel) {
  KernelSignature signature = getKernelSignature(kernel);
  if (auto native = dyn_cast<plan::NativeKernelOp>(kernel))
    return nativeWork(native, signature);
  return libraryWork(cast<plan::LibraryKernelOp>(kernel), signature);
}

//===-- calls -------------------------------------------------------------------------------------------------===//

static bool roundsToTf32(plan::LibraryKernelOp library) {
  auto rounds = library.getParameters().getAs<DenseI64ArrayAttr>("tf32");
  return rounds && rounds.asArrayRef() == ArrayRef<int64_t>{1};
}

KernelCall getKernelCall(Operation *kernel) {
  KernelSignature signature = getKernelSignature(kernel);
  OpCost cost = getKernelWork(kernel);
  auto library = dyn_cast<plan::LibraryKernelOp>(kernel);
  bool isProduct = signature.inputs.size() >= 2 && !signature.outputs.empty();
  KernelCall call{workOfCall(cost.costClass, cost.flops, cost.bytesRead + cost.bytesWritten,
                             library ? library.getRoutine() : "", isProduct ? elements(signature.inputs[0]) : 0,
                             isProduct ? elements(signature.inputs[1]) : 0,
                             isProduct ? elements(signature.outputs[0]) : 0),
                  "f32"};
  if (cost.costClass != CostClass::Contraction)
    return call;
  if (library && roundsToTf32(library)) {
    call.elementType = "tf32";
  } else if (!signature.inputs.empty()) {
    call.elementType.clear();
    llvm::raw_string_ostream(call.elementType) << signature.inputs.front().getElementType();
  }
  return call;
}

} // namespace cleave
