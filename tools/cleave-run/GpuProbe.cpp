// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is measured, and what of.

#include "tools/cleave-run/GpuProbe.h"

#include "runtime/FileReplacement.h"
#include "runtime/Generator.h"
#include "runtime/KernelLibrary.h"
#include "runtime/drivers/cuda/CudaGpus.h"
#include "runtime/drivers/cuda/CudaLibraryKernel.h"
#include "runtime/drivers/cuda/CudaObjects.h"
#include "runtime/drivers/cuda/CudaTimer.h"
#include "runtime/drivers/cuda/rules/CudaLibraries.h"
#include "tools/cleave-run/GpuProbeKernels.h"

#include <algorithm>
#include <chrono>
#include <iostream>

namespace cleave {

using namespace runtime;

namespace {

/// What products are computed with: elements of a type, float32 perhaps rounded to TF32 first.
struct Arithmetic {
  ElementType type = ElementType::F32;
  bool tf32 = false;

  std::string name() const { return tf32 ? "tf32" : std::string(elementName(type)); }
};

class GpuProber {
public:
  GpuProber(const CudaRuntime &cuda, const CudaGpus &gpus, const GpuProbeOptions &options)
      : cuda(cuda), gpus(gpus), options(options), gpu(gpus.of(0)) {}

  Expected<GpuMeasurement> run();

private:
  Error check(cudaError_t code, const char *what) const { return checkCuda(cuda, code, what); }
  void say(const std::string &text) const {
    if (options.progress)
      options.progress(text);
  }
  bool isLate() const { return std::chrono::steady_clock::now() > end; }

  Error attempt(const std::function<Error()> &part);
  Error prepare();
  Error describe();
  Error measureLaunches();
  Error measureProducts(const Arithmetic &arithmetic);
  Error measureConvolutions(const Arithmetic &arithmetic);
  Error measureMemory();
  Error measureLink();
  Error measureStep();
  Error measureHost();
  Expected<double> secondsOfColdCall();

  Error addLibraryCall(const std::string &costClass, const Arithmetic &arithmetic, LibraryKernelQuery query,
                       double work);
  Error addCall(const std::string &costClass, const std::string &type, double size, const CudaWork &work);
  Expected<CudaMemory> allocateRandom(ElementType type, uint64_t bytes);
  Error launch(const char *entry, unsigned blocks, std::vector<void *> arguments, cudaStream_t on);

  const CudaRuntime &cuda;
  const CudaGpus &gpus;
  const GpuProbeOptions &options;
  const int gpu;
  std::chrono::steady_clock::time_point end;
  CudaTimer timer;
  CudaCode code;
  GpuMeasurement measured;
  /// Seconds of a call that does nothing and follows calls of the same: part of what is measured of repeated calls.
  double repeatedLaunch = 0;
  Error firstLeftOut;
};

/// Calls not much longer than a launch say nothing of rates.
Error GpuProber::addCall(const std::string &costClass, const std::string &type, double size, const CudaWork &work) {
  auto seconds = timer.ofCall(work, options.seconds);
  if (!seconds)
    return seconds.error();
  if (*seconds > 2 * repeatedLaunch)
    measured.samples.push_back({costClass, type, size, *seconds - repeatedLaunch});
  return Error::success();
}

//===-- what is there -----------------------------------------------------------------------------------------===//

Error GpuProber::prepare() {
  end = std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                               std::chrono::duration<double>(options.deadline));
  auto made = CudaTimer::create(cuda, gpu);
  if (!made)
    return made.error();
  timer = std::move(*made);
  cudaLibrary_t library = nullptr;
  if (Error error = check(cuda.cudaLibraryLoadData(&library, gpuProbePtx, nullptr, nullptr, 0, nullptr, nullptr, 0),
                          "loading the probe's kernels"))
    return error;
  code = CudaCode(cuda, library);
  return describe();
}

Error GpuProber::describe() {
  int major = 0, minor = 0, count = 0;
  size_t free = 0, total = 0;
  for (auto [result, what] :
       {std::pair(cuda.cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, gpu), "asking a GPU"),
        std::pair(cuda.cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, gpu), "asking a GPU"),
        std::pair(cuda.cudaMemGetInfo(&free, &total), "asking for memory"),
        std::pair(cuda.cudaGetDeviceCount(&count), "counting GPUs")})
    if (Error error = check(result, what))
      return error;
  measured.chip = "sm_" + std::to_string(10 * major + minor);
  measured.memory = free;
  measured.gpus = static_cast<unsigned>(count);
  // "GPU 0 (NVIDIA H100)"
  std::string name = gpus.name(gpu);
  size_t open = name.find('(');
  measured.name = open == std::string::npos ? name : name.substr(open + 1, name.size() - open - 2);
  return Error::success();
}

