// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// falsify-plan PLAN FILE: a sound plan that computes something else, for tests of what compares plans. Where devices
// add up parts of the largest tensor that they do so with, they take the greatest.

#include "runtime/Plan.h"
#include "runtime/plan_generated.h"

#include <fstream>
#include <iostream>

using namespace cleave;

/// The reduction of the largest tensor over devices in the plan's steps; null where there is none.
static fb::AllReduceT *largestReduction(fb::PlanT &plan) {
  fb::AllReduceT *largest = nullptr;
  uint64_t most = 0;
  for (auto &entry : plan.entries)
    for (auto &program : entry->programs)
      for (auto &instruction : program->body)
        if (fb::AllReduceT *reduction = instruction->action.AsAllReduce())
          if (uint64_t bytes = program->buffers[reduction->source]->bytes; bytes > most) {
            largest = reduction;
            most = bytes;
          }
  return largest;
}

int main(int argc, char **argv) {
  auto plan = runtime::Plan::read(argc == 3 ? argv[1] : "");
  if (!plan) {
    std::cerr << "usage: falsify-plan PLAN FILE: " << plan.error().text() << "\n";
    return 2;
  }
  auto contents = fb::UnPackPlan(plan->bytes().data());
  fb::AllReduceT *reduction = largestReduction(*contents);
  if (!reduction) {
    std::cerr << "expected a plan with an all-reduce, got none\n";
    return 1;
  }
  reduction->combiner = fb::Combiner::Max;
  flatbuffers::FlatBufferBuilder builder;
  fb::FinishPlanBuffer(builder, fb::CreatePlan(builder, contents.get()));
  auto bytes = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  auto seal = runtime::planSeal(bytes);
  std::ofstream file(argv[2], std::ios::binary);
  for (std::span<const std::byte> part : {bytes, std::span<const std::byte>(seal)})
    file.write(reinterpret_cast<const char *>(part.data()), static_cast<std::streamsize>(part.size()));
  return file ? 0 : 1;
}
