// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The program gradient-property-test: every operator's gradients in float64 against central differences, along random
// directions.

#include "test/property/KernelCases.h"
#include "test/property/gradient/GradientCase.h"

#include <CLI/CLI.hpp>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace cleave::test {
namespace {

struct Options {
  uint64_t seed = 1;
  unsigned instances = 4;
  std::string only;
} options;

/// `sum(weights * values)`, and the sum of all magnitudes.
struct WeightedSum {
  WeightedSum(const Tensor &values, const Tensor &weights) {
    for (int64_t i = 0; i < values.size(); ++i) {
      value += static_cast<long double>(values.real(i)) * weights.real(i);
      magnitude += std::fabs(values.real(i) * weights.real(i));
    }
  }
  long double value = 0;
  double magnitude = 0;
};

Tensor moved(const Tensor &tensor, const Tensor &direction, double step) {
  Tensor result = tensor;
  for (int64_t i = 0; i < tensor.size(); ++i)
    result.setReal(i, tensor.real(i) + step * direction.real(i));
  return result;
}

enum class Verdict { Equal, Different, Kink };

/// One kernel of a module that computes a result and its gradients.
class Differences {
public:
  Differences(const LoadedKernels &kernels, unsigned kernel, const GradientCase &gradientCase,
              std::vector<Tensor> inputs)
      : kernels(kernels), kernel(kernel), inputs(std::move(inputs)), outputs(makeOutputs(*gradientCase.module)),
        base(kernels.run(kernel, this->inputs, outputs)) {}

  /// Whether output `gradient` is the gradient of input `index`: its product with `direction` must be what the result
  /// changes by when the input is moved that way.
  Verdict check(unsigned index, const Tensor &gradient, const Tensor &direction, std::string &text) const {
    constexpr double step = 1e-5;
    WeightedSum at(base[0], inputs.back()), claimed(gradient, direction);
    auto slope = [&](double distance) {
      return static_cast<double>((along(index, direction, distance).value - at.value) / distance);
    };
    double left = slope(-step), right = slope(step), measured = (left + right) / 2;
    auto found = static_cast<double>(claimed.value);
    double off = std::fabs(measured - found);
    // Of what is not a number no comparison holds, and none may stand for a kink.
    if (!std::isfinite(off)) {
      text = "input " + std::to_string(index) + ": the gradient gives " + std::to_string(found) +
             ", differences give " + std::to_string(left) + " and " + std::to_string(right);
      return Verdict::Different;
    }
    if (off <= 1e-6 * (std::fabs(left) + std::fabs(right) + claimed.magnitude) + 1e-9 * at.magnitude + 1e-12)
      return Verdict::Equal;
    // At a kink the slopes on both sides differ by at least what the gradient is off; at a jump they grow when the step
    // shrinks.
    double nearer = (slope(-step / 4) + slope(step / 4)) / 2;
    if (!(std::fabs(left - right) < off && std::fabs(measured - nearer) < off / 2))
      return Verdict::Kink;
    text = "input " + std::to_string(index) + ": the gradient gives " + std::to_string(found) + ", differences give " +
           std::to_string(left) + " and " + std::to_string(right);
    return Verdict::Different;
  }

  const std::vector<Tensor> &getBase() const { return base; }
  const std::vector<Tensor> &getInputs() const { return inputs; }

private:
  WeightedSum along(unsigned index, const Tensor &direction, double step) const {
    std::vector<Tensor> there = inputs;
    there[index] = moved(inputs[index], direction, step);
    return WeightedSum(kernels.run(kernel, there, outputs)[0], inputs.back());
  }

