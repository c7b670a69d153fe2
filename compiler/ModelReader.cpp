// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads models and maps what can be wrong with them to exit codes.

#include "compiler/ModelReader.h"

#include "compiler/ModelWeights.h"
#include "dialects/dfg/Dfg.h"
#include "dialects/dfg/ScoreMasks.h"
#include "dialects/dist/Dist.h"
#include "dialects/plan/Plan.h"
#include "passes/cost/ModuleMachine.h"
#include "runtime/tensorfile/TensorFile.h"

#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;

namespace cleave {

static std::vector<std::function<void(DialectRegistry &)>> &contextExtensions() {
  static std::vector<std::function<void(DialectRegistry &)>> extensions;
  return extensions;
}

void extendContexts(std::function<void(DialectRegistry &)> extension) {
  contextExtensions().push_back(std::move(extension));
}

std::unique_ptr<MLIRContext> createContext() {
  DialectRegistry registry;
  registry.insert<dfg::DfgDialect, dist::DistDialect, plan::PlanDialect>();
  registerMachineReader(registry);
  for (const auto &extend : contextExtensions())
    extend(registry);
  auto context = std::make_unique<MLIRContext>(registry);
  context->loadAllAvailableDialects();
  // Messages are for people who have a model, not its operators in text form; reproducers hold those.
  context->printOpOnDiagnostic(false);
  return context;
}

Operation *findGraph(ModuleOp module) {
  auto graphs = module.getOps<dfg::GraphOp>();
  return graphs.empty() ? nullptr : (*graphs.begin()).getOperation();
}

static Expected<ImportOptions> importOptions(MLIRContext &context, const ModelOptions &options, InputFiles *inputs) {
  ImportOptions result;
  result.samples = options.samples;
  result.openSamples = options.openSamples;
  result.limits = options.limits;
  result.training = options.training;
  result.keepsDropout = options.keepsDropout;
  for (const std::string &text : options.dims) {
    auto parts = splitBinding(text, "--dim");
    if (!parts)
      return parts.error();
    int64_t size = 0;
    if (StringRef(parts->second).getAsInteger(10, size) || size < 1)
      return makeError(Status::Usage, "--dim expects NAME=N with a positive N, got \"", text, "\"");
    result.dims[parts->first] = size;
  }
  for (const std::string &text : options.bindings) {
    auto parts = splitBinding(text, "--bind");
    if (!parts)
      return parts.error();
    auto tensor = runtime::readTensorFile(parts->second);
    if (!tensor)
      return Error(tensor.error().status(), "--bind " + parts->first + ": " + tensor.error().message());
    result.bindings[parts->first] = toCompiler(&context, *tensor);
  }
  if (!options.weights.empty()) {
    auto read = runtime::readTensorArchive(options.weights);
    if (!read)
      return Error(read.error().status(), "--weights: " + read.error().message());
    result.edit = [file = options.weights, weights = std::move(*read)](onnx::ModelProto &model) {
      Error error = putWeights(model, weights, "--weights " + file);
      return error ? llvm::createStringError(error.message()) : llvm::Error::success();
    };
  }
  if (inputs && !inputs->empty()) {
    result.inputShape = [inputs](StringRef name) { return inputs->shapeOf(name); };
    result.bindInput = [inputs](StringRef name, RankedTensorType type) { return inputs->valueOf(name, type); };
  }
  return result;
}

Error mapParameters(ModuleOp module, StringRef folder, StringRef otherFolder, WeightsStore &weights) {
  std::map<std::string, uint64_t> sizes;
  for (auto parameter : module.getOps<dfg::ParameterOp>()) {
    auto file = dyn_cast<dfg::FileAttr>(parameter.getInit());
    if (!file)
      continue;
    auto [size, isNew] = sizes.try_emplace(file.getPath().str());
    if (isNew) {
      SmallString<128> path = folder;
      llvm::sys::path::append(path, file.getPath());
      auto bytes = mapFileInside(llvm::sys::fs::exists(path) ? folder : otherFolder, file.getPath());
      if (!bytes)
        return makeError(Status::Rejected, "parameter \"", parameter.getSymName().str(),
                         "\": ", llvm::toString(bytes.takeError()));
      size->second = bytes->size;
      weights.addFile(file.getPath(), std::move(*bytes));
    }
    uint64_t bytes = HostTensor(parameter.getTensorType(), nullptr, nullptr).getNumBytes();
    if (!weights.find(file.getPath(), file.getOffset(), bytes))
      return makeError(Status::Rejected, "parameter \"", parameter.getSymName().str(), "\" expects ", bytes,
                       " bytes at offset ", file.getOffset(), " of \"", file.getPath().str(), "\", got a file of ",
                       size->second);
  }
  return Error::success();
}

/// Says of parameters that are masks which scores they leave, and of those of one element what it is: their numbers are
/// at hand here alone.
static void markNumbers(ModuleOp module, const WeightsStore &weights, bool training) {
  for (auto parameter : module.getOps<dfg::ParameterOp>()) {
    auto file = dyn_cast<dfg::FileAttr>(parameter.getInit());
    RankedTensorType type = parameter.getTensorType();
    // What training learns does not stay what it is, though the text of a module may say so.
    parameter->removeAttr(dfg::numberAttrName);
    parameter->removeAttr(dfg::scoreMaskAttrName);
    if (!file || (training && isa<FloatType>(type.getElementType()) && !parameter.getState()))
      continue;
    uint64_t bytes = HostTensor(type, nullptr, nullptr).getNumBytes();
    const char *data = weights.find(file.getPath(), file.getOffset(), bytes);
    if (!data)
      continue;
    HostTensor tensor(type, data, nullptr);
    if (auto number = dfg::numberIn(tensor))
      parameter->setAttr(dfg::numberAttrName, Builder(module.getContext()).getF64FloatAttr(*number));
    dfg::markScoreMask(parameter, tensor);
  }
  // Once for all layers that read it.
  module.walk([](dfg::ConstantOp constant) {
    auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
    if (elements && !elements.isSplat() && dfg::mayBeScoreMask(elements.getType()))
      dfg::markScoreMask(constant, HostTensor::fromAttribute(elements));
  });
}

static Expected<LoadedModel> readText(MLIRContext &context, const ModelOptions &options, const std::string &weightsFile,
                                      ImportReport &import) {
  if (options.samples)
    return makeError(Status::Usage, "microbatches of another size than the model's batch expect an ONNX model; \"",
                     options.model, "\" is a module: give it the size of a microbatch");
  if (!options.dims.empty() || !options.bindings.empty() || !options.weights.empty())
    return makeError(Status::Usage, "--dim, --bind and --weights expect an ONNX model; \"", options.model,
                     "\" is a module");
  if (!llvm::sys::fs::exists(options.model))
    return makeError(Status::Failure, "cannot read \"", options.model, "\": no such file");
  LoadedModel model{parseSourceFile<ModuleOp>(options.model, &context), WeightsStore(weightsFile), true};
  if (!model.module)
    return alreadySaid(Status::Rejected);
  if (!findGraph(*model.module))
    return makeError(Status::Rejected, "\"", options.model, "\" expects a dfg.graph, got none");
  StringRef folder = llvm::sys::path::parent_path(options.model);
  if (Error error = mapParameters(*model.module, folder, folder, model.weights))
    return error;
  model.module->walk([&](dfg::OpaqueOp op) {
    import.unsupported.push_back({dfg::getNodeName(op.getLoc()).str(), op.getKind().str(), "unknown operator"});
  });
  markNumbers(*model.module, model.weights, /*training=*/true);
  return model;
}

Expected<LoadedModel> readModel(MLIRContext &context, const ModelOptions &options, InputFiles *inputs,
                                const std::string &weightsFile, ImportReport &import) {
  if (StringRef(options.model).ends_with(".mlir"))
    return readText(context, options, weightsFile, import);
  auto importing = importOptions(context, options, inputs);
  if (!importing)
    return importing.error();
  WeightsStore weights(weightsFile);
  auto module = importOnnx(context, options.model, *importing, weights, import);
  if (failed(module))
    return alreadySaid(static_cast<Status>(import.failure));
  markNumbers(**module, weights, importing->training);
  return LoadedModel{std::move(*module), std::move(weights)};
}

Error checkSupported(ModuleOp module, const ImportReport &import) {
  unsigned count = 0;
  std::string first;
  module.walk([&](dfg::OpaqueOp op) {
    StringRef node = dfg::getNodeName(op.getLoc());
    auto known = llvm::find_if(import.unsupported, [&](const UnsupportedNode &entry) { return entry.name == node; });
    if (++count > 5)
      return;
    first += (count == 1 ? "" : ", ") + op.getKind().str() + " at node \"" + node.str() + "\"";
    if (known != import.unsupported.end() && !known->reason.empty())
      first += " (" + known->reason + ")";
  });
  if (count == 0)
    return Error::success();
  return makeError(Status::Unsupported, count == 1 ? "one operator" : std::to_string(count) + " operators",
                   " cannot run: ", first, count > 5 ? ", ..." : "", "; cleave check lists all");
}

} // namespace cleave
