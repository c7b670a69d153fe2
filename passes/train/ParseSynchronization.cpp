// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The option --sync.

#include "passes/train/Versions.h"

#include "passes/train/OptionText.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace cleave {

llvm::Expected<Synchronization> parseSynchronization(StringRef text) {
  Synchronization sync;
  auto [kind, rest] = text.split(':');
  auto [number, options] = rest.split(',');
  if (kind == "ssp") {
    sync.bound.reset();
    uint64_t bound = 0;
    if (rest == "inf")
      return sync;
    if (!llvm::to_integer(rest, bound, 10) || bound > UINT32_MAX)
      return optionError("--sync ssp expects a number of steps or inf behind the colon, as in ssp:3; got \"" + text +
                         "\"");
    sync.bound = bound;
    return sync;
  }
  if (kind != "local")
    return optionError("--sync expects ssp:S, ssp:inf or local:H, got \"" + text + "\"");
  sync.choosesLocalSteps = number == "auto";
  if (!sync.choosesLocalSteps &&
      (!llvm::to_integer(number, sync.localSteps, 10) || sync.localSteps == 0 || sync.localSteps > UINT32_MAX))
    return optionError("--sync local expects a number of steps or auto behind the colon, as in local:64; got \"" +
                       text + "\"");
  StringRef subject = "--sync local";
  auto items = splitOptions(options, subject);
  if (!items)
    return items.takeError();
  sync.outer = llvm::cantFail(parseOptimizer("nesterov", ""));
  sync.outer.momentum = 0.9;
  sync.outer.learningRate.rate = 0.7;
  for (TextOption item : *items) {
    if (item.key == "dtype") {
      auto type = llvm::StringSwitch<std::optional<MoveType>>(item.value)
                      .Case("f32", MoveType::F32)
                      .Case("bf16", MoveType::BF16)
                      .Case("int8", MoveType::I8)
                      .Default(std::nullopt);
      if (!type)
        return optionError(subject + " expects dtype=f32, bf16 or int8, got \"" + item.value + "\"");
      sync.moves = *type;
      continue;
    }
    if (item.key == "overlap") {
      auto steps = parseWhole(item.value, subject, item.key, 0);
      if (!steps)
        return steps.takeError();
      sync.overlap = static_cast<uint64_t>(*steps);
      continue;
    }
    bool isRate = item.key == "outer-rate";
    if (!isRate && item.key != "outer-momentum")
      return optionError(subject + " knows no option \"" + item.key +
                         "\"; it has outer-rate, outer-momentum, dtype and overlap");
    auto value = parseNumber(item.value, subject, item.key, 0, isRate ? 1e6 : 1);
    if (!value)
      return value.takeError();
    (isRate ? sync.outer.learningRate.rate : sync.outer.momentum) = *value;
  }
  if (uint64_t most = sync.choosesLocalSteps ? mostChosenLocalSteps : sync.localSteps; sync.overlap >= most)
    return optionError(subject + " expects an overlap of fewer steps than the " + llvm::Twine(most) +
                       " from one exchange to the next, got " + llvm::Twine(sync.overlap));
  if (sync.choosesLocalSteps)
    sync.localSteps = sync.overlap + 1;
  if (sync.outer.momentum == 0)
    sync.outer.row = OptimizerOptions().row;
  return sync;
}

} // namespace cleave
