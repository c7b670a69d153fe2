// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One function a table.

#include "passes/emit/PlanTables.h"

#include "passes/codegen/LayoutTypes.h"
#include "passes/schedule/KernelWork.h"
#include "runtime/Plan.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace cleave {

llvm::Error makePlanError(const Twine &message) {
  return llvm::make_error<PlanError>(runtime::Status::Internal, message.str());
}

llvm::Error PlanTables::write() {
  writeDevices();
  writeMeshes();
  for (auto step : {&PlanTables::writeParameters, &PlanTables::writeConstants, &PlanTables::writeObjects,
                    &PlanTables::writeKernels})
    if (llvm::Error error = (this->*step)())
      return error;
  return llvm::Error::success();
}

flatbuffers::Offset<flatbuffers::String> PlanTables::text(StringRef text) {
  return builder.CreateSharedString(text.data(), text.size());
}

flatbuffers::Offset<fb::TensorType> PlanTables::type(RankedTensorType type) {
  auto [entry, isNew] = types.try_emplace(type);
  if (!isNew)
    return entry->second;
  runtime::TensorType plain = toRuntimeType(type);
  flatbuffers::Offset<fb::Layout> layout;
  if (plain.layout)
    layout = fb::CreateLayoutDirect(builder, &plain.layout->padded, &plain.layout->strides, &plain.layout->innerBlocks,
                                    &plain.layout->innerDims);
  auto element = static_cast<fb::ElementType>(plain.element);
  return types[type] = fb::CreateTensorTypeDirect(builder, element, &plain.shape, layout);
}

//===-- devices and meshes ------------------------------------------------------------------------------------===//

void PlanTables::writeDevices() {
  for (const dist::Device &device : dist::getDevices(module))
    devices.push_back(fb::CreateDevice(builder, text(device.name), text(device.driver),
                                       static_cast<uint32_t>(device.cores), static_cast<uint64_t>(device.memory)));
}

void PlanTables::writeMeshes() {
  for (auto mesh : module.getOps<dist::MeshOp>()) {
    std::vector<flatbuffers::Offset<fb::Axis>> axes;
    for (auto [name, size] : llvm::zip(mesh.getAxisNames().getAsValueRange<StringAttr>(), mesh.getAxisSizes()))
      axes.push_back(fb::CreateAxis(builder, text(name), static_cast<uint32_t>(size)));
    std::vector<uint32_t> indices(mesh.getDevices().begin(), mesh.getDevices().end());
    meshIndices[mesh.getSymName()] = static_cast<uint32_t>(meshes.size());
    auto name = text(mesh.getSymName());
    auto axisList = builder.CreateVector(axes);
    meshes.push_back(fb::CreateMesh(builder, name, axisList, builder.CreateVector(indices)));
  }
}

//===-- parameters --------------------------------------------------------------------------------------------===//

/// A file of tables addresses at most 2 GiB.
llvm::Error PlanTables::reserveInline(uint64_t bytes) {
  static constexpr uint64_t limit = 0x70000000;
  inlineBytes += std::min(bytes, limit + 1);
  if (inlineBytes > limit)
    return makePlanError("plan expects at most " + Twine(limit) +
                         " bytes of constants and code, got more; make large constants initializers");
  return llvm::Error::success();
}

