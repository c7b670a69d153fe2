// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Launches that no rule would choose: what is not refused computes the same, without a race.

#include "test/property/GpuCases.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace cleave::test {
namespace {

/// The parameters of an attribute, to be changed.
struct Mapping {
  explicit Mapping(plan::GpuMappingAttr attr)
      : outer(attr.getOuter()), inner(attr.getInner()), ahead(attr.getAhead()), blocks(attr.getBlocks()),
        groups(attr.getGroups()), lanes(attr.getLanes()), width(attr.getWidth()), splits(attr.getSplits()),
        along(attr.getAlong()), combines(attr.getCombines()), unrolled(attr.getUnrolled()), beside(attr.getBeside()) {
    if (plan::GpuSquaresAttr squares = attr.getSquares())
      side = squares.getSide(), padding = squares.getPadding(), across = squares.getAcross();
  }

  plan::GpuMappingAttr get(MLIRContext *context) const {
    plan::GpuSquaresAttr squares;
    if (side > 0)
      squares = plan::GpuSquaresAttr::get(context, across, side, padding);
    return plan::GpuMappingAttr::get(context, outer, inner, blocks, groups, lanes, along, width, splits, combines,
                                     unrolled, ahead, squares, beside);
  }

  /// As many blocks as cover all groups.
  void fitBlocks() {
    int64_t units = 1;
    for (auto [number, size] : llvm::enumerate(outer))
      units *= side > 0 && (number == across || number + 1 == outer.size()) ? llvm::divideCeil(size, side) : size;
    if (side == 0 && groups > 0 && width > 0)
      units = llvm::divideCeil(along == plan::ThreadsAlong::Inner ? units : units / width, groups) * splits;
    blocks = units;
  }

  SmallVector<int64_t> outer, inner, ahead;
  int64_t blocks, groups, lanes, width, splits, side = 0, padding = 0;
  unsigned across = 0;
  plan::ThreadsAlong along;
  bool combines, unrolled, beside;
};

/// Changes attributes of a kernel at random.
class Mutator {
public:
  Mutator(plan::NativeKernelOp kernel, uint64_t seed) : kernel(kernel), random(seed) {}

  void run() {
    for (uint64_t changes = 1 + below(3); changes > 0; --changes)
      if (below(3) > 0)
        changeMapping();
      else
        changeStep();
  }

private:
  uint64_t below(uint64_t end) { return random() % end; }
  template <typename T> T oneOf(ArrayRef<T> values) { return values[below(values.size())]; }
  int64_t number() { return oneOf<int64_t>({1, 2, 3, 4, 5, 7, 8, 16, 24, 32, 48, 64, 96, 128, 256, 1024}); }

  void changeMapping() {
    SmallVector<Attribute> mappings(kernel.getMappings()->getValue());
    size_t which = below(mappings.size());
    Mapping mapping(cast<plan::GpuMappingAttr>(mappings[which]));
    switch (below(11)) {
    case 0:
      mapping.groups = number();
      break;
    case 1:
      mapping.lanes = number();
      break;
    case 2:
      mapping.width = oneOf<int64_t>({1, 2, 4, 8, 16});
      break;
    case 3:
      changeSplits(mappings, which, mapping);
      break;
    case 4:
      mapping.unrolled = !mapping.unrolled;
      break;
    case 5:
      mapping.along =
          mapping.along == plan::ThreadsAlong::Inner ? plan::ThreadsAlong::Outer : plan::ThreadsAlong::Inner;
      break;
    case 6:
      mapping.ahead.assign(1 + below(4), oneOf<int64_t>({1, 2, 3, 4}));
      break;
    case 7:
      mapping.side = mapping.side > 0 ? 0 : oneOf<int64_t>({2, 4, 8, 16, 32});
      break;
    case 8:
      mapping.padding = static_cast<int64_t>(below(4));
      break;
    case 9:
      mapping.beside = !mapping.beside;
      break;
    case 10:
      mapping.across = static_cast<unsigned>(below(2));
      break;
    }
    if (below(8) > 0)
      mapping.fitBlocks();
    mappings[which] = mapping.get(kernel.getContext());
    kernel.setMappingsAttr(ArrayAttr::get(kernel.getContext(), mappings));
  }

