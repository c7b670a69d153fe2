// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Imports an ONNX model and prints the module; the exit code is the command line's. Options:
//   --dim NAME=N            the size of a symbolic dimension
//   --bind NAME=FILE.pb     the value of an input, fixed
//   --bind-from DIR         inputs that fix a shape are bound from DIR/input_N.pb on demand, N being their position
//   --weights FILE          write the weights file
//   --exits N               succeed if the import ends with exit code N, and fail if not
//   --report                print what was found instead of the module
//   --cases DIR...          import every DIR/*/model.onnx with its test_data_set_0, and count
//   --wrong NAME            with --cases: leave a case out whose files are wrong
//   --least N               with --cases: fail if fewer than N import, or if one is rejected or differs
//   --fold                  with --cases: fix all inputs, and compare the outputs that fold with output_N.pb

#include "dialects/dfg/Dfg.h"
#include "passes/import/Import.h"
#include "passes/import/OnnxProto.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>
#include <cmath>
#include <fstream>

using namespace cleave;
using namespace mlir;

namespace {
struct Arguments {
  std::string model, weights, bindFrom;
  std::vector<std::string> cases, wrong;
  ImportOptions options;
  bool report = false, fold = false;
  int exits = 0;
  unsigned least = 0;
};
} // namespace

static double elementAt(const HostTensor &tensor, int64_t index) {
  Type type = tensor.getElementType();
  if (type.isF32())
    return tensor.as<float>()[index];
  if (type.isF64())
    return tensor.as<double>()[index];
  if (type.isInteger(64))
    return static_cast<double>(tensor.as<int64_t>()[index]);
  if (type.isInteger(32))
    return tensor.as<int32_t>()[index];
  if (type.isInteger(16))
    return tensor.as<int16_t>()[index];
  if (type.isInteger(8) || type.isInteger(1))
    return tensor.as<int8_t>()[index];
  APFloat value = *(tensor.toAttribute().value_begin<APFloat>() + index);
  bool lossy = false;
  value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lossy);
  return value.convertToDouble();
}

/// The elements of an output that folded; none where it is left to run time.
static std::optional<HostTensor> foldedOutput(ModuleOp module, const WeightsStore &weights, Value output) {
  if (auto constant = output.getDefiningOp<dfg::ConstantOp>())
    return HostTensor::fromAttribute(cast<DenseElementsAttr>(constant.getValue()));
  auto read = output.getDefiningOp<dfg::ReadOp>();
  if (!read)
    return std::nullopt;
  auto parameter = module.lookupSymbol<dfg::ParameterOp>(read.getParameter());
  auto type = parameter.getTensorType();
  auto file = dyn_cast<dfg::FileAttr>(parameter.getInit());
  const char *data = file ? weights.find(file.getPath(), file.getOffset(), tensorBytes(type)) : nullptr;
  return data ? std::optional<HostTensor>(HostTensor(type, data, nullptr)) : std::nullopt;
}

/// "folded", "differs" with a message, or "left" to run time.
static std::string compareOutputs(ModuleOp module, const WeightsStore &weights, const std::string &folder,
                                  std::string &message) {
  auto graph = *module.getOps<dfg::GraphOp>().begin();
  std::string outcome = "folded";
  for (auto [index, output] : llvm::enumerate(graph.getBody().front().getTerminator()->getOperands())) {
    std::optional<HostTensor> actual = foldedOutput(module, weights, output);
    if (!actual)
      return "left";
    auto expected = readTensorFile(*module.getContext(), folder + "/output_" + std::to_string(index) + ".pb");
    // Some of the suite's bfloat16 tensors are stored as uint16, which is no type of Cleave.
    if (!expected) {
      message += llvm::toString(expected.takeError());
      return "left";
    }
    if (expected->getType() != actual->getType()) {
      llvm::raw_string_ostream(message) << actual->getType() << " instead of " << expected->getType();
      return "differs";
    }
    for (int64_t i = 0, e = actual->getNumElements(); i < e; ++i) {
      double a = elementAt(*actual, i), b = elementAt(*expected, i);
      if (a == b || (std::isnan(a) && std::isnan(b)) || std::fabs(a - b) <= 1e-5 + 1e-3 * std::fabs(b))
        continue;
      message += "element " + std::to_string(i) + ": " + std::to_string(a) + " instead of " + std::to_string(b);
      return "differs";
    }
  }
  return outcome;
}

