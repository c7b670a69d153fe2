// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From the text of a module to its plan, for the tests of the emit stage.

#ifndef CLEAVE_TEST_PASSES_EMIT_MODULETEXT_H
#define CLEAVE_TEST_PASSES_EMIT_MODULETEXT_H

#include "passes/emit/EmitPlan.h"
#include "runtime/Plan.h"

#include "mlir/IR/OwningOpRef.h"

#include <optional>

namespace cleave {

/// A module that was parsed, and went through the stages up to schedule, from the one that is named.
class ModuleText {
public:
  enum Stage { Distribute, Codegen, Schedule };
  explicit ModuleText(const std::string &text, Stage first = Schedule);

  mlir::ModuleOp get() const { return *module; }
  /// The bytes of its plan; fails the test when there is none.
  std::vector<char> emit(const EmitOptions &options = {}) const;
  /// The plan, read back.
  runtime::Plan plan(const EmitOptions &options = {}) const;
  /// The status and message with which emission fails; fails the test when it does not.
  std::pair<runtime::Status, std::string> failure(const EmitOptions &options = {}) const;

private:
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

} // namespace cleave

#endif // CLEAVE_TEST_PASSES_EMIT_MODULETEXT_H
