// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Arguments of one kind whose bytes overlap in the arena make a block.

#include "runtime/profile/KernelUse.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <sstream>

namespace cleave::runtime {
namespace {

uint32_t rootOf(const Program &program, uint32_t buffer) {
  while (program.buffers[buffer].viewOf >= 0)
    buffer = static_cast<uint32_t>(program.buffers[buffer].viewOf);
  return buffer;
}

class UseReader {
public:
  UseReader(const PlanContents &plan, const Program &program) : plan(plan), program(program) {
    std::vector<bool> prepared(program.buffers.size()), counted(program.buffers.size());
    for (const Instruction &instruction : program.prepare)
      for (uint32_t buffer : buffersOf(instruction.action))
        prepared[rootOf(program, buffer)] = true;
    for (const Instruction &instruction : program.body)
      for (uint32_t buffer : buffersOf(instruction.action))
        if (uint32_t root = rootOf(program, buffer); prepared[root] && !counted[root]) {
          counted[root] = true;
          lasting += program.buffers[root].bytes;
        }
    lasts = std::move(prepared);
  }

  KernelUse read(const Instruction &instruction) const {
    const Call &call = std::get<Call>(instruction.action);
    KernelUse use;
    use.instruction = &instruction;
    use.kernel = call.kernel;
    use.lastingBytes = std::bit_ceil(lasting);
    use.passingBytes = std::bit_ceil(program.liveBytes - std::min(program.liveBytes, lasting));
    size_t inputs = plan.kernels[call.kernel].inputs.size();
    for (size_t i = 0; i != call.arguments.size(); ++i) {
      const PlanBuffer &buffer = program.buffers[call.arguments[i]];
      use.arguments.push_back({0, buffer.offset, buffer.bytes, i < inputs && !lastsAt(call, i)});
    }
    makeBlocks(call, use);
    return use;
  }

private:
  bool lastsAt(const Call &call, size_t argument) const { return lasts[rootOf(program, call.arguments[argument])]; }

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

  const PlanContents &plan;
  const Program &program;
  std::vector<bool> lasts;
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

} // namespace

std::string KernelUse::signature(const PlanContents &plan) const {
  std::ostringstream out;
  out.precision(17);
  const Kernel &called = plan.kernels[kernel];
  if (const auto *library = std::get_if<LibraryKernel>(&called.body))
    write(out, *library);
  else if (const auto *native = std::get_if<NativeKernel>(&called.body))
    out << "native " << checksum(plan.objects[native->object].image) << " " << native->symbol << " "
        << native->parallelExtent;
  for (const auto *types : {&called.inputs, &called.outputs}) {
    for (const TensorType &type : *types)
      write(out, type);
    out << " ->";
  }
  out << " " << called.scratchBytes;
  for (const Argument &argument : arguments)
    out << " " << argument.block << (blocks[argument.block].lasts ? "l" : "p") << argument.offset;
  out << " among " << lastingBytes << " " << passingBytes;
  return out.str();
}

std::vector<KernelUse> kernelUsesOf(const PlanContents &plan, const Program &program) {
  UseReader reader(plan, program);
  std::vector<KernelUse> uses;
  for (const Instruction &instruction : program.body)
    if (std::holds_alternative<Call>(instruction.action))
      uses.push_back(reader.read(instruction));
  return uses;
}

} // namespace cleave::runtime
