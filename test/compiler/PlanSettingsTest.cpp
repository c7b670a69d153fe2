// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Options that say what steps compute, through a plan and back; and settings that no compiler has written.

#include "compiler/PlanSettings.h"

#include <gtest/gtest.h>

namespace cleave {
namespace {

// Numbers keep all their digits, and what says where a model runs stays behind.
TEST(PlanSettings, ComeBackAsTheyWere) {
  ModelOptions model;
  model.dims = {"sequence=7", "batch=3"};
  TargetOptions target;
  target.machine = "host:3";
  target.zero = "2";
  target.train = true;
  target.loss = "cross-entropy,classes=2,ignore-index=-1";
  target.optimizer = "adamw";
  target.optimizerOptions = "beta1=0.8,weight-decay=0.1";
  target.learningRate = 0.1 + 0.2;
  target.rateSchedule = "cosine:100:10";
  target.clipNorm = 1e-300;
  target.buckets = "length=4,8";
  target.batch = 12;
  target.microbatches = "4";
  target.batchNorm = "synchronized";
  target.batchNormGroups = {2, 1, 3};
  target.noDropout = true;
  target.seed = 1ULL << 63;
  target.elementType = "bf16";
  target.tf32 = true;
  std::vector<runtime::Setting> settings = settingsOf(model, target);
  ModelOptions sameModel;
  TargetOptions same;
  ASSERT_FALSE(applySettings(settings, sameModel, same));
  EXPECT_EQ(settingsOf(sameModel, same), settings);
  EXPECT_EQ(sameModel.dims, model.dims);
  EXPECT_TRUE(same.train);
  EXPECT_EQ(same.learningRate, target.learningRate);
  EXPECT_EQ(same.clipNorm, target.clipNorm);
  EXPECT_EQ(same.seed, target.seed);
  EXPECT_EQ(same.batchNormGroups, target.batchNormGroups);
  EXPECT_EQ(same.machine, TargetOptions().machine);
  EXPECT_EQ(same.zero, TargetOptions().zero);
}

// Inference has none but its arithmetic and the sizes of its dimensions.
TEST(PlanSettings, AreFewWithoutTraining) {
  TargetOptions target;
  target.optimizer = "sgd";
  EXPECT_TRUE(settingsOf({}, target).empty());
  target.elementType = "bf16";
  target.tf32 = true;
  EXPECT_EQ(settingsOf({}, target), (std::vector<runtime::Setting>{{"dtype", "bf16"}, {"tf32", "true"}}));
}

// Batches decide what an entry computes: a reference must have the same.
TEST(PlanSettings, KeepBatches) {
  TargetOptions target, same;
  target.batches = {1, 4, 6};
  target.maxBatch = 9;
  ModelOptions model;
  ASSERT_FALSE(applySettings(settingsOf({}, target), model, same));
  EXPECT_EQ(same.batches, target.batches);
  EXPECT_EQ(same.maxBatch, target.maxBatch);
}

// A plan is a file that anybody may have written: it does not choose what the command reads, nor values that the
// command line refuses.
TEST(PlanSettings, AreRefusedWhereTheyAreNone) {
  for (const runtime::Setting &setting : std::vector<runtime::Setting>{{"place", "/etc/passwd"},
                                                                       {"machine", "null:9"},
                                                                       {"batch-norm", "sometimes"},
                                                                       {"batch", "0"},
                                                                       {"learning-rate", "much"},
                                                                       {"batches", "1,0"},
                                                                       {"batch-norm-groups", "2,-1"}}) {
    ModelOptions model;
    TargetOptions target;
    EXPECT_EQ(applySettings(std::vector{setting}, model, target).status(), Status::Rejected) << setting.name;
  }
}

} // namespace
} // namespace cleave
