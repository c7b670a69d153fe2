// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Puts lists of boxes into a GPU's memory.

#include "runtime/drivers/cuda/CudaBoxes.h"

#include <algorithm>
#include <cstring>

/// The PTX of Links.cu, with a zero at its end.
extern "C" const unsigned char cleaveLinksPtx[];

namespace cleave::runtime {

constexpr uint32_t boxThreads = cudaBoxThreads;
/// Blocks that keep any GPU busy; more would only wait.
constexpr uint64_t mostBoxBlocks = 1024;

Expected<cudaKernel_t> CudaLinkKernels::find(const std::string &symbol, int gpu) {
  auto known = found.find({gpu, symbol});
  if (known != found.end())
    return known->second;
  if (!module) {
    auto shared = CudaModule::share(cuda, cleaveLinksPtx, "kernels of communications");
    if (!shared)
      return shared.error();
    module = std::move(*shared);
  }
  auto kernel = module->find(cuda, symbol, boxThreads);
  if (kernel)
    found[{gpu, symbol}] = *kernel;
  return kernel;
}

Error CudaLinkKernels::place(std::span<const std::byte> bytes, void *target, int gpu) {
  CudaStream &stream = streams[gpu];
  if (!stream) {
    auto made = createCudaStream(cuda, gpu);
    if (!made)
      return made.error();
    stream = std::move(*made);
  }
  return upload.copy(bytes, static_cast<std::byte *>(target), stream.get(), gpu);
}

/// Appends the box, or several with fewer dimensions where it has too many.
static void append(std::vector<CudaBox> &list, const CudaBoxUse &use, unsigned width) {
  StridedCopy copy = use.copy;
  copy.simplify();
  if (copy.dims.size() > cudaBoxRank) {
    StridedCopy::Dim outermost = copy.dims.front();
    copy.dims.erase(copy.dims.begin());
    for (uint64_t i = 0; i != outermost.count; ++i) {
      append(list, {use.source, use.target, copy}, width);
      copy.sourceOffset += outermost.sourceStride;
      copy.targetOffset += outermost.targetStride;
    }
    return;
  }
  if (copy.bytes() == 0)
    return;
  CudaBox box = {};
  box.source = use.source + copy.sourceOffset;
  box.target = use.target + copy.targetOffset;
  box.runUnits = copy.runBytes / width;
  box.units = copy.bytes() / width;
  std::ranges::fill(box.counts, 1);
  for (size_t i = copy.dims.size(), d = cudaBoxRank; i-- != 0;) {
    --d;
    box.counts[d] = copy.dims[i].count;
    box.sourceStrides[d] = copy.dims[i].sourceStride;
    box.targetStrides[d] = copy.dims[i].targetStride;
  }
  list.push_back(box);
}

Expected<CudaBoxLaunch> CudaBoxLaunch::make(const CudaRuntime &cuda, CudaLinkKernels &kernels, int gpu,
                                            const std::string &symbol, std::span<const CudaBoxUse> boxes,
                                            unsigned width, std::span<const uint64_t> addresses) {
  CudaBoxLaunch launch;
  launch.cuda = &cuda;
  std::vector<CudaBox> list;
  for (const CudaBoxUse &use : boxes)
    append(list, use, width);
  uint64_t most = 0;
  for (const CudaBox &box : list)
    most = std::max(most, box.units);
  if (list.empty())
    return launch;
  launch.blocks = static_cast<uint32_t>(std::clamp<uint64_t>((most + boxThreads - 1) / boxThreads, 1, mostBoxBlocks));
  if (Error error = checkCuda(cuda, cuda.cudaSetDevice(gpu), "using a GPU"))
    return error;
  auto kernel = kernels.find(symbol, gpu);
  if (!kernel)
    return kernel.error();
  launch.kernel = *kernel;
  std::vector<std::byte> bytes(list.size() * sizeof(CudaBox) + addresses.size_bytes());
  std::memcpy(bytes.data(), list.data(), list.size() * sizeof(CudaBox));
  if (!addresses.empty())
    std::memcpy(bytes.data() + list.size() * sizeof(CudaBox), addresses.data(), addresses.size_bytes());
  auto table = allocateCudaMemory(cuda, gpu, bytes.size());
  if (!table)
    return table.error();
  launch.table = std::move(*table);
  if (Error error = kernels.place(bytes, launch.table.get(), gpu))
    return error;
  launch.arguments = {reinterpret_cast<uint64_t>(launch.table.get()), list.size()};
  return launch;
}

/// The largest width up to 16 bytes that divides everything in the box.
static unsigned widthOf(const CudaBoxUse &use) {
  StridedCopy copy = use.copy;
  copy.simplify();
  uint64_t bits = 16 | (use.source + copy.sourceOffset) | (use.target + copy.targetOffset) | copy.runBytes;
  for (const StridedCopy::Dim &dim : copy.dims)
    bits |= dim.sourceStride | dim.targetStride;
  return static_cast<unsigned>(bits & -bits);
}

/// Boxes of each width on their own, so that an odd one does not slow the others down.
Expected<CudaBoxLaunch> CudaBoxLaunch::copy(const CudaRuntime &cuda, CudaLinkKernels &kernels, int gpu,
                                            std::span<const CudaBoxUse> boxes) {
  std::map<unsigned, std::vector<CudaBoxUse>> byWidth;
  for (const CudaBoxUse &use : boxes)
    byWidth[widthOf(use)].push_back(use);
  CudaBoxLaunch all;
  for (const auto &[width, alike] : byWidth) {
    auto made = make(cuda, kernels, gpu, "cleave_copy_" + std::to_string(width), alike, width, {});
    if (!made)
      return made.error();
    all.others.push_back(std::move(*made));
  }
  return all;
}

Expected<CudaBoxLaunch> CudaBoxLaunch::fill(const CudaRuntime &cuda, CudaLinkKernels &kernels, int gpu,
                                            std::span<const CudaBoxUse> boxes, std::span<const std::byte> element) {
  auto width = static_cast<unsigned>(element.size());
  auto launch = make(cuda, kernels, gpu, "cleave_fill_" + std::to_string(width), boxes, width, {});
  uint64_t value = 0;
  std::memcpy(&value, element.data(), element.size());
  if (launch)
    launch->arguments.push_back(value);
  return launch;
}

Expected<CudaBoxLaunch> CudaBoxLaunch::combine(const CudaRuntime &cuda, CudaLinkKernels &kernels, int gpu,
                                               std::span<const CudaBoxUse> boxes, ElementType element,
                                               Combiner combiner, std::span<const uint64_t> sources,
                                               std::span<const uint64_t> targets) {
  std::vector<uint64_t> addresses(sources.begin(), sources.end());
  addresses.insert(addresses.end(), targets.begin(), targets.end());
  // Floats of 16 bits go two at a time where everything is even.
  bool isPaired = element == ElementType::F16 || element == ElementType::BF16;
  for (const CudaBoxUse &use : boxes)
    isPaired &= widthOf(use) % 4 == 0;
  for (uint64_t address : addresses)
    isPaired &= address % 4 == 0;
  std::string symbol =
      "cleave_combine_" + std::string(elementName(element)) + (isPaired ? "_pair_" : "_") + combinerName(combiner);
  auto launch = make(cuda, kernels, gpu, symbol, boxes, isPaired ? 4 : elementBytes(element), addresses);
  if (launch && launch->kernel) {
    uint64_t first = launch->arguments[0] + launch->arguments[1] * sizeof(CudaBox);
    launch->arguments.insert(launch->arguments.end(),
                             {first, sources.size(), first + sources.size_bytes(), targets.size()});
  }
  return launch;
}

Error CudaBoxLaunch::enqueue(cudaStream_t stream) {
  for (CudaBoxLaunch &other : others)
    if (Error error = other.enqueue(stream))
      return error;
  if (!kernel)
    return Error::success();
  std::vector<void *> addresses;
  for (uint64_t &argument : arguments)
    addresses.push_back(&argument);
  cudaError_t code = cuda->cudaLaunchKernel(reinterpret_cast<const void *>(kernel), dim3(blocks), dim3(boxThreads),
                                            addresses.data(), 0, stream);
  return checkCuda(*cuda, code, "launching a kernel of a communication");
}

} // namespace cleave::runtime
