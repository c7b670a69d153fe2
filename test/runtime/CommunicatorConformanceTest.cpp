// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every kind of communication, on meshes of one to four devices, with even and uneven sizes, all element types, errors
// on one participant, and many steps. Expected values come from the definition of tiles, element by element, and from
// plain loops.

#include "CommunicatorConformance.h"

#include "TileReference.h"

#include "runtime/Reduction.h"

#include <algorithm>
#include <cmath>
#include <mutex>

namespace cleave::runtime::test {
namespace {

const std::vector<std::vector<uint32_t>> meshes = {{1}, {2}, {3}, {4}, {2, 2}};
constexpr ElementType allTypes[] = {ElementType::I1,  ElementType::I8,  ElementType::U8,   ElementType::I16,
                                    ElementType::U16, ElementType::I32, ElementType::U32,  ElementType::I64,
                                    ElementType::U64, ElementType::F16, ElementType::BF16, ElementType::F32,
                                    ElementType::F64};

/// Small whole numbers, exact in every element type, different from step to step; 0 and 1 for i1.
double valueOf(int64_t element, uint64_t step, ElementType type) {
  auto number = static_cast<uint64_t>(element) * 7 + step * 3;
  return static_cast<double>(type == ElementType::I1 ? number % 2 : number % 97 + 1);
}

/// A device's buffer of a tile: values of its elements, `padding` elsewhere.
std::vector<std::byte> bufferOf(const Tile &tile, const Coordinates &at, uint64_t step, ElementType type,
                                double padding) {
  auto held = elementsHeld(tile, at);
  std::vector<std::byte> buffer(held.size() * elementBytes(type));
  for (size_t i = 0; i != held.size(); ++i)
    storeElement(type, buffer.data() + i * elementBytes(type), held[i] ? valueOf(*held[i], step, type) : padding);
  return buffer;
}

/// Adds the tensor of another collective to one, which is without any if it is the first.
template <typename T> void addTensor(T &collective, const T &other, bool isFirst) {
  if (isFirst) {
    collective = other;
    return;
  }
  auto operand = std::make_unique<fb::OperandT>();
  operand->source = other.source;
  operand->target = other.target;
  if constexpr (requires { other.source_tile; }) {
    operand->source_tile = other.source_tile;
    operand->target_tile = other.target_tile;
  } else if constexpr (requires { other.tile; }) {
    operand->target_tile = other.tile;
  }
  collective.more.push_back(std::move(operand));
}

/// A site's end of a communication of several tensors.
Participant participantOf(uint32_t site, const std::vector<OperandBuffers> &operands) {
  return {site, operands.front().source, operands.front().target, {}, std::span(operands).subspan(1)};
}

/// An exchange of a [size, 5] tensor within a mesh.
struct ExchangeCase {
  const char *name;
  Tile source, target;
};

std::vector<ExchangeCase> exchangesOn(const Mesh &mesh, int64_t size) {
  uint32_t last = static_cast<uint32_t>(mesh.axes.size()) - 1;
  std::vector<uint32_t> all, reversed;
  for (uint32_t axis = 0; axis <= last; ++axis) {
    all.push_back(axis);
    reversed.insert(reversed.begin(), axis);
  }
  TileDim five{5, {}, 5}, whole{size, {}, size}, cut = blocks(size, all, mesh), swapped = blocks(size, reversed, mesh);
  TileDim columns = blocks(5, {last}, mesh), rows = blocks(size, {last}, mesh);
  TileDim halo = rows, shifted = rows, root = {1, {}, 1}, further = cut, furthest = cut;
  halo.before = 1;
  halo.length += 3;
  shifted.before = shifted.cuts.back().block;
  for (uint32_t axis : all)
    root.cuts.push_back({axis, 1});
  if (uint32_t ways = mesh.axes[last].size; ways > 1) {
    further.cuts.back().shift = 1;
    furthest.cuts.back().shift = ways - 1;
    further.cuts.back().ways = furthest.cuts.back().ways = ways;
  }
  return {{"all_gather", {{cut, five}}, {{whole, five}}},
          {"all_gather of one axis", {{rows, five}}, {{whole, five}}},
          {"all_gather of columns", {{whole, columns}}, {{whole, five}}},
          {"all_to_all", {{rows, five}}, {{whole, columns}}},
          {"permute", {{cut, five}}, {{swapped, five}}},
          {"shift", {{rows, five}}, {{shifted, five}}},
          {"rotation", {{cut, five}}, {{further, five}}},
          {"rotation of what is rotated", {{further, five}}, {{furthest, five}}},
          {"halo exchange", {{rows, five}}, {{halo, five}}},
          {"slice", {{whole, five}}, {{cut, five}}},
          {"broadcast", {{root, whole, five}}, {{{1, {}, 1}, whole, five}}}};
}

// Every kind of exchange moves every element to where its tile says, whatever the element type; padding is never read.
// The same as one communication of all their tensors.
TEST_P(CommunicatorConformanceTest, Exchanges) {
  for (const auto &axes : meshes)
    for (int64_t size : {12, 7})
      for (ElementType type : {ElementType::I1, ElementType::BF16, ElementType::F32, ElementType::I64}) {
        Mesh mesh = meshOf(axes);
        std::vector<ExchangeCase> cases = exchangesOn(mesh, size);
        PlanBuilder builder;
        uint32_t program = builder.mesh("m", axes), together = static_cast<uint32_t>(cases.size());
        fb::ExchangeT all;
        for (uint32_t i = 0; i != cases.size(); ++i) {
          fb::ExchangeT exchange;
          auto length = [](const Tile &tile) { return static_cast<int64_t>(*bufferElements(tile)); };
          exchange.source = builder.buffer(program, "s", type, {length(cases[i].source)});
          exchange.target = builder.buffer(program, "t", type, {length(cases[i].target)});
          exchange.source_tile = builder.tile(cases[i].source);
          exchange.target_tile = builder.tile(cases[i].target);
          exchange.channel = i;
          exchange.fill = 1;
          builder.act(program, "x", exchange);
          addTensor(all, exchange, i == 0);
        }
        all.channel = together;
        builder.act(program, "all", all);
        create(builder);
        onAllSites(3, [&](uint32_t site, uint64_t step) {
          Coordinates at = coordinatesOf(mesh, site);
          std::vector<std::vector<std::byte>> sources, targets, results;
          std::vector<OperandBuffers> operands;
          for (uint32_t i = 0; i != cases.size(); ++i) {
            auto source = bufferOf(cases[i].source, at, step, type, 0);
            auto expected = bufferOf(cases[i].target, at, step, type, 1);
            std::vector<std::byte> target(expected.size(), std::byte(0xee));
            Error error = communicator->exchange({Phase::Body, i, step}, {site, source, target, {}});
            EXPECT_FALSE(error) << error.text();
            EXPECT_EQ(target, expected) << cases[i].name << " of " << size << " on " << axes.size() << " axes, site "
                                        << site << ", step " << step;
            targets.emplace_back(expected.size(), std::byte(0xee));
            sources.push_back(std::move(source));
            results.push_back(std::move(expected));
          }
          for (size_t i = 0; i != cases.size(); ++i)
            operands.push_back({sources[i], targets[i]});
          EXPECT_FALSE(communicator->exchange({Phase::Body, together, step}, participantOf(site, operands)));
          EXPECT_EQ(targets, results) << "together, " << size << " on " << axes.size() << " axes, site " << site;
        });
      }
}

// Between two meshes, apart, overlapping or of equal devices: many to many with different tiles.
TEST_P(CommunicatorConformanceTest, SendsAndReceives) {
  std::mt19937 random(4);
  for (const auto &from : meshes)
    for (const auto &to : meshes)
      for (uint32_t firstDevice : {0, 1, 4}) {
        Mesh source = meshOf(from), target = meshOf(to, firstDevice);
        std::vector<int64_t> factors = {2, 5, 3};
        Tile sourceTile = randomTile(factors, source, false, random),
             targetTile = randomTile(factors, target, true, random);
        PlanBuilder builder;
        uint32_t giver = builder.mesh("from", from), taker = builder.mesh("to", to, firstDevice);
        fb::SendT send;
        fb::ReceiveT receive;
        auto length = [](const Tile &tile) { return static_cast<int64_t>(*bufferElements(tile)); };
        send.buffer = builder.buffer(giver, "s", length(sourceTile));
        receive.buffer = builder.buffer(taker, "t", length(targetTile));
        send.mesh = taker;
        receive.mesh = giver;
        send.source_tile = receive.source_tile = builder.tile(sourceTile);
        send.target_tile = receive.target_tile = builder.tile(targetTile);
        receive.fill = 9;
        builder.act(giver, "s", send, {}, SendQueue);
        builder.act(taker, "s", receive, {}, ReceiveQueue);
        create(builder);
        auto givers = static_cast<uint32_t>(source.devices.size());
        onAllSites(3, [&](uint32_t site, uint64_t step) {
          if (site < givers) {
            auto bytes = bufferOf(sourceTile, coordinatesOf(source, site), step, ElementType::F32, -7);
            EXPECT_FALSE(communicator->exchange({Phase::Body, 0, step}, {site, bytes, {}, {}}));
          } else {
            auto expected = bufferOf(targetTile, coordinatesOf(target, site - givers), step, ElementType::F32, 9);
            std::vector<std::byte> bytes(expected.size(), std::byte(0xee));
            EXPECT_FALSE(communicator->exchange({Phase::Body, 0, step}, {site, {}, bytes, {}}));
            EXPECT_EQ(bytes, expected);
          }
        });
      }
}

double combined(Combiner combiner, double left, double right) {
  switch (combiner) {
  case Combiner::Sum:
    return left + right;
  case Combiner::Product:
    return left * right;
  case Combiner::Max:
    return std::max(left, right);
  case Combiner::Min:
    return std::min(left, right);
  }
  return 0;
}

/// What a member of a reduction brings: exact in every type, and so are sums and products of four.
double sourceOf(uint32_t site, int64_t element, uint64_t step, ElementType type) {
  auto number = static_cast<uint64_t>(element) + site + step;
  return static_cast<double>(type == ElementType::I1 ? number % 3 == 0 : number % 3 + 1);
}

std::vector<std::byte> sourceBuffer(uint32_t site, int64_t size, uint64_t step, ElementType type) {
  std::vector<std::byte> buffer(static_cast<size_t>(size) * elementBytes(type));
  for (int64_t i = 0; i != size; ++i)
    storeElement(type, buffer.data() + i * elementBytes(type), sourceOf(site, i, step, type));
  return buffer;
}

/// The axes to reduce over: each alone, and all.
std::vector<std::vector<uint32_t>> axisSets(const Mesh &mesh) {
  std::vector<std::vector<uint32_t>> sets;
  std::vector<uint32_t> all;
  for (uint32_t axis = 0; axis != mesh.axes.size(); ++axis) {
    sets.push_back({axis});
    all.push_back(axis);
  }
  if (all.size() > 1)
    sets.push_back(all);
  return sets;
}

double reducedValue(const Mesh &mesh, const std::vector<uint32_t> &axes, uint32_t site, int64_t element, uint64_t step,
                    ElementType type, Combiner combiner) {
  std::optional<double> result;
  for (const auto &group : groupsAlong(mesh, axes)) {
    if (std::ranges::find(group, site) == group.end())
      continue;
    for (uint32_t member : group) {
      double value = sourceOf(member, element, step, type);
      result = result ? combined(combiner, *result, value) : value;
    }
  }
  return *result;
}

// All element types and combiners, groups along one axis and all, in place and not, sizes that do not divide; each by
// itself and all together.
TEST_P(CommunicatorConformanceTest, AllReduces) {
  for (const auto &axes : meshes)
    for (const auto &over : axisSets(meshOf(axes)))
      for (ElementType type : allTypes)
        for (Combiner combiner : {Combiner::Sum, Combiner::Product, Combiner::Max, Combiner::Min}) {
          if (!combines(type, combiner))
            continue;
          Mesh mesh = meshOf(axes);
          const std::vector<int64_t> sizes = {1, 64, 333};
          PlanBuilder builder;
          uint32_t program = builder.mesh("m", axes), together = static_cast<uint32_t>(sizes.size());
          fb::AllReduceT all;
          for (uint32_t i = 0; i != sizes.size(); ++i) {
            fb::AllReduceT reduce;
            reduce.source = reduce.target = builder.buffer(program, "b", type, {sizes[i]});
            reduce.axes = over;
            reduce.channel = i;
            reduce.combiner = static_cast<fb::Combiner>(combiner);
            builder.act(program, "r", reduce);
            addTensor(all, reduce, i == 0);
          }
          all.channel = together;
          builder.act(program, "all", all);
          create(builder);
          onAllSites(2, [&](uint32_t site, uint64_t step) {
            std::vector<std::vector<std::byte>> sources, targets, results;
            std::vector<OperandBuffers> operands;
            for (uint32_t i = 0; i != sizes.size(); ++i) {
              sources.push_back(sourceBuffer(site, sizes[i], step, type));
              auto source = sourceBuffer(site, sizes[i], step, type), expected = source;
              for (int64_t e = 0; e != sizes[i]; ++e)
                storeElement(type, expected.data() + e * elementBytes(type),
                             reducedValue(mesh, over, site, e, step, type, combiner));
              std::vector<std::byte> other(source.size());
              bool inPlace = step == 0;
              EXPECT_FALSE(communicator->reduce({Phase::Body, i, step}, {site, source, inPlace ? source : other, {}}));
              EXPECT_EQ(inPlace ? source : other, expected)
                  << elementName(type) << " " << combinerName(combiner) << " of " << sizes[i];
              targets.emplace_back(expected.size());
              results.push_back(std::move(expected));
            }
            for (uint32_t i = 0; i != sizes.size(); ++i)
              operands.push_back({sources[i], i == step ? sources[i] : targets[i]});
            EXPECT_FALSE(communicator->reduce({Phase::Body, together, step}, participantOf(site, operands)));
            for (uint32_t i = 0; i != sizes.size(); ++i)
              EXPECT_EQ(i == step ? sources[i] : targets[i], results[i]) << elementName(type) << " together, " << i;
          });
        }
}

// Each member gets its part of what an all-reduce would give, along any dimension, and zeros for padding; each tensor
// by itself and both together.
TEST_P(CommunicatorConformanceTest, ReduceScatters) {
  for (const auto &axes : meshes)
    for (const auto &over : axisSets(meshOf(axes)))
      for (ElementType type : {ElementType::F32, ElementType::F16, ElementType::I64})
        for (int64_t size : {12, 7}) {
          Mesh mesh = meshOf(axes);
          const std::vector<Tile> tiles = {{{blocks(size, over, mesh), {3, {}, 3}}},
                                           {{{3, {}, 3}, blocks(size, over, mesh)}}};
          PlanBuilder builder;
          uint32_t program = builder.mesh("m", axes), together = static_cast<uint32_t>(tiles.size());
          fb::ReduceScatterT all;
          for (uint32_t i = 0; i != tiles.size(); ++i) {
            fb::ReduceScatterT reduce;
            reduce.source = builder.buffer(program, "s", type, {size * 3});
            reduce.target = builder.buffer(program, "t", type, {static_cast<int64_t>(*bufferElements(tiles[i]))});
            reduce.axes = over;
            reduce.channel = i;
            reduce.tile = builder.tile(tiles[i]);
            builder.act(program, "r", reduce);
            addTensor(all, reduce, i == 0);
          }
          all.channel = together;
          builder.act(program, "all", all);
          create(builder);
          onAllSites(2, [&](uint32_t site, uint64_t step) {
            std::vector<std::vector<std::byte>> sources, targets, results;
            std::vector<OperandBuffers> operands;
            for (uint32_t i = 0; i != tiles.size(); ++i) {
              auto held = elementsHeld(tiles[i], coordinatesOf(mesh, site));
              std::vector<std::byte> expected(held.size() * elementBytes(type)), target(expected.size());
              for (size_t e = 0; e != held.size(); ++e)
                storeElement(type, expected.data() + e * elementBytes(type),
                             held[e] ? reducedValue(mesh, over, site, *held[e], step, type, Combiner::Sum) : 0);
              std::ranges::fill(target, std::byte(0xee));
              auto source = sourceBuffer(site, size * 3, step, type);
              EXPECT_FALSE(communicator->reduce({Phase::Body, i, step}, {site, source, target, {}}));
              EXPECT_EQ(target, expected) << elementName(type) << " of " << size << ", tile " << i;
              targets.emplace_back(expected.size(), std::byte(0xee));
              sources.push_back(std::move(source));
              results.push_back(std::move(expected));
            }
            for (uint32_t i = 0; i != tiles.size(); ++i)
              operands.push_back({sources[i], targets[i]});
            EXPECT_FALSE(communicator->reduce({Phase::Body, together, step}, participantOf(site, operands)));
            EXPECT_EQ(targets, results) << elementName(type) << " of " << size << " together";
          });
        }
}

// Buffers that do not fit into any message or cache, in place and not, whole and in rows that do not divide.
TEST_P(CommunicatorConformanceTest, ReducesLargeBuffers) {
  for (const auto &axes : meshes)
    for (const auto &over : axisSets(meshOf(axes)))
      for (ElementType type : {ElementType::F32, ElementType::F16}) {
        if (GetParam().isSlow && (axes != std::vector<uint32_t>{2} || type != ElementType::F32))
          continue;
        constexpr int64_t rows = 200003, size = 3 * rows;
        Mesh mesh = meshOf(axes);
        Tile tile = {{blocks(rows, over, mesh), {3, {}, 3}}};
        PlanBuilder builder;
        uint32_t program = builder.mesh("m", axes);
        fb::AllReduceT reduce;
        reduce.source = builder.buffer(program, "s", type, {size});
        reduce.target = builder.buffer(program, "t", type, {size});
        reduce.axes = over;
        builder.act(program, "r", reduce);
        fb::ReduceScatterT scatter;
        scatter.source = reduce.source;
        scatter.target = builder.buffer(program, "u", type, {static_cast<int64_t>(*bufferElements(tile))});
        scatter.axes = over;
        scatter.channel = 1;
        scatter.tile = builder.tile(tile);
        builder.act(program, "s", scatter);
        create(builder);
        onAllSites(2, [&](uint32_t site, uint64_t step) {
          unsigned width = elementBytes(type);
          auto source = sourceBuffer(site, size, step, type), again = source, expected = source;
          // Sources repeat after three elements.
          for (int64_t e = 0; e != size; ++e)
            if (e < 3)
              storeElement(type, expected.data() + e * width,
                           reducedValue(mesh, over, site, e, step, type, Combiner::Sum));
            else
              std::copy_n(expected.data() + (e - 3) * width, width, expected.data() + e * width);
          std::vector<std::byte> other(source.size());
          bool inPlace = step == 0;
          EXPECT_FALSE(communicator->reduce({Phase::Body, 0, step}, {site, source, inPlace ? source : other, {}}));
          EXPECT_TRUE((inPlace ? source : other) == expected) << elementName(type) << " on " << axes.size() << " axes";
          auto held = elementsHeld(tile, coordinatesOf(mesh, site));
          std::vector<std::byte> rowsExpected(held.size() * width), target(rowsExpected.size(), std::byte(0xee));
          for (size_t e = 0; e != held.size(); ++e)
            if (held[e])
              std::copy_n(expected.data() + *held[e] * width, width, rowsExpected.data() + e * width);
          EXPECT_FALSE(communicator->reduce({Phase::Body, 1, step}, {site, again, target, {}}));
          EXPECT_TRUE(target == rowsExpected) << elementName(type) << " on " << axes.size() << " axes";
        });
      }
}

// One participant brings an error: it comes back to it and to all who depend on it, with its message; nobody hangs, the
// others get their values, and the next step is as good as ever.
TEST_P(CommunicatorConformanceTest, CarriesErrors) {
  if (!GetParam().carriesErrors)
    GTEST_SKIP() << "its errors end a step as a whole";
  for (const auto &axes : meshes) {
    Mesh mesh = meshOf(axes);
    auto count = static_cast<uint32_t>(mesh.devices.size());
    TileDim rows = blocks(8, {0}, mesh), halo = rows;
    halo.before = 1;
    halo.length += 1;
    PlanBuilder builder;
    uint32_t program = builder.mesh("m", axes);
    fb::ExchangeT exchange;
    exchange.source = builder.buffer(program, "s", rows.length);
    exchange.target = builder.buffer(program, "t", halo.length);
    exchange.source_tile = builder.tile({{rows}});
    exchange.target_tile = builder.tile({{halo}});
    builder.act(program, "x", exchange);
    fb::AllReduceT reduce;
    reduce.source = reduce.target = builder.buffer(program, "b", 5);
    reduce.axes = {0};
    reduce.channel = 1;
    builder.act(program, "r", reduce);
    create(builder);
    onAllSites(2 * count, [&](uint32_t site, uint64_t step) {
      uint32_t broken = step % 2 == 0 ? static_cast<uint32_t>(step / 2) : UINT32_MAX;
      Error poison = site == broken ? makeError(Status::Failure, "the disk of ", site, " is gone") : Error::success();
      Coordinates at = coordinatesOf(mesh, site);
      bool fetches = site == broken, reduces = site == broken;
      for (const Piece &piece : std::get<ExchangeChannel>(channels->of(Phase::Body).at(0)).pieces)
        fetches |= piece.to == site && piece.from == broken;
      for (const auto &group : groupsAlong(mesh, {0}))
        reduces |= std::ranges::find(group, site) != group.end() && std::ranges::find(group, broken) != group.end();
      auto source = bufferOf({{rows}}, at, step, ElementType::F32, 0);
      auto expected = bufferOf({{halo}}, at, step, ElementType::F32, 0);
      std::vector<std::byte> target(expected.size());
      Error error = communicator->exchange({Phase::Body, 0, step}, {site, source, target, poison});
      EXPECT_EQ(bool(error), fetches) << site << " in step " << step;
      if (error) {
        // After the rank of another process, if it is from there.
        EXPECT_TRUE(error.message().ends_with("the disk of " + std::to_string(broken) + " is gone")) << error.text();
      } else {
        EXPECT_EQ(target, expected);
      }
      auto sum = sourceBuffer(site, 5, step, ElementType::F32);
      error = communicator->reduce({Phase::Body, 1, step}, {site, sum, sum, poison});
      EXPECT_EQ(bool(error), reduces) << site << " in step " << step;
      for (int64_t e = 0; e != 5 && !error; ++e)
        EXPECT_EQ(loadElement(ElementType::F32, sum.data() + 4 * e),
                  reducedValue(mesh, {0}, site, e, step, ElementType::F32, Combiner::Sum));
    });
  }
}

// Many steps without a pause, sites at different speeds: no step's values get into another's.
TEST_P(CommunicatorConformanceTest, SurvivesManySteps) {
  Mesh mesh = meshOf({4});
  Tile rows{{blocks(6, {0}, mesh)}}, whole = wholeTile(rows);
  PlanBuilder builder;
  uint32_t program = builder.mesh("m", {4});
  fb::ExchangeT exchange;
  exchange.source = builder.buffer(program, "s", 2);
  exchange.target = builder.buffer(program, "t", 6);
  exchange.source_tile = builder.tile(rows);
  builder.act(program, "x", exchange);
  fb::AllReduceT reduce;
  reduce.source = reduce.target = exchange.target;
  reduce.axes = {0};
  reduce.channel = 1;
  builder.act(program, "r", reduce);
  create(builder);
  std::vector<std::vector<std::byte>> sources(4), targets(4);
  onAllSites(3000, [&](uint32_t site, uint64_t step) {
    // The same buffers every step, as in an arena.
    sources[site] = bufferOf(rows, {site}, step, ElementType::F32, -1);
    targets[site].resize(24);
    EXPECT_FALSE(communicator->exchange({Phase::Body, 0, step}, {site, sources[site], targets[site], {}}));
    ASSERT_EQ(targets[site], bufferOf(whole, {site}, step, ElementType::F32, -1));
    EXPECT_FALSE(communicator->reduce({Phase::Body, 1, step}, {site, targets[site], targets[site], {}}));
    for (int64_t e = 0; e != 6; ++e)
      ASSERT_EQ(loadElement(ElementType::F32, targets[site].data() + 4 * e), 4 * valueOf(e, step, ElementType::F32));
  });
}

// All members get the same bits, also where rounding depends on the order of adding, and 16-bit floats are added in 32.
TEST_P(CommunicatorConformanceTest, ReducesExactly) {
  for (ElementType type : {ElementType::F16, ElementType::BF16, ElementType::F32}) {
    PlanBuilder builder;
    uint32_t program = builder.mesh("m", {4});
    fb::AllReduceT reduce;
    reduce.source = reduce.target = builder.buffer(program, "b", type, {2});
    reduce.axes = {0};
    builder.act(program, "r", reduce);
    create(builder);
    // The large and its opposite cancel exactly only if the small one survives beside them.
    double large = type == ElementType::F16 ? 2048 : type == ElementType::BF16 ? 256 : 1 << 20;
    const double values[4][2] = {{large, 0.1}, {1, 0.2}, {-large, 0.3}, {0, 1e-3}};
    std::vector<std::vector<std::byte>> results(4);
    onAllSites(1, [&](uint32_t site, uint64_t step) {
      std::vector<std::byte> &buffer = results[site];
      buffer.resize(2 * elementBytes(type));
      for (unsigned i : {0, 1})
        storeElement(type, buffer.data() + i * elementBytes(type), values[site][i]);
      EXPECT_FALSE(communicator->reduce({Phase::Body, 0, step}, {site, buffer, buffer, {}}));
    });
    for (uint32_t site = 0; site != 4; ++site)
      if (GetParam().isHere(site)) {
        EXPECT_EQ(loadElement(type, results[site].data()), 1) << elementName(type);
        EXPECT_NEAR(loadElement(type, results[site].data() + elementBytes(type)), 0.601,
                    type == ElementType::BF16 ? 4e-3 : 1e-3);
        EXPECT_EQ(results[site], results[GetParam().isHere(0) ? 0 : site]);
      }
  }
}

} // namespace
} // namespace cleave::runtime::test
