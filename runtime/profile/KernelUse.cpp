// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Arguments of one kind whose bytes overlap in the arena make a block. What a core's caches hold is told by addresses:
// a buffer that begins where another has just ended is warm, too.

#include "runtime/profile/KernelUse.h"

#include "runtime/HostTopology.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <ranges>
#include <set>
#include <sstream>

namespace cleave::runtime {
namespace {

uint32_t rootOf(const Program &program, uint32_t buffer) {
  while (program.buffers[buffer].viewOf >= 0)
    buffer = static_cast<uint32_t>(program.buffers[buffer].viewOf);
  return buffer;
}

/// What a core has for itself; where nobody says so, no more than what a kernel has just touched.
uint64_t ownCacheBytes() { return hostTopology().ownCacheBytes; }

/// Each instruction touches code and tables of its own beside its buffers, some kilobytes: after so many, nothing that
/// came before is in a core's own caches, however small the buffers are.
constexpr size_t mostBack = 1000;

class UseReader {
public:
  UseReader(const Program &program, uint64_t caches) : program(program), caches(caches) {
    lasts.resize(program.buffers.size());
    std::vector<bool> counted(program.buffers.size());
    for (const Instruction &instruction : program.prepare)
      for (uint32_t buffer : buffersOf(instruction.action))
        lasts[rootOf(program, buffer)] = true;
    for (const Instruction &instruction : program.body) {
      touched.push_back(buffersOf(instruction.action));
      for (uint32_t buffer : touched.back())
        if (uint32_t root = rootOf(program, buffer); lasts[root] && !counted[root]) {
          counted[root] = true;
          lasting += program.buffers[root].bytes;
        }
    }
  }

  KernelUse read(size_t position) const {
    const Instruction &instruction = program.body[position];
    const Call &call = std::get<Call>(instruction.action);
    KernelUse use;
    use.instruction = &instruction;
    use.kernel = call.kernel;
    for (uint32_t argument : call.arguments) {
      const PlanBuffer &buffer = program.buffers[argument];
      use.arguments.push_back({0, buffer.offset, buffer.bytes, false});
    }
    findWarm(position, use);
    uint64_t passing = program.liveBytes - std::min(program.liveBytes, lasting);
    for (size_t i = 0; i != use.arguments.size(); ++i) {
      if (use.arguments[i].isWarm)
        continue;
      if (lastsAt(call, i))
        use.lastingDistance = std::bit_ceil(lasting) + std::bit_ceil(passing);
      else
        use.passingDistance = std::bit_ceil(passing);
    }
    makeBlocks(call, use);
    return use;
  }

private:
  bool lastsAt(const Call &call, size_t argument) const { return lasts[rootOf(program, call.arguments[argument])]; }

  /// Goes back through the body, and on at its end as the step before did, until it has seen as many bytes as the
  /// caches hold, or all arguments are warm, and no more than `mostBack` instructions: plans of many calls on few bytes
  /// would else be read from end to end for each. An argument is warm when half of it has been seen.
  void findWarm(size_t position, KernelUse &use) const {
    std::vector<uint64_t> covered(use.arguments.size());
    std::set<uint32_t> seen;
    uint64_t bytes = 0;
    for (size_t back = 1; back <= std::min(touched.size(), mostBack); ++back)
      for (uint32_t number : std::views::reverse(touched[(position + touched.size() - back) % touched.size()])) {
        const PlanBuffer &buffer = program.buffers[number];
        bool isFirst = seen.empty();
        if (seen.insert(rootOf(program, number)).second)
          bytes += buffer.bytes;
        // What the last instruction has written is as warm as it can be, however large.
        if (bytes > caches && !isFirst)
          return;
        cover(buffer, use, covered);
        if (std::ranges::all_of(use.arguments, &KernelUse::Argument::isWarm))
          return;
      }
  }

  static void cover(const PlanBuffer &buffer, KernelUse &use, std::vector<uint64_t> &covered) {
    for (size_t i = 0; i != use.arguments.size(); ++i) {
      KernelUse::Argument &argument = use.arguments[i];
      uint64_t begin = std::max(argument.offset, buffer.offset),
               end = std::min(argument.offset + argument.bytes, buffer.offset + buffer.bytes);
      if (begin < end)
        covered[i] += end - begin;
      argument.isWarm |= covered[i] * 2 >= argument.bytes;
    }
  }

