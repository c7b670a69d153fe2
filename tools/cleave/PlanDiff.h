// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What differs between two plans of a model.

#ifndef CLEAVE_TOOLS_CLEAVE_PLANDIFF_H
#define CLEAVE_TOOLS_CLEAVE_PLANDIFF_H

#include "tools/cleave/JsonStream.h"
#include "tools/cleave/PlanSummary.h"

#include "llvm/Support/raw_ostream.h"

namespace cleave::tool {

/// A property of an operator, device or stage, in words, that is not the same.
struct TextChange {
  std::string name, before, after;
};

/// A quantity that is not the same; -1: there is none.
struct NumberChange {
  std::string name;
  double before = 0, after = 0;
  double difference() const { return after - before; }
};

/// Operators are compared by name, devices by name, stages by number.
struct PlanDiff {
  PlanDiff(const PlanSummary &first, const PlanSummary &second);

  const PlanSummary &first, &second;
  std::vector<TextChange> plan;     ///< model, strategy, machine, degrees, microbatches, schedule, devices
  std::vector<NumberChange> totals; ///< of a step: "seconds", "peak bytes", "transferred bytes", "collective bytes"
  std::vector<std::string> removed, added; ///< operators of one plan only
  std::vector<TextChange> moved;           ///< to other devices
  std::vector<TextChange> split;           ///< otherwise
  std::vector<TextChange> decided;         ///< by somebody else
  /// Predicted for an operator. None between the times of a search and those of the simulator: a search counts the
  /// backward pass with the forward operator, and what is computed together one by one.
  std::vector<NumberChange> seconds;
  std::vector<NumberChange> received;       ///< bytes that an operator receives from other devices
  std::vector<NumberChange> stageSeconds;   ///< of a microbatch, forward and backward
  std::vector<NumberChange> stageBytes;     ///< of each device of a stage
  std::vector<NumberChange> stageOperators; ///< how many
  std::vector<NumberChange> deviceBytes;    ///< peak

  /// Nothing of this differs.
  bool isEqual() const;

private:
  void comparePlans();
  void compareOperators();
  void compareStages();
  void compareDevices();
};

/// Lines of at most 100 columns; operators that changed alike share a row.
void printDiff(llvm::raw_ostream &out, const PlanDiff &diff);

/// Adds the keys of docs/formats.md to the JSON object that `json` has open.
void writeDiff(JsonStream &json, const PlanDiff &diff);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_PLANDIFF_H
