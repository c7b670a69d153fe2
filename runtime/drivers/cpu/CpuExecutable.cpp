// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loads a program's kernels and calls them with the device's team.

#include "runtime/drivers/cpu/CpuExecutable.h"

#include "runtime/drivers/cpu/ProcessorFeatures.h"

#include <omp.h>

namespace cleave::runtime {

NativeLibraries::NativeLibraries(const Plan &plan)
    : plan(plan), features(hostFeatures()), loaded(plan->objects.size()) {}

Expected<std::shared_ptr<NativeLibrary>> NativeLibraries::get(uint32_t object) {
  std::lock_guard lock(mutex);
  if (loaded[object])
    return loaded[object];
  if (Error error = checkProcessor(plan->objects[object], features))
    return error;
  auto library = NativeLibrary::load(plan->objects[object]);
  if (library)
    loaded[object] = *library;
  return library;
}

Error NativeLibraries::checkPlan() const { return checkProcessor(plan->processor, features); }

Expected<CpuExecutable::Loaded> CpuExecutable::loadNative(const Kernel &kernel, NativeLibraries &libraries) {
  const auto &native = std::get<NativeKernel>(kernel.body);
  auto library = libraries.get(native.object);
  if (!library)
    return library.error();
  auto function = (*library)->find(kernel);
  if (!function)
    return function.error();
  Loaded loaded;
  loaded.function = *function;
  loaded.extent = native.parallelExtent;
  loaded.library = *library;
  return loaded;
}

Expected<CpuExecutable::Loaded> CpuExecutable::loadLibrary(const Plan &plan, const Kernel &kernel,
                                                           const LibraryKernel &library, unsigned threads) {
  // With other instructions a library may want more scratch memory than the plan has, or other layouts.
  if (!plan->processor.name.empty())
    if (Error error = limitLibraries(plan->processor.features))
      return error;
  LibraryProvider *provider = findLibraryProvider(library.library);
  if (!provider)
    return makeError(Status::Unsupported, "needs library \"", library.library,
                     "\", which is not in this build; build with it, or compile the model without it");
  auto instance = provider->load(describeLibraryKernel(kernel, library), threads);
  if (!instance)
    return instance.error();
  Loaded loaded;
  loaded.instance = std::move(*instance);
  return loaded;
}

Expected<std::unique_ptr<CpuExecutable>> CpuExecutable::load(const Plan &plan, std::span<const Program *const> programs,
                                                             NativeLibraries &libraries, unsigned threads) {
  if (Error error = libraries.checkPlan())
    return error;
  omp_set_num_threads(static_cast<int>(threads));
  std::unique_ptr<CpuExecutable> executable(new CpuExecutable(threads));
  executable->kernels.resize(plan->kernels.size());
  for (const Program *program : programs)
    if (Error error = executable->load(plan, *program, libraries))
      return error;
  return executable;
}

Error CpuExecutable::load(const Plan &plan, const Program &program, NativeLibraries &libraries) {
  for (Phase phase : {Phase::Prepare, Phase::Body}) {
    for (const Instruction &instruction : program.instructions(phase)) {
      const auto *call = std::get_if<Call>(&instruction.action);
      if (!call || kernels[call->kernel].function || kernels[call->kernel].instance)
        continue;
      const Kernel &kernel = plan->kernels[call->kernel];
      auto loaded = std::visit(
          [&](const auto &body) -> Expected<Loaded> {
            using Body = std::remove_cvref_t<decltype(body)>;
            if constexpr (std::is_same_v<Body, NativeKernel>)
              return loadNative(kernel, libraries);
            else if constexpr (std::is_same_v<Body, LibraryKernel>)
              return loadLibrary(plan, kernel, body, threads);
            else
              return makeError(Status::Unsupported, "it was compiled for GPUs and its device is of driver \"cpu\"; "
                                                    "compile the model for this device");
          },
          kernel.body);
      if (!loaded)
        return Error(loaded.error().status(), "kernel \"" + kernel.name + "\": " + loaded.error().message(),
                     instruction.node);
      kernels[call->kernel] = std::move(*loaded);
    }
  }
  return Error::success();
}

Error CpuExecutable::call(uint32_t kernel, void *const *arguments) {
  const Loaded &loaded = kernels[kernel];
  if (loaded.instance)
    return loaded.instance->run(arguments);
  int64_t extent = loaded.extent;
  if (threads <= 1 || extent <= 1) {
    loaded.function(arguments, 0, extent);
    return Error::success();
  }
  // The whole team also where some get no part: libgomp would end the threads that a loop does not want, and start
  // others for the next.
#pragma omp parallel num_threads(static_cast<int>(threads))
  {
    // The system may grant a smaller team than asked for; the parts differ by at most one.
    int64_t size = omp_get_num_threads(), rank = omp_get_thread_num();
    int64_t part = extent / size, rest = extent % size;
    int64_t begin = rank * part + (rank < rest ? rank : rest);
    int64_t end = begin + part + (rank < rest ? 1 : 0);
    if (begin < end)
      loaded.function(arguments, begin, end);
  }
  return Error::success();
}

} // namespace cleave::runtime
