// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The divided graph against the one of one device.

#include "test/property/split/CheckCase.h"

#include "test/property/split/GraphBuilder.h"
#include "test/property/split/Placements.h"
#include "test/property/split/RoundingProbe.h"
#include "test/property/split/RunGraph.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

using namespace mlir;

namespace cleave::test {
namespace {

dfg::GraphOp graphOf(ModuleOp module) { return *module.getOps<dfg::GraphOp>().begin(); }

/// The same graph on one device, where operators that say the same are computed once.
OwningOpRef<ModuleOp> onOneDevice(ModuleOp module) {
  OwningOpRef<ModuleOp> copy = module.clone();
  for (auto mesh : llvm::make_early_inc_range(copy->getOps<dist::MeshOp>()))
    mesh.erase();
  addDevices(*copy, 1);
  auto builder = OpBuilder::atBlockBegin(copy->getBody());
  auto mesh =
      dist::MeshOp::create(builder, copy->getLoc(), "single", builder.getStrArrayAttr({}),
                           builder.getDenseI64ArrayAttr({}), builder.getDenseI64ArrayAttr({0}), DictionaryAttr());
  for (Operation &op : graphOf(*copy).getBody().front().without_terminator())
    place(&op, mesh, {});
  PassManager manager(copy->getContext());
  manager.nest<dfg::GraphOp>().addPass(createCSEPass());
  if (failed(manager.run(*copy)))
    return {};
  return copy;
}

Type widened(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (tensor && isa<FloatType>(tensor.getElementType()))
    return tensor.clone(Float64Type::get(type.getContext()));
  return isa<FloatType>(type) ? Float64Type::get(type.getContext()) : type;
}

/// Turns every float of the graph into an f64.
void computeInF64(ModuleOp module) {
  Builder builder(module.getContext());
  module.walk([&](Operation *op) {
    for (NamedAttribute attribute : op->getAttrs()) {
      if (auto type = dyn_cast<TypeAttr>(attribute.getValue()); type && !isa<FunctionType>(type.getValue()))
        op->setAttr(attribute.getName(), TypeAttr::get(widened(type.getValue())));
      auto elements = dyn_cast<DenseFPElementsAttr>(attribute.getValue());
      if (elements)
        op->setAttr(attribute.getName(), elements.mapValues(builder.getF64Type(), [](const llvm::APFloat &value) {
          return llvm::APFloat(value.convertToDouble()).bitcastToAPInt();
        }));
    }
    for (Value result : op->getResults())
      result.setType(widened(result.getType()));
  });
  dfg::GraphOp graph = graphOf(module);
  Block &body = graph.getBody().front();
  for (BlockArgument argument : body.getArguments())
    argument.setType(widened(argument.getType()));
  graph.setFunctionType(builder.getFunctionType(body.getArgumentTypes(), body.getTerminator()->getOperandTypes()));
}

Tensor inF64(const Tensor &tensor) {
  if (!tensor.isFloat())
    return tensor;
  Tensor wide("f64", tensor.getShape());
  for (int64_t i = 0; i < tensor.size(); ++i)
    wide.setReal(i, tensor.real(i));
  return wide;
}

/// The accepted difference of what is computed in f64, or else in f32, relative to the largest magnitude in a tensor.
/// Roundings to narrower types come on top.
double toleranceOf(const std::string &element) { return element == "f64" ? 1e-9 : 1e-4; }

double largestMagnitude(const Tensor &tensor) {
  double largest = 0;
  for (int64_t i = 0; i < tensor.size(); ++i)
    if (std::isfinite(tensor.real(i)))
      largest = std::max(largest, std::fabs(tensor.real(i)));
  return largest;
}

/// What optimized code is held to where results cancel, as in the logarithm of the softmax of one element: operands are
/// of the order of one, and libraries approximate functions to some roundings of that.
constexpr double leastScale = 0.05;

/// The largest difference of two tensors of numbers.
double distance(const Tensor &a, const Tensor &b) {
  double largest = 0;
  for (int64_t i = 0; i < a.size(); ++i)
    if (std::isfinite(a.real(i)) && std::isfinite(b.real(i)))
      largest = std::max(largest, std::fabs(a.real(i) - b.real(i)));
  return largest;
}

class Comparison {
public:
  Comparison(ModuleOp module, const CheckOptions &options) : module(module), options(options) {}

