// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads executors.

#include "passes/cost/Executor.h"

#include "passes/cost/Machine.h"
#include "passes/cost/Quantity.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace cleave {

struct ExecutorFile {
  StringLiteral name, text;
};

static constexpr ExecutorFile executorFiles[] = {
#include "passes/cost/ExecutorFiles.inc"
};

static constexpr std::pair<Fusion, StringLiteral> fusionNames[] = {
    {Fusion::Products, "products"}, {Fusion::Chains, "chains"}, {Fusion::None, "none"}};

std::vector<StringRef> executorNames() {
  std::vector<StringRef> names;
  for (const ExecutorFile &file : executorFiles)
    names.push_back(file.name);
  return names;
}

static Error readFlag(const YamlValue &map, StringRef key, StringRef subject, bool &target) {
  const YamlValue *value = map.find(key);
  if (!value)
    return Error::success();
  if (value->kind != YamlValue::Kind::Text || !is_contained({"true", "false"}, value->text))
    return value->error(subject + " " + key + " expects true or false" +
                        (value->text.empty() ? Twine() : ", got \"" + value->text + "\""));
  target = value->text == "true";
  return Error::success();
}

static Error readShare(const YamlValue &map, StringRef key, StringRef subject, double &target) {
  if (Error failure = readQuantity(map, key, noUnit, subject, target))
    return failure;
  const YamlValue *value = map.find(key);
  if (value && !(target > 0 && target <= 1))
    return value->error(subject + " " + key + " expects more than 0 and at most 1, got \"" + value->text + "\"");
  return Error::success();
}

/// A map of a key, if it is there, with the keys that it may have.
static Expected<const YamlValue *> findPart(const YamlValue &map, StringRef key, ArrayRef<StringRef> keys) {
  const YamlValue *part = map.find(key);
  if (!part)
    return nullptr;
  std::string subject = ("executor " + key).str();
  if (Error failure = part->expect(YamlValue::Kind::Map, subject))
    return failure;
  if (Error failure = part->expectKeys(keys, subject))
    return failure;
  return part;
}

static Error readFusion(const YamlValue &map, Fusion &target) {
  const YamlValue *value = map.find("fusion");
  if (!value)
    return Error::success();
  auto found = find_if(fusionNames, [&](auto &entry) { return entry.second == value->text; });
  if (found == std::end(fusionNames))
    return value->error("executor fusion expects products, chains or none" +
                        (value->text.empty() ? Twine() : ", got \"" + value->text + "\""));
  target = found->first;
  return Error::success();
}

/// `KEY: { overlap: true }`.
static Error readOverlap(const YamlValue &map, StringRef key, bool &target) {
  auto part = findPart(map, key, {"overlap"});
  if (!part)
    return part.takeError();
  return *part ? readFlag(**part, "overlap", ("executor " + key).str(), target) : Error::success();
}

static Error readLinearLayers(const YamlValue &map, Executor &executor) {
  StringRef key = "linear_layers", subject = "executor linear_layers";
  auto part = findPart(map, key, {"products", "cast", "gradient_cast"});
  if (!part)
    return part.takeError();
  LinearLayers &layers = executor.linearLayers;
  if (executor.fusion == Fusion::Products && (*part || layers != LinearLayers()))
    return (*part ? **part : map)
        .error(subject + " expects software other than Cleave's own, that is fusion chains or none");
  if (!*part)
    return Error::success();
  if (const YamlValue *type = (*part)->find("products")) {
    if (!is_contained(elementTypes, type->text))
      return type->error(subject + " products expects one of " + join(ArrayRef(elementTypes), ", ") +
                         (type->text.empty() ? Twine() : ", got \"" + type->text + "\""));
    layers.products = type->text;
  }
  for (auto [name, target] : {std::pair("cast", &layers.castBytes), {"gradient_cast", &layers.gradientCastBytes}})
    if (Error failure = readQuantity(**part, name, sizeUnits, subject, *target))
      return failure;
  return Error::success();
}

