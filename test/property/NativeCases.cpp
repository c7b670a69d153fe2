// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cases on the machine code of processors.

#include "test/property/KernelCases.h"

#include <gtest/gtest.h>

namespace cleave::test {

void expectKernels(const std::vector<KernelCase> &cases) {
  std::string text;
  for (size_t i = 0; i < cases.size(); ++i)
    text += graphText("k" + std::to_string(i), cases[i]);
  for (bool reference : {false, true}) {
    NativeOptions options;
    options.reference = reference;
    options.threads = 2;
    LoadedKernels kernels(text, options);
    if (!kernels)
      return;
    for (size_t i = 0; i < cases.size(); ++i) {
      std::vector<Tensor> results = kernels.run(i, cases[i].inputs, cases[i].expected);
      for (size_t k = 0; k < results.size(); ++k) {
        std::string problem = difference(results[k], cases[i].expected[k], cases[i].relative, cases[i].absolute);
        EXPECT_EQ(problem, "") << (reference ? "reference" : "optimized") << " code of\n"
                               << graphText("k" + std::to_string(i), cases[i]);
      }
    }
  }
}

} // namespace cleave::test
