// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Makes tensors for a plan's ports and runs its steps one at a time.

#include "tools/cleave/PlanRunner.h"

#include "compiler/InputFiles.h"
#include "runtime/Generator.h"
#include "runtime/tensorfile/TensorFile.h"

#include <chrono>
#include <fstream>

namespace cleave::tool {

using runtime::HostTensor;

bool isPlanFile(const std::string &path) {
  char head[8] = {};
  std::ifstream(path, std::ios::binary).read(head, sizeof(head));
  return std::string_view(head + 4, 4) == "CLVP";
}

static Expected<HostTensor> randomTensor(const runtime::Entry &entry, const runtime::Port &port, uint64_t seed) {
  const runtime::TensorType &type = port.type;
  auto tensor = HostTensor::allocate(type);
  if (!tensor)
    return tensor;
  runtime::GeneratedSource source;
  source.distribution = isFloatingPoint(type.element) ? runtime::Distribution::Normal : runtime::Distribution::Uniform;
  source.a = 0;
  source.b = 1;
  // Integers are rounded to the nearest.
  if (port.classes != 0) {
    source.a = entry.bucket != 0 ? -1.49 : -0.49;
    source.b = static_cast<double>(port.classes) - 0.51;
  }
  source.seed = seed;
  generate(source, type.element, tensor->bytes());
  return tensor;
}

Expected<std::vector<HostTensor>> makeInputs(const runtime::Entry &entry, const std::vector<std::string> &bindings,
                                             uint64_t round) {
  std::vector<std::string> files(entry.inputs.size());
  for (const std::string &binding : bindings) {
    auto parts = splitBinding(binding, "--input");
    if (!parts)
      return parts.error();
    bool found = false;
    for (size_t i = 0; i != entry.inputs.size(); ++i)
      if (entry.inputs[i].name == parts->first || "@" + std::to_string(i) == parts->first) {
        files[i] = parts->second;
        found = true;
      }
    if (!found)
      return makeError(Status::Usage, "--input expects the name or position of an input, got \"", parts->first, "\"");
  }
  std::vector<HostTensor> inputs;
  for (size_t i = 0; i != entry.inputs.size(); ++i) {
    const runtime::Port &port = entry.inputs[i];
    auto tensor = files[i].empty() ? randomTensor(entry, port, round * entry.inputs.size() + i)
                                   : runtime::readTensorFile(files[i], &port.type);
    if (!tensor)
      return Error(tensor.error().status(), "input \"" + port.name + "\": " + tensor.error().message());
    inputs.push_back(*tensor);
  }
  return inputs;
}

Expected<std::vector<HostTensor>> makeOutputs(const runtime::Entry &entry) {
  return runtime::allocateTensors(entry.outputs);
}

Expected<double> runStep(runtime::Executor &executor, const std::vector<HostTensor> &inputs,
                         const std::vector<HostTensor> &outputs) {
  auto begin = std::chrono::steady_clock::now();
  auto ticket = executor.submit(inputs, outputs);
  if (!ticket)
    return ticket.error();
  auto times = executor.wait(*ticket);
  if (!times)
    return times.error();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

} // namespace cleave::tool
