// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Steps for several lengths in one module share parameters, or say why they cannot.

#include "test/passes/train/PlacedLayers.h"
#include "test/passes/train/TrainingFormula.h"

#include "passes/train/Evaluation.h"

#include "dialects/dist/Dist.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace mlir;

namespace cleave::test {
namespace {

/// A graph that reads a parameter.
struct PartText {
  std::string graph = "short", type = "tensor<4xf32>", init = "#dfg.fill<value = 1.0 : f64>", mesh = "m0",
              parameter = "w";
  int64_t device = 0;

  std::string text() const {
    return "dist.mesh @" + mesh + " <[], devices = [" + std::to_string(device) + "]>\ndfg.parameter @" + parameter +
           " : " + type + " = " + init + "\ndfg.graph @" + graph + "() -> (" + type + ") {\n %w = dfg.read @" +
           parameter + " {dist.place = #dist.place<@" + mesh + ", by = \"home\">} : " + type +
           "\n dfg.return %w : " + type + "\n}";
  }
};

/// What is said when `part` joins a graph "long".
std::string join(const PartText &part, std::string *joined = nullptr) {
  auto context = createTestContext();
  PartText whole;
  whole.graph = "long";
  OwningOpRef<ModuleOp> into = parseGraph(*context, whole.text()), from = parseGraph(*context, part.text());
  std::string said;
  ScopedDiagnosticHandler handler(context.get(), [&](Diagnostic &diagnostic) { said += diagnostic.str() + "\n"; });
  bool succeeds = succeeded(joinSteps(*into, *from));
  EXPECT_EQ(succeeds, said.empty()) << said;
  if (joined) {
    EXPECT_TRUE(succeeded(verify(*into)));
    llvm::raw_string_ostream(*joined) << *into;
  }
  return said;
}

TEST(JoinSteps, SharesParametersAndMeshes) {
  std::string joined;
  EXPECT_EQ(join({}, &joined), "");
  EXPECT_NE(joined.find("@long"), std::string::npos);
  EXPECT_NE(joined.find("@short"), std::string::npos);
  EXPECT_EQ(joined.find("dfg.parameter @w"), joined.rfind("dfg.parameter @w"));
  EXPECT_EQ(joined.find("dist.mesh"), joined.rfind("dist.mesh"));
}

// A parameter is one tensor in one place.
TEST(JoinSteps, RefusesWhatDiffers) {
  auto with = [](auto edit) {
    PartText part;
    edit(part);
    return join(part);
  };
  EXPECT_THAT(with([](PartText &p) { p.type = "tensor<5xf32>"; }),
              testing::HasSubstr("parameter \"w\" expects the same type and first value for every size"));
  EXPECT_THAT(with([](PartText &p) { p.init = "#dfg.fill<value = 2.0 : f64>"; }),
              testing::HasSubstr("parameter \"w\" expects the same type and first value for every size"));
  EXPECT_THAT(with([](PartText &p) { p.parameter = "v"; }),
              testing::HasSubstr("parameter \"v\" is expected for every size, got none for the largest"));
  EXPECT_THAT(with([](PartText &p) {
                p.mesh = "m1";
                p.device = 1;
              }),
              testing::HasSubstr("parameter \"w\" expects one home for every size"));
  EXPECT_THAT(with([](PartText &p) { p.device = 1; }),
              testing::HasSubstr("mesh \"m0\" expects the same devices for every size"));
}

} // namespace
} // namespace cleave::test
