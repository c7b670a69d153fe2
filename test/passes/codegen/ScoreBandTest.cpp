// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bands of masks against the masks themselves: random conditions on positions are computed for each pair of a query and
// a key. A pair that stays outside of the band would be lost from the result of attention.

#include "dialects/dfg/ScoreMasks.h"

#include "mlir/IR/BuiltinOps.h"

#include <gtest/gtest.h>
#include <limits>
#include <random>

using namespace cleave;
using namespace cleave::dfg;

namespace {

/// A condition of the graph, and what it is for each pair.
struct Condition {
  mlir::Value value;
  std::vector<bool> stays;
  std::string text;
};

class Conditions {
public:
  Conditions(unsigned seed, int64_t queries, int64_t keys)
      : random(seed), queries(queries), keys(keys), module(mlir::ModuleOp::create(mlir::UnknownLoc::get(&context))),
        builder(&context) {
    context.loadDialect<DfgDialect>();
    builder.setInsertionPointToStart(module->getBody());
  }

  Condition make(int depth) {
    switch (depth == 0 ? draw(0, 1) : draw(0, 4)) {
    case 0:
      return tensor();
    case 1:
      return comparison();
    case 2: {
      Condition of = make(depth - 1);
      of.value = create<NotOp>(of.value);
      of.stays.flip();
      of.text = "not " + of.text;
      return of;
    }
    case 3:
      return both(make(depth - 1), make(depth - 1), true);
    default:
      return both(make(depth - 1), make(depth - 1), false);
    }
  }

  /// The query's own position or before, of 32-bit integers, floats or 64-bit ones.
  Condition comparison() {
    mlir::Type types[] = {builder.getI32Type(), builder.getI64Type(), builder.getF32Type()};
    mlir::Type type = types[draw(0, 2)];
    bool swaps = draw(0, 1), offsets = draw(0, 1), subtracts = draw(0, 1);
    mlir::Value query = position(type, 0), key = position(type, 1);
    int64_t offset = offsets ? draw(-static_cast<int>(keys), static_cast<int>(queries)) : 0;
    if (offsets) {
      auto whole = mlir::RankedTensorType::get({}, type);
      mlir::Attribute number = mlir::isa<mlir::FloatType>(type)
                                   ? mlir::Attribute(builder.getFloatAttr(type, static_cast<double>(offset)))
                                   : builder.getIntegerAttr(type, offset);
      mlir::Value constant =
          ConstantOp::create(builder, builder.getUnknownLoc(), mlir::DenseElementsAttr::get(whole, number));
      key = subtracts ? create<SubOp>(key, constant) : create<AddOp>(key, constant);
    }
    auto kind = static_cast<Comparison>(draw(0, 4));
    Condition made;
    made.value = CompareOp::create(builder, builder.getUnknownLoc(), swaps ? key : query, swaps ? query : key, kind);
    for (int64_t q = 0; q != queries; ++q)
      for (int64_t k = 0; k != keys; ++k) {
        int64_t first = q, second = subtracts ? k - offset : k + offset;
        if (swaps)
          std::swap(first, second);
        made.stays.push_back(kind == Comparison::Equal         ? first == second
                             : kind == Comparison::Less        ? first < second
                             : kind == Comparison::LessOrEqual ? first <= second
                             : kind == Comparison::Greater     ? first > second
                                                               : first >= second);
      }
    made.text = "(" + stringifyEnum(kind).str() + " offset " + std::to_string(offset) + (swaps ? " swapped)" : ")");
    return made;
  }

  /// Elements that a model has, of a band or of some others.
  Condition tensor() {
    Condition made;
    int from = draw(-static_cast<int>(keys), static_cast<int>(queries)), width = draw(0, static_cast<int>(queries));
    bool isSparse = draw(0, 1);
    llvm::SmallVector<bool> elements;
    for (int64_t q = 0; q != queries; ++q)
      for (int64_t k = 0; k != keys; ++k)
        elements.push_back(q - k >= from && q - k <= from + width && (!isSparse || draw(0, 2) != 0));
    made.stays.assign(elements.begin(), elements.end());
    auto type = mlir::RankedTensorType::get({1, queries, keys}, builder.getI1Type());
    made.value = ConstantOp::create(builder, builder.getUnknownLoc(),
                                    mlir::DenseElementsAttr::get(type, llvm::ArrayRef<bool>(elements)));
    made.text = "tensor from " + std::to_string(from) + " width " + std::to_string(width);
    return made;
  }

private:
  int draw(int from, int to) { return std::uniform_int_distribution<int>(from, to)(random); }

  template <typename Op, typename... Args> mlir::Value create(Args... args) {
    return Op::create(builder, builder.getUnknownLoc(), args...);
  }

