// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes a scheduled module as the bytes of a plan file (runtime/plan.fbs).

#ifndef CLEAVE_PASSES_EMIT_EMITPLAN_H
#define CLEAVE_PASSES_EMIT_EMITPLAN_H

#include "passes/emit/OperatorRows.h"
#include "passes/planner/PlanReport.h"
#include "runtime/Plan.h"

#include "mlir/IR/BuiltinOps.h"

#include "llvm/Support/Error.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace cleave {

/// What the simulator says of an entry.
struct EntryTimes {
  /// Of the whole. The emitter leaves it out where a search has made one.
  runtime::Prediction prediction;
  /// Seconds of a step by instruction of the bodies, on the device that is slowest; by program as `programsOf` has
  /// them.
  InstructionSeconds seconds;
};

struct EmitOptions {
  /// What the plan says about itself.
  std::string producer = "cleave", model, strategy;
  /// What steps compute besides the model.
  std::vector<runtime::Setting> settings;
  /// The file, relative to the plan's folder, that holds the bytes of a `#dfg.file` path; empty: the path itself.
  std::function<std::string(llvm::StringRef path)> fileOf;
  /// By name, checksums of parameters in files, as far as they are known.
  std::map<std::string, runtime::FileChecksum, std::less<>> checksums = {};
  /// What a search expects of the first entry; null where nobody searched.
  const PlanReport *report = nullptr;
  /// By entry, in the module's order; empty or shorter where nobody has simulated them.
  std::vector<EntryTimes> times;
};

/// Why there is no plan. `Status::Infeasible` when a device's memory does not suffice; else `Status::Internal`: the
/// module is not as the stages before leave it.
class PlanError : public llvm::ErrorInfo<PlanError> {
public:
  static char ID; // NOLINT(readability-identifier-naming): the name that llvm::ErrorInfo asks for

  PlanError(runtime::Status status, std::string message, std::vector<char> plan = {})
      : status(status), text(std::move(message)), plan(std::move(plan)) {}

  runtime::Status getStatus() const { return status; }
  /// The plan for which a device's memory does not suffice; else empty.
  const std::vector<char> &getPlan() const { return plan; }
  void log(llvm::raw_ostream &stream) const override { stream << text; }
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }

private:
  runtime::Status status;
  std::string text;
  std::vector<char> plan;
};

/// The plan of a module that the schedule stage left: `plan.program`s, kernels with their code, the placed graph, and
/// `dist.devices`. The runtime's verifier has accepted the bytes. Equal modules give equal bytes.
llvm::Expected<std::vector<char>> emitPlan(mlir::ModuleOp module, const EmitOptions &options);

} // namespace cleave

#endif // CLEAVE_PASSES_EMIT_EMITPLAN_H