static Error readParts(const YamlValue &value, Executor &executor) {
  auto attention =
      findPart(value, "attention",
               {"streamed", "forward", "backward", "tuned", "skips_masked", "score_passes", "backward_score_passes"});
  if (!attention)
    return attention.takeError();
  if (const YamlValue *part = *attention) {
    if (Error failure = readFlag(*part, "streamed", "executor attention", executor.streamsAttention))
      return failure;
    if (Error failure = readFlag(*part, "tuned", "executor attention", executor.tunesAttention))
      return failure;
    if (Error failure = readFlag(*part, "skips_masked", "executor attention", executor.skipsMasked))
      return failure;
    if (Error failure = readShare(*part, "forward", "executor attention", executor.attentionForward))
      return failure;
    if (Error failure = readShare(*part, "backward", "executor attention", executor.attentionBackward))
      return failure;
    if (Error failure = readQuantity(*part, "score_passes", noUnit, "executor attention", executor.scorePasses))
      return failure;
    if (Error failure =
            readQuantity(*part, "backward_score_passes", noUnit, "executor attention", executor.backwardScorePasses))
      return failure;
  }
  if (Error failure = readLinearLayers(value, executor))
    return failure;
  auto gradients = findPart(value, "gradients", {"overlap", "bucket"});
  if (!gradients)
    return gradients.takeError();
  if (const YamlValue *part = *gradients) {
    if (Error failure = readFlag(*part, "overlap", "executor gradients", executor.overlapsGradients))
      return failure;
    executor.bucket = 0;
    if (Error failure = readQuantity(*part, "bucket", sizeUnits, "executor gradients", executor.bucket))
      return failure;
  }
  if (Error failure = readOverlap(value, "gathers", executor.overlapsGathers))
    return failure;
  if (Error failure = readOverlap(value, "exchanges", executor.overlapsExchanges))
    return failure;
  auto bytes = findPart(value, "bytes", {"accumulation", "update", "loss", "kept_loss"});
  if (!bytes)
    return bytes.takeError();
  if (!*bytes)
    return Error::success();
  for (auto [key, target] : {std::pair("accumulation", &executor.accumulationBytes),
                             {"update", &executor.updateBytes},
                             {"loss", &executor.lossBytes},
                             {"kept_loss", &executor.keptLossBytes}})
    if (Error failure = readQuantity(**bytes, key, sizeUnits, "executor bytes", *target))
      return failure;
  return Error::success();
}

Expected<Executor> readExecutor(const YamlValue &value) {
  if (value.kind == YamlValue::Kind::Text) {
    auto found = findExecutor(value.text, "\"executor\"");
    return found ? std::move(found) : Expected<Executor>(value.error(toString(found.takeError())));
  }
  if (Error failure = value.expect(YamlValue::Kind::Map, "\"executor\""))
    return failure;
  if (Error failure =
          value.expectKeys({"name", "base", "fusion", "attention", "tf32", "joins_products", "linear_layers",
                            "sequence_split", "whole_layers", "stops_recomputing", "gradients", "gathers", "exchanges",
                            "dispatch", "blocks", "backward_dispatch", "bytes", "memory"},
                           "\"executor\""))
    return failure;
  Executor executor;
  if (const YamlValue *base = value.find("base")) {
    auto found = findExecutor(base->text, "executor base");
    if (!found)
      return base->error(toString(found.takeError()));
    executor = *found;
  }
  if (const YamlValue *name = value.find("name"))
    executor.name = name->text;
  else
    executor.name += " (changed)";
  if (Error failure = readFusion(value, executor.fusion))
    return failure;
  if (Error failure = readFlag(value, "tf32", "executor", executor.roundsProducts))
    return failure;
  if (Error failure = readFlag(value, "joins_products", "executor", executor.joinsProducts))
    return failure;
  if (Error failure = readFlag(value, "sequence_split", "executor", executor.splitsSequence))
    return failure;
  if (Error failure = readFlag(value, "whole_layers", "executor", executor.wholeLayers))
    return failure;
  if (Error failure = readFlag(value, "stops_recomputing", "executor", executor.stopsRecomputing))
    return failure;
  if (Error failure = readFlag(value, "blocks", "executor", executor.blocks))
    return failure;
  if (Error failure = readQuantity(value, "dispatch", timeUnits, "executor", executor.dispatch))
    return failure;
  if (value.find("dispatch"))
    executor.backwardDispatch = executor.dispatch;
  if (Error failure = readQuantity(value, "backward_dispatch", timeUnits, "executor", executor.backwardDispatch))
    return failure;
  if (Error failure = readQuantity(value, "memory", sizeUnits, "executor", executor.memory))
    return failure;
  if (Error failure = readParts(value, executor))
    return failure;
  return executor;
}

