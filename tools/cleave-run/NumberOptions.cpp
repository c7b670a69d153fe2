// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The parser itself turns -1 into the largest number, and takes "nan" for one.

#include "tools/cleave-run/NumberOptions.h"

#include <CLI/CLI.hpp>

#include <cmath>
#include <cstdlib>
#include <optional>

namespace cleave {

/// The number that all of the text is; nothing where it is none.
static std::optional<double> readNumber(const std::string &text) {
  char *end = nullptr;
  double number = std::strtod(text.c_str(), &end);
  return text.empty() || *end != '\0' ? std::nullopt : std::optional(number);
}

/// What is wrong with a number that is to be above 0, or 0 where that is `included`.
static std::string checkAbove(const std::string &text, bool included) {
  std::optional<double> number = readNumber(text);
  if (number && std::isfinite(*number) && (included ? *number >= 0 : *number > 0))
    return "";
  if (number && std::isnan(*number))
    return "expects a number, got " + text;
  return std::string("expects a number ") + (included ? "from 0 on" : "above 0") + ", got " + text;
}

std::string notNegative(const std::string &text) { return checkAbove(text, /*included=*/true); }
std::string positive(const std::string &text) { return checkAbove(text, /*included=*/false); }

/// Whether it is one of the command's options, as it stands where the value of another was left out.
static bool namesOption(const CLI::App &app, const std::string &text) {
  return text.size() > 1 && text.front() == '-' && app.get_option_no_throw(text.substr(0, text.find('='))) != nullptr;
}

void checkNumbers(CLI::App &app) {
  for (CLI::Option *option : app.get_options()) {
    if (option->get_items_expected_max() != 0)
      option->check([&app](const std::string &text) -> std::string {
        return namesOption(app, text) ? "expects a value, got the option " + text : "";
      });
    std::string type = option->get_type_name();
    type = type.substr(0, type.find_first_of(":|"));
    bool counts = type == "UINT" || type == "N";
    if (!counts && type != "FLOAT" && type != "SECONDS")
      continue;
    option->check([counts](const std::string &text) -> std::string {
      std::optional<double> number = readNumber(text);
      if (counts && number && (*number < 0 || *number >= 0x1p64))
        return "expects a number from 0 to 2^64 - 1, got " + text;
      return number && std::isnan(*number) ? "expects a number, got " + text : "";
    });
  }
  for (CLI::App *command : app.get_subcommands([](CLI::App *) { return true; }))
    checkNumbers(*command);
}

} // namespace cleave
