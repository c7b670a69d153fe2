// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What devices receive in an exchange, against a count of every device's elements.

#include "dialects/plan/Plan.h"
#include "dialects/plan/Tile.h"

#include "mlir/AsmParser/AsmParser.h"

#include <gtest/gtest.h>

using namespace cleave;
using namespace cleave::plan;

namespace {

constexpr int64_t axisSizes[] = {2, 3};

/// The elements of a dimension that the device at `where` has: [begin, end).
std::pair<int64_t, int64_t> rangeOf(TileDimAttr dim, llvm::ArrayRef<int64_t> where) {
  int64_t begin = 0;
  for (auto [axis, block] : llvm::zip_equal(dim.getAxes(), dim.getBlocks()))
    begin += where[static_cast<size_t>(axis)] * block;
  return {begin, begin + dim.getLength()};
}

/// What a device of the mesh has not of what it is to have, on average over the devices.
double countReceived(TileAttr source, TileAttr target) {
  double received = 0;
  for (int64_t i = 0; i != axisSizes[0]; ++i)
    for (int64_t j = 0; j != axisSizes[1]; ++j) {
      int64_t own = 1, all = 1;
      for (auto [before, after] : llvm::zip_equal(source.getDims(), target.getDims())) {
        auto [begin, end] = rangeOf(before, {i, j});
        auto [from, to] = rangeOf(after, {i, j});
        own *= std::max<int64_t>(0, std::min(end, to) - std::max(begin, from));
        all *= to - from;
      }
      received += static_cast<double>(all - own);
    }
  return received / static_cast<double>(axisSizes[0] * axisSizes[1]);
}

struct Exchange {
  const char *source, *target;
};

class Traffic : public testing::TestWithParam<Exchange> {};

TEST_P(Traffic, EqualsTheCount) {
  mlir::MLIRContext context;
  context.loadDialect<PlanDialect>();
  auto tile = [&](const char *text) {
    return mlir::cast<TileAttr>(mlir::parseAttribute(std::string("#plan.tile<") + text + ">", &context));
  };
  TileAttr source = tile(GetParam().source), target = tile(GetParam().target);
  EXPECT_NEAR(trafficOf(source, target, axisSizes).elements, countReceived(source, target), 1e-9);
}

INSTANTIATE_TEST_SUITE_P(Tiles, Traffic,
                         testing::Values(
                             // An all-gather of all, and of one axis of two.
                             Exchange{"[12 by [0 of 6], 6]", "[12, 6]"},
                             Exchange{"[12 by [0 of 6, 1 of 2], 6]", "[12 by [0 of 6], 6]"},
                             Exchange{"[12 by [0 of 6], 6 by [1 of 2]]", "[12 by [0 of 6], 6]"},
                             // An all-to-all from one dimension to another.
                             Exchange{"[12 by [0 of 6], 6]", "[12, 6 by [0 of 3]]"},
                             Exchange{"[12, 6 by [1 of 2]]", "[12 by [1 of 4], 6]"},
                             // Blocks of one axis to blocks of another.
                             Exchange{"[12 by [0 of 6], 6]", "[12 by [1 of 4], 6]"},
                             // Nothing that is not there.
                             Exchange{"[12, 6]", "[12 by [1 of 4], 6]"}));

} // namespace
