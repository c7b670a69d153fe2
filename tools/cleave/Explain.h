// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The forms in which `cleave explain` shows a plan.

#ifndef CLEAVE_TOOLS_CLEAVE_EXPLAIN_H
#define CLEAVE_TOOLS_CLEAVE_EXPLAIN_H

#include "tools/cleave/EqualRows.h"
#include "tools/cleave/LayerFolding.h"
#include "tools/cleave/PlanSummary.h"
#include "tools/cleave/TimelineData.h"

#include "llvm/Support/raw_ostream.h"

namespace cleave::tool {

/// How much a report in text shows.
enum class Detail {
  Folded, ///< repeated layers, equal devices and equal stages once, long lists by their beginning
  All
};

/// The whole plan: header, stages, devices, a row an operator, what crosses, the largest costs, what else was
/// considered. Lines of at most 100 columns.
void explainAsText(llvm::raw_ostream &out, const PlanSummary &summary, Detail detail = Detail::Folded);

/// What a stage computes again: "11 full, 17 none", wherever in the stage these segments are.
std::string recomputeCell(const runtime::PlanStage &stage);

/// Parts of it, which print nothing where the plan says nothing about them. What is expected of a step:
void explainPrediction(llvm::raw_ostream &out, const PlanSummary &summary);
/// The decision, where one placed every operator:
void explainDecision(llvm::raw_ostream &out, const PlanSummary &summary);
/// Times and memory of the stages, and what crosses between them:
void explainStages(llvm::raw_ostream &out, const PlanSummary &summary, Detail detail);
/// Other ways to run the model:
void explainAlternatives(llvm::raw_ostream &out, const PlanSummary &summary, Detail detail);
/// What every device does:
void explainDevices(llvm::raw_ostream &out, const PlanSummary &summary, Detail detail);
/// A row an operator, repeated layers folded:
void explainOperators(llvm::raw_ostream &out, const PlanSummary &summary, const LayerFolding &folding);
/// Transfers between meshes and collectives inside of them:
void explainCommunication(llvm::raw_ostream &out, const PlanSummary &summary, const LayerFolding &folding,
                          Detail detail);
/// The three largest costs: time where it is predicted, otherwise work and bytes. Equal operators of repeated layers
/// count together.
void explainLargest(llvm::raw_ostream &out, const PlanSummary &summary, const LayerFolding &folding);

/// The titles of the table of devices, and its rows; equal ones are one with `fold`.
std::vector<std::string> deviceTitles(const PlanSummary &summary);
std::vector<EqualRows> deviceRows(const PlanSummary &summary, bool fold);

/// Everything about operator `index` of the entry.
void explainOperator(llvm::raw_ostream &out, const PlanSummary &summary, uint32_t index);

/// The graph coloured by mesh with a legend, in Graphviz's language: a cluster a stage, repeated layers folded
/// (GraphView.h). Nodes without a kernel of their own are dashed; edges that cross between meshes are bold and say how
/// much crosses.
void explainAsDot(llvm::raw_ostream &out, const PlanSummary &summary);

/// What the simulator says where there is something to simulate on a machine that is known, else the prediction.
TimelineData timelineOf(const runtime::Plan &plan, const PlanSummary &summary);

/// One page with the graph, tables, timeline and memory, which needs nothing besides itself.
void explainAsHtml(llvm::raw_ostream &out, const PlanSummary &summary, const TimelineData &timeline);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_EXPLAIN_H
