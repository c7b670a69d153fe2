// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bucketing: a training step and an evaluation for each of several lengths of sequences, or an entry for each of
// several batches, on one set of parameters and optimizer state. The largest is searched and placed; all others are
// placed as it is.

#include "compiler/ModelCompiler.h"

#include "dialects/dfg/PortAttributes.h"
#include "dialects/dist/Dist.h"
#include "passes/import/SamplePositions.h"
#include "passes/train/Evaluation.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace cleave {

static Expected<Buckets> parseBuckets(const std::string &text) {
  auto refuse = [&](const auto &...got) {
    return makeError(Status::Usage, "--buckets expects DIM=N,N,... with increasing positive sizes, got ", got...);
  };
  auto [dim, list] = StringRef(text).split('=');
  if (dim.empty() || list.empty())
    return refuse("\"", text, "\"");
  Buckets buckets{dim.str(), {}};
  SmallVector<StringRef> parts;
  list.split(parts, ',');
  for (StringRef part : parts) {
    int64_t size = 0;
    if (!llvm::to_integer(part, size, 10) || size < 1)
      return refuse("\"", part.str(), "\" in \"", text, "\"");
    if (!buckets.sizes.empty() && size <= buckets.sizes.back())
      return refuse(size, " behind ", buckets.sizes.back());
    buckets.sizes.push_back(size);
  }
  return buckets;
}

static std::string binding(const Buckets &buckets, int64_t size) { return buckets.dim + "=" + std::to_string(size); }

/// Powers of two up to the largest, and that.
static std::vector<int64_t> batchesUpTo(int64_t largest) {
  std::vector<int64_t> sizes;
  for (int64_t size = 1; size < largest; size *= 2)
    sizes.push_back(size);
  sizes.push_back(largest);
  return sizes;
}

Error ModelCompiler::readBatches() {
  const TargetOptions &target = request.target;
  const char *name = target.maxBatch ? "--max-batch" : "--batches";
  if (target.maxBatch && !target.batches.empty())
    return makeError(Status::Usage, "--batches gives all batches, --max-batch those up to the largest; leave one out");
  if (target.train)
    return makeError(Status::Usage, name, " expects a plan that infers; with --train give --batch");
  Buckets batches{"", target.maxBatch ? batchesUpTo(target.maxBatch) : target.batches};
  for (size_t i = 0; i != batches.sizes.size(); ++i)
    if (i != 0 && batches.sizes[i] <= batches.sizes[i - 1])
      return makeError(Status::Usage, "--batches expects increasing sizes, got ", batches.sizes[i], " behind ",
                       batches.sizes[i - 1]);
  if (StringRef(model.model).ends_with(".mlir"))
    return makeError(Status::Usage, name, " expects an ONNX model; \"", model.model,
                     "\" is a module, whose sizes are fixed");
  buckets = std::move(batches);
  chooseBucket(buckets->sizes.back());
  return Error::success();
}

void ModelCompiler::chooseBucket(int64_t size) {
  bucket = size;
  if (buckets->areBatches())
    model.samples = size;
  else
    model.dims.back() = binding(*buckets, size);
}

Error ModelCompiler::readBuckets() {
  if (request.target.maxBatch || !request.target.batches.empty())
    return readBatches();
  if (request.target.buckets.empty())
    return Error::success();
  auto parsed = parseBuckets(request.target.buckets);
  if (!parsed)
    return parsed.error();
  if (StringRef(model.model).ends_with(".mlir"))
    return makeError(Status::Usage, "--buckets expects an ONNX model with a symbolic dimension; \"", model.model,
                     "\" is a module, whose sizes are fixed");
  for (const std::string &dim : model.dims)
    if (StringRef(dim).starts_with(parsed->dim + "="))
      return makeError(Status::Usage, "--buckets gives dimension \"", parsed->dim, "\" its sizes, so does --dim ", dim,
                       "; leave one out");
  buckets = std::move(*parsed);
  model.dims.emplace_back();
  chooseBucket(buckets->sizes.back());
  return Error::success();
}

/// Padding is known by its labels: they must be one for each position of a sequence.
Error ModelCompiler::checkBucketLabels(dfg::GraphOp graph) {
  if (!buckets)
    return Error::success();
  auto labels = cast<RankedTensorType>(graph.getArgumentTypes().back());
  if (labels.getRank() == 2 && labels.getDimSize(1) == bucket)
    return Error::success();
  std::string type;
  llvm::raw_string_ostream(type) << labels;
  return makeError(Status::Failure, "--buckets expects labels of samples by positions along \"", buckets->dim,
                   "\", so of ", bucket, " in dimension 1 for this size, got ", type);
}

Error ModelCompiler::importBucket(int64_t size, ModuleOp placed) {
  chooseBucket(size);
  // The weights that the largest found are the others'.
  WeightsStore weights = std::move(result.imported);
  Error failed = import();
  if (!failed)
    failed = simplify();
  if (Attribute report = placed->getAttr(reportAttrName); report && !failed)
    (*module)->setAttr(reportAttrName, report);
  if (!failed)
    failed = addTrainedLoss();
  result.imported = std::move(weights);
  if (failed)
    return failed;
  if (placing.strategy != PlaceStrategy::Auto) {
    // What there is to warn of was said of the largest.
    ScopedDiagnosticHandler quiet(context, [](Diagnostic &diagnostic) {
      return success(diagnostic.getSeverity() == DiagnosticSeverity::Warning);
    });
    return succeeded(placeOperators(*module, placing)) ? Error::success() : alreadySaid(Status::Failure);
  }
  dist::copyTarget(placed, *module);
  return succeeded(placeLike(graphOf(*module), graphOf(placed))) ? Error::success() : alreadySaid(Status::Unsupported);
}

Error ModelCompiler::makeBatchEntry() {
  dfg::GraphOp graph = graphOf(*module);
  if (Error error = narrow(graph))
    return error;
  if (Error error = widen(graph))
    return error;
  if (Error error = expandShares())
    return error;
  graph->setAttr(dfg::samplesAttrName, Builder(module->getContext()).getI64IntegerAttr(bucket));
  graph.setSymName("batch/" + std::to_string(bucket));
  return Error::success();
}

Error ModelCompiler::makeBuckets() {
  OwningOpRef<ModuleOp> placed = module->clone(), whole;
  for (int64_t size : llvm::reverse(buckets->sizes)) {
    if (whole)
      if (Error error = importBucket(size, *placed))
        return error;
    if (buckets->areBatches()) {
      if (Error error = makeBatchEntry())
        return error;
    } else {
      std::string suffix = "/" + std::to_string(size);
      if (Error error = makeStep((trainGraphName + suffix).str(), (evaluateGraphName + suffix).str()))
        return error;
      for (auto graph : module->getOps<dfg::GraphOp>())
        graph->setAttr(dfg::bucketAttrName, Builder(module->getContext()).getI64IntegerAttr(size));
    }
    if (!whole)
      whole = std::move(module);
    else if (failed(joinSteps(*whole, *module)))
      return alreadySaid(Status::Unsupported);
  }
  module = std::move(whole);
  return Error::success();
}

} // namespace cleave
