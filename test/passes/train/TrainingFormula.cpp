// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles graphs, and starts PyTorch.

#include "test/passes/train/TrainingFormula.h"

#include "test/property/split/GraphBuilder.h"
#include "test/property/split/Placements.h"

#include "dialects/dist/Dist.h"
#include "dialects/plan/Plan.h"

#include "mlir/Parser/Parser.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <unistd.h>

using namespace mlir;

namespace cleave::test {

std::unique_ptr<MLIRContext> createTestContext() {
  auto context = std::make_unique<MLIRContext>(MLIRContext::Threading::DISABLED);
  context->loadDialect<dfg::DfgDialect, dist::DistDialect, plan::PlanDialect>();
  return context;
}

Tensor tensorOf(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return Tensor(elementName(tensor.getElementType()), Shape(tensor.getShape().begin(), tensor.getShape().end()));
}

Tensor scalarOf(const std::string &element, double value) {
  Tensor tensor(element, {});
  if (tensor.isFloat())
    tensor.setReal(0, value);
  else
    tensor.setInteger(0, static_cast<int64_t>(value));
  return tensor;
}

std::vector<double> numbersOf(const Tensor &tensor) {
  std::vector<double> numbers;
  for (int64_t i = 0; i < tensor.size(); ++i)
    numbers.push_back(tensor.real(i));
  return numbers;
}

std::unique_ptr<LoadedKernels> loadGraph(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  NativeOptions options;
  options.threads = 1;
  return std::make_unique<LoadedKernels>(text, options);
}

llvm::json::Array toJson(const Tensor &tensor) {
  llvm::json::Array array;
  for (double number : numbersOf(tensor))
    array.push_back(number);
  return array;
}

void expectNumbers(const Tensor &got, const llvm::json::Array &want, double tolerance) {
  std::vector<double> numbers = numbersOf(got);
  ASSERT_EQ(numbers.size(), want.size());
  for (size_t i = 0; i < numbers.size(); ++i)
    EXPECT_NEAR(numbers[i], *want[i].getAsNumber(), tolerance) << "element " << i;
}

Tensor randomTensor(const std::string &element, const Shape &shape, double low, double high, uint64_t seed) {
  Random random(seed);
  return Tensor(element, shape).fill(random, low, high);
}

OwningOpRef<ModuleOp> parseGraph(MLIRContext &context, const std::string &text) {
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  EXPECT_TRUE(module) << text;
  return module;
}

dfg::GraphOp graphOf(ModuleOp module) { return *module.getOps<dfg::GraphOp>().begin(); }

void exposeState(dfg::GraphOp graph) {
  Operation *end = graph.getBody().front().getTerminator();
  for (auto read : llvm::make_early_inc_range(graph.getOps<dfg::ReadOp>())) {
    ASSERT_TRUE(succeeded(graph.insertArgument(graph.getNumArguments(), read.getType(), {}, read.getLoc())));
    read.replaceAllUsesWith(graph.getArgument(graph.getNumArguments() - 1));
    read.erase();
  }
  for (auto write : llvm::make_early_inc_range(graph.getOps<dfg::WriteOp>())) {
    end->insertOperands(end->getNumOperands(), write.getValue());
    write.erase();
  }
  graph.setType(Builder(graph.getContext()).getFunctionType(graph.getArgumentTypes(), end->getOperandTypes()));
  graph.setAllResultAttrs(SmallVector<DictionaryAttr>(end->getNumOperands()));
}

void placeInRandomSplits(ModuleOp module, uint64_t seed, bool onOneMesh) {
  Dice dice(seed);
  std::vector<dist::MeshOp> meshes = addMeshes(module, dice);
  dist::MeshOp mesh = meshes[dice.below(meshes.size())];
  for (Operation &op : graphOf(module).getBody().front().without_terminator())
    placeAtRandom(&op, onOneMesh ? mesh : meshes[dice.below(meshes.size())], dice);
}

void fillInput(dfg::GraphOp graph, unsigned input, double low, double high) {
  Builder builder(graph.getContext());
  graph.setArgAttr(input, fillAttrName,
                   builder.getDictionaryAttr({builder.getNamedAttr("low", builder.getF64FloatAttr(low)),
                                              builder.getNamedAttr("high", builder.getF64FloatAttr(high)),
                                              builder.getNamedAttr("seed", builder.getI64IntegerAttr(5))}));
}

std::vector<Tensor> runGraphOf(ModuleOp module, const std::vector<Tensor> &inputs) {
  std::vector<Tensor> outputs;
  for (Type type : graphOf(module).getResultTypes())
    outputs.push_back(tensorOf(type));
  return loadGraph(module)->run(0, inputs, outputs);
}

static Type typeOf(Builder &builder, const Tensor &tensor) {
  Type element = tensor.getElement() == "f32"    ? Type(builder.getF32Type())
                 : tensor.getElement() == "f64"  ? Type(builder.getF64Type())
                 : tensor.getElement() == "bf16" ? Type(builder.getBF16Type())
                                                 : Type(builder.getI64Type());
  return RankedTensorType::get(tensor.getShape(), element);
}

TrainingFormula::TrainingFormula(const std::vector<Tensor> &inputs, const Build &build) {
  auto context = createTestContext();
  OpBuilder builder(context.get());
  Location location = dfg::getNodeLocation(context.get(), "node", "Test");
  OwningOpRef<ModuleOp> module(ModuleOp::create(builder, location));
  SmallVector<Type> types;
  for (const Tensor &input : inputs)
    types.push_back(typeOf(builder, input));
  builder.setInsertionPointToEnd(module->getBody());
  auto graph = dfg::GraphOp::create(builder, location, "formula", builder.getFunctionType(types, {}));
  builder.setInsertionPointToEnd(&graph.getBody().front());
  SmallVector<Value> results = build(builder, location, graph.getArguments());
  dfg::ReturnOp::create(builder, location, results);
  graph.setType(builder.getFunctionType(types, TypeRange(ValueRange(results))));
  for (Value result : results)
    outputs.push_back(tensorOf(result.getType()));
  kernels = loadGraph(*module);
}

std::optional<llvm::json::Array> askTorch(llvm::json::Array requests) {
  auto folder = std::filesystem::temp_directory_path() / ("cleave-train-test-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::string question = folder / "requests.json", answer = folder / "answers.json";
  {
    std::error_code error;
    llvm::raw_fd_ostream(question, error) << llvm::json::Value(std::move(requests));
  }
  StringRef arguments[] = {CLEAVE_PYTHON, "-B", CLEAVE_TORCH_STEPS, question, answer};
  int status = llvm::sys::ExecuteAndWait(CLEAVE_PYTHON, arguments);
  std::stringstream content;
  content << std::ifstream(answer).rdbuf();
  std::filesystem::remove_all(folder);
  constexpr int skipped = 77, notFound = -1;
  if (status == skipped || status == notFound)
    return std::nullopt;
  EXPECT_EQ(status, 0) << "torch_steps.py failed";
  auto parsed = llvm::json::parse(content.str());
  if (!parsed || !parsed->getAsArray()) {
    ADD_FAILURE() << "torch_steps.py gave no answers: " << llvm::toString(parsed.takeError());
    return std::nullopt;
  }
  return std::move(*parsed->getAsArray());
}

} // namespace cleave::test