Expected<Executor> findExecutor(StringRef name, StringRef subject) {
  for (const ExecutorFile &file : executorFiles) {
    if (file.name != name)
      continue;
    Expected<YamlValue> text = parseYaml(file.text, file.name);
    return text ? readExecutor(*text) : Expected<Executor>(text.takeError());
  }
  return createStringError(subject + " expects one of " + join(executorNames(), ", ") + ", got \"" + name + "\"");
}

static std::string linearLayersText(const LinearLayers &layers) {
  if (layers == LinearLayers())
    return "";
  return "    linear_layers: { " + (layers.products.empty() ? "" : "products: " + layers.products + ", ") +
         "cast: " + printQuantity(layers.castBytes, sizeUnits) +
         ", gradient_cast: " + printQuantity(layers.gradientCastBytes, sizeUnits) + " },\n";
}

std::string executorText(const Executor &executor) {
  auto flag = [](bool value) { return value ? "true" : "false"; };
  auto number = [](double value, ArrayRef<Unit> units) { return printQuantity(value, units); };
  return ("{ name: '" + executor.name +
          "', fusion: " + find_if(fusionNames, [&](auto &entry) { return entry.first == executor.fusion; })->second +
          ", tf32: " + flag(executor.roundsProducts) + ", joins_products: " + flag(executor.joinsProducts) +
          ", sequence_split: " + flag(executor.splitsSequence) + ",\n    whole_layers: " + flag(executor.wholeLayers) +
          ", stops_recomputing: " + flag(executor.stopsRecomputing) + ",\n    attention: { streamed: " +
          flag(executor.streamsAttention) + ", forward: " + number(executor.attentionForward, noUnit) +
          ", backward: " + number(executor.attentionBackward, noUnit) + ", tuned: " + flag(executor.tunesAttention) +
          ", skips_masked: " + flag(executor.skipsMasked) + ", score_passes: " + number(executor.scorePasses, noUnit) +
          ", backward_score_passes: " + number(executor.backwardScorePasses, noUnit) + " },\n" +
          linearLayersText(executor.linearLayers) + "    gradients: { overlap: " + flag(executor.overlapsGradients) +
          ", bucket: " + number(executor.bucket, sizeUnits) + " }, gathers: { overlap: " +
          flag(executor.overlapsGathers) + " }, exchanges: { overlap: " + flag(executor.overlapsExchanges) +
          " },\n    dispatch: " + number(executor.dispatch, timeUnits) + ", backward_dispatch: " +
          number(executor.backwardDispatch, timeUnits) + ", blocks: " + flag(executor.blocks) +
          ",\n    bytes: { accumulation: " + number(executor.accumulationBytes, sizeUnits) +
          ", update: " + number(executor.updateBytes, sizeUnits) + ", loss: " + number(executor.lossBytes, sizeUnits) +
          ", kept_loss: " + number(executor.keptLossBytes, sizeUnits) +
          " }, memory: " + number(executor.memory, sizeUnits) + " }")
      .str();
}

} // namespace cleave