/// Normal numbers: how fast a GPU multiplies depends on how many bits change.
Expected<CudaMemory> GpuProber::allocateRandom(ElementType type, uint64_t bytes) {
  auto memory = allocateCudaMemory(cuda, gpu, bytes);
  if (!memory)
    return memory;
  std::vector<std::byte> piece(std::min<uint64_t>(bytes, uint64_t(8) << 20));
  GeneratedSource source;
  source.distribution = Distribution::Normal;
  source.a = 0;
  source.b = 1;
  source.seed = 1;
  generate(source, type, piece);
  for (uint64_t done = 0; done < bytes; done += piece.size()) {
    auto *target = static_cast<std::byte *>(memory->get()) + done;
    uint64_t count = std::min<uint64_t>(piece.size(), bytes - done);
    if (Error error = check(cuda.cudaMemcpy(target, piece.data(), count, cudaMemcpyHostToDevice), "copying to a GPU"))
      return error;
  }
  return memory;
}

Error GpuProber::launch(const char *entry, unsigned blocks, std::vector<void *> arguments, cudaStream_t on) {
  cudaKernel_t kernel = nullptr;
  if (Error error = check(cuda.cudaLibraryGetKernel(&kernel, code.get(), entry), "finding the probe's kernel"))
    return error;
  return check(
      cuda.cudaLaunchKernel(reinterpret_cast<const void *>(kernel), dim3(blocks), dim3(256), arguments.data(), 0, on),
      "launching the probe's kernel");
}

//===-- calls -------------------------------------------------------------------------------------------------===//

Error GpuProber::measureLaunches() {
  say("launches");
  constexpr int launches = 400;
  auto many = [&](cudaStream_t on) {
    for (int i = 0; i != launches; ++i)
      if (Error error = launch("probe_nothing", 1, {}, on))
        return error;
    return Error::success();
  };
  auto replayed = timer.ofGraph(many);
  if (!replayed)
    return replayed.error();
  measured.launch = repeatedLaunch = *replayed / launches;
  if (auto cold = secondsOfColdCall())
    measured.launch = std::max(*cold, repeatedLaunch);
  else
    say("left out: " + cold.error().message());
  // Once to warm up, once by the clock: the host launches more slowly than the GPU works.
  for (int round = 0; round != 2; ++round) {
    auto begin = std::chrono::steady_clock::now();
    if (Error error = many(timer.stream()))
      return error;
    if (Error error = check(cuda.cudaStreamSynchronize(timer.stream()), "waiting for launches"))
      return error;
    measured.launchAlone = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / launches;
  }
  return Error::success();
}

