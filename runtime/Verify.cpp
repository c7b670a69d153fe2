// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The tables of a plan, one after the other: devices, meshes, parameters, native objects, kernels, ports. Programs and
// their instructions are in VerifyProgram.cpp, their order in VerifyOrder.cpp.

#include "runtime/Verify.h"

#include "runtime/Tile.h"
#include "runtime/VerifyProgram.h"
#include "runtime/VerifyReplicas.h"
#include "runtime/VerifyState.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <set>

namespace cleave::runtime {

static Error within(const char *what, const std::string &name, const Error &error) {
  if (!error)
    return error;
  return Error(error.status(), std::string(what) + " \"" + name + "\": " + error.message(), error.node());
}

static Error checkMesh(const PlanContents &plan, const Mesh &mesh) {
  uint64_t size = 1;
  for (const Axis &axis : mesh.axes)
    if (axis.size == 0 || __builtin_mul_overflow(size, axis.size, &size))
      return reject("axis \"", axis.name, "\" has size ", axis.size, ", expected at least 1 and a product below 2^64");
  if (size != mesh.devices.size())
    return reject("expects ", size, " devices, the product of its axes, got ", mesh.devices.size());
  std::set<uint32_t> seen;
  for (uint32_t device : mesh.devices) {
    if (device >= plan.devices.size())
      return reject("has device ", device, ", but the plan has ", plan.devices.size(), " devices");
    if (!seen.insert(device).second)
      return reject("has device \"", plan.devices[device].name, "\" twice");
  }
  return Error::success();
}

static Error checkParameter(const Parameter &parameter) {
  if (Error error = parameter.type.check())
    return error;
  uint64_t needed = *parameter.type.byteSize();
  if (const auto *file = std::get_if<FileSource>(&parameter.source)) {
    if (file->file.empty())
      return reject("has a file source without a file name");
    if (file->bytes != needed)
      return reject("expects ", needed, " bytes of \"", file->file, "\" for ", parameter.type.text(), ", got ",
                    file->bytes);
  } else if (const auto *data = std::get_if<InlineSource>(&parameter.source)) {
    if (data->data.size() != needed)
      return reject("expects ", needed, " bytes for ", parameter.type.text(), ", got ", data->data.size());
  } else if (parameter.type.layout) {
    return reject("expects a dense type for generated values, got ", parameter.type.text());
  }
  return Error::success();
}

static Error checkObject(const NativeObject &object) {
  // 64-bit, little-endian, current version: the only objects that the cpu driver can load.
  static constexpr std::array<uint8_t, 7> identification = {0x7f, 'E', 'L', 'F', 2, 1, 1};
  static constexpr size_t headerBytes = 64, typeOffset = 16;
  static constexpr uint8_t sharedObject = 3;
  if (object.checksum != 0 && object.checksum != checksum(object.image))
    return reject("expects an image with checksum ", object.checksum, ", got ", checksum(object.image),
                  "; the file is damaged");
  // CUDA takes the text with a zero at its end.
  if (object.triple == ptxTriple) {
    if (std::ranges::find(object.image, std::byte(0)) != object.image.end())
      return reject("expects the text of PTX, got a zero in it");
    return Error::success();
  }
  if (object.image.size() < headerBytes ||
      std::memcmp(object.image.data(), identification.data(), identification.size()) != 0 ||
      static_cast<uint8_t>(object.image[typeOffset]) != sharedObject)
    return reject("expects an ELF shared object for 64 bits, got ", object.image.size(), " bytes of something else");
  return Error::success();
}

/// Whether code of the kernel can be in an object: `isPtx` says of which kind.
static Error checkCode(const PlanContents &plan, uint32_t object, bool isPtx) {
  if (object >= plan.objects.size())
    return reject("is in object ", object, ", but the plan has ", plan.objects.size(), " objects");
  if ((plan.objects[object].triple == ptxTriple) != isPtx)
    return reject("expects an object with ", isPtx ? "PTX" : "machine code", ", got one for \"",
                  plan.objects[object].triple, "\"");
  return Error::success();
}

static Error checkSymbol(const std::string &symbol) {
  auto isSymbolCharacter = [](unsigned char c) { return c > ' ' && c < 127; };
  if (symbol.empty() || !std::all_of(symbol.begin(), symbol.end(), isSymbolCharacter))
    return reject("expects a symbol of printable characters, got \"", symbol, "\"");
  return Error::success();
}

static Error checkNativeKernel(const PlanContents &plan, const Kernel &kernel, const NativeKernel &native) {
  if (Error error = checkCode(plan, native.object, /*isPtx=*/false))
    return error;
  if (Error error = checkSymbol(native.symbol))
    return error;
  bool empty = std::all_of(kernel.outputs.begin(), kernel.outputs.end(),
                           [](const TensorType &type) { return type.elementCount() == 0u; });
  if (native.parallelExtent < (empty ? 0 : 1))
    return reject("expects a parallel extent of at least 1, got ", native.parallelExtent);
  return Error::success();
}

/// Every GPU since 2014 launches as many blocks and threads.
static Error checkGpuKernel(const PlanContents &plan, const GpuKernel &gpu) {
  static constexpr uint32_t mostBlocks = 0x7fffffff, mostThreads = 1024;
  if (Error error = checkCode(plan, gpu.object, /*isPtx=*/true))
    return error;
  for (const GpuLaunch &launch : gpu.launches) {
    if (Error error = checkSymbol(launch.symbol))
      return error;
    if (launch.blocks < 1 || launch.blocks > mostBlocks || launch.threads < 1 || launch.threads > mostThreads)
      return reject("expects launches of 1 to ", mostBlocks, " blocks of 1 to ", mostThreads, " threads, got ",
                    launch.blocks, " of ", launch.threads);
  }
  return Error::success();
}

static Error checkLibraryKernel(const Kernel &kernel, const LibraryKernel &library) {
  if (library.library.empty() || library.operation.empty())
    return reject("expects the names of a library and an operation, got \"", library.library, "\" and \"",
                  library.operation, "\"");
  for (const PostOp &postOp : library.postOps)
    if (postOp.argument < -1 || postOp.argument >= static_cast<int64_t>(kernel.inputs.size()))
      return reject("has a post-operation \"", postOp.kind, "\" that reads input ", postOp.argument, " of ",
                    kernel.inputs.size());
  return Error::success();
}

static Error checkKernel(const PlanContents &plan, const Kernel &kernel) {
  for (const auto *types : {&kernel.inputs, &kernel.outputs})
    for (const TensorType &type : *types)
      if (Error error = type.check())
        return error;
  for (double work : {kernel.flops, kernel.bytesRead, kernel.bytesWritten})
    if (!std::isfinite(work) || work < 0)
      return reject("expects finite work that is not negative, got ", work);
  if (const auto *native = std::get_if<NativeKernel>(&kernel.body))
    return checkNativeKernel(plan, kernel, *native);
  if (const auto *gpu = std::get_if<GpuKernel>(&kernel.body))
    return checkGpuKernel(plan, *gpu);
  return checkLibraryKernel(kernel, std::get<LibraryKernel>(kernel.body));
}

static Error checkPorts(const std::vector<Port> &ports, const char *what) {
  std::set<std::string> names;
  for (const Port &port : ports) {
    if (Error error = port.type.check())
      return within(what, port.name, error);
    if (port.classes != 0 && isFloatingPoint(port.type.element))
      return reject(what, " \"", port.name, "\" expects integers as labels, got ", port.type.text());
    if (port.type.layout)
      return reject(what, " \"", port.name, "\" expects a dense type, got ", port.type.text());
    if (!names.insert(port.name).second)
      return reject(what, " \"", port.name, "\" is there twice");
  }
  return Error::success();
}

/// Whether all are finite and none is below `least`.
static bool areNumbers(std::initializer_list<double> values, double least) {
  return std::all_of(values.begin(), values.end(),
                     [&](double value) { return std::isfinite(value) && value >= least; });
}

static Error checkPrediction(const PlanContents &plan, const Entry &entry) {
  const Prediction &prediction = *entry.prediction;
  for (const PlanStage &stage : prediction.stages) {
    if (stage.mesh >= plan.meshes.size())
      return reject("a predicted stage is on mesh ", stage.mesh, ", but the plan has ", plan.meshes.size());
    const MemoryUse &memory = stage.memory;
    if (!areNumbers({stage.forward, stage.backwardInput, stage.backwardWeight, stage.send, stage.perStep,
                     memory.parameters, memory.gradients, memory.optimizer, memory.activations, memory.transient,
                     memory.host},
                    0))
      return reject("a predicted stage expects finite seconds and bytes of at least 0");
  }
  for (const Operator &op : entry.operators)
    if (!prediction.stages.empty() && op.stage >= prediction.stages.size())
      return reject("operator \"", op.name, "\" is in stage ", op.stage, ", but the prediction has ",
                    prediction.stages.size());
  for (double bytes : prediction.peakBytes)
    if (!areNumbers({bytes}, 0))
      return reject("the prediction expects finite peak bytes of at least 0, got ", bytes);
  if (!prediction.peakBytes.empty() && prediction.peakBytes.size() != plan.devices.size())
    return reject("the prediction expects the peak bytes of ", plan.devices.size(), " devices, got ",
                  prediction.peakBytes.size());
  if (!areNumbers({prediction.stepSeconds, prediction.lowerBoundSeconds, prediction.simulatedSeconds}, -1) ||
      !areNumbers({prediction.modelFlops, prediction.memoryLimit}, 0))
    return reject("the prediction expects finite seconds, operations and bytes");
  for (const Alternative &other : prediction.alternatives)
    if (!areNumbers({other.seconds, other.peakBytes}, -1))
      return reject("alternative \"", other.name, "\" expects finite seconds and bytes");
  return Error::success();
}

static Error checkHome(const PlanContents &plan, const Entry &entry, const Home &home) {
  if (home.mesh >= plan.meshes.size())
    return reject("is on mesh ", home.mesh, ", but the plan has ", plan.meshes.size());
  if (home.tile < -1 || home.tile >= static_cast<int64_t>(entry.tiles.size()))
    return reject("has tile ", home.tile, ", but the entry has ", entry.tiles.size());
  const Tile *tile = entry.tile(home.tile);
  if (!tile)
    return Error::success();
  if (Error error = checkTile(*tile, plan.meshes[home.mesh], /*windows=*/false))
    return reject("has tile ", home.tile, ", whose ", error.message());
  std::optional<uint64_t> elements = plan.parameters[home.parameter].type.elementCount();
  if (tensorElements(*tile) != elements)
    return reject("expects a tile of ", elements.value_or(0), " elements, got one of ",
                  tensorElements(*tile).value_or(0));
  return Error::success();
}

static Error checkHomes(const PlanContents &plan, const Entry &entry) {
  if (!entry.homes.empty() && !entry.isDecision())
    return reject("expects what its programs say of parameters alone, got homes besides");
  for (const Home &home : entry.homes) {
    if (home.parameter >= plan.parameters.size())
      return reject("has a home for parameter ", home.parameter, ", but the plan has ", plan.parameters.size());
    if (Error error = checkHome(plan, entry, home))
      return within("home of parameter", plan.parameters[home.parameter].name, error);
  }
  return Error::success();
}

static Error checkEntry(const PlanContents &plan, const Entry &entry) {
  if (Error error = checkPorts(entry.inputs, "input"))
    return error;
  if (Error error = checkPorts(entry.outputs, "output"))
    return error;
  for (const Operator &op : entry.operators) {
    if (op.mesh >= plan.meshes.size())
      return reject("operator \"", op.name, "\" is on mesh ", op.mesh, ", but the plan has ", plan.meshes.size());
    for (uint32_t input : op.inputs)
      if (input >= entry.operators.size())
        return reject("operator \"", op.name, "\" has operator ", input, " as input, but the entry has ",
                      entry.operators.size());
    for (uint32_t parameter : op.parameters)
      if (parameter >= plan.parameters.size())
        return reject("operator \"", op.name, "\" reads parameter ", parameter, ", but the plan has ",
                      plan.parameters.size());
    if (!areNumbers({op.flops, op.bytes, op.receivedBytes, op.parameterBytes, op.resultBytes}, 0) ||
        !areNumbers({op.predictedSeconds, op.communicationSeconds, op.alternativeSeconds}, -1))
      return reject("operator \"", op.name, "\" expects finite numbers for its work, bytes and seconds");
    if (op.keys &&
        (op.keys->devices < 2 ||
         !areNumbers({op.keys->ringSeconds, op.keys->gatheredSeconds, op.keys->ringBytes, op.keys->gatheredBytes}, 0)))
      return reject("operator \"", op.name, "\" expects keys of two devices or more, and finite seconds and bytes");
  }
  for (const Port &port : entry.inputs)
    if (entry.samples != 0 && !port.parameter &&
        (port.type.shape.empty() || port.type.shape[0] != static_cast<int64_t>(entry.samples)))
      return reject("input \"", port.name, "\" expects the entry's ", entry.samples, " samples in dimension 0, got ",
                    port.type.text());
  if (entry.prediction)
    if (Error error = checkPrediction(plan, entry))
      return error;
  if (Error error = checkHomes(plan, entry))
    return error;
  return entry.isDecision() ? Error::success() : verifyPrograms(plan, entry);
}

Error verifyStructure(const PlanContents &plan) {
  std::set<std::string> names;
  for (const Mesh &mesh : plan.meshes)
    if (Error error = checkMesh(plan, mesh))
      return within("mesh", mesh.name, error);
  for (const Parameter &parameter : plan.parameters)
    if (Error error = checkParameter(parameter))
      return within("parameter", parameter.name, error);
  for (size_t i = 0; i != plan.objects.size(); ++i)
    if (Error error = checkObject(plan.objects[i]))
      return within("native object", std::to_string(i), error);
  for (const Kernel &kernel : plan.kernels)
    if (Error error = checkKernel(plan, kernel))
      return within("kernel", kernel.name, error);
  for (const Entry &entry : plan.entries) {
    if (!names.insert(entry.name).second)
      return reject("entry \"", entry.name, "\" is there twice");
    if (Error error = checkEntry(plan, entry))
      return within("entry", entry.name, error);
  }
  return Error::success();
}

Error verifyPlan(const PlanContents &plan) {
  if (Error error = verifyStructure(plan))
    return error;
  std::vector<LastingOfPrograms> lasting(plan.entries.size());
  for (size_t i = 0; i != plan.entries.size(); ++i)
    if (!plan.entries[i].isDecision())
      if (Error error = verifyOrder(plan, plan.entries[i], lasting[i]))
        return error;
  // What all entries need together counts the devices of every replica.
  if (Error error = verifyReplicas(plan))
    return error;
  return verifySharing(plan, lasting);
}

Expected<Plan> readVerifiedPlan(const std::filesystem::path &file) {
  auto plan = Plan::read(file);
  if (!plan)
    return plan;
  if (Error error = verifyPlan(*plan))
    return error;
  return plan;
}

} // namespace cleave::runtime
