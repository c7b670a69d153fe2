// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A model that does not fit: the bytes that the failure names are enough, and clearly less are not.

#include "ModelGraph.h"

#include "passes/planner/search/Search.h"

#include <gtest/gtest.h>

#include <regex>

using namespace cleave;
using namespace cleave::search;

namespace {

/// The bytes that a plan needs on its fullest device, as a failure's text gives them, rounded up; 0 where it does not.
double bytesIn(const std::string &message) {
  std::smatch match;
  if (!std::regex_search(message, match, std::regex("the best needs ([0-9.]+) MiB on its fullest device")))
    return 0;
  return (std::stod(match[1]) + 0.01) * 1024 * 1024;
}

TEST(MissingMemory, IsWhatAPlanNeeds) {
  for (const char *name : {"a100-80g:1", "a100-80g:2", "host:1x1", "host:2x1"})
    for (bool training : {false, true}) {
      SCOPED_TRACE(std::string(name) + (training ? ", training" : ""));
      ModelGraph model(
          "gpt", {{"layers", 4}, {"hidden", 256}, {"heads", 4}, {"sequence", 64}, {"vocabulary", 2048}, {"batch", 4}});
      auto machine = parseMachine(name);
      ASSERT_TRUE(static_cast<bool>(machine)) << llvm::toString(machine.takeError());
      // What the executor itself takes comes on top.
      double own = machine->executor.memory;
      SearchRequest request;
      request.training = training;
      request.considersOthers = false;
      request.memoryLimit = own + 2.0 * 1024 * 1024;
      auto refused = findPlan(model.graph, *machine, request);
      ASSERT_TRUE(std::holds_alternative<SearchFailure>(refused));
      const auto &failure = std::get<SearchFailure>(refused);
      EXPECT_TRUE(failure.infeasible);
      double needed = bytesIn(failure.message);
      ASSERT_GT(needed, request.memoryLimit) << failure.message;
      request.memoryLimit = needed;
      EXPECT_TRUE(std::holds_alternative<FoundPlan>(findPlan(model.graph, *machine, request))) << failure.message;
      request.memoryLimit = needed * 0.99;
      EXPECT_TRUE(std::holds_alternative<SearchFailure>(findPlan(model.graph, *machine, request))) << failure.message;
    }
}

} // namespace