  const LoadedKernels &kernels;
  unsigned kernel;
  std::vector<Tensor> inputs, outputs, base;
};

/// Instances of one operator, compiled together.
struct OperatorInstances {
  OperatorInstances(mlir::MLIRContext &context, const OperatorTemplate &chosen, mlir::Type element) {
    for (unsigned i = 0; i < options.instances; ++i) {
      uint64_t seed = options.seed * 1000003 + i;
      cases.push_back(makeGradientCase(context, chosen, element, seed));
      EXPECT_EQ(cases.back().problem, "") << "dfg." << chosen.name.str();
      isSound &= cases.back().problem.empty();
      dfg::GraphOp graph = *cases.back().module->getOps<dfg::GraphOp>().begin();
      graph.setSymName("k" + std::to_string(i));
      llvm::raw_string_ostream stream(texts.emplace_back());
      graph.print(stream);
      text += texts.back() + "\n";
    }
  }
  std::vector<GradientCase> cases;
  std::vector<std::string> texts;
  std::string text;
  bool isSound = true;
};

/// Anywhere, or along one element.
Tensor randomDirection(const Shape &shape, Random &random, bool single) {
  Tensor direction("f64", shape);
  if (!single)
    return direction.fill(random, -1, 1);
  if (direction.size() > 0)
    direction.setReal(static_cast<int64_t>(random() % static_cast<uint64_t>(direction.size())), 1);
  return direction;
}

void checkOperator(mlir::MLIRContext &context, const OperatorTemplate &chosen) {
  OperatorInstances instances(context, chosen, mlir::Float64Type::get(&context));
  if (!instances.isSound)
    return;
  unsigned directions = 0, equal = 0, kinks = 0, wholes = 0, wholeKinks = 0;
  for (bool reference : {true, false}) {
    NativeOptions native;
    native.reference = reference;
    LoadedKernels kernels(instances.text, native);
    ASSERT_TRUE(kernels) << chosen.name.str();
    for (size_t i = 0; i < instances.cases.size(); ++i) {
      const GradientCase &gradientCase = instances.cases[i];
      uint64_t seed = options.seed * 7919 + i;
      bool isWhole = i % 3 == 2;
      Differences differences(kernels, i, gradientCase, drawInputs(*gradientCase.module, seed, isWhole));
      Random random(seed);
      for (auto [input, output] : gradientCase.gradients) {
        const Shape &shape = differences.getInputs()[input].getShape();
        Tensor gradient = output ? differences.getBase()[*output] : Tensor("f64", shape);
        // Whole numbers are at kinks, of which one direction must not hit several.
        for (unsigned k = 0; k < (isWhole ? 4 : 1); ++k) {
          Tensor direction = randomDirection(shape, random, isWhole);
          std::string text;
          Verdict verdict = differences.check(input, gradient, direction, text);
          ++directions;
          equal += verdict == Verdict::Equal;
          (isWhole ? wholeKinks : kinks) += verdict == Verdict::Kink;
          wholes += isWhole;
          EXPECT_NE(verdict, Verdict::Different)
              << text << (reference ? ", reference code, " : ", optimized code, ") << "instance " << i << " of\n"
              << instances.texts[i];
        }
      }
    }
  }
  EXPECT_TRUE(directions == 0 || equal > 0) << "dfg." << chosen.name.str() << " was never compared";
  // Numbers between whole ones do not lie at kinks; whole ones may, as 0 does of a rectifier, but not most of them
  // unless the operator jumps at each.
  EXPECT_EQ(kinks, 0u) << "dfg." << chosen.name.str() << ", of " << directions - wholes << " directions";
  bool jumpsEverywhere = chosen.name == "floor" || chosen.name == "ceil";
  EXPECT_TRUE(jumpsEverywhere || 2 * wholeKinks <= wholes)
      << "dfg." << chosen.name.str() << " is at a kink in " << wholeKinks << " of " << wholes << " directions";
}

/// Gradients of all float types must at least be well formed.
void checkTypes(mlir::MLIRContext &context, const OperatorTemplate &chosen) {
  mlir::Builder builder(&context);
  for (mlir::Type element :
       {mlir::Type(builder.getF32Type()), mlir::Type(builder.getBF16Type()), mlir::Type(builder.getF16Type())})
    for (unsigned i = 0; i < options.instances; ++i)
      EXPECT_EQ(makeGradientCase(context, chosen, element, options.seed + i).problem, "") << chosen.name.str();
}

class GradientTest : public testing::Test {
protected:
  GradientTest() : context(mlir::MLIRContext::Threading::DISABLED) { context.loadDialect<dfg::DfgDialect>(); }
  mlir::MLIRContext context;
};

// An operator that can be differentiated and that no test knows.
TEST_F(GradientTest, EveryOperatorHasATemplate) {
  for (mlir::RegisteredOperationName name : context.getRegisteredOperationsByDialect("dfg")) {
    llvm::StringRef mnemonic = name.getStringRef().drop_front(strlen("dfg."));
    bool isKnown =
        llvm::any_of(operatorTemplates(), [&](const OperatorTemplate &known) { return known.name == mnemonic; });
    EXPECT_TRUE(isKnown || !name.hasInterface<DifferentiateInterface>())
        << "'dfg." << mnemonic.str() << "' has no template; add one in test/property/split";
  }
}

// An operand without a gradient must not move the result.
TEST_F(GradientTest, AgreesWithDifferences) {
  for (const OperatorTemplate &chosen : operatorTemplates()) {
    if ((!options.only.empty() && chosen.name != options.only) || chosen.elements == Elements::Bool ||
        chosen.elements == Elements::Integer)
      continue;
    checkOperator(context, chosen);
    checkTypes(context, chosen);
  }
}

} // namespace
} // namespace cleave::test

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  CLI::App app("Compares the gradients of every operator with finite differences.", "gradient-property-test");
  bool fresh = false;
  cleave::test::Options &options = cleave::test::options;
  app.add_option("--seed", options.seed, "what all cases follow from")->capture_default_str();
  app.add_flag("--fresh", fresh, "another seed every time");
  app.add_option("--instances", options.instances, "instances of each operator")->capture_default_str();
  app.add_option("--only", options.only, "instances of this operator only, such as conv");
  CLI11_PARSE(app, argc, argv);
  if (fresh)
    options.seed = std::random_device()();
  std::printf("seed %llu\n", static_cast<unsigned long long>(options.seed));
  return RUN_ALL_TESTS();
}
