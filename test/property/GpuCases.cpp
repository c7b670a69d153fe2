// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cases on the PTX of GPUs.

#include "test/property/GpuCases.h"

#include "dialects/dfg/Dfg.h"

#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace mlir;

namespace cleave::test {

GpuKernels::GpuKernels(const std::string &text, const GpuOptions &options, const Overwrites &overwrites) {
  MLIRContext context;
  loadKernelDialects(context);
  OwningOpRef<ModuleOp> graphs = parseSourceString<ModuleOp>(text, &context);
  if (!graphs) {
    ADD_FAILURE() << "the graphs do not parse:\n" << text;
    return;
  }
  std::vector<GpuKernelSource> sources;
  for (auto graph : graphs->getOps<dfg::GraphOp>())
    sources.push_back({graph.getSymName().str(), kernelOf(graph), {overwrites.begin(), overwrites.end()}});
  // Launches as for an H100, whatever else is asked for.
  GpuOptions mapped = options;
  mapped.processors = 132;
  if (llvm::Error error = chooseGpuLaunches(context, sources, mapped)) {
    ADD_FAILURE() << llvm::toString(std::move(error));
    return;
  }
  auto compiled = compileGpuKernels(context, sources, mapped);
  if (!compiled) {
    ADD_FAILURE() << llvm::toString(compiled.takeError());
    return;
  }
  *this = GpuKernels(std::move(*compiled));
}

GpuKernels::GpuKernels(GpuObject compiled) : object(std::move(compiled)) {
  auto parsed = ptx::Module::parse(object.ptx);
  if (auto *error = std::get_if<std::string>(&parsed))
    ADD_FAILURE() << *error;
  else
    module = std::move(std::get<ptx::Module>(parsed));
}

namespace {

/// Memory of an argument as devices give it: at a multiple of 64.
class AlignedBytes {
public:
  explicit AlignedBytes(size_t size) : size(size), storage(size + alignment) {
    begin = storage.data();
    begin += -reinterpret_cast<uintptr_t>(begin) % alignment;
  }
  AlignedBytes(AlignedBytes &&) = default;

  char *data() const { return begin; }
  size_t getSize() const { return size; }

private:
  static constexpr size_t alignment = 64;
  size_t size;
  std::vector<char> storage;
  char *begin;
};

} // namespace

std::vector<Tensor> GpuKernels::run(unsigned kernel, const std::vector<Tensor> &inputs,
                                    const std::vector<Tensor> &outputs) const {
  std::vector<AlignedBytes> buffers;
  ptx::Memory memory;
  for (const Tensor &input : inputs) {
    buffers.emplace_back(input.getBytes().size());
    std::copy(input.getBytes().begin(), input.getBytes().end(), buffers.back().data());
    memory.allow(buffers.back().data(), buffers.back().getSize(), /*writable=*/false);
  }
  for (const Tensor &output : outputs) {
    buffers.emplace_back(output.getBytes().size());
    std::memset(buffers.back().data(), 0xff, buffers.back().getSize());
    memory.allow(buffers.back().data(), buffers.back().getSize());
  }
  const GpuKernelInfo &info = object.kernels[kernel];
  if (info.scratchBytes > 0) {
    buffers.emplace_back(info.scratchBytes);
    std::memset(buffers.back().data(), 0xff, info.scratchBytes);
    memory.allow(buffers.back().data(), info.scratchBytes);
  }
  std::vector<char *> arguments;
  for (const AlignedBytes &buffer : buffers)
    arguments.push_back(buffer.data());
  run(kernel, arguments, memory);
  std::vector<Tensor> results = outputs;
  for (size_t i = 0; i < outputs.size(); ++i)
    std::memcpy(results[i].data(), buffers[inputs.size() + i].data(), results[i].getBytes().size());
  return results;
}

void GpuKernels::run(unsigned kernel, const std::vector<char *> &arguments, const ptx::Memory &memory) const {
  for (const GpuFunction &launch : object.kernels[kernel].launches) {
    ptx::Launch call;
    call.entry = launch.symbol;
    call.blocks = static_cast<uint32_t>(launch.blocks);
    call.threads = static_cast<uint32_t>(launch.threads);
    for (char *argument : arguments)
      call.arguments.push_back(reinterpret_cast<uint64_t>(argument));
    if (auto error = ptx::run(*module, call, memory))
      ADD_FAILURE() << *error;
  }
}

void expectKernels(const std::vector<KernelCase> &cases) {
  std::string text;
  for (size_t i = 0; i < cases.size(); ++i)
    text += graphText("k" + std::to_string(i), cases[i]);
  for (bool reference : {false, true}) {
    GpuOptions options;
    options.reference = reference;
    options.threads = 2;
    GpuKernels kernels(text, options);
    if (!kernels)
      return;
    for (size_t i = 0; i < cases.size(); ++i) {
      std::vector<Tensor> results = kernels.run(static_cast<unsigned>(i), cases[i].inputs, cases[i].expected);
      for (size_t k = 0; k < results.size(); ++k) {
        // Sums in another order may round to a neighbour in 16 bits.
        double relative = cases[i].relative;
        if (relative > 0 && results[k].isFloat() && results[k].width() == 2)
          relative = std::max(relative, std::ldexp(1.0, 1 - precisionOf(results[k].getElement())));
        std::string problem = difference(results[k], cases[i].expected[k], relative, cases[i].absolute);
        EXPECT_EQ(problem, "") << (reference ? "reference" : "optimized") << " PTX of\n"
                               << graphText("k" + std::to_string(i), cases[i]);
      }
    }
  }
}

} // namespace cleave::test