void PlanTables::writeParameter(dfg::ParameterOp parameter) {
  using Source = std::pair<fb::Source, flatbuffers::Offset<void>>;
  auto value = [](FloatAttr attribute) { return attribute.getValueAsDouble(); };
  auto generated = [&](fb::Distribution distribution, double a, double b, uint64_t seed) {
    return Source(fb::Source::GeneratedSource, fb::CreateGeneratedSource(builder, distribution, a, b, seed).Union());
  };
  // Nothing runs where there are no programs: what the values are does not matter then, nor where they lie.
  Source source =
      isDecision
          ? generated(fb::Distribution::Constant, 0, 0, 0)
          : llvm::TypeSwitch<Attribute, Source>(parameter.getInit())
                .Case([&](dfg::FileAttr file) {
                  auto bytes = static_cast<uint64_t>(plan::storageBytes(parameter.getTensorType()));
                  std::string path = options.fileOf ? options.fileOf(file.getPath()) : file.getPath().str();
                  auto known = options.checksums.find(parameter.getSymName());
                  auto checksum = known == options.checksums.end() ? runtime::FileChecksum() : known->second;
                  return Source(fb::Source::FileSource, fb::CreateFileSource(builder, text(path), file.getOffset(),
                                                                             bytes, checksum.value, checksum.sampled)
                                                            .Union());
                })
                .Case([&](dfg::NormalAttr normal) {
                  return generated(fb::Distribution::Normal, value(normal.getMean()), value(normal.getStddev()),
                                   normal.getSeed());
                })
                .Case([&](dfg::UniformAttr uniform) {
                  return generated(fb::Distribution::Uniform, value(uniform.getLow()), value(uniform.getHigh()),
                                   uniform.getSeed());
                })
                .Case([&](dfg::FillAttr fill) {
                  return generated(fb::Distribution::Constant, value(fill.getValue()), 0, 0);
                });
  auto name = text(parameter.getSymName());
  parameterIndices[parameter.getSymName()] = static_cast<uint32_t>(parameters.size());
  parameters.push_back(
      fb::CreateParameter(builder, name, type(parameter.getTensorType()), source.first, source.second));
}

std::optional<uint32_t> PlanTables::findParameter(StringRef parameter) const {
  auto found = parameterIndices.find(parameter);
  return found == parameterIndices.end() ? std::nullopt : std::optional(found->second);
}

llvm::Error PlanTables::writeParameters() {
  llvm::StringSet<> used;
  if (isDecision)
    module.walk([&](dfg::ReadOp read) { used.insert(read.getParameter()); });
  module.walk([&](plan::LoadParameterOp load) { used.insert(load.getParameter()); });
  for (auto parameter : module.getOps<dfg::ParameterOp>())
    if (used.erase(parameter.getSymName()))
      writeParameter(parameter);
  if (!used.empty())
    return makePlanError("plan expects a parameter '" + used.begin()->getKey() + "', found none");
  return llvm::Error::success();
}

llvm::Error PlanTables::writeConstants() {
  SmallVector<ElementsAttr> constants;
  module.walk([&](plan::LoadConstantOp load) {
    if (constantIndices.insert({load.getValue(), static_cast<uint32_t>(parameters.size() + constants.size())}).second)
      constants.push_back(load.getValue());
  });
  for (auto [index, constant] : llvm::enumerate(constants)) {
    auto dense = dyn_cast<DenseElementsAttr>(constant);
    if (!dense)
      return makePlanError("plan expects the elements of constants in the module, got a constant of " +
                           Twine(constant.getNumElements()) + " elements elsewhere");
    auto tensor = cast<RankedTensorType>(dense.getType());
    if (llvm::Error error = reserveInline(static_cast<uint64_t>(plan::storageBytes(tensor))))
      return error;
    HostTensor elements = HostTensor::fromAttribute(dense);
    auto bytes = builder.CreateVector(reinterpret_cast<const uint8_t *>(elements.data()),
                                      static_cast<size_t>(elements.getNumBytes()));
    auto source = fb::CreateInlineSource(builder, bytes).Union();
    auto name = text("constant." + std::to_string(index));
    parameters.push_back(fb::CreateParameter(builder, name, type(tensor), fb::Source::InlineSource, source));
  }
  return llvm::Error::success();
}

//===-- tiles -------------------------------------------------------------------------------------------------===//

int32_t PlanTables::tileIndex(plan::TileAttr tile) {
  if (!tile)
    return -1;
  return tileIndices.insert({tile, static_cast<int32_t>(tileIndices.size())}).first->second;
}

flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<fb::Tile>>> PlanTables::writeTiles() {
  std::vector<flatbuffers::Offset<fb::Tile>> tiles;
  for (auto [tile, index] : tileIndices) {
    std::vector<flatbuffers::Offset<fb::TileDim>> dims;
    for (plan::TileDimAttr dim : tile.getDims()) {
      std::vector<flatbuffers::Offset<fb::Cut>> cuts;
      for (auto [cut, axis, block] : llvm::enumerate(dim.getAxes(), dim.getBlocks())) {
        bool isShifted = !dim.getShifts().empty() && dim.getShifts()[cut] != 0;
        cuts.push_back(fb::CreateCut(builder, static_cast<uint32_t>(axis), block,
                                     isShifted ? static_cast<uint32_t>(dim.getShifts()[cut]) : 0,
                                     isShifted ? static_cast<uint32_t>(dim.getWays()[cut]) : 0));
      }
      dims.push_back(fb::CreateTileDim(builder, dim.getSize(), builder.CreateVector(cuts), dim.getLength(),
                                       dim.getStep(), dim.getBefore()));
    }
    tiles.push_back(fb::CreateTile(builder, builder.CreateVector(dims)));
  }
  tileIndices.clear();
  return builder.CreateVector(tiles);
}

//===-- objects and kernels -----------------------------------------------------------------------------------===//

llvm::Error PlanTables::writeObjects() {
  for (auto object : module.getOps<plan::ObjectOp>()) {
    StringRef image = object.getImage();
    if (llvm::Error error = reserveInline(image.size()))
      return error;
    std::vector<flatbuffers::Offset<flatbuffers::String>> features;
    for (StringRef feature : object.getFeatures().getAsValueRange<StringAttr>())
      features.push_back(text(feature));
    auto triple = text(object.getTriple()), cpu = text(object.getCpu());
    auto featureList = builder.CreateVector(features);
    auto bytes = builder.CreateVector(reinterpret_cast<const uint8_t *>(image.data()), image.size());
    uint64_t sum = runtime::checksum(std::as_bytes(std::span(image.data(), image.size())));
    objectIndices[object.getSymName()] = static_cast<uint32_t>(objects.size());
    objects.push_back(fb::CreateNativeObject(builder, triple, cpu, featureList, bytes, sum));
  }
  return llvm::Error::success();
}

flatbuffers::Offset<void> PlanTables::nativeBody(plan::NativeKernelOp kernel) {
  auto symbol = text(*kernel.getSymbol());
  return fb::CreateNativeKernel(builder, objectIndices.lookup(*kernel.getObject()), symbol, kernel.getParallelExtent())
      .Union();
}

flatbuffers::Offset<void> PlanTables::gpuBody(plan::NativeKernelOp kernel) {
  std::vector<flatbuffers::Offset<fb::GpuLaunch>> launches;
  for (auto launch : kernel.getLaunches()->getAsRange<plan::GpuLaunchAttr>())
    launches.push_back(fb::CreateGpuLaunch(builder, text(launch.getSymbol()), static_cast<uint32_t>(launch.getBlocks()),
                                           static_cast<uint32_t>(launch.getThreads()),
                                           static_cast<uint32_t>(launch.getSharedBytes())));
  auto list = builder.CreateVector(launches);
  return fb::CreateGpuKernel(builder, objectIndices.lookup(*kernel.getObject()), list).Union();
}

flatbuffers::Offset<fb::Attribute> PlanTables::attribute(NamedAttribute attribute) {
  std::vector<int64_t> ints;
  std::vector<double> reals;
  llvm::TypeSwitch<Attribute>(attribute.getValue())
      .Case([&](DenseI64ArrayAttr list) { llvm::append_range(ints, list.asArrayRef()); })
      .Case([&](DenseF64ArrayAttr list) { llvm::append_range(reals, list.asArrayRef()); })
      .Case([&](IntegerAttr value) { ints.push_back(value.getValue().getSExtValue()); })
      .Case([&](FloatAttr value) { reals.push_back(value.getValueAsDouble()); });
  auto name = text(attribute.getName().getValue());
  auto intList = builder.CreateVector(ints);
  return fb::CreateAttribute(builder, name, intList, builder.CreateVector(reals));
}

