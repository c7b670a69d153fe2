// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which layers count as repeated, and what stands for them.

#include "tools/cleave/LayerFolding.h"

#include <gtest/gtest.h>

namespace cleave::tool {
namespace {

using runtime::Entry;
using runtime::Operator;

/// Chains of operators on two meshes of one device.
class LayerFoldingTest : public testing::Test {
protected:
  LayerFoldingTest() { plan.meshes = {{"a", {}, {0}}, {"b", {}, {1}}}; }

  /// An operator that reads the one before it.
  Operator &add(const std::string &name, const std::string &kind) {
    Operator op;
    op.name = name;
    op.kind = kind;
    op.decidedBy = "propagation from " + name;
    if (!entry.operators.empty())
      op.inputs = {static_cast<uint32_t>(entry.operators.size()) - 1};
    entry.operators.push_back(std::move(op));
    return entry.operators.back();
  }

  /// Layers of an addition and a rectifier, named "<prefix><number>/...".
  void addLayers(const std::string &prefix, unsigned first, unsigned count) {
    for (unsigned i = first; i != first + count; ++i) {
      add(prefix + std::to_string(i) + "/add", "Add");
      add(prefix + std::to_string(i) + "/relu", "Relu");
    }
  }

  std::vector<RepeatedLayers> fold(FoldAcross across = FoldAcross::Meshes) {
    return LayerFolding(plan, entry, across).repetitions();
  }

  runtime::PlanContents plan;
  Entry entry;
};

// The layers between a beginning and an end are one row after the first of them; decisions may name the layer.
TEST_F(LayerFoldingTest, FoldsTheMiddle) {
  add("input", "Conv");
  addLayers("block", 0, 5);
  add("head", "MatMul");
  LayerFolding folding(plan, entry, FoldAcross::Meshes);
  ASSERT_EQ(folding.repetitions().size(), 1u);
  const RepeatedLayers &layers = folding.repetitions().front();
  EXPECT_EQ(layers.first, 1u);
  EXPECT_EQ(layers.period, 2u);
  EXPECT_EQ(layers.repeats, 5u);
  EXPECT_EQ(layers.others(), "block1..4");
  EXPECT_EQ(layers.labels.front(), "block0");
  auto rows = folding.rows();
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(rows[3].layers, &layers);
  EXPECT_EQ(rows[4].index, 11u);
  EXPECT_EQ(folding.shownFor(10), 2u);
  EXPECT_EQ(folding.shownFor(2), 2u);
  EXPECT_EQ(folding.shownFor(11), 11u);
}

// Two layers are shown: it would save nothing to speak of.
TEST_F(LayerFoldingTest, LeavesTwoLayers) {
  addLayers("block", 0, 2);
  EXPECT_TRUE(fold().empty());
}

// A layer that begins in the middle of what repeats is moved to where its names begin: the rectifier before block0
// looks like the end of a layer.
TEST_F(LayerFoldingTest, BeginsWhereNamesDo) {
  add("stem", "Relu");
  addLayers("block", 0, 4);
  ASSERT_EQ(fold().size(), 1u);
  EXPECT_EQ(fold().front().labels.front(), "block0");
  EXPECT_EQ(fold().front().repeats, 4u);
}

// Names that say nothing do: layers are called by their first operators.
TEST_F(LayerFoldingTest, NamesLayersByTheirFirstOperators) {
  add("input", "Conv");
  for (int i = 0; i != 4; ++i) {
    add("node_" + std::to_string(2 * i), "Add");
    add("node_" + std::to_string(2 * i + 1), "Relu");
  }
  ASSERT_EQ(fold().size(), 1u);
  EXPECT_EQ(fold().front().others(), "node_2..6");
}

// Whatever a table shows of an operator tells layers apart: shape, split, work, who decided.
TEST_F(LayerFoldingTest, KeepsWhatDiffers) {
  const std::pair<const char *, void (*)(Operator &)> changes[] = {
      {"shape", [](Operator &op) { op.shape = {7}; }},
      {"split", [](Operator &op) { op.split = "batch/x 2"; }},
      {"work", [](Operator &op) { op.flops = 5; }},
      {"decision", [](Operator &op) { op.decidedBy = "pin block2/* -> a"; }},
      {"input", [](Operator &op) { op.inputs = {0}; }}};
  for (auto [what, change] : changes) {
    entry.operators.clear();
    add("input", "Conv");
    addLayers("block", 0, 5);
    change(entry.operators[5]);
    EXPECT_TRUE(fold().empty()) << what;
  }
}

// On another mesh of the same shape layers are equal for a table, but not for a picture.
TEST_F(LayerFoldingTest, CrossesMeshesOrNot) {
  add("input", "Conv");
  addLayers("block", 0, 6);
  for (uint32_t i = 7; i != 13; ++i)
    entry.operators[i].mesh = 1;
  ASSERT_EQ(fold().size(), 1u);
  EXPECT_EQ(fold().front().repeats, 6u);
  auto runs = fold(FoldAcross::Nothing);
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[1].labels.front(), "block3");
}

// A tensor that all layers read, a mask, does not keep them apart.
TEST_F(LayerFoldingTest, SharesInputs) {
  add("mask", "Constant");
  addLayers("block", 0, 4);
  for (uint32_t i = 2; i < entry.operators.size(); i += 2)
    entry.operators[i].inputs.push_back(0);
  ASSERT_EQ(fold().size(), 1u);
  EXPECT_EQ(fold().front().repeats, 4u);
}

// Of the periods that fit, the whole layer and a part of it that repeats inside, the larger saving is taken.
TEST_F(LayerFoldingTest, PrefersWholeLayers) {
  add("input", "Conv");
  for (int i = 0; i != 4; ++i) {
    addLayers("block" + std::to_string(i) + "/head", 0, 3);
    add("block" + std::to_string(i) + "/sum", "Sum");
  }
  ASSERT_EQ(fold().size(), 1u);
  EXPECT_EQ(fold().front().period, 7u);
  EXPECT_EQ(fold().front().others(), "block1..3");
}

} // namespace
} // namespace cleave::tool