/// Binds the model's inputs from a folder of ONNX's test layout.
static void bindFromFolder(MLIRContext &context, const std::string &model, const std::string &folder,
                           ImportOptions &options) {
  onnx::ModelProto proto;
  std::ifstream stream(model, std::ios::binary);
  if (!proto.ParseFromIstream(&stream))
    return;
  std::map<std::string, std::string> files;
  int position = 0;
  for (const onnx::ValueInfoProto &input : proto.graph().input())
    files[input.name()] = folder + "/input_" + std::to_string(position++) + ".pb";
  auto read = [&context, files](StringRef name) -> std::optional<HostTensor> {
    auto file = files.find(name.str());
    if (file == files.end() || !llvm::sys::fs::exists(file->second))
      return std::nullopt;
    auto tensor = readTensorFile(context, file->second);
    if (!tensor) {
      llvm::consumeError(tensor.takeError());
      return std::nullopt;
    }
    return *tensor;
  };
  options.bindInput = [read](StringRef name, RankedTensorType) { return read(name); };
  options.inputShape = [read](StringRef name) -> std::optional<SmallVector<int64_t>> {
    if (std::optional<HostTensor> tensor = read(name))
      return SmallVector<int64_t>(tensor->getShape());
    return std::nullopt;
  };
}

/// Fixes the values of all inputs.
static void bindAll(MLIRContext &context, const std::string &folder, ImportOptions &options) {
  onnx::ModelProto proto;
  std::ifstream stream(folder + "/model.onnx", std::ios::binary);
  if (!proto.ParseFromIstream(&stream))
    return;
  for (int i = 0; i < proto.graph().input_size(); ++i) {
    auto tensor = readTensorFile(context, folder + "/test_data_set_0/input_" + std::to_string(i) + ".pb");
    if (tensor)
      options.bindings[proto.graph().input(i).name()] = *tensor;
    else
      llvm::consumeError(tensor.takeError());
  }
}

static int importCases(MLIRContext &context, const Arguments &arguments) {
  std::map<std::string, unsigned> counts;
  for (const std::string &suite : arguments.cases) {
    std::error_code error;
    std::vector<std::string> folders;
    for (llvm::sys::fs::directory_iterator entry(suite, error), end; !error && entry != end; entry.increment(error))
      folders.push_back(entry->path());
    llvm::sort(folders);
    for (const std::string &folder : folders) {
      if (!llvm::sys::fs::exists(folder + "/model.onnx") ||
          llvm::is_contained(arguments.wrong, llvm::sys::path::filename(folder)))
        continue;
      ImportOptions options;
      bindFromFolder(context, folder + "/model.onnx", folder + "/test_data_set_0", options);
      if (arguments.fold)
        bindAll(context, folder, options);
      WeightsStore weights;
      ImportReport report;
      std::string messages;
      llvm::raw_string_ostream text(messages);
      ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
        text << diagnostic << "; ";
        return success();
      });
      auto module = importOnnx(context, folder + "/model.onnx", options, weights, report);
      std::string outcome = "imported";
      if (failed(module))
        outcome = "failed " + std::to_string(static_cast<int>(report.failure));
      else if (!report.unsupported.empty())
        outcome = "opaque";
      if (outcome == "opaque")
        for (const UnsupportedNode &node : report.unsupported)
          messages += node.kind + ": " + node.reason + "; ";
      if (outcome == "imported" && arguments.fold)
        outcome = compareOutputs(**module, weights, folder + "/test_data_set_0", messages);
      ++counts[outcome];
      llvm::outs() << outcome << "\t" << llvm::sys::path::filename(folder) << "\t" << messages << "\n";
    }
  }
  for (const auto &[outcome, count] : counts)
    llvm::outs() << "count: " << outcome << ": " << count << "\n";
  bool good = counts["imported"] + counts["folded"] + counts["left"] >= arguments.least;
  for (const char *outcome : {"differs", "failed 1", "failed 4"})
    good &= counts[outcome] == 0;
  return good ? 0 : 1;
}

