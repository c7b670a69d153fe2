// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The parser reports what it does not know last, and all of it in reverse. Here an unknown argument comes first: what
// else is missing is often its misspelt value.

#include "tools/cleave-run/UsageMessage.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <numeric>

namespace cleave {

/// Letters to insert, drop, replace or swap with their neighbours: the optimal string alignment distance.
static size_t editDistance(const std::string &left, const std::string &right) {
  std::vector<std::vector<size_t>> distance(left.size() + 1, std::vector<size_t>(right.size() + 1));
  for (size_t i = 0; i <= left.size(); ++i)
    for (size_t j = 0; j <= right.size(); ++j) {
      if (i == 0 || j == 0) {
        distance[i][j] = i + j;
        continue;
      }
      size_t replaced = distance[i - 1][j - 1] + (left[i - 1] == right[j - 1] ? 0 : 1);
      distance[i][j] = std::min({distance[i - 1][j] + 1, distance[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1])
        distance[i][j] = std::min(distance[i][j], distance[i - 2][j - 2] + 1);
    }
  return distance[left.size()][right.size()];
}

std::string nearestWord(const std::string &word, const std::vector<std::string> &candidates) {
  // A third of the letters wrong is another word.
  size_t best = std::max<size_t>(1, word.size() / 3) + 1;
  std::string nearest;
  for (const std::string &candidate : candidates)
    if (size_t distance = editDistance(word, candidate); distance < best) {
      best = distance;
      nearest = candidate;
    }
  return nearest;
}

static std::vector<std::string> optionNames(const CLI::App &app) {
  std::vector<std::string> names;
  for (const CLI::Option *option : app.get_options())
    for (const std::string &name : option->get_lnames())
      names.push_back("--" + name);
  return names;
}

/// Commands other than `own` that have the option, as "train, run"; empty where there are none.
static std::string commandsWith(const CLI::App &app, const CLI::App &own, const std::string &option) {
  std::string commands;
  for (const CLI::App *command : app.get_subcommands([](const CLI::App *) { return true; })) {
    auto names = optionNames(*command);
    if (command != &own && std::find(names.begin(), names.end(), option) != names.end())
      commands += (commands.empty() ? "" : ", ") + command->get_name();
  }
  return commands;
}

static std::string unknownOption(const CLI::App &app, const CLI::App &command, const std::string &option) {
  std::string message = command.get_name() + " has no option " + option;
  if (std::string others = commandsWith(app, command, option); !others.empty())
    return message + ", which is one of " + others;
  std::string nearest = nearestWord(option, optionNames(command));
  return message + (nearest.empty() ? "" : "; did you mean " + nearest + "?");
}

static std::string unknownArgument(const CLI::App &app, const CLI::App &command, const std::string &argument) {
  if (command.get_parent() == nullptr && !command.get_subcommands([](const CLI::App *) { return true; }).empty()) {
    std::vector<std::string> names;
    for (const CLI::App *known : app.get_subcommands([](const CLI::App *) { return true; }))
      names.push_back(known->get_name());
    std::string nearest = nearestWord(argument, names);
    return "there is no command \"" + argument + "\"" + (nearest.empty() ? "" : "; did you mean " + nearest + "?");
  }
  std::string taken;
  for (const CLI::Option *option : command.get_options())
    if (option->get_positional() && option->count() != 0)
      taken += (taken.empty() ? " after " : " ") + option->get_name();
  return command.get_name() + " expects no argument" + taken + ", got \"" + argument + "\"";
}

/// The parser's own words, as our errors begin.
static std::string lowered(std::string text) {
  // Not the names of arguments, which are all in capitals.
  if (text.size() > 1 && std::islower(static_cast<unsigned char>(text[1])))
    text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

std::string usageMessage(const CLI::App &app, const CLI::ParseError &error) {
  bool isMissing = dynamic_cast<const CLI::RequiredError *>(&error) != nullptr;
  if (!isMissing && dynamic_cast<const CLI::ExtrasError *>(&error) == nullptr)
    return lowered(error.what());
  auto commands = app.get_subcommands();
  const CLI::App &command = commands.empty() ? app : *commands.front();
  std::vector<std::string> rest = app.remaining(/*recurse=*/true);
  // What follows a misspelt command belongs to it.
  bool isCommand = commands.empty() && !rest.empty() && rest.front().front() != '-';
  auto option = std::find_if(rest.begin(), rest.end(), [](const std::string &argument) {
    return argument.size() > 1 && argument.front() == '-' && argument != "--";
  });
  if (option != rest.end() && !isCommand)
    return unknownOption(app, command, option->substr(0, option->find('=')));
  if (rest.empty())
    return lowered(error.what());
  return unknownArgument(app, command, rest.front());
}

} // namespace cleave