  void makeBlocks(const Call &call, KernelUse &use) const {
    std::vector<size_t> order(use.arguments.size());
    std::iota(order.begin(), order.end(), size_t(0));
    std::ranges::sort(order, {}, [&](size_t i) { return std::pair(lastsAt(call, i), use.arguments[i].offset); });
    uint64_t begin = 0, end = 0;
    for (size_t i : order) {
      KernelUse::Argument &argument = use.arguments[i];
      bool last = lastsAt(call, i);
      if (use.blocks.empty() || use.blocks.back().lasts != last || argument.offset >= end) {
        use.blocks.push_back({0, last});
        begin = end = argument.offset;
      }
      end = std::max(end, argument.offset + argument.bytes);
      use.blocks.back().bytes = end - begin;
      argument.block = static_cast<uint32_t>(use.blocks.size() - 1);
      argument.offset -= begin;
    }
  }

  const Program &program;
  const uint64_t caches;
  std::vector<bool> lasts;                    ///< by buffer that is no view
  std::vector<std::vector<uint32_t>> touched; ///< buffers, by instruction of the body
  uint64_t lasting = 0;
};

void write(std::ostream &out, const TensorType &type) {
  out << " " << elementName(type.element);
  for (int64_t size : type.shape)
    out << "," << size;
  if (!type.layout)
    return;
  out << "/";
  for (const auto *list : {&type.layout->padded, &type.layout->strides, &type.layout->innerBlocks}) {
    for (int64_t number : *list)
      out << number << ",";
    out << ";";
  }
  for (int32_t dim : type.layout->innerDims)
    out << dim << ",";
}

void write(std::ostream &out, const LibraryKernel &library) {
  out << library.library << " " << library.operation;
  for (const Attribute &attribute : library.attributes) {
    out << " " << attribute.name << "=";
    for (int64_t number : attribute.ints)
      out << number << ",";
    for (double number : attribute.reals)
      out << number << ",";
  }
  for (const PostOp &postOp : library.postOps)
    out << " +" << postOp.kind << "(" << postOp.alpha << "," << postOp.beta << "," << postOp.argument << ")";
}

/// What tells objects apart: their checksum, which plans usually carry.
uint64_t identityOf(const NativeObject &object) { return object.checksum ? object.checksum : checksum(object.image); }

} // namespace

std::string KernelUse::signature(const PlanContents &plan) const {
  std::ostringstream out;
  out.precision(17);
  const Kernel &called = plan.kernels[kernel];
  if (const auto *library = std::get_if<LibraryKernel>(&called.body))
    write(out, *library);
  else if (const auto *native = std::get_if<NativeKernel>(&called.body))
    out << "native " << identityOf(plan.objects[native->object]) << " " << native->symbol << " "
        << native->parallelExtent;
  else if (const auto *gpu = std::get_if<GpuKernel>(&called.body)) {
    out << "gpu " << identityOf(plan.objects[gpu->object]);
    for (const GpuLaunch &launch : gpu->launches)
      out << " " << launch.symbol << " " << launch.blocks << "x" << launch.threads;
  }
  for (const auto *types : {&called.inputs, &called.outputs}) {
    for (const TensorType &type : *types)
      write(out, type);
    out << " ->";
  }
  out << " " << called.scratchBytes;
  for (const Argument &argument : arguments)
    out << " " << argument.block << (blocks[argument.block].lasts ? "l" : "p") << argument.offset
        << (argument.isWarm ? "w" : "");
  out << " among " << lastingDistance << " " << passingDistance;
  return out.str();
}

static std::vector<KernelUse> kernelUsesWith(const Program &program, uint64_t caches) {
  UseReader reader(program, caches);
  std::vector<KernelUse> uses;
  for (size_t i = 0; i != program.body.size(); ++i)
    if (std::holds_alternative<Call>(program.body[i].action))
      uses.push_back(reader.read(i));
  return uses;
}

std::vector<KernelUse> kernelUsesOf(const Program &program, unsigned cores) {
  return kernelUsesWith(program, std::max(1u, cores) * ownCacheBytes());
}

std::vector<KernelUse> kernelUsesOnGpu(const Program &program) { return kernelUsesWith(program, uint64_t(32) << 20); }

} // namespace cleave::runtime
