// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// write-predicted-plan FILE [STAGES DEVICES-PER-STAGE LAYERS-PER-STAGE MICROBATCHES SCHEDULE PREFIX [decision]]: the
// plan of PredictedPlan.h as a file, for tests of the command line.

#include "PredictedPlan.h"

#include <cstdlib>
#include <fstream>
#include <iostream>

int main(int argc, char **argv) {
  if (argc < 2) {
    std::cerr << "usage: write-predicted-plan FILE [STAGES DEVICES LAYERS MICROBATCHES SCHEDULE PREFIX [decision]]\n";
    return 2;
  }
  cleave::runtime::test::PipelineShape shape;
  uint32_t *numbers[] = {&shape.stages, &shape.devicesPerStage, &shape.layersPerStage, &shape.microbatches};
  for (int i = 0; i != 4 && i + 2 < argc; ++i)
    *numbers[i] = static_cast<uint32_t>(std::atoi(argv[i + 2]));
  if (argc > 6)
    shape.schedule = argv[6];
  if (argc > 7)
    shape.prefix = argv[7];
  shape.isDecision = argc > 8;
  auto bytes = pipelinePrediction(shape).bytes();
  std::ofstream(argv[1], std::ios::binary)
      .write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return 0;
}
