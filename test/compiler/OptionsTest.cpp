// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of options: values as text and back, and what rows refuse.

#include "compiler/Options.h"

#include <gtest/gtest.h>

namespace cleave {
namespace {

// What one set of options says, another takes, row by row. Some defaults are no value that could be given.
TEST(Options, AreReadAsTheyAreWritten) {
  TargetOptions options;
  options.machine = "a b.yaml";
  options.batches = {1, 4, 6};
  options.learningRate = 0.1 + 0.2;
  options.seed = ~0ULL;
  options.batch = int64_t(1) << 40;
  options.noDropout = options.tf32 = true;
  TargetOptions same, defaults;
  for (const TargetOption &row : targetOptions())
    if (std::string text = optionText(options, row); text != optionText(defaults, row)) {
      EXPECT_FALSE(setOption(same, row, text)) << row.name;
    }
  for (const TargetOption &row : targetOptions())
    EXPECT_EQ(optionText(same, row), optionText(options, row)) << row.name;
  EXPECT_EQ(same.batches, options.batches);
  EXPECT_EQ(same.learningRate, options.learningRate);
}

// Each row has a member of its own, and a name of its own.
TEST(Options, DifferInNameAndMember) {
  for (const TargetOption &row : targetOptions())
    for (const TargetOption &other : targetOptions())
      if (&row != &other) {
        EXPECT_STRNE(row.name, other.name);
        EXPECT_FALSE(row.member == other.member) << row.name << " and " << other.name;
      }
}

// Values that the command line refuses are refused wherever they come from, and nothing is changed by them.
TEST(Options, AreRefusedByTheirRow) {
  for (auto [name, text] : {std::pair("strategy", "best"),
                            {"batch", "0"},
                            {"batch", "1.5"},
                            {"batch", ""},
                            {"batches", "1,0"},
                            {"batches", "1,,2"},
                            {"chunks", "1025"},
                            {"learning-rate", "-0.1"},
                            {"learning-rate", "nan"},
                            {"learning-rate", "0.1x"},
                            {"replicas", "-1"},
                            {"no-dropout", "yes"}}) {
    TargetOptions options, defaults;
    const TargetOption &row = *findTargetOption(name);
    EXPECT_EQ(setOption(options, row, text).status(), Status::Usage) << name << " " << text;
    EXPECT_EQ(optionText(options, row), optionText(defaults, row));
  }
}

} // namespace
} // namespace cleave
