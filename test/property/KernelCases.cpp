// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles, loads and runs the kernels of the property tests.

#include "test/property/KernelCases.h"

#include "dialects/dfg/Dfg.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace mlir;

namespace cleave::test {

namespace {

/// Memory of a kernel's argument, with bytes around it that must stay as they are.
class GuardedBuffer {
public:
  explicit GuardedBuffer(size_t size) : size(size), storage((size + 63) / 64 * 64 + 128 + 64, guard) {
    begin = storage.data() + 64;
    begin += -reinterpret_cast<uintptr_t>(begin) % 64;
  }

  char *data() { return begin; }
  bool intact() const {
    return std::all_of(storage.data(), static_cast<const char *>(begin), [](char byte) { return byte == guard; }) &&
           std::all_of(static_cast<const char *>(begin) + size, storage.data() + storage.size(),
                       [](char byte) { return byte == guard; });
  }

private:
  static constexpr char guard = 0x5a;
  size_t size;
  std::vector<char> storage;
  char *begin;
};

void *load(const std::vector<char> &image) {
  int file = memfd_create("kernels", 0);
  if (file < 0 || write(file, image.data(), image.size()) != static_cast<ssize_t>(image.size()))
    return nullptr;
  void *library = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
  close(file);
  return library;
}

} // namespace

void loadKernelDialects(MLIRContext &context) {
  context.loadDialect<arith::ArithDialect, dfg::DfgDialect, func::FuncDialect, linalg::LinalgDialect, math::MathDialect,
                      plan::PlanDialect, scf::SCFDialect, tensor::TensorDialect>();
}

plan::NativeKernelOp kernelOf(dfg::GraphOp graph) {
  OpBuilder builder(graph->getBlock(), graph->getBlock()->end());
  auto kernel = plan::NativeKernelOp::create(builder, graph.getLoc(), "kernel." + graph.getSymName().str());
  IRMapping mapping;
  graph.getBody().cloneInto(&kernel.getBody(), mapping);
  Operation *end = kernel.getBody().front().getTerminator();
  builder.setInsertionPoint(end);
  plan::YieldOp::create(builder, end->getLoc(), end->getOperands());
  end->erase();
  return kernel;
}

LoadedKernels::LoadedKernels(const std::string &text, const NativeOptions &options) {
  MLIRContext context;
  loadKernelDialects(context);
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  if (!module) {
    ADD_FAILURE() << "the graphs do not parse:\n" << text;
    return;
  }
  std::vector<plan::NativeKernelOp> kernels;
  for (auto graph : module->getOps<dfg::GraphOp>()) {
    kernels.push_back(kernelOf(graph));
  }
  if (llvm::Error error = chooseNativeLoops(context, kernels, options)) {
    ADD_FAILURE() << llvm::toString(std::move(error));
    return;
  }
  auto compiled = compileNativeKernels(context, kernels, options);
  if (!compiled) {
    ADD_FAILURE() << llvm::toString(compiled.takeError());
    return;
  }
  object = std::move(*compiled);
  library = load(object.image);
  if (!library)
    ADD_FAILURE() << dlerror();
}

LoadedKernels::~LoadedKernels() {
  if (library)
    dlclose(library);
}

std::vector<Tensor> LoadedKernels::run(unsigned kernel, const std::vector<Tensor> &inputs,
                                       const std::vector<Tensor> &outputs, unsigned parts) const {
  std::vector<GuardedBuffer> buffers;
  for (const Tensor &input : inputs) {
    buffers.emplace_back(input.getBytes().size());
    std::copy(input.getBytes().begin(), input.getBytes().end(), buffers.back().data());
  }
  for (const Tensor &output : outputs) {
    buffers.emplace_back(output.getBytes().size());
    std::memset(buffers.back().data(), 0xff, output.getBytes().size());
  }
  const NativeKernelInfo &info = object.kernels[kernel];
  if (info.scratchBytes > 0)
    buffers.emplace_back(info.scratchBytes);
  std::vector<void *> arguments;
  arguments.reserve(buffers.size());
  for (GuardedBuffer &buffer : buffers)
    arguments.push_back(buffer.data());

  using Function = void (*)(void **, int64_t, int64_t);
  auto function = reinterpret_cast<Function>(dlsym(library, info.symbol.c_str()));
  std::vector<std::pair<int64_t, int64_t>> ranges;
  ranges.reserve(parts);
  for (unsigned i = 0; i < parts; ++i)
    ranges.emplace_back(info.parallelExtent * i / parts, info.parallelExtent * (i + 1) / parts);
  std::shuffle(ranges.begin(), ranges.end(), Random(kernel));
  for (auto [begin, end] : ranges)
    function(arguments.data(), begin, end);

  std::vector<Tensor> results = outputs;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (!results[i].getBytes().empty())
      std::memcpy(results[i].data(), buffers[inputs.size() + i].data(), results[i].getBytes().size());
  for (const GuardedBuffer &buffer : buffers)
    EXPECT_TRUE(buffer.intact()) << "kernel " << kernel << " writes outside its arguments";
  return results;
}

std::string graphText(const std::string &name, const KernelCase &kernelCase) {
  std::string arguments, types, results;
  for (size_t i = 0; i < kernelCase.inputs.size(); ++i)
    arguments += (i ? ", %" : "%") + std::string(1, static_cast<char>('a' + i)) + ": " + kernelCase.inputs[i].type();
  for (size_t i = 0; i < kernelCase.expected.size(); ++i) {
    types += (i ? ", " : "") + kernelCase.expected[i].type();
    results += (i ? ", %y" : "%y") + std::to_string(i);
  }
  return "dfg.graph @" + name + "(" + arguments + ") -> (" + types + ") {\n" + kernelCase.body + "\n  dfg.return " +
         results + " : " + types + "\n}\n";
}

} // namespace cleave::test
