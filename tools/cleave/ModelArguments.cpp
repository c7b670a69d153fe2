// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows of the table of options as options of a command line.

#include "tools/cleave/ModelArguments.h"

#include "tools/cleave-run/NumberOptions.h"

#include <CLI/CLI.hpp>

namespace cleave::tool {

void addModelOptions(CLI::App &command, ModelOptions &options) {
  command.add_option("MODEL", options.model, "an ONNX model, or a dfg module in text form (.mlir)")->required();
  addModelDimOptions(command, options);
  addModelBindOption(command, options);
}

void addModelDimOptions(CLI::App &command, ModelOptions &options) {
  command.add_option("--dim", options.dims, "the size of a symbolic dimension; INPUT.N where it has no name")
      ->type_name("NAME=N")
      ->allow_extra_args(false);
  command.add_option("--weights", options.weights, "weights in the place of the model's own, by their names, as .npz")
      ->type_name("FILE");
  command
      .add_option("--max-nodes", options.limits.nodes,
                  "nodes that a model may hold, functions inlined and loops unrolled, and operators that they become")
      ->type_name("N")
      ->check(positive)
      ->capture_default_str();
  command.add_option("--max-operands", options.limits.operands, "operands and results that one node may have")
      ->type_name("N")
      ->check(positive)
      ->capture_default_str();
  command
      .add_option("--max-memory", options.limits.bytes,
                  "bytes of memory that reading a model may take, as 4GiB; any without it")
      ->type_name("BYTES")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      // A negative number has become one beyond this.
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 60, "1 to 2^60 bytes"));
  command.add_option("--max-seconds", options.limits.seconds, "how long reading a model may take; any time without it")
      ->type_name("SECONDS")
      ->check(positive);
}

void addModelBindOption(CLI::App &command, ModelOptions &options) {
  command.add_option("--bind", options.bindings, "an input's value, fixed at compile time")
      ->type_name("NAME=FILE")
      ->allow_extra_args(false);
}

static CLI::Option *addOption(CLI::App &command, const TargetOption &row, bool &value) {
  return command.add_flag(std::string("--") + row.name, value, row.help);
}

template <typename Value> static CLI::Option *addOption(CLI::App &command, const TargetOption &row, Value &value) {
  CLI::Option *option = command.add_option(std::string("--") + row.name, value, row.help);
  if constexpr (std::is_same_v<Value, double>)
    option->check(notNegative);
  if constexpr (std::is_same_v<Value, std::vector<int64_t>>)
    option->delimiter(',');
  if (!row.choices.empty())
    option->check(CLI::IsMember(row.choices));
  if (row.range)
    option->check(CLI::Range(row.range->first, row.range->second));
  if (*row.valueName)
    option->type_name(row.valueName);
  if (row.showsDefault)
    option->capture_default_str();
  return option;
}

void addTargetOptions(CLI::App &command, TargetOptions &options) {
  for (const TargetOption &row : targetOptions())
    std::visit([&](auto member) { addOption(command, row, options.*member); }, row.member);
}

const char *findGivenOption(const CLI::App &command, std::initializer_list<const char *> others) {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> flags;
    for (const TargetOption &row : targetOptions())
      flags.push_back(std::string("--") + row.name);
    return flags;
  }();
  for (const std::string &name : names)
    if (command.count(name))
      return name.c_str();
  for (const char *name : others)
    if (command.count(name))
      return name;
  return nullptr;
}

} // namespace cleave::tool
