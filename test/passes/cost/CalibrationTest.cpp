// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Calibration finds what operators were made with, and a factor on steps slows everything by just that.

#include "passes/cost/Calibration.h"
#include "passes/cost/MachineFile.h"
#include "passes/cost/Topology.h"

#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

using namespace cleave;

namespace {

constexpr llvm::StringLiteral calibratedText = R"(
name: two
device_kinds:
  fast:
    bandwidth: 1 TB/s
    peak: { f32: 10 TFLOP/s, f16: 100 TFLOP/s }
    launch: 5 us
    efficiency:
      contraction: { units: 100, sustained: 0.9, tiles: [ { rows: 128, columns: 128 } ] }
      elementwise: 0.8
      reduction: [ { at: 1 MB, share: 0.4 }, { at: 1 GB, share: 0.6 } ]
hosts:
  - { count: 2, zone: here, devices: [ { kind: fast, count: 2 } ], links: [ { between: devices, bandwidth: 50 GB/s, latency: 3 us } ] }
network: { bandwidth: 10 GB/s, latency: 20 us }
links: [ { between: [here, here], bandwidth: 5 GB/s, latency: 30 us } ]
executor: eager
)";

Machine calibratedMachine(llvm::StringRef text) {
  auto machine = parseMachineFile(text, "two.yaml");
  EXPECT_TRUE(bool(machine)) << llvm::toString(machine.takeError());
  return machine ? std::move(*machine) : Machine();
}

std::vector<MeasuredOperator> measuredOperators(llvm::StringRef text) {
  auto operators = parseMeasuredOperators(text, "ops.csv");
  EXPECT_TRUE(bool(operators)) << llvm::toString(operators.takeError());
  return operators ? std::move(*operators) : std::vector<MeasuredOperator>();
}

std::string operatorsMessage(llvm::StringRef text) {
  auto operators = parseMeasuredOperators(text, "ops.csv");
  return operators ? "" : llvm::toString(operators.takeError());
}

double learntFactor(llvm::ArrayRef<CalibratedClass> classes, llvm::StringRef key) {
  for (const CalibratedClass &learnt : classes)
    if (learnt.key == key)
      return learnt.factor;
  ADD_FAILURE() << "nothing was learnt of " << key.str();
  return 0;
}

// By hand: 2 * 4096^3 operations in 1024 tiles of 128 x 128 on 100 units, 11 waves, at 0.9 of 100 TFLOP/s; 1 GB at 0.8
// of 1 TB/s; a launch of 5 us each.
TEST(MeasuredOperators, AddUpTheirKernels) {
  Machine machine = calibratedMachine(calibratedText);
  auto operators = measuredOperators("seconds,operator,note,kind,kernels,dtype\n"
                                     "1,both,x,fast,product 4096x4096x4096 + elementwise 1 GB,f16\n");
  ASSERT_EQ(operators.size(), 1u);
  double product = 11 * 2 * 128. * 128 * 4096 / (0.9 * 100e12 / 100), memory = 1e9 / 0.8e12;
  EXPECT_NEAR(predictedSeconds(operators[0], machine), product + memory + 10e-6, 1e-9);
  // A small one waits for the host: 60 us a call.
  EXPECT_DOUBLE_EQ(predictedSeconds(measuredOperators("operator,kind,dtype,kernels,seconds\n"
                                                      "small,fast,f16,elementwise 1 kB + reduction 1 kB,1\n")[0],
                                    machine),
                   120e-6);
}

TEST(MeasuredOperators, NameLineAndFault) {
  const std::string head = "operator,kind,dtype,kernels,seconds\n";
  EXPECT_EQ(operatorsMessage("operator,kind\n"),
            "ops.csv:1: expects a first line that names the columns operator, kind, dtype, "
            "kernels, seconds; \"dtype\" is missing");
  EXPECT_EQ(operatorsMessage(""),
            "ops.csv:1: expects a first line that names the columns operator, kind, dtype, kernels, "
            "seconds; \"operator\" is missing");
  EXPECT_EQ(operatorsMessage(head), "ops.csv:1: expects a measured operator in a line below, found none");
  EXPECT_EQ(operatorsMessage(head + "a,fast,f16\n"), "ops.csv:2: expects 5 fields, got 3");
  EXPECT_EQ(operatorsMessage(head + "\na,fast,f12,product 1x1x1,1\n"),
            "ops.csv:3: dtype expects one of f64, f32, tf32, bf16, f16, f8, i8, got \"f12\"");
  EXPECT_EQ(operatorsMessage(head + "a,fast,f16,product 1x1,1\n"),
            "ops.csv:2: a product expects three sizes, or four with the number of products first, got \"1x1\"");
  EXPECT_EQ(operatorsMessage(head + "a,fast,f16,product 1x0x1,1\n"),
            "ops.csv:2: a product expects ROWSxCOLUMNSxINNER, or with their number before them, got \"1x0x1\"");
  EXPECT_EQ(operatorsMessage(head + "a,fast,f16,gather 1 MB,1\n"),
            "ops.csv:2: a kernel expects product, elementwise, reduction or movement, got \"gather\"");
  EXPECT_NE(operatorsMessage(head + "a,fast,f16,movement 12,1\n").find("ops.csv:2: movement expects"),
            std::string::npos);
  for (const char *seconds : {"0", "-1", "nan", "inf", "x", ""})
    EXPECT_EQ(operatorsMessage(head + "a,fast,f16,movement 12 B," + seconds + "\n"),
              std::string("ops.csv:2: seconds expects a number greater than 0, got \"") + seconds + "\"");
}

