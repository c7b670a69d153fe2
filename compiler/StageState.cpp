// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attributes of modules, written and read.

#include "compiler/StageState.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace cleave {

static Error wrong(StringRef name, const char *expected, Attribute got) {
  std::string text;
  llvm::raw_string_ostream(text) << got;
  return makeError(Status::Rejected, "the module's attribute ", name.str(), " expects ", expected, ", got ", text);
}

void setStrategy(ModuleOp module, StringRef strategy) {
  module->setAttr(strategyAttrName, StringAttr::get(module.getContext(), strategy));
}

std::string getStrategy(ModuleOp module) {
  auto strategy = module->getAttrOfType<StringAttr>(strategyAttrName);
  return strategy ? strategy.getValue().str() : "";
}

void setSettings(ModuleOp module, ArrayRef<runtime::Setting> settings) {
  Builder builder(module.getContext());
  SmallVector<Attribute> texts;
  for (const runtime::Setting &setting : settings)
    texts.append({builder.getStringAttr(setting.name), builder.getStringAttr(setting.value)});
  if (texts.empty())
    module->removeAttr(settingsAttrName);
  else
    module->setAttr(settingsAttrName, builder.getArrayAttr(texts));
}

Expected<std::vector<runtime::Setting>> getSettings(ModuleOp module) {
  std::vector<runtime::Setting> settings;
  Attribute attribute = module->getAttr(settingsAttrName);
  if (!attribute)
    return settings;
  auto texts = dyn_cast<ArrayAttr>(attribute);
  if (!texts || texts.size() % 2 != 0 || !llvm::all_of(texts, llvm::IsaPred<StringAttr>))
    return wrong(settingsAttrName, "names and values in turns", attribute);
  for (size_t i = 0; i != texts.size(); i += 2)
    settings.push_back({cast<StringAttr>(texts[i]).getValue().str(), cast<StringAttr>(texts[i + 1]).getValue().str()});
  return settings;
}

void setStep(ModuleOp module, const StepFacts &step) {
  Builder builder(module.getContext());
  module->setAttr(stepAttrName, builder.getDictionaryAttr(
                                    {builder.getNamedAttr("microbatches", builder.getI64IntegerAttr(step.microbatches)),
                                     builder.getNamedAttr("schedule", builder.getStringAttr(step.schedule))}));
}

Expected<StepFacts> getStep(ModuleOp module) {
  Attribute attribute = module->getAttr(stepAttrName);
  if (!attribute)
    return StepFacts();
  auto facts = dyn_cast<DictionaryAttr>(attribute);
  auto microbatches = facts ? facts.getAs<IntegerAttr>("microbatches") : nullptr;
  auto schedule = facts ? facts.getAs<StringAttr>("schedule") : nullptr;
  if (!microbatches || !schedule || !microbatches.getType().isInteger(64) || !llvm::isUInt<32>(microbatches.getInt()) ||
      microbatches.getInt() == 0)
    return wrong(stepAttrName, "i64 microbatches and the name of a schedule", attribute);
  return StepFacts{static_cast<uint32_t>(microbatches.getInt()), schedule.getValue().str()};
}

} // namespace cleave
