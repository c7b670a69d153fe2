// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads files of stage costs.

#include "tools/cleave/StageFile.h"

#include "tools/cleave/CostFields.h"

using namespace llvm;

namespace cleave::tool {

static constexpr size_t mostStages = 4096;

/// Reads one quantity into `target`.
static llvm::Error take(llvm::Expected<double> quantity, double &target) {
  if (!quantity)
    return quantity.takeError();
  target = *quantity;
  return llvm::Error::success();
}

static llvm::Error readStage(const YamlValue &value, StageFile &file) {
  if (llvm::Error failure = value.expect(YamlValue::Kind::Map, "a stage"))
    return failure;
  if (llvm::Error failure =
          value.expectKeys({"forward", "backward_input", "backward_weight", "send", "activation", "count"}, "a stage"))
    return failure;
  pipeline::StageTimes times;
  double activation = 0;
  if (llvm::Error failure = take(quantityOf(value, "forward", timeUnits, "a stage"), times.forward))
    return failure;
  if (llvm::Error failure = take(quantityOf(value, "backward_input", timeUnits, "a stage"), times.backwardInput))
    return failure;
  if (llvm::Error failure = take(quantityOf(value, "backward_weight", timeUnits, "a stage"), times.backwardWeight))
    return failure;
  if (llvm::Error failure = take(quantityOf(value, "send", timeUnits, "a stage", 0), times.send))
    return failure;
  if (llvm::Error failure = take(quantityOf(value, "activation", sizeUnits, "a stage", 0), activation))
    return failure;
  auto count = countOf(value, "count", mostStages, "a stage");
  if (!count)
    return count.takeError();
  if (file.times.size() + *count > mostStages)
    return value.error("\"stages\" expects at most " + Twine(mostStages) + " stages, got more");
  file.times.insert(file.times.end(), *count, times);
  file.activations.insert(file.activations.end(), *count, activation);
  return llvm::Error::success();
}

llvm::Expected<StageFile> readStageFile(StringRef path) {
  llvm::Expected<YamlValue> list = readListFile(path, "stages", "a file of stages");
  if (!list)
    return list.takeError();
  StageFile file;
  for (const YamlValue &item : list->items)
    if (llvm::Error failure = readStage(item, file))
      return failure;
  if (file.times.empty())
    return list->error("\"stages\" expects at least one stage, found none");
  return file;
}

} // namespace cleave::tool
