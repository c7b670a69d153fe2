// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parses, schedules, emits.

#include "ModuleText.h"

#include "dialects/dfg/Dfg.h"
#include "dialects/dist/Dist.h"
#include "dialects/plan/Plan.h"
#include "passes/codegen/Pipeline.h"
#include "passes/distribute/Pipeline.h"
#include "passes/schedule/Pipeline.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace cleave {

ModuleText::ModuleText(const std::string &text, Stage first) : context(std::make_unique<MLIRContext>()) {
  context->loadDialect<dfg::DfgDialect, dist::DistDialect, plan::PlanDialect>();
  module = parseSourceString<ModuleOp>(text, context.get());
  if (!module)
    throw std::runtime_error("the module of the test does not parse");
  PassManager manager(context.get());
  if (first == Distribute)
    buildDistributePipeline(manager, {});
  if (first != Schedule)
    buildCodegenPipeline(manager, {});
  buildSchedulePipeline(manager);
  if (failed(manager.run(*module)))
    throw std::runtime_error("the module of the test cannot be scheduled");
}

std::vector<char> ModuleText::emit(const EmitOptions &options) const {
  auto bytes = emitPlan(*module, options);
  if (bytes)
    return *bytes;
  ADD_FAILURE() << llvm::toString(bytes.takeError());
  return {};
}

runtime::Plan ModuleText::plan(const EmitOptions &options) const {
  std::vector<char> bytes = emit(options);
  auto plan = runtime::Plan::fromBytes(std::as_bytes(std::span(bytes)));
  if (!plan)
    throw std::runtime_error(plan.error().text());
  return *plan;
}

std::pair<runtime::Status, std::string> ModuleText::failure(const EmitOptions &options) const {
  auto bytes = emitPlan(*module, options);
  std::pair<runtime::Status, std::string> result = {runtime::Status::Success, ""};
  if (bytes) {
    ADD_FAILURE() << "expected no plan, got one";
    return result;
  }
  llvm::handleAllErrors(bytes.takeError(),
                        [&](const PlanError &error) { result = {error.getStatus(), error.message()}; });
  return result;
}

} // namespace cleave
