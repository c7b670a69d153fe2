// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The difference of two plans as JSON, version 1: keys are added, never renamed or removed.

#include "tools/cleave/PlanDiff.h"

#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace cleave::tool {

static void writeTexts(JsonStream &json, StringRef key, ArrayRef<TextChange> changes) {
  json.attributeArray(key, [&] {
    for (const TextChange &change : changes)
      json.object([&] {
        json.attribute("name", change.name);
        json.attribute("first", change.before);
        json.attribute("second", change.after);
      });
  });
}

/// A number that one plan has not is left out.
static void writeNumbers(JsonStream &json, StringRef key, ArrayRef<NumberChange> changes) {
  json.attributeArray(key, [&] {
    for (const NumberChange &change : changes)
      json.object([&] {
        json.attribute("name", change.name);
        if (change.before >= 0)
          json.attribute("first", change.before);
        if (change.after >= 0)
          json.attribute("second", change.after);
      });
  });
}

void writeDiff(JsonStream &json, const PlanDiff &diff) {
  json.attribute("version", 1);
  json.attribute("equal", diff.isEqual());
  writeTexts(json, "plan", diff.plan);
  writeNumbers(json, "totals", diff.totals);
  json.attributeArray("removed", [&] {
    for (const std::string &name : diff.removed)
      json.value(name);
  });
  json.attributeArray("added", [&] {
    for (const std::string &name : diff.added)
      json.value(name);
  });
  writeTexts(json, "moved", diff.moved);
  writeTexts(json, "splits", diff.split);
  writeTexts(json, "decisions", diff.decided);
  writeNumbers(json, "stage_operators", diff.stageOperators);
  writeNumbers(json, "stage_seconds", diff.stageSeconds);
  writeNumbers(json, "stage_bytes", diff.stageBytes);
  writeNumbers(json, "device_bytes", diff.deviceBytes);
  writeNumbers(json, "op_seconds", diff.seconds);
  writeNumbers(json, "op_received_bytes", diff.received);
}

} // namespace cleave::tool