  /// As a row, a column or for all pairs; some are cast.
  mlir::Value position(mlir::Type type, int64_t dim) {
    bool isCast = draw(0, 1), isWhole = draw(0, 1);
    llvm::SmallVector<int64_t> shape = {isWhole || dim == 0 ? queries : 1, isWhole || dim == 1 ? keys : 1};
    mlir::Type own = isCast ? mlir::Type(builder.getI64Type()) : type;
    mlir::Value made = IotaOp::create(builder, builder.getUnknownLoc(), mlir::RankedTensorType::get(shape, own),
                                      builder.getI64IntegerAttr(dim));
    return isCast ? create<CastOp>(made, type) : made;
  }

  Condition both(Condition a, Condition b, bool isAnd) {
    Condition made;
    made.value = isAnd ? create<AndOp>(a.value, b.value) : create<OrOp>(a.value, b.value);
    for (size_t i = 0; i != a.stays.size(); ++i)
      made.stays.push_back(isAnd ? a.stays[i] && b.stays[i] : a.stays[i] || b.stays[i]);
    made.text = "(" + a.text + (isAnd ? " and " : " or ") + b.text + ")";
    return made;
  }

  std::mt19937 random;
  int64_t queries, keys;
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::OpBuilder builder;
};

bool has(const ScoreBand &band, int64_t query, int64_t key) {
  return (!band.lower || query - key >= *band.lower) && (!band.upper || query - key <= *band.upper);
}

TEST(ScoreBand, HasEveryPairThatStays) {
  int found = 0, exact = 0;
  for (unsigned seed = 0; seed != 3000; ++seed) {
    int64_t queries = 3 + seed % 7, keys = 2 + seed % 5;
    Conditions conditions(seed, queries, keys);
    Condition condition = conditions.make(static_cast<int>(seed % 4));
    bool isExact = false;
    auto band = findBand(condition.value, &isExact);
    if (!band)
      continue;
    ++found;
    exact += isExact;
    for (int64_t q = 0; q != queries; ++q)
      for (int64_t k = 0; k != keys; ++k) {
        bool stays = condition.stays[static_cast<size_t>(q * keys + k)];
        ASSERT_TRUE(!stays || has(*band, q, k))
            << "seed " << seed << ": " << condition.text << " at " << q << ", " << k;
        if (isExact) {
          ASSERT_EQ(stays, has(*band, q, k)) << "seed " << seed << ": " << condition.text << " at " << q << ", " << k;
        }
        ASSERT_EQ(!has(*band, q, k), band->excludes(q, q, k, k));
      }
  }
  EXPECT_GE(found, 1000);
  EXPECT_GE(exact, 400);
}

/// Bounds that are too wide cost the time that they are to save.
TEST(ScoreBand, OfOneComparisonOrTensorIsTight) {
  for (unsigned seed = 0; seed != 2000; ++seed) {
    int64_t queries = 3 + seed % 7, keys = 2 + seed % 5;
    Conditions conditions(seed, queries, keys);
    Condition condition = seed % 2 ? conditions.comparison() : conditions.tensor();
    std::optional<int64_t> least, most;
    for (int64_t q = 0; q != queries; ++q)
      for (int64_t k = 0; k != keys; ++k)
        if (condition.stays[static_cast<size_t>(q * keys + k)]) {
          least = std::min(least.value_or(q - k), q - k);
          most = std::max(most.value_or(q - k), q - k);
        }
    auto band = findBand(condition.value);
    if (!least || !band)
      continue;
    if (band->lower && *band->lower > 1 - keys) {
      EXPECT_EQ(*band->lower, *least) << "seed " << seed << ": " << condition.text;
    }
    if (band->upper && *band->upper < queries - 1) {
      EXPECT_EQ(*band->upper, *most) << "seed " << seed << ": " << condition.text;
    }
    EXPECT_TRUE(band->lower || *least == 1 - keys) << "seed " << seed << ": " << condition.text;
    EXPECT_TRUE(band->upper || *most == queries - 1) << "seed " << seed << ": " << condition.text;
  }
}

/// There is nothing to read of a tensor without elements, in any type; and 16 bits are read as they are.
TEST(ScoreBand, OfNothingAndOf16Bits) {
  mlir::MLIRContext context;
  mlir::Builder builder(&context);
  for (mlir::Type element :
       {mlir::Type(builder.getF32Type()), mlir::Type(builder.getBF16Type()), mlir::Type(builder.getI1Type())}) {
    auto type = mlir::RankedTensorType::get({0, 3, 3}, element);
    EXPECT_FALSE(mayBeScoreMask(type));
    EXPECT_FALSE(findScoreMask(HostTensor(type, nullptr, nullptr)));
  }
  for (mlir::FloatType element : {mlir::FloatType(builder.getBF16Type()), mlir::FloatType(builder.getF16Type())}) {
    llvm::SmallVector<mlir::Attribute> numbers;
    for (int query = 0; query != 3; ++query)
      for (int key = 0; key != 3; ++key)
        numbers.push_back(builder.getFloatAttr(element, key > query ? -std::numeric_limits<double>::infinity() : 0.0));
    auto type = mlir::RankedTensorType::get({3, 3}, element);
    auto causal = findScoreMask(HostTensor::fromAttribute(mlir::DenseElementsAttr::get(type, numbers)));
    ASSERT_TRUE(causal);
    EXPECT_TRUE(causal->isCausal());
  }
}

/// Numbers that are added: those of -1e8 and less hide, what is none does not.
TEST(ScoreBand, OfNumbersThatAreAdded) {
  mlir::MLIRContext context;
  auto maskOf = [&](std::vector<float> numbers) {
    auto type = mlir::RankedTensorType::get({3, 3}, mlir::Float32Type::get(&context));
    return findScoreMask(HostTensor::fromAttribute(mlir::DenseElementsAttr::get(type, llvm::ArrayRef(numbers))));
  };
  constexpr float low = -1e9f, none = std::numeric_limits<float>::quiet_NaN(),
                  infinite = -std::numeric_limits<float>::infinity();
  auto causal = maskOf({0, low, infinite, 0, 0, low, 0, 0, 0});
  ASSERT_TRUE(causal);
  EXPECT_TRUE(causal->kind == MaskKind::Added && causal->isCausal());
  auto biased = maskOf({0, low, low, -1, 0, low, -2, -1, 0});
  ASSERT_TRUE(biased);
  EXPECT_FALSE(biased->isExact);
  EXPECT_EQ(biased->band, (ScoreBand{0, std::nullopt}));
  auto band = maskOf({0, 0, low, low, 0, 0, low, low, 0});
  ASSERT_TRUE(band);
  EXPECT_EQ(band->band, (ScoreBand{-1, 0}));
  EXPECT_TRUE(band->isExact);
  EXPECT_FALSE(maskOf({0, low, none, 0, 0, low, 0, 0, 0}));
  auto inside = maskOf({0, none, low, 0, 0, none, 0, 0, 0});
  ASSERT_TRUE(inside);
  EXPECT_EQ(inside->band, (ScoreBand{-1, std::nullopt}));
  EXPECT_FALSE(inside->isExact);
  EXPECT_FALSE(maskOf({1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_FALSE(maskOf(std::vector<float>(9, low)));
}

/// Numbers of eight bits begin again at 128.
TEST(ScoreBand, NarrowPositionsHaveNone) {
  mlir::MLIRContext context;
  context.loadDialect<DfgDialect>();
  auto module = mlir::OwningOpRef<mlir::ModuleOp>(mlir::ModuleOp::create(mlir::UnknownLoc::get(&context)));
  mlir::OpBuilder builder(&context);
  builder.setInsertionPointToStart(module->getBody());
  for (bool isWide : {false, true}) {
    auto type = mlir::RankedTensorType::get({300, 300}, builder.getIntegerType(isWide ? 32 : 8));
    auto at = [&](int64_t dim) {
      return IotaOp::create(builder, builder.getUnknownLoc(), type, builder.getI64IntegerAttr(dim)).getResult();
    };
    mlir::Value seen = CompareOp::create(builder, builder.getUnknownLoc(), at(0), at(1), Comparison::GreaterOrEqual);
    EXPECT_EQ(findBand(seen).has_value(), isWide);
  }
}

TEST(ScoreBand, ShareOfBlocks) {
  std::mt19937 random(1);
  for (int i = 0; i != 500; ++i) {
    auto draw = [&](int from, int to) { return std::uniform_int_distribution<int64_t>(from, to)(random); };
    int64_t rows = draw(1, 20), blocks = draw(1, 5), block = draw(1, 6), seen = 0;
    ScoreBand band;
    if (draw(0, 2) != 0)
      band.lower = draw(-30, 20);
    if (!band.lower || draw(0, 1) != 0)
      band.upper = draw(-30, 20);
    if (band.isEmpty())
      continue;
    for (int64_t row = 0; row != rows; ++row)
      for (int64_t index = 0; index != blocks; ++index)
        seen += !band.excludes(row, row, index * block, (index + 1) * block - 1);
    EXPECT_DOUBLE_EQ(shareOfBlocks(band, rows, blocks, block),
                     static_cast<double>(seen) / static_cast<double>(rows * blocks));
  }
  // Rows 0 to 3 by blocks of two columns: 1 + 1 + 2 + 2 of 8.
  EXPECT_DOUBLE_EQ(shareOfBlocks({0, std::nullopt}, 4, 2, 2), 6.0 / 8);
  EXPECT_DOUBLE_EQ(shareOfBlocks({0, 0}, 4, 2, 2), 4.0 / 8);
  EXPECT_DOUBLE_EQ(shareOfBlocks({std::nullopt, -4}, 4, 2, 2), 0);
}

} // namespace
