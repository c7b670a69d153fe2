// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An option remembers by a named validator, which accepts everything, what its file is: of several processes only one
// writes, so that the parser is not to check.

#include "tools/cleave-run/OutputOptions.h"

#include "runtime/tensorfile/TensorFile.h"

#include <CLI/CLI.hpp>

#include <map>
#include <optional>

namespace cleave {

using runtime::Error;
using runtime::OutputKind;

static constexpr std::pair<OutputKind, const char *> marks[] = {{OutputKind::Any, "output"},
                                                                {OutputKind::Tensor, "tensor output"},
                                                                {OutputKind::Archive, "archive output"},
                                                                {OutputKind::Weights, "weights output"}};

static CLI::Option *mark(CLI::Option *option, OutputKind kind) {
  for (auto [known, name] : marks)
    if (known == kind)
      option->check(CLI::Validator([](std::string &) { return std::string(); }, "", name));
  return option;
}

static std::optional<OutputKind> kindOf(CLI::Option &option) {
  for (auto [kind, name] : marks)
    try {
      (void)option.get_validator(name);
      return kind;
    } catch (const CLI::OptionNotFound &) {
      continue; // the option has no validator of that name
    }
  return std::nullopt;
}

CLI::Option *addOutputOption(CLI::App &command, const std::string &names, std::string &file, const std::string &help,
                             OutputKind kind) {
  return mark(command.add_option(names, file, help)->type_name("FILE"), kind);
}

CLI::Option *addTensorOutputOption(CLI::App &command, const std::string &names, std::vector<std::string> &bindings,
                                   const std::string &help) {
  return mark(command.add_option(names, bindings, help)->type_name("NAME=FILE")->allow_extra_args(false),
              OutputKind::Tensor);
}

/// The file of a binding NAME=FILE. Both may hold "=", and nobody knows the names yet: what is wrong wherever the
/// binding may be divided is wrong.
static Error checkBinding(const std::string &option, const std::string &binding) {
  Error first;
  if (binding.find('=') == std::string::npos && runtime::namesTensorArchive(binding))
    return runtime::checkOutput(option, binding, OutputKind::Archive);
  for (size_t at = binding.find('='); at != std::string::npos; at = binding.find('=', at + 1)) {
    Error error = runtime::checkOutput(option, binding.substr(at + 1), OutputKind::Tensor);
    if (!error)
      return error;
    if (!first)
      first = error;
  }
  return first;
}

Error checkOutputs(CLI::App &app) {
  for (CLI::Option *option : app.get_options()) {
    auto kind = option->count() == 0 ? std::nullopt : kindOf(*option);
    if (!kind)
      continue;
    for (const std::string &value : option->results()) {
      // As messages have it: -o rather than --output.
      const std::string name = option->get_snames().empty() ? option->get_name() : "-" + option->get_snames().front();
      Error error = *kind == OutputKind::Tensor ? checkBinding(name, value) : runtime::checkOutput(name, value, *kind);
      if (error)
        return error;
    }
  }
  for (CLI::App *command : app.get_subcommands())
    if (Error error = checkOutputs(*command))
      return error;
  return Error::success();
}

} // namespace cleave