  /// With the launch that combines them.
  void changeSplits(SmallVectorImpl<Attribute> &mappings, size_t which, Mapping &mapping) {
    mapping.splits = number();
    if (which + 1 == mappings.size() || !cast<plan::GpuMappingAttr>(mappings[which + 1]).getCombines())
      return;
    Mapping next(cast<plan::GpuMappingAttr>(mappings[which + 1]));
    next.inner.assign(1, mapping.splits);
    mappings[which + 1] = next.get(kernel.getContext());
  }

  void changeStep() {
    SmallVector<Operation *> ops;
    for (Operation &op : kernel.getLoops().front())
      if (op.hasAttr(plan::stepsAttrName))
        ops.push_back(&op);
    Operation *op = oneOf<Operation *>(ops);
    SmallVector<Attribute> steps(op->getAttrOfType<ArrayAttr>(plan::stepsAttrName).getValue());
    if (steps.empty())
      return;
    size_t which = below(steps.size());
    auto step = cast<plan::GpuStepAttr>(steps[which]);
    SmallVector<plan::LoopLevelAttr> outer(step.getOuter()), inner(step.getInner());
    SmallVector<unsigned> stores(step.getStores()), staged(step.getStaged());
    unsigned launch = step.getLaunch(), phase = step.getPhase();
    int64_t aligned = step.getAligned();
    bool readsFill = step.getReadsFill();
    auto toggle = [](SmallVectorImpl<unsigned> &list) { list.empty() ? list.push_back(0) : list.clear(); };
    switch (below(9)) {
    case 0:
      phase = static_cast<unsigned>(below(4));
      break;
    case 1:
      toggle(stores);
      break;
    case 2:
      toggle(staged);
      break;
    case 3:
      launch = static_cast<unsigned>(below(kernel.getMappings()->size() + 1));
      break;
    case 4:
      std::reverse(outer.begin(), outer.end());
      break;
    case 5:
      std::swap(outer, inner);
      break;
    case 6:
      aligned = static_cast<int64_t>(below(3)) - 1;
      break;
    case 7:
      readsFill = !readsFill;
      break;
    case 8:
      steps.erase(steps.begin() + which);
      break;
    }
    auto changed =
        plan::GpuStepAttr::get(kernel.getContext(), launch, outer, inner, phase, stores, staged, aligned, readsFill);
    // Or once more.
    if (which < steps.size() && below(4) > 0)
      steps[which] = changed;
    else
      steps.push_back(changed);
    op->setAttr(plan::stepsAttrName, ArrayAttr::get(kernel.getContext(), steps));
  }

  plan::NativeKernelOp kernel;
  Random random;
};

/// A kernel whose launches were decided, and changed since.
class ChangedKernel {
public:
  ChangedKernel(const std::string &text, std::optional<uint64_t> seed) {
    loadKernelDialects(context);
    module = parseSourceString<ModuleOp>(text, &context);
    GpuKernelSource source{"k", kernelOf(*module->getOps<dfg::GraphOp>().begin()), {}};
    GpuOptions options;
    options.processors = 4;
    if (llvm::Error error = chooseGpuLaunches(context, source, options))
      ADD_FAILURE() << llvm::toString(std::move(error));
    if (seed)
      Mutator(source.kernel, *seed).run();
    llvm::raw_string_ostream(described) << source.kernel;
    ScopedDiagnosticHandler quiet(&context, [&](Diagnostic &diagnostic) { refusal = diagnostic.str(); });
    auto compiled = compileGpuKernels(context, source, options);
    if (compiled)
      object = std::move(*compiled);
    else
      llvm::consumeError(compiled.takeError());
  }

