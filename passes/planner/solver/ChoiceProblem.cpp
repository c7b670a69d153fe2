// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What choices cost.

#include "passes/planner/solver/ChoiceProblem.h"

#include <cmath>

namespace cleave::solver {

namespace {

bool isCost(double cost) { return cost >= 0; }

std::string faultOfDomain(const ChoiceProblem &problem, size_t domain) {
  const std::string subject = "domain " + std::to_string(domain);
  if (problem.domains[domain].empty())
    return subject + " expects at least one choice, got none";
  for (const Choice &choice : problem.domains[domain])
    if (!isCost(choice.seconds) || !isCost(choice.bytes) || std::isinf(choice.bytes))
      return subject + " expects seconds of at least 0 and finite bytes, got " + std::to_string(choice.seconds) +
             " and " + std::to_string(choice.bytes);
  return {};
}

std::string faultOfTable(const ChoiceProblem &problem, size_t table) {
  const PairTable &pairs = problem.pairs[table];
  const std::string subject = "table " + std::to_string(table);
  size_t expected = static_cast<size_t>(pairs.rows) * pairs.columns;
  if (pairs.seconds.size() != expected)
    return subject + " expects " + std::to_string(expected) + " entries, got " + std::to_string(pairs.seconds.size());
  for (double seconds : pairs.seconds)
    if (!isCost(seconds))
      return subject + " expects seconds of at least 0, got " + std::to_string(seconds);
  return {};
}

std::string faultOfEdge(const ChoiceProblem &problem, size_t index) {
  const Edge &edge = problem.edges[index];
  const std::string subject = "edge " + std::to_string(index);
  if (edge.first >= problem.variables.size() || edge.second >= problem.variables.size())
    return subject + " expects variables below " + std::to_string(problem.variables.size()) + ", got " +
           std::to_string(edge.first) + " and " + std::to_string(edge.second);
  if (edge.table >= problem.pairs.size())
    return subject + " expects a table below " + std::to_string(problem.pairs.size()) + ", got " +
           std::to_string(edge.table);
  size_t rows = problem.domainOf(edge.first).size(), columns = problem.domainOf(edge.second).size();
  const PairTable &table = problem.pairs[edge.table];
  if (table.rows != rows || table.columns != columns)
    return subject + " expects a table of " + std::to_string(rows) + " x " + std::to_string(columns) + ", got " +
           std::to_string(table.rows) + " x " + std::to_string(table.columns);
  return {};
}

} // namespace

std::string faultOf(const ChoiceProblem &problem) {
  for (size_t domain = 0; domain != problem.domains.size(); ++domain)
    if (std::string fault = faultOfDomain(problem, domain); !fault.empty())
      return fault;
  for (size_t variable = 0; variable != problem.variables.size(); ++variable)
    if (problem.variables[variable] >= problem.domains.size())
      return "variable " + std::to_string(variable) + " expects a domain below " +
             std::to_string(problem.domains.size()) + ", got " + std::to_string(problem.variables[variable]);
  for (size_t table = 0; table != problem.pairs.size(); ++table)
    if (std::string fault = faultOfTable(problem, table); !fault.empty())
      return fault;
  for (size_t edge = 0; edge != problem.edges.size(); ++edge)
    if (std::string fault = faultOfEdge(problem, edge); !fault.empty())
      return fault;
  return {};
}

Choice evaluate(const ChoiceProblem &problem, const std::vector<unsigned> &choices) {
  Choice total;
  for (unsigned variable = 0; variable != problem.variables.size(); ++variable) {
    const Choice &choice = problem.domainOf(variable)[choices[variable]];
    total.seconds += choice.seconds;
    total.bytes += choice.bytes;
  }
  for (const Edge &edge : problem.edges)
    total.seconds += problem.pairs[edge.table].at(choices[edge.first], choices[edge.second]);
  return total;
}

ChoiceProblem onlyBytes(const ChoiceProblem &problem) {
  ChoiceProblem result = problem;
  result.memoryLimit = std::numeric_limits<double>::infinity();
  for (std::vector<Choice> &domain : result.domains)
    for (Choice &choice : domain)
      choice = {std::isinf(choice.seconds) ? forbidden : choice.bytes, 0};
  for (PairTable &table : result.pairs)
    for (double &seconds : table.seconds)
      seconds = std::isinf(seconds) ? forbidden : 0;
  return result;
}

} // namespace cleave::solver