// Operators made on a machine whose shares are others: calibration finds these, class by class, from kernels that share
// operators, and leaves alone what nothing was measured of.
TEST(Calibration, FindsTheSharesThatOperatorsWereMadeWith) {
  Machine truth = calibratedMachine(calibratedText), known = truth;
  truth.kinds["fast"].tiles["contraction"].sustained *= 0.7;
  truth.kinds["fast"].efficiency["elementwise"].points[0].share *= 0.5;
  for (EfficiencyCurve::Point &point : truth.kinds["fast"].efficiency["reduction"].points)
    point.share *= 1.3;
  auto operators = measuredOperators("operator,kind,dtype,kernels,seconds\n"
                                     "p,fast,f16,product 4096x4096x4096,1\n"
                                     "p,fast,f16,product 8192x4096x4096 + elementwise 100 MB,1\n"
                                     "p,fast,f16,product 2x8192x2048x8192,1\n"
                                     "e,fast,f16,elementwise 2 GB,1\n"
                                     "e,fast,f16,elementwise 1 GB + reduction 10 MB,1\n"
                                     "e,fast,f16,elementwise 300 MB,1\n"
                                     "r,fast,f16,reduction 1 GB + elementwise 100 MB,1\n"
                                     "r,fast,f16,reduction 200 MB,1\n"
                                     "r,fast,f16,reduction 500 MB,1\n"
                                     "few,fast,f32,elementwise 1 GB,1\n"
                                     "few,fast,f32,elementwise 2 GB,1\n");
  for (MeasuredOperator &measured : operators)
    measured.seconds = predictedSeconds(measured, truth);
  auto classes = calibrate(known, operators);
  ASSERT_EQ(classes.size(), 3u);
  EXPECT_NEAR(learntFactor(classes, "contraction.f16"), 0.7, 0.002);
  EXPECT_NEAR(learntFactor(classes, "elementwise.f16"), 0.5, 0.002);
  EXPECT_NEAR(learntFactor(classes, "reduction.f16"), 1.3, 0.004);
  for (const CalibratedClass &learnt : classes) {
    EXPECT_GT(learnt.before, 0.2);
    EXPECT_LT(learnt.after, 0.005);
    EXPECT_EQ(learnt.operators, 3u);
  }
  // Two operators of f32 say nothing, and what holds for both types still holds for f32.
  EXPECT_EQ(known.kinds["fast"].findCurve("elementwise", "f32")->at(1e9), 0.8);
  EXPECT_EQ(known.kinds["fast"].findTiles("f32")->sustained, 0.9);
}

// Shallow products have a share of their own, and calls that the host keeps waiting say what a call takes.
TEST(Calibration, TellsShallowProductsAndTheHostApart) {
  Machine truth = calibratedMachine(calibratedText), known = truth;
  TileModel &tiles = truth.kinds["fast"].tiles["contraction"];
  tiles.depth.points = {{128, 0.6}, {512, 1}};
  truth.executor.dispatch = 25e-6;
  auto operators = measuredOperators("operator,kind,dtype,kernels,seconds\n"
                                     "s,fast,f16,product 64x2048x2048x64,1\n"
                                     "s,fast,f16,product 128x2048x2048x64,1\n"
                                     "s,fast,f16,product 128x2048x2048x80,1\n"
                                     "p,fast,f16,product 4096x4096x4096,1\n"
                                     "p,fast,f16,product 8192x4096x4096,1\n"
                                     "p,fast,f16,product 8192x8192x4096,1\n"
                                     "h,fast,f16,elementwise 1 kB,1\n"
                                     "h,fast,f16,elementwise 2 kB + elementwise 1 kB,1\n"
                                     "h,fast,f16,reduction 2 kB,1\n");
  for (MeasuredOperator &measured : operators)
    measured.seconds = predictedSeconds(measured, truth);
  auto classes = calibrate(known, operators);
  EXPECT_NEAR(learntFactor(classes, "depth.f16"), 0.6, 0.002);
  EXPECT_NEAR(learntFactor(classes, "contraction.f16"), 1, 0.002);
  EXPECT_NEAR(known.executor.dispatch, 25e-6, 1e-9);
  for (const MeasuredOperator &measured : operators)
    EXPECT_NEAR(predictedSeconds(measured, known), measured.seconds, 0.005 * measured.seconds);
  // The machine file says all of it.
  std::string text;
  llvm::raw_string_ostream stream(text);
  writeMachineFile(known, stream);
  EXPECT_TRUE(calibratedMachine(text).kinds == known.kinds);
}

TEST(Calibration, AFactorSlowsEverything) {
  EXPECT_DOUBLE_EQ(stepFactor({{1.2, 1.0}, {3.0, 2.0}, {1.1, 1.0}}), 1.2);
  Machine machine = calibratedMachine((calibratedText + "calibration: { step: 2, steps: 3 }\n").str());
  EXPECT_EQ(machine.calibration.steps, 3u);
  Machine slow = withCalibration(machine);
  EXPECT_TRUE(slow.calibration == StepCalibration());
  Topology before(machine), after(slow);
  for (unsigned to : {1u, 2u}) {
    LinkSpec one = before.between(0, to), other = after.between(0, to);
    EXPECT_DOUBLE_EQ(sendSeconds(1e6, other), 2 * sendSeconds(1e6, one));
  }
  for (const MeasuredOperator &measured : measuredOperators("operator,kind,dtype,kernels,seconds\n"
                                                            "p,fast,f16,product 512x512x512 + elementwise 1 MB,1\n"
                                                            "e,fast,f32,reduction 1 GB,1\n"))
    EXPECT_DOUBLE_EQ(predictedSeconds(measured, slow), 2 * predictedSeconds(measured, machine));
  std::string text;
  llvm::raw_string_ostream stream(text);
  writeMachineFile(machine, stream);
  EXPECT_TRUE(calibratedMachine(text).calibration == machine.calibration);
}

} // namespace
