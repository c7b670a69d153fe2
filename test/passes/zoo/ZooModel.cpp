// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes a model of the zoo: zoo-model NAME [NUMBER=VALUE ...] [--weights] [-o FILE].

#include "passes/zoo/Zoo.h"

#include "llvm/Support/raw_ostream.h"

#include <fstream>

using namespace cleave;

int main(int argc, char **argv) {
  std::string name, output;
  ZooOptions options;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    size_t equals = argument.find('=');
    if (argument == "-o")
      output = argv[++i];
    else if (argument == "--weights")
      options.weights = true;
    else if (equals != std::string::npos)
      options.numbers[argument.substr(0, equals)] = std::stoll(argument.substr(equals + 1));
    else
      name = argument;
  }
  auto model = buildZooModel(name, options);
  if (!model) {
    llvm::errs() << "error: " << llvm::toString(model.takeError()) << "\n";
    return 1;
  }
  std::ofstream stream(output, std::ios::binary);
  return model->SerializeToOstream(&stream) ? 0 : 1;
}