  std::string described, refusal;
  std::optional<GpuObject> object;

private:
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

/// Whole numbers, whose sums are exact in any order.
Tensor wholeNumbers(Random &random, const Shape &shape) {
  Tensor tensor("f32", shape);
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.setReal(i, static_cast<double>(random() % 17) - 8);
  return tensor;
}

/// `body` computes %y0 from %a, and possibly %b.
void expectSameOrRefused(const std::string &body, const std::vector<Shape> &inputs, const Shape &output) {
  constexpr uint64_t variants = 150;
  Random random(7);
  KernelCase numbers{body, {}, {Tensor("f32", output)}};
  for (const Shape &shape : inputs)
    numbers.inputs.push_back(wholeNumbers(random, shape));
  std::string text = graphText("k", numbers);
  ChangedKernel decided(text, std::nullopt);
  ASSERT_TRUE(decided.object) << decided.refusal;
  Tensor expected = GpuKernels(*decided.object).run(0, numbers.inputs, numbers.expected)[0];
  unsigned accepted = 0;
  for (uint64_t seed = 0; seed < variants; ++seed) {
    ChangedKernel changed(text, seed);
    if (!changed.object)
      continue;
    ++accepted;
    Tensor result = GpuKernels(*changed.object).run(0, numbers.inputs, numbers.expected)[0];
    EXPECT_EQ(difference(result, expected, 0, 0), "") << "seed " << seed << "\n" << changed.described;
    if (testing::Test::HasFailure())
      return;
  }
  // Neither everything nor nothing is refused.
  EXPECT_GT(accepted, variants / 20);
  EXPECT_LT(accepted, variants - variants / 20);
}

TEST(GpuAttributes, Elementwise) {
  expectSameOrRefused("%0 = dfg.add %a, %b : (tensor<48x80xf32>, tensor<80xf32>) -> tensor<48x80xf32>\n"
                      "%y0 = dfg.neg %0 : (tensor<48x80xf32>) -> tensor<48x80xf32>\n",
                      {{48, 80}, {80}}, {48, 80});
}

TEST(GpuAttributes, Transposes) {
  expectSameOrRefused(
      "%0 = dfg.transpose %a {permutation = array<i64: 1, 0>} : (tensor<48x81xf32>) -> tensor<81x48xf32>\n"
      "%y0 = dfg.add %0, %b : (tensor<81x48xf32>, tensor<81x48xf32>) -> tensor<81x48xf32>\n",
      {{48, 81}, {81, 48}}, {81, 48});
}

// Three phases, where rows stay in registers, and where they do not.
TEST(GpuAttributes, Rows) {
  for (int64_t length : {81, 96, 2000}) {
    std::string x = "tensor<24x" + std::to_string(length) + "xf32>", sums = "tensor<24x1xf32>";
    expectSameOrRefused("%0 = dfg.reduce %a {kind = #dfg.reduce_kind<max>, dims = array<i64: 1>, keep_dims} : (" + x +
                            ") -> " + sums + "\n%1 = dfg.sub %a, %0 : (" + x + ", " + sums + ") -> " + x +
                            "\n%2 = dfg.reduce %1 {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>, keep_dims} : (" +
                            x + ") -> " + sums + "\n%y0 = dfg.mul %1, %2 : (" + x + ", " + sums + ") -> " + x + "\n",
                        {{24, length}}, {24, length});
  }
}

// Divided among blocks, which a second launch joins.
TEST(GpuAttributes, Splits) {
  expectSameOrRefused("%0 = dfg.reduce %a {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<2x40000xf32>) "
                      "-> tensor<2xf32>\n%y0 = dfg.neg %0 : (tensor<2xf32>) -> tensor<2xf32>\n",
                      {{2, 40000}}, {2});
}

TEST(GpuAttributes, Columns) {
  expectSameOrRefused("%0 = dfg.reduce %a {kind = #dfg.reduce_kind<sum>, dims = array<i64: 0>} : (tensor<300x96xf32>) "
                      "-> tensor<96xf32>\n%y0 = dfg.mul %0, %b : (tensor<96xf32>, tensor<96xf32>) -> tensor<96xf32>\n",
                      {{300, 96}, {96}}, {96});
}

// Several launches, one of which goes through its iterations in order, and some beside each other.
TEST(GpuAttributes, SeveralLaunches) {
  expectSameOrRefused(
      "%0 = dfg.cumulative_sum %a {dim = 1 : i64} : (tensor<24x40xf32>) -> tensor<24x40xf32>\n"
      "%1 = dfg.reduce %0 {kind = #dfg.reduce_kind<sum>, dims = array<i64: 0>} : (tensor<24x40xf32>) -> "
      "tensor<40xf32>\n"
      "%2 = dfg.add %b, %1 : (tensor<8x40xf32>, tensor<40xf32>) -> tensor<8x40xf32>\n"
      "%3 = dfg.neg %b : (tensor<8x40xf32>) -> tensor<8x40xf32>\n"
      "%y0 = dfg.concat %0, %2, %3 {dim = 0 : i64} : (tensor<24x40xf32>, tensor<8x40xf32>, tensor<8x40xf32>) -> "
      "tensor<40x40xf32>\n",
      {{24, 40}, {8, 40}}, {40, 40});
}

} // namespace
} // namespace cleave::test