/// A step of a plan goes through hundreds of kernels, each of which reads what another one has just written: when its
/// turn comes again, its code is no longer where the GPU finds it at once. Here as many copies of one small kernel.
Expected<double> GpuProber::secondsOfColdCall() {
  constexpr size_t kernels = 192;
  constexpr uint32_t count = 256; // of 16 bytes each
  auto memory = allocateRandom(ElementType::F32, 2 * count * 16);
  if (!memory)
    return memory.error();
  void *here = memory->get(), *there = static_cast<std::byte *>(here) + count * 16;
  std::vector<CudaCode> codes;
  std::vector<cudaKernel_t> functions(kernels);
  for (cudaKernel_t &function : functions) {
    cudaLibrary_t library = nullptr;
    if (Error error = check(cuda.cudaLibraryLoadData(&library, gpuProbePtx, nullptr, nullptr, 0, nullptr, nullptr, 0),
                            "loading the probe's kernels"))
      return error;
    codes.emplace_back(cuda, library);
    if (Error error = check(cuda.cudaLibraryGetKernel(&function, library, "probe_scale"), "finding the probe's kernel"))
      return error;
  }
  auto seconds = timer.ofGraph([&](cudaStream_t on) {
    for (cudaKernel_t function : functions) {
      uint32_t size = count;
      void *arguments[] = {&here, &there, &size};
      if (Error error = check(
              cuda.cudaLaunchKernel(reinterpret_cast<const void *>(function), dim3(1), dim3(256), arguments, 0, on),
              "launching the probe's kernel"))
        return error;
      std::swap(here, there);
    }
    return Error::success();
  });
  if (!seconds)
    return seconds;
  return *seconds / kernels;
}

Error GpuProber::measureStep() {
  say("steps");
  auto seconds = timer.ofStep([&](cudaStream_t on) { return launch("probe_nothing", 1, {}, on); });
  if (!seconds)
    return seconds.error();
  measured.step = *seconds;
  return Error::success();
}

/// Copies of few and of many bytes from the host's pinned memory.
Error GpuProber::measureHost() {
  say("copies from the host");
  uint64_t many = std::min<uint64_t>(options.mostBytes / 4, uint64_t(64) << 20);
  auto target = allocateCudaMemory(cuda, gpu, many);
  if (!target)
    return target.error();
  auto source = allocatePinnedMemory(cuda, many);
  if (!source)
    return source.error();
  auto copy = [&](uint64_t bytes) {
    return timer.ofCall(
        [&, bytes](cudaStream_t on) {
          return check(cuda.cudaMemcpyAsync(target->get(), source->get(), bytes, cudaMemcpyHostToDevice, on),
                       "copying");
        },
        options.seconds);
  };
  auto few = copy(4096), all = copy(many);
  if (!few || !all)
    return few ? all.error() : few.error();
  measured.hostLatency = *few;
  measured.hostBandwidth = static_cast<double>(many) / std::max(*all - *few, 1e-9);
  return Error::success();
}

/// A library's kernel as the compiler would choose it and the driver load it.
Error GpuProber::addLibraryCall(const std::string &costClass, const Arithmetic &arithmetic, LibraryKernelQuery query,
                                double work) {
  if (work > options.mostWork || isLate())
    return Error::success();
  if (arithmetic.tf32)
    query.desc.ints["tf32"] = {1};
  query.desc.outputs.front().element = query.desc.inputs.front().element;
  auto choice = cudaLibraries().choose(query, 1);
  if (!choice)
    return choice.error();
  Kernel kernel;
  kernel.name = "probe";
  kernel.inputs = choice->desc.inputs;
  kernel.outputs = choice->desc.outputs;
  kernel.scratchBytes = choice->desc.scratchBytes;
  LibraryKernel body;
  body.library = choice->desc.library;
  body.operation = choice->desc.operation;
  for (auto &[name, values] : choice->desc.ints)
    body.attributes.push_back({name, values, {}});
  auto loaded = loadCudaLibraryKernel(kernel, body);
  if (!loaded)
    return loaded.error();
  std::vector<CudaMemory> memory;
  std::vector<void *> arguments;
  auto add = [&](ElementType type, uint64_t bytes) {
    auto made = allocateRandom(type, bytes);
    if (!made)
      return made.error();
    arguments.push_back(made->get());
    memory.push_back(std::move(*made));
    return Error::success();
  };
  for (const std::vector<TensorType> *types : {&kernel.inputs, &kernel.outputs})
    for (const TensorType &type : *types)
      if (Error error = add(type.element, type.byteSize().value_or(0)))
        return error;
  if (kernel.scratchBytes)
    if (Error error = add(ElementType::F32, (kernel.scratchBytes + 3) / 4 * 4))
      return error;
  if (Error error = (*loaded)->choose(arguments.data(), timer.stream()))
    return error;
  return addCall(costClass, arithmetic.name(), work,
                 [&](cudaStream_t on) { return (*loaded)->enqueue(arguments.data(), on); });
}

