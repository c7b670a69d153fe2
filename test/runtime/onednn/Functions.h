// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The elementwise functions that oneDNN offers, by their textbook formulas, for tests of operations and of fusion.

#ifndef CLEAVE_TEST_RUNTIME_ONEDNN_FUNCTIONS_H
#define CLEAVE_TEST_RUNTIME_ONEDNN_FUNCTIONS_H

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace cleave::runtime::test {

struct Function {
  std::string name;
  float alpha, beta;
  std::function<double(double)> value;
  /// Defined for positive arguments alone.
  bool positive = false;
};

inline std::vector<Function> functions() {
  auto logistic = [](double x) { return 1 / (1 + std::exp(-x)); };
  return {
      {"relu", 0, 0, [](double x) { return std::max(x, 0.0); }},
      {"leaky_relu", 0.125f, 0, [](double x) { return x > 0 ? x : 0.125 * x; }},
      {"elu", 1.5f, 0, [](double x) { return x > 0 ? x : 1.5 * std::expm1(x); }},
      {"clip", -0.25f, 0.5f, [](double x) { return std::clamp(x, -0.25, 0.5); }},
      {"sigmoid", 0, 0, logistic},
      {"tanh", 0, 0, [](double x) { return std::tanh(x); }},
      {"gelu_erf", 0, 0, [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }},
      {"gelu_tanh", 0, 0,
       [](double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }},
      {"hard_swish", 0, 0, [](double x) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); }},
      {"abs", 0, 0, [](double x) { return std::fabs(x); }},
      {"exp", 0, 0, [](double x) { return std::exp(x); }},
      {"linear", 0.5f, 2, [](double x) { return 0.5 * x + 2; }},
      {"log", 0, 0, [](double x) { return std::log(x); }, true},
      {"mish", 0, 0, [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }},
      {"pow", 2, 1.5f, [](double x) { return 2 * std::pow(x, 1.5); }, true},
      {"round", 0, 0, [](double x) { return std::nearbyint(x); }},
      {"soft_relu", 0, 0, [](double x) { return std::log1p(std::exp(x)); }},
      {"sqrt", 0, 0, [](double x) { return std::sqrt(x); }, true},
      {"square", 0, 0, [](double x) { return x * x; }},
      {"swish", 1.25f, 0, [=](double x) { return x * logistic(1.25 * x); }},
  };
}

} // namespace cleave::runtime::test

#endif // CLEAVE_TEST_RUNTIME_ONEDNN_FUNCTIONS_H
