// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The way from one layout to another, against the formulas of rings (Thakur, Rabenseifner, Gropp 2005). What a
// resharding is expected to take decides between plans that compute the same: no other test sees it.

#include "dialects/dist/Reshard.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace cleave;
using namespace cleave::dist;

namespace {

/// Rings on one link for all axes (Thakur, Rabenseifner, Gropp 2005), written apart from those of passes/cost. Slices
/// take a sixteenth of what a message of theirs would.
class RingCost : public ReshardCost {
public:
  RingCost(const MeshShape &mesh, double latency, double bandwidth)
      : mesh(mesh), latency(latency), bandwidth(bandwidth) {}

  double allReduce(llvm::ArrayRef<mlir::StringAttr> axes, double bytes) const override { return 2 * ring(axes, bytes); }
  double reduceScatter(llvm::ArrayRef<mlir::StringAttr> axes, double bytes) const override { return ring(axes, bytes); }
  double allGather(llvm::ArrayRef<mlir::StringAttr> axes, double bytes) const override { return ring(axes, bytes); }
  double allToAll(llvm::ArrayRef<mlir::StringAttr> axes, double bytes) const override {
    return ring(axes, bytes / static_cast<double>(mesh.ways(axes)));
  }
  double slice(double bytes) const override { return bytes / bandwidth / 16; }
  double exchange(llvm::ArrayRef<mlir::StringAttr> axes, double bytes, int64_t peers) const override {
    return static_cast<double>(peers) * latency + bytes / bandwidth;
  }
  double exchangeHalo(llvm::ArrayRef<mlir::StringAttr> axes, double bytes) const override {
    return 2 * latency + bytes / bandwidth;
  }

private:
  double ring(llvm::ArrayRef<mlir::StringAttr> axes, double bytes) const {
    auto n = static_cast<double>(mesh.ways(axes));
    return (n - 1) * (latency + bytes / n / bandwidth);
  }

  const MeshShape &mesh;
  double latency, bandwidth;
};

/// Two axes of sizes that are told apart in every formula, and a link that is neither all latency nor all bandwidth.
class Reshard : public testing::Test {
protected:
  static constexpr double latency = 3e-6, bandwidth = 2e9;
  static constexpr int64_t a = 2, b = 3;

  Reshard() {
    context.loadDialect<DistDialect>();
    module = mlir::parseSourceString<mlir::ModuleOp>(
        R"(dist.mesh @grid <["a" = 2, "b" = 3], devices = [0, 1, 2, 3, 4, 5]>)", &context);
  }

  Layout layout(const std::string &text) {
    return Layout::of(mlir::cast<LayoutAttr>(mlir::parseAttribute("#dist.layout<" + text + ">", &context)));
  }

  ReshardPath path(const std::string &from, const std::string &to, std::vector<int64_t> shape = {360, 600}) {
    auto type = mlir::RankedTensorType::get(shape, mlir::Float32Type::get(&context));
    MeshShape mesh(*module->getOps<MeshOp>().begin());
    return findReshard(layout(from), layout(to), type, mesh, RingCost(mesh, latency, bandwidth));
  }

  static std::vector<StepKind> kinds(const ReshardPath &path) {
    std::vector<StepKind> list;
    for (const ReshardStep &step : path.steps)
      list.push_back(step.kind);
    return list;
  }

  /// n - 1 messages, each of an nth of `bytes`.
  static double ring(int64_t n, double bytes) {
    return static_cast<double>(n - 1) * (latency + bytes / static_cast<double>(n) / bandwidth);
  }