Error GpuProber::measureProducts(const Arithmetic &arithmetic) {
  say("matrix products, " + arithmetic.name());
  ElementType type = arithmetic.type;
  for (int64_t size : {64, 256, 512, 1024, 2048, 4096, 8192}) {
    LibraryKernelQuery query;
    query.desc.operation = "matmul";
    query.desc.inputs = {{type, {size, size}, {}}, {type, {size, size}, {}}};
    query.desc.outputs = {{type, {size, size}, {}}};
    if (Error error =
            addLibraryCall("contraction", arithmetic, std::move(query), 2.0 * static_cast<double>(size * size * size)))
      return error;
  }
  return Error::success();
}

/// A layer from the middle of residual networks, in batches of many sizes, and a small one.
Error GpuProber::measureConvolutions(const Arithmetic &arithmetic) {
  say("convolutions, " + arithmetic.name());
  ElementType type = arithmetic.type;
  constexpr int64_t window = 3;
  struct Layer {
    int64_t batch, channels, rows;
  };
  for (auto [batch, channels, rows] : {Layer{1, 16, 8}, Layer{1, 128, 28}, Layer{4, 128, 28}, Layer{16, 128, 28},
                                       Layer{64, 128, 28}, Layer{256, 128, 28}}) {
    LibraryKernelQuery query;
    query.desc.operation = "convolution";
    query.desc.ints = {{"pads_begin", {1, 1}}, {"pads_end", {1, 1}}};
    query.desc.inputs = {{type, {batch, channels, rows, rows}, {}}, {type, {channels, channels, window, window}, {}}};
    query.desc.outputs = {{type, {batch, channels, rows, rows}, {}}};
    // What the window reads of the padding is no work.
    double inside = static_cast<double>((window * rows - 2) * (window * rows - 2));
    if (Error error = addLibraryCall("convolution", arithmetic, std::move(query),
                                     2.0 * static_cast<double>(batch * channels * channels) * inside))
      return error;
  }
  return Error::success();
}

/// Elementwise work, sums of rows and copies, by bytes read and written.
Error GpuProber::measureMemory() {
  say("elementwise work, sums and copies");
  constexpr uint64_t rowBytes = 4096;
  for (uint64_t bytes = uint64_t(1) << 16; bytes <= options.mostBytes && !isLate(); bytes *= 4) {
    auto source = allocateRandom(ElementType::F32, bytes);
    if (!source)
      return source.error();
    auto target = allocateCudaMemory(cuda, gpu, bytes / 2);
    if (!target)
      return target.error();
    void *from = source->get(), *to = target->get();
    auto half = static_cast<uint32_t>(bytes / 2 / 16);
    Error error = addCall("elementwise", "f32", static_cast<double>(bytes), [&](cudaStream_t on) {
      unsigned blocks = std::min<uint32_t>((half + 255) / 256, 132 * 16);
      return launch("probe_scale", blocks, {&from, &to, &half}, on);
    });
    if (error)
      return error;
    uint32_t row = rowBytes / 16;
    error = addCall("reduction", "f32", static_cast<double>(bytes), [&](cudaStream_t on) {
      return launch("probe_sum", static_cast<unsigned>(bytes / rowBytes), {&from, &to, &row}, on);
    });
    if (error)
      return error;
    error = addCall("movement", "f32", static_cast<double>(bytes), [&](cudaStream_t on) {
      return check(cuda.cudaMemcpyAsync(to, from, bytes / 2, cudaMemcpyDeviceToDevice, on), "copying");
    });
    if (error)
      return error;
  }
  return Error::success();
}