static bool parse(MLIRContext &context, int argc, char **argv, Arguments &arguments) {
  for (int i = 1; i < argc; ++i) {
    StringRef option = argv[i];
    auto [name, value] = StringRef(i + 1 < argc ? argv[i + 1] : "").split('=');
    if (option == "--report") {
      arguments.report = true;
    } else if (option == "--least") {
      arguments.least = static_cast<unsigned>(std::atoi(argv[++i]));
    } else if (option == "--wrong") {
      arguments.wrong.push_back(argv[++i]);
    } else if (option == "--exits") {
      arguments.exits = std::atoi(argv[++i]);
    } else if (option == "--training") {
      arguments.options.training = true;
    } else if (option == "--fold") {
      arguments.fold = true;
    } else if (option == "--dim") {
      int64_t size = 0;
      if (value.getAsInteger(10, size))
        return false;
      arguments.options.dims[name.str()] = size;
      ++i;
    } else if (option == "--bind") {
      auto tensor = readTensorFile(context, value);
      if (!tensor) {
        llvm::errs() << "error: " << llvm::toString(tensor.takeError()) << "\n";
        return false;
      }
      arguments.options.bindings[name.str()] = *tensor;
      ++i;
    } else if (option == "--bind-from") {
      arguments.bindFrom = argv[++i];
    } else if (option == "--weights") {
      arguments.weights = argv[++i];
    } else if (option == "--cases") {
      while (i + 1 < argc)
        arguments.cases.push_back(argv[++i]);
    } else {
      arguments.model = option.str();
    }
  }
  return true;
}

static void print(const ImportReport &report) {
  llvm::outs() << "ir version " << report.irVersion << ", operator set " << report.opset << "\n";
  for (const auto &[kind, count] : report.operators)
    llvm::outs() << "operator " << kind << ": " << count << "\n";
  for (const UnsupportedNode &node : report.unsupported)
    llvm::outs() << "unsupported " << node.name << " (" << node.kind << "): " << node.reason << "\n";
  for (const std::string &input : report.boundInputs)
    llvm::outs() << "bound " << input << "\n";
  for (const std::string &input : report.inputsToBind)
    llvm::outs() << "to bind " << input << "\n";
}

int main(int argc, char **argv) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  Arguments arguments;
  if (!parse(context, argc, argv, arguments))
    return static_cast<int>(ImportFailure::Usage);
  if (!arguments.cases.empty())
    return importCases(context, arguments);
  if (!arguments.bindFrom.empty())
    bindFromFolder(context, arguments.model, arguments.bindFrom, arguments.options);
  WeightsStore weights(arguments.weights.empty() ? "model.weights"
                                                 : llvm::sys::path::filename(arguments.weights).str());
  ImportReport report;
  auto start = std::chrono::steady_clock::now();
  auto module = importOnnx(context, arguments.model, arguments.options, weights, report);
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (arguments.report) {
    print(report);
    llvm::errs() << "import took " << llvm::format("%.3f", seconds.count()) << " s\n";
  }
  int code = failed(module) ? static_cast<int>(report.failure) : 0;
  if (arguments.exits)
    return code == arguments.exits ? 0 : 1;
  if (code)
    return code;
  if (!arguments.report)
    (*module)->print(llvm::outs(), OpPrintingFlags().enableDebugInfo(getenv("PRINT_LOCATIONS") != nullptr, true));
  if (!arguments.weights.empty())
    if (llvm::Error error = weights.write(arguments.weights)) {
      llvm::errs() << "error: " << llvm::toString(std::move(error)) << "\n";
      return static_cast<int>(ImportFailure::Diagnosed);
    }
  return 0;
}