  static constexpr double whole = 360 * 600 * 4;

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

void expectPath(const ReshardPath &path, const std::vector<StepKind> &actual, const std::vector<StepKind> &kinds,
                double seconds) {
  EXPECT_EQ(actual, kinds);
  EXPECT_NEAR(path.seconds, seconds, seconds * 1e-12);
}

// A ring adds all parts on the way round and brings the sums on a second.
TEST_F(Reshard, AllReduceTakesTwoRounds) {
  ReshardPath one = path(R"([360, 600], partial sum ["b"])", "[360, 600]");
  expectPath(one, kinds(one), {StepKind::AllReduce}, 2 * ring(b, whole));
  ReshardPath both = path(R"([360, 600], partial sum ["a", "b"])", "[360, 600]");
  expectPath(both, kinds(both), {StepKind::AllReduce}, 2 * ring(a * b, whole));
}

TEST_F(Reshard, ReduceScatterTakesOneRound) {
  ReshardPath found = path(R"([360, 600], partial sum ["b"])", R"([360, 600 by ["b"]])");
  expectPath(found, kinds(found), {StepKind::ReduceScatter}, ring(b, whole));
}

// Of what the devices have afterwards.
TEST_F(Reshard, AllGatherTakesOneRound) {
  ReshardPath found = path(R"([360, 600 by ["b"]])", "[360, 600]");
  expectPath(found, kinds(found), {StepKind::AllGather}, ring(b, whole));
  ReshardPath part = path(R"([360 by ["a"], 600 by ["b"]])", R"([360 by ["a"], 600])");
  expectPath(part, kinds(part), {StepKind::AllGather}, ring(b, whole / a));
}

// Of what each device has, the same before and after.
TEST_F(Reshard, AllToAllTakesOneRound) {
  ReshardPath found = path(R"([360 by ["b"], 600])", R"([360, 600 by ["b"]])");
  expectPath(found, kinds(found), {StepKind::AllToAll}, ring(b, whole / b));
}

// Nothing travels, but a way with a slice is longer than one without.
TEST_F(Reshard, SliceReadsWhatItKeeps) {
  ReshardPath found = path("[360, 600]", R"([360, 600 by ["b"]])");
  expectPath(found, kinds(found), {StepKind::Slice}, whole / b / bandwidth / 16);
}

// Every device gets another part, from any of the others: a message of what it holds.
TEST_F(Reshard, PermuteBringsWhatADeviceHolds) {
  ReshardPath found = path(R"([360 by ["a", "b"], 600])", R"([360 by ["b", "a"], 600])");
  expectPath(found, kinds(found), {StepKind::Permute}, (a * b - 1) * latency + whole / (a * b) / bandwidth);
}

// A window of 3 reads one row on each side of the 120 that a device computes: two rows come from neighbours.
TEST_F(Reshard, HaloExchangeBringsWhatNeighboursHave) {
  ReshardPath found = path(R"([360 by ["b"], 600])", R"([360 by ["b"] reach (360 step 1 before 1 extent 3), 600])");
  expectPath(found, kinds(found), {StepKind::HaloExchange}, 2 * latency + 2 * 600 * 4 / bandwidth);
}

// Where blocks lie elsewhere before, all of what a device holds comes, from anybody. Of a small tensor that is faster
// than an all-to-all and a halo: fewer messages.
TEST_F(Reshard, HaloExchangeOfOtherBlocksBringsAll) {
  ReshardPath found = path(R"([6, 3 by ["b"]])", R"([6 by ["b"] reach (6 step 1 before 1 extent 3), 3])", {6, 3});
  expectPath(found, kinds(found), {StepKind::HaloExchange}, (b - 1) * latency + (2 + 2) * 3 * 4 / bandwidth);
}

// Devices that differ in an axis alone that cuts both alike give each other nothing: messages come from b - 1 others.
TEST_F(Reshard, ExchangesAlongWhatMovesAlone) {
  ReshardPath found = path(R"([360 by ["a"], 20 * 30 by ["b"]])", R"([360 by ["a"], 600 by ["b"]])");
  expectPath(found, kinds(found), {StepKind::Permute}, (b - 1) * latency + whole / (a * b) / bandwidth);
}

// A device adds only what it keeps.
TEST_F(Reshard, SlicesBeforeItAdds) {
  ReshardPath found = path(R"([360, 600], partial sum ["a"])", R"([360 by ["a"], 600 by ["b"]])");
  expectPath(found, kinds(found), {StepKind::Slice, StepKind::ReduceScatter},
             whole / b / bandwidth / 16 + ring(a, whole / b));
}

// As many bytes as by one ring over both axes, in fewer messages.
TEST_F(Reshard, GathersAxisByAxis) {
  ReshardPath found = path(R"([360 by ["a", "b"], 600])", "[360, 600]");
  expectPath(found, kinds(found), {StepKind::AllGather, StepKind::AllGather}, ring(b, whole / a) + ring(a, whole));
}

} // namespace