flatbuffers::Offset<void> PlanTables::libraryBody(plan::LibraryKernelOp kernel) {
  std::vector<flatbuffers::Offset<fb::Attribute>> attributes;
  for (NamedAttribute entry : kernel.getParameters())
    attributes.push_back(attribute(entry));
  std::vector<flatbuffers::Offset<fb::PostOp>> postOps;
  for (auto postOp : kernel.getPostOps().getAsRange<plan::PostOpAttr>())
    postOps.push_back(fb::CreatePostOp(
        builder, text(postOp.getKind()), static_cast<float>(postOp.getAlpha().getValueAsDouble()),
        static_cast<float>(postOp.getBeta().getValueAsDouble()), static_cast<int32_t>(postOp.getArgument())));
  auto library = text(kernel.getLibrary()), routine = text(kernel.getRoutine()),
       implementation = text(kernel.getImplementation());
  auto attributeList = builder.CreateVector(attributes);
  auto postOpList = builder.CreateVector(postOps);
  return fb::CreateLibraryKernel(builder, library, routine, attributeList, postOpList, implementation).Union();
}

/// A kernel that only shows its operand under another type moves it.
static fb::CostClass costClassOf(CostClass costClass) {
  switch (costClass) {
  case CostClass::Contraction:
    return fb::CostClass::Contraction;
  case CostClass::Elementwise:
    return fb::CostClass::Elementwise;
  case CostClass::Reduction:
    return fb::CostClass::Reduction;
  case CostClass::Movement:
  case CostClass::View:
    return fb::CostClass::Movement;
  }
  llvm_unreachable("all classes are listed");
}

void PlanTables::writeKernel(Operation *kernel, fb::KernelBody kind, flatbuffers::Offset<void> body) {
  KernelSignature signature = getKernelSignature(kernel);
  auto typesOf = [&](ArrayRef<RankedTensorType> list) {
    std::vector<flatbuffers::Offset<fb::TensorType>> offsets;
    for (RankedTensorType entry : list)
      offsets.push_back(type(entry));
    return builder.CreateVector(offsets);
  };
  StringRef symbol = cast<SymbolOpInterface>(kernel).getName();
  auto name = text(symbol);
  auto inputs = typesOf(signature.inputs), outputs = typesOf(signature.outputs);
  kernelIndices[symbol] = static_cast<uint32_t>(kernels.size());
  OpCost work = getKernelWork(kernel);
  kernels.push_back(fb::CreateKernel(builder, name, inputs, outputs, static_cast<uint64_t>(signature.scratchBytes),
                                     kind, body, work.flops, work.bytesRead, work.bytesWritten,
                                     costClassOf(work.costClass)));
}

llvm::Error PlanTables::writeKernels() {
  llvm::StringSet<> used;
  module.walk([&](plan::CallOp call) { used.insert(call.getKernel()); });
  for (Operation &op : *module.getBody()) {
    auto symbol = dyn_cast<SymbolOpInterface>(op);
    if (!symbol || !used.contains(symbol.getName()))
      continue;
    if (auto library = dyn_cast<plan::LibraryKernelOp>(op)) {
      writeKernel(library, fb::KernelBody::LibraryKernel, libraryBody(library));
    } else if (auto native = dyn_cast<plan::NativeKernelOp>(op)) {
      if (!native.getObject() || !(native.getSymbol() || native.getLaunches()) ||
          !objectIndices.contains(*native.getObject()))
        return makePlanError("kernel '" + native.getSymName() +
                             "' expects machine code, found none; run --codegen-compile-" +
                             (native.getDriver() == "cuda" ? "gpu" : "native") + "-kernels before");
      if (native.getLaunches())
        writeKernel(native, fb::KernelBody::GpuKernel, gpuBody(native));
      else
        writeKernel(native, fb::KernelBody::NativeKernel, nativeBody(native));
    }
  }
  return llvm::Error::success();
}

} // namespace cleave