  std::string run() {
    inputs = makeInputs(module);
    OwningOpRef<ModuleOp> divided = module.clone(), single = onOneDevice(module);
    auto want = runGraph(*single, inputs, false);
    if (!want)
      return "on one device, " + llvm::toString(want.takeError());
    auto got = runGraph(*divided, inputs, options.optimized);
    if (!got)
      return llvm::toString(got.takeError());
    for (auto [index, a, b] : llvm::enumerate(*got, *want)) {
      double scale = std::max(largestMagnitude(b), options.optimized ? leastScale : 0.0);
      double accepted = b.isFloat() ? toleranceOf(b.getElement()) * scale : 0;
      std::string found = difference(a, b, 0, accepted);
      if (!found.empty() && b.isFloat() && hasNarrowFloats(module))
        found = differenceBeyondRounding(index, a, b, accepted);
      else if (!found.empty() && b.isFloat())
        found = difference(a, b, 0, std::max(accepted, 8 * roundingOf(index, b)));
      if (!found.empty())
        return "output " + std::to_string(index) + ": " + found;
    }
    return {};
  }

private:
  /// Elements may be off by twice what other roundings to narrow types move them, the whole by no more than that.
  std::string differenceBeyondRounding(size_t output, const Tensor &got, const Tensor &want, double accepted) {
    if (probed.empty()) {
      RoundingProbe probe = probeRounding(module, inputs);
      OwningOpRef<ModuleOp> wide = onOneDevice(*probe.module);
      computeInF64(*wide);
      for (std::vector<Tensor> &run : probe.runs)
        llvm::transform(run, run.begin(), inF64);
      auto results = runGraphOften(*wide, probe.runs, false);
      if (!results)
        return "probes in f64, " + llvm::toString(results.takeError());
      probed = std::move(*results);
    }
    std::vector<double> moves = largestMoves(probed, output);
    double squares = 0, acceptedSquares = 0;
    for (int64_t i = 0; i < want.size(); ++i) {
      double off = got.real(i) == want.real(i) ? 0 : std::fabs(got.real(i) - want.real(i));
      bool bothNan = std::isnan(got.real(i)) && std::isnan(want.real(i));
      double move = moves[static_cast<size_t>(i)];
      if (!bothNan && !(off <= accepted + 2 * move))
        return "element " + std::to_string(i) + " of " + want.type() + ": got " + std::to_string(got.real(i)) +
               ", want " + std::to_string(want.real(i)) + ", which rounding moves by " + std::to_string(move);
      if (std::isfinite(off)) {
        squares += off * off;
        acceptedSquares += (accepted + move) * (accepted + move);
      }
    }
    if (squares <= acceptedSquares)
      return {};
    return want.type() + " is off by " + std::to_string(std::sqrt(squares)) + " in all, which rounding moves by " +
           std::to_string(std::sqrt(acceptedSquares));
  }

  /// How far rounding moves an output.
  double roundingOf(size_t output, const Tensor &have) {
    if (exact.empty()) {
      OwningOpRef<ModuleOp> wide = onOneDevice(module);
      computeInF64(*wide);
      std::vector<Tensor> wideInputs;
      for (const Tensor &input : inputs)
        wideInputs.push_back(inF64(input));
      auto results = runGraph(*wide, wideInputs, false);
      if (!results) {
        llvm::errs() << "in f64, " << llvm::toString(results.takeError()) << "\n";
        return 0;
      }
      exact = std::move(*results);
    }
    return distance(have, exact[output]);
  }

  ModuleOp module;
  const CheckOptions &options;
  std::vector<Tensor> inputs, exact;
  std::vector<std::vector<Tensor>> probed;
};

} // namespace

std::string checkCase(ModuleOp module, const CheckOptions &options) { return Comparison(module, options).run(); }

std::string describeSignal(int signal) {
  if (signal == SIGALRM)
    return "it did not end within " + std::to_string(longestSeconds) + " s";
  return "it was ended by signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
}

std::string checkInProcess(ModuleOp module, const CheckOptions &options) {
  int ends[2];
  if (pipe(ends) != 0)
    return "pipe: it cannot be made";
  pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    alarm(longestSeconds);
    std::string found = checkCase(module, options);
    bool written = write(ends[1], found.data(), found.size()) == static_cast<ssize_t>(found.size());
    _exit(written ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t count; (count = ::read(ends[0], buffer, sizeof(buffer))) > 0;)
    text.append(buffer, static_cast<size_t>(count));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? describeSignal(WTERMSIG(status)) : text;
}

} // namespace cleave::test
