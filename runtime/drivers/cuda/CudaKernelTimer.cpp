// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lays a use's blocks out in the GPU's memory, as often as there are copies, and fills them with numbers.

#include "runtime/drivers/cuda/CudaKernelTimer.h"

#include "runtime/Generator.h"
#include "runtime/drivers/cuda/CudaExecutable.h"
#include "runtime/drivers/cuda/CudaTimer.h"
#include "runtime/profile/KernelUse.h"

#include <algorithm>

namespace cleave::runtime {
namespace {

/// A kernel is repeated for so long; copies of its operands take no more bytes than this, but two are made.
constexpr double secondsOfGraph = 0.005;
constexpr uint64_t mostBytes = uint64_t(1) << 30, mostCopies = 64, alignment = 256;

/// Of the devices whose programs are measured.
constexpr std::string_view driverName = "cuda";

uint64_t padded(uint64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

class CudaKernelTimer {
public:
  CudaKernelTimer(const CudaRuntime &cuda, const CudaGpus &gpus, const Plan &plan)
      : cuda(cuda), gpu(gpus.of(0)), plan(plan), codes(cuda, gpus, plan), executable(cuda, plan, gpu) {}

  Error prepare() {
    auto made = CudaTimer::create(cuda, gpu);
    if (!made)
      return made.error();
    timer = std::move(*made);
    return Error::success();
  }
  Error load(const Program &program) { return executable.load(program, codes); }
  Expected<double> measure(const KernelUse &use);

private:
  Error check(cudaError_t code, const char *what) const { return checkCuda(cuda, code, what); }
  ElementType elementOf(const Kernel &kernel, size_t argument) const;
  Error fill(ElementType element, std::byte *target, uint64_t bytes);

  const CudaRuntime &cuda;
  const int gpu;
  const Plan &plan;
  CudaCodes codes;
  CudaExecutable executable;
  CudaTimer timer;
  std::map<ElementType, CudaMemory> patterns;
};

ElementType CudaKernelTimer::elementOf(const Kernel &kernel, size_t argument) const {
  if (argument < kernel.inputs.size())
    return kernel.inputs[argument].element;
  argument -= kernel.inputs.size();
  return argument < kernel.outputs.size() ? kernel.outputs[argument].element : ElementType::U8;
}

/// Numbers as a normalized layer makes them: how fast a GPU multiplies depends on how many bits change. Zeros where
/// they may be indices.
Error CudaKernelTimer::fill(ElementType element, std::byte *target, uint64_t bytes) {
  if (element != ElementType::F32 && element != ElementType::BF16)
    return check(cuda.cudaMemsetAsync(target, 0, bytes, timer.stream()), "filling a GPU's memory");
  constexpr uint64_t patternBytes = uint64_t(8) << 20;
  CudaMemory &pattern = patterns[element];
  if (!pattern) {
    auto made = allocateCudaMemory(cuda, gpu, patternBytes);
    if (!made)
      return made.error();
    std::vector<std::byte> numbers(patternBytes);
    generate({Distribution::Normal, 0, 1, 1}, element, numbers);
    if (Error error = check(cuda.cudaMemcpy(made->get(), numbers.data(), patternBytes, cudaMemcpyHostToDevice),
                            "copying to a GPU"))
      return error;
    pattern = std::move(*made);
  }
  for (uint64_t done = 0; done < bytes; done += patternBytes)
    if (Error error = check(cuda.cudaMemcpyAsync(target + done, pattern.get(), std::min(patternBytes, bytes - done),
                                                 cudaMemcpyDeviceToDevice, timer.stream()),
                            "copying on a GPU"))
      return error;
  return Error::success();
}

Expected<double> CudaKernelTimer::measure(const KernelUse &use) {
  const Kernel &kernel = plan->kernels[use.kernel];
  // Blocks of which an argument is not warm have copies.
  std::vector<bool> isCold(use.blocks.size());
  for (const KernelUse::Argument &argument : use.arguments)
    if (!argument.isWarm)
      isCold[argument.block] = true;
  uint64_t once = 0, each = 0;
  std::vector<uint64_t> starts;
  for (size_t i = 0; i != use.blocks.size(); ++i) {
    uint64_t &end = isCold[i] ? each : once;
    starts.push_back(end);
    end += padded(use.blocks[i].bytes);
  }
  uint64_t distance = std::max(use.lastingDistance, use.passingDistance), copies = 1;
  if (each != 0)
    copies =
        std::clamp<uint64_t>((distance + each - 1) / each, 1, std::clamp<uint64_t>(mostBytes / each, 2, mostCopies));
  auto memory = allocateCudaMemory(cuda, gpu, std::max<uint64_t>(once + copies * each, 1));
  if (!memory)
    return memory.error();
  std::vector<std::vector<void *>> arguments(copies);
  std::vector<uint64_t> sizes;
  for (const KernelUse::Argument &argument : use.arguments)
    sizes.push_back(argument.bytes);
  for (uint64_t copy = 0; copy != copies; ++copy)
    for (const KernelUse::Argument &argument : use.arguments) {
      uint64_t start = starts[argument.block] + (isCold[argument.block] ? once + copy * each : 0);
      arguments[copy].push_back(static_cast<std::byte *>(memory->get()) + start + argument.offset);
    }
  // Inputs last: those that share bytes with an output have their values.
  for (const std::vector<void *> &list : arguments)
    for (size_t i = list.size(); i-- != 0;)
      if (Error error = fill(elementOf(kernel, i), static_cast<std::byte *>(list[i]), sizes[i]))
        return error;
  if (Error error = check(cuda.cudaStreamSynchronize(timer.stream()), "filling a GPU's memory"))
    return error;
  if (Error error = executable.choose(use.kernel, arguments.front(), sizes, timer.stream()))
    return error;
  uint64_t turn = 0;
  return timer.ofCall([&](cudaStream_t on) { return executable.enqueue(use.kernel, arguments[turn++ % copies], on); },
                      secondsOfGraph);
}

} // namespace

Error profileCudaKernels(const Plan &plan, const Entry &entry, Profile &profile,
                         const std::function<void(size_t, size_t)> &progress) {
  auto cuda = cudaRuntime();
  if (!cuda)
    return cuda.error();
  auto gpus = CudaGpus::find(**cuda);
  if (!gpus)
    return gpus.error();
  if (Error error = checkCuda(**cuda, (*cuda)->cudaSetDevice(gpus->of(0)), "using a GPU"))
    return error;
  CudaKernelTimer timer(**cuda, *gpus, plan);
  if (Error error = timer.prepare())
    return error;
  std::map<uint64_t, KernelUse> missing;
  bool hasGpus = false;
  for (const Program &program : entry.programs) {
    if (plan->devices[plan->meshes[program.mesh].devices.front()].driver != driverName)
      continue;
    hasGpus = true;
    if (Error error = timer.load(program))
      return error;
    for (KernelUse &use : kernelUsesOnGpu(program))
      if (uint64_t key = Profile::keyOf(use.signature(*plan), 1, 1); !profile.kernel(key))
        missing.try_emplace(key, std::move(use));
  }
  if (!hasGpus)
    return makeError(Status::Usage, "timing kernels on a GPU expects a plan for GPUs, got none in entry \"", entry.name,
                     "\"; compile it with --machine cuda:...");
  size_t done = 0;
  for (const auto &[key, use] : missing) {
    const std::string &name = plan->kernels[use.kernel].name;
    auto seconds = timer.measure(use);
    if (!seconds)
      return Error(seconds.error().status(), "kernel \"" + name + "\": " + seconds.error().message(),
                   use.instruction->node);
    profile.setKernel(key, {*seconds, *seconds, name});
    if (progress)
      progress(++done, missing.size());
  }
  return Error::success();
}

} // namespace cleave::runtime
