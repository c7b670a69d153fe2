// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Few operators, so that few kernels and few gradients come of it: two reductions, and the rest elementwise.

#include "passes/train/BatchNormTraining.h"

#include "passes/train/Arithmetic.h"

using namespace mlir;

namespace cleave {

namespace {

class TrainingBatchNorm {
public:
  TrainingBatchNorm(OpBuilder &builder, dfg::BatchNormOp norm, int64_t groups)
      : norm(norm), math(builder, norm.getLoc()), shape(norm.getInput().getType().getShape()), groups(groups) {
    if (groups < 1 || shape[0] % groups != 0)
      this->groups = 1;
    grouped.assign(shape.begin(), shape.end());
    if (this->groups > 1) {
      grouped[0] /= this->groups;
      grouped.insert(grouped.begin(), this->groups);
      channelDim = 2;
    }
    for (int64_t dim = channelDim - 1; dim < static_cast<int64_t>(grouped.size()); ++dim)
      if (dim != channelDim) {
        reduced.push_back(dim);
        count *= grouped[dim];
      }
  }

  Value build() {
    Type element = Arithmetic::elementOf(norm.getInput());
    // Narrow floats are too coarse for sums.
    Type wide = element.isF64() ? element : math.getBuilder().getF32Type();
    Value input = math.reshape(math.cast(norm.getInput(), wide), grouped);
    Value mean = math.mean(input, reduced, /*keepDims=*/true);
    Value centred = math.sub(input, mean);
    Value variance = math.mean(math.mul(centred, centred), reduced, /*keepDims=*/true);
    Value deviation = math.sqrt(math.add(variance, norm.getEpsilon().convertToDouble()));
    Value factor = math.div(perChannel(math.cast(norm.getScale(), wide)), deviation);
    Value result = math.add(math.mul(centred, factor), perChannel(math.cast(norm.getBias(), wide)));
    follow(norm.getMean(), mean, 1);
    // Of a single element there is no other variance than the biased one.
    double n = static_cast<double>(count);
    follow(norm.getVariance(), variance, count > 1 ? n / (n - 1) : 1);
    return math.cast(math.reshape(result, shape), element);
  }

private:
  /// A vector of one value a channel in the shape in which it broadcasts over the groups.
  Value perChannel(Value vector) {
    SmallVector<int64_t> ones(grouped.size(), 1);
    ones[channelDim] = grouped[channelDim];
    return math.reshape(vector, ones);
  }

  /// Writes the running statistic that `running` reads, if it reads one: what it keeps of itself, and of `scale` times
  /// the mean over groups of `current`.
  void follow(Value running, Value current, double scale) {
    auto read = running.getDefiningOp<dfg::ReadOp>();
    if (!read)
      return;
    double kept = norm.getMomentum() ? norm.getMomentum()->convertToDouble() : 0.9;
    if (groups > 1)
      current = math.mean(current, {0}, /*keepDims=*/false);
    current = math.cast(math.reshape(current, {shape[1]}), Arithmetic::elementOf(running));
    Value before = running;
    // What another operator has written in this step already.
    for (auto write : llvm::make_early_inc_range(norm->getBlock()->getOps<dfg::WriteOp>()))
      if (write.getParameterAttr() == read.getParameterAttr()) {
        before = write.getValue();
        write.erase();
      }
    Value old = math.mul(before, kept);
    Value next = math.add(old, math.mul(current, (1 - kept) * scale));
    dfg::WriteOp::create(math.getBuilder(), norm.getLoc(), read.getParameterAttr(), next);
  }

  dfg::BatchNormOp norm;
  Arithmetic math;
  ArrayRef<int64_t> shape;
  int64_t groups, channelDim = 1;
  /// The input's shape with the samples in groups; the dimensions of a statistic, and how many elements they have.
  SmallVector<int64_t> grouped, reduced;
  int64_t count = 1;
};

} // namespace

Value buildTrainingBatchNorm(OpBuilder &builder, dfg::BatchNormOp norm, int64_t groups) {
  return TrainingBatchNorm(builder, norm, groups).build();
}

void normalizeByBatch(dfg::GraphOp graph, llvm::function_ref<int64_t(dfg::BatchNormOp)> groupsOf) {
  for (auto norm : llvm::make_early_inc_range(graph.getOps<dfg::BatchNormOp>())) {
    OpBuilder builder(norm);
    norm.replaceAllUsesWith(buildTrainingBatchNorm(builder, norm, groupsOf(norm)));
    norm.erase();
  }
}

} // namespace cleave