/// Copies of few and of many bytes from the first device to the second: the one says the latency, the other the rate.
Error GpuProber::measureLink() {
  say("copies between devices");
  int other = gpus.of(1);
  auto connected = gpus.connect(gpu, other);
  if (!connected)
    return connected.error();
  uint64_t many = std::min<uint64_t>(options.mostBytes / 4, uint64_t(64) << 20);
  auto source = allocateRandom(ElementType::F32, many);
  if (!source)
    return source.error();
  auto target = allocateCudaMemory(cuda, other, many);
  if (!target)
    return target.error();
  if (Error error = check(cuda.cudaSetDevice(gpu), "using a GPU"))
    return error;
  auto copy = [&](uint64_t bytes) {
    return timer.ofCall(
        [&, bytes](cudaStream_t on) {
          return check(other == gpu
                           ? cuda.cudaMemcpyAsync(target->get(), source->get(), bytes, cudaMemcpyDeviceToDevice, on)
                           : cuda.cudaMemcpyPeerAsync(target->get(), other, source->get(), gpu, bytes, on),
                       "copying");
        },
        options.seconds);
  };
  auto few = copy(4096), all = copy(many);
  if (!few)
    return few.error();
  if (!all)
    return all.error();
  measured.linkLatency = *few;
  measured.linkBandwidth = static_cast<double>(many) / std::max(*all - *few, 1e-9);
  return Error::success();
}

/// What fails, or a library cannot do, is left out; a GPU that no longer answers ends all.
Error GpuProber::attempt(const std::function<Error()> &part) {
  Error error = part();
  if (error) {
    (void)cuda.cudaGetLastError(); // the failure stays in nobody's way
    if (cuda.cudaDeviceSynchronize() != cudaSuccess)
      return error;
    say("left out: " + error.message());
    if (!firstLeftOut)
      firstLeftOut = error;
  } else if (options.known) {
    options.known(measured);
  }
  return Error::success();
}

Expected<GpuMeasurement> GpuProber::run() {
  if (Error error = prepare())
    return error;
  for (auto part : {&GpuProber::measureLaunches, &GpuProber::measureStep, &GpuProber::measureHost,
                    &GpuProber::measureMemory, &GpuProber::measureLink})
    if (Error error = attempt([&] { return (this->*part)(); }))
      return error;
  for (const Arithmetic &arithmetic :
       {Arithmetic{ElementType::F32}, Arithmetic{ElementType::BF16}, Arithmetic{ElementType::F32, /*tf32=*/true}})
    for (auto part : {&GpuProber::measureProducts, &GpuProber::measureConvolutions})
      if (Error error = attempt([&] { return (this->*part)(arithmetic); }))
        return error;
  if (measured.samples.empty() && firstLeftOut)
    return firstLeftOut;
  return std::move(measured);
}

} // namespace

Expected<GpuMeasurement> probeGpu(const GpuProbeOptions &options) {
  auto cuda = cudaRuntime();
  if (!cuda)
    return cuda.error();
  auto gpus = CudaGpus::find(**cuda);
  if (!gpus)
    return gpus.error();
  return GpuProber(**cuda, *gpus, options).run();
}

int runGpuProbe(const std::string &path, std::ostream &out, std::ostream &err) {
  GpuProbeOptions options;
  options.progress = [&](const std::string &text) { err << "probe: " << text << std::endl; };
  bool toFile = !path.empty() && path != "-";
  auto keep = [&](const GpuMeasurement &measured) {
    return replaceTextFile(path, [&](std::ostream &file) { writeGpuMachineFile(measured, file); });
  };
  // Whoever ends this program too early has what was known by then.
  if (toFile)
    options.known = [&](const GpuMeasurement &measured) { (void)keep(measured); };
  auto measured = probeGpu(options);
  Error error = measured.error();
  if (!error && toFile)
    error = keep(*measured);
  else if (!error)
    writeGpuMachineFile(*measured, out);
  err << error.report();
  return static_cast<int>(error.status());
}

} // namespace cleave
