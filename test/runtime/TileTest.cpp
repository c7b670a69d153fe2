// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Boxes against the definition of tiles, element by element, over many random tiles; and what makes a tile wrong.

#include "runtime/Tile.h"

#include "TileReference.h"

#include "runtime/Channels.h"
#include "runtime/TileLoad.h"

#include <gtest/gtest.h>
#include <numeric>

namespace cleave::runtime::test {
namespace {

const std::vector<std::vector<uint32_t>> meshes = {{}, {1}, {2}, {3}, {4}, {2, 2}, {3, 2}, {2, 3, 2}};
constexpr int32_t padding = -1, untouched = -2;

/// A device's buffer with the numbers of its elements.
std::vector<int32_t> bufferOf(const Tile &tile, const Coordinates &at) {
  std::vector<int32_t> buffer;
  for (const auto &element : elementsHeld(tile, at))
    buffer.push_back(element ? static_cast<int32_t>(*element) : padding);
  return buffer;
}

std::string describe(const Tile &tile) {
  std::ostringstream out;
  for (const TileDim &dim : tile.dims) {
    out << "[size " << dim.size << " length " << dim.length << " step " << dim.step << " before " << dim.before;
    for (const Cut &cut : dim.cuts)
      out << " cut " << cut.axis << " by " << cut.block << " shift " << cut.shift;
    out << "]";
  }
  return out.str();
}

/// Moves all pieces of an exchange and checks every element of every target, and that each was written once.
void checkExchange(const ExchangeSide &source, const ExchangeSide &target, uint64_t elements) {
  const Tile sourceTile = source.tile ? *source.tile : target.tile ? wholeTile(*target.tile) : wholeTile(elements);
  const Tile targetTile = target.tile ? *target.tile : wholeTile(sourceTile);
  const std::vector<std::byte> fill(4, std::byte(0xff)); // -1, like padding in the reference
  for (uint32_t member = 0; member != target.mesh->devices.size(); ++member) {
    Coordinates at = coordinatesOf(*target.mesh, member);
    std::vector<int32_t> expected = bufferOf(targetTile, at), buffer(expected.size(), untouched);
    auto bytes = reinterpret_cast<std::byte *>(buffer.data());
    uint64_t moved = 0;
    for (const Piece &piece : piecesInto(source, target, member, 4, elements)) {
      ASSERT_EQ(piece.to, target.firstSite + member);
      auto held = bufferOf(sourceTile, coordinatesOf(*source.mesh, piece.from - source.firstSite));
      copyBox(piece.box, reinterpret_cast<const std::byte *>(held.data()), bytes);
      moved += piece.box.bytes();
    }
    for (const StridedCopy &box : paddingOf(targetTile, at, 4)) {
      fillBox(box, fill, bytes);
      moved += box.bytes();
    }
    ASSERT_EQ(buffer, expected) << describe(sourceTile) << " to " << describe(targetTile) << ", device " << member;
    ASSERT_EQ(moved, 4 * buffer.size()) << describe(sourceTile) << " to " << describe(targetTile);
  }
}

std::vector<int64_t> randomFactors(std::mt19937 &random) {
  std::vector<int64_t> factors(1 + random() % 4);
  for (int64_t &factor : factors)
    factor = 1 + random() % 5;
  return factors;
}

uint64_t product(const std::vector<int64_t> &factors) {
  return std::accumulate(factors.begin(), factors.end(), uint64_t(1), std::multiplies<>());
}

// Within a mesh: uneven blocks, nested cuts, replicas, windows, dimensions split differently on both sides.
TEST(Tile, ExchangesWithinMesh) {
  std::mt19937 random(1);
  for (unsigned round = 0; round != 3000 && !HasFatalFailure(); ++round) {
    Mesh mesh = meshOf(meshes[random() % meshes.size()]);
    auto factors = randomFactors(random);
    Tile source = randomTile(factors, mesh, false, random), target = randomTile(factors, mesh, true, random);
    ASSERT_FALSE(checkTile(source, mesh, false)) << checkTile(source, mesh, false).text() << describe(source);
    ASSERT_FALSE(checkTile(target, mesh, true)) << checkTile(target, mesh, true).text() << describe(target);
    bool wholeSource = random() % 8 == 0, wholeTarget = random() % 8 == 0;
    checkExchange({&mesh, wholeSource ? nullptr : &source, 3}, {&mesh, wholeTarget ? nullptr : &target, 3},
                  product(factors));
  }
}

// Between two meshes, which may share devices.
TEST(Tile, ExchangesBetweenMeshes) {
  std::mt19937 random(2);
  for (unsigned round = 0; round != 3000 && !HasFatalFailure(); ++round) {
    Mesh from = meshOf(meshes[random() % meshes.size()]), to = meshOf(meshes[random() % meshes.size()], random() % 4);
    auto factors = randomFactors(random);
    Tile source = randomTile(factors, from, false, random), target = randomTile(factors, to, true, random);
    bool wholeSource = random() % 8 == 0, wholeTarget = random() % 8 == 0;
    checkExchange({&from, wholeSource ? nullptr : &source, 0}, {&to, wholeTarget ? nullptr : &target, 12},
                  product(factors));
  }
}

// What two devices share at regular distances is one box, and found at once, however many runs they are: of a half of
// 2^33 elements, every other one.
TEST(Tile, FindsRegularRunsAtOnce) {
  constexpr int64_t half = (int64_t(1) << 32) + 1;
  Mesh mesh = meshOf({2});
  Tile consecutive{{blocks(2 * half, {0}, mesh), {3, {}, 3}}},
      alternating{{{half, {}, half}, blocks(2, {0}, mesh), {3, {}, 3}}};
  for (uint32_t from : {0, 1})
    for (uint32_t to : {0, 1}) {
      std::vector<StridedCopy> boxes = intersect(consecutive, {from}, alternating, {to}, 4);
      // The first device has the even elements up to 2^32, one more than odd ones.
      uint64_t count = half / 2 + (from == to), first = from == to ? 0 : 1;
      ASSERT_EQ(boxes.size(), 1u);
      EXPECT_EQ(boxes[0].sourceOffset, 12 * first);
      EXPECT_EQ(boxes[0].targetOffset, 12 * ((from * half + first - to) / 2));
      EXPECT_EQ(boxes[0].runBytes, 12u);
      EXPECT_EQ(boxes[0].bytes(), 12 * count);
      EXPECT_EQ(intersect(alternating, {to}, consecutive, {from}, 4).at(0).bytes(), 12 * count);
    }
}

// A device that holds an element does not fetch it; replicas share the work of giving.
TEST(Tile, PrefersItselfAndSpreadsLoad) {
  Mesh mesh = meshOf({2, 2});
  Tile rows{{blocks(4, {0}, mesh)}};
  std::vector<unsigned> given(4);
  for (uint32_t member = 0; member != 4; ++member)
    for (const Piece &piece : piecesInto({&mesh, &rows, 0}, {&mesh, nullptr, 0}, member, 4, 4)) {
      bool holds = coordinatesOf(mesh, piece.from)[0] == coordinatesOf(mesh, member)[0];
      EXPECT_EQ(piece.from == member, holds);
      ++given[piece.from];
    }
  EXPECT_EQ(given, std::vector<unsigned>(4, 2));
  // Four replicas give to eight devices: two each. A device of both meshes gives to itself.
  Mesh eight = meshOf({8}, 100), shared = meshOf({4}, 2);
  std::vector<unsigned> sent(4);
  for (uint32_t member = 0; member != 8; ++member)
    ++sent[piecesInto({&mesh, nullptr, 0}, {&eight, nullptr, 4}, member, 4, 4).at(0).from];
  EXPECT_EQ(sent, std::vector<unsigned>(4, 2));
  EXPECT_EQ(piecesInto({&mesh, nullptr, 0}, {&shared, nullptr, 4}, 1, 4, 4).at(0).from, 3u);
}

// A load takes the box from the whole tensor, a store puts it back: all stores together make the tensor again, and of
// replicas one stores.
TEST(Tile, LoadsAndStores) {
  std::mt19937 random(3);
  for (unsigned round = 0; round != 500; ++round) {
    PlanContents plan;
    Mesh mesh = meshOf(meshes[random() % meshes.size()]);
    auto factors = randomFactors(random);
    Entry entry;
    entry.tiles = {randomTile(factors, mesh, false, random), randomTile(factors, mesh, true, random)};
    std::vector<int32_t> tensor(product(factors)), stored(tensor.size(), untouched);
    std::vector<unsigned> writes(tensor.size());
    std::iota(tensor.begin(), tensor.end(), 1);
    for (uint32_t member = 0; member != mesh.devices.size(); ++member)
      for (int32_t tile : {0, 1}) {
        std::vector<int32_t> expected;
        for (const auto &element : elementsHeld(entry.tiles[tile], coordinatesOf(mesh, member)))
          expected.push_back(element ? static_cast<int32_t>(*element) + 1 : 0);
        Program program;
        program.buffers.push_back({"b", {ElementType::I32, {}, {}}, 0, 4 * expected.size(), -1});
        std::vector<int32_t> buffer(expected.size(), untouched);
        loadTile(tileLoadOf(entry, program, mesh, member, LoadInput{0, 0, tile}), std::as_bytes(std::span(tensor)),
                 std::as_writable_bytes(std::span(buffer)));
        ASSERT_EQ(buffer, expected) << describe(entry.tiles[tile]);
        if (tile != 0)
          continue;
        TileLoad store = tileLoadOf(entry, program, mesh, member, StoreOutput{0, 0, tile});
        storeTile(store, std::as_bytes(std::span(buffer)), std::as_writable_bytes(std::span(stored)));
        for (const StridedCopy &box : store.boxes)
          forEachRun(box, [&](uint64_t, uint64_t to) {
            for (uint64_t i = 0; i != box.runBytes; i += 4)
              ++writes[(to + i) / 4];
          });
      }
    ASSERT_EQ(stored, tensor) << describe(entry.tiles[0]);
    ASSERT_EQ(writes, std::vector<unsigned>(tensor.size(), 1)) << describe(entry.tiles[0]);
  }
}

// A part of an input is loaded from where it lies, with padding behind its last block, and a part of an output stored
// there and nowhere else.
TEST(Tile, LoadsAndStoresPartsOfPorts) {
  Mesh mesh = meshOf({3});
  Entry entry;
  // Of [2, 11, 3] the five rows from 4 on, in blocks of two, of which the last has one.
  entry.tiles = {{{{2, {}, 2}, {5, {{0, 2}}, 2}, {3, {}, 3}}}, {{{2, {}, 2}, {5, {}, 11, 1, 4}, {3, {}, 3}}}};
  std::vector<int32_t> stored(66, untouched), input(66);
  std::iota(input.begin(), input.end(), 1);
  for (uint32_t member = 0; member != 3; ++member) {
    Program program;
    program.buffers.push_back({"b", {ElementType::I32, {}, {}}, 0, 4 * 12, -1});
    std::vector<int32_t> buffer(12);
    for (int32_t i = 0; i != 12; ++i)
      buffer[i] = static_cast<int32_t>(100 * member) + i;
    storeTile(tileLoadOf(entry, program, mesh, member, StoreOutput{0, 0, 0, 1}), std::as_bytes(std::span(buffer)),
              std::as_writable_bytes(std::span(stored)));
    loadTile(tileLoadOf(entry, program, mesh, member, LoadInput{0, 0, 0, 1}), std::as_bytes(std::span(input)),
             std::as_writable_bytes(std::span(buffer)));
    for (int32_t i = 0; i != 12; ++i) {
      int32_t block = i / 6, row = static_cast<int32_t>(2 * member) + i / 3 % 2, column = i % 3;
      EXPECT_EQ(buffer[i], row < 5 ? 1 + 33 * block + 3 * (4 + row) + column : 0) << member << ", " << i;
    }
  }
  for (int32_t block = 0; block != 2; ++block)
    for (int32_t row = 0; row != 11; ++row)
      for (int32_t column = 0; column != 3; ++column) {
        int32_t own = row - 4;
        int32_t expected = own < 0 || own >= 5 ? untouched : 100 * (own / 2) + 6 * block + 3 * (own % 2) + column;
        EXPECT_EQ(stored[33 * block + 3 * row + column], expected) << block << ", " << row << ", " << column;
      }
}

// A generated parameter's box holds the elements that the whole parameter has there, for every distribution.
TEST(Tile, GeneratesBoxes) {
  Mesh mesh = meshOf({3});
  Entry entry;
  entry.tiles = {{{{5, {}, 5}, blocks(7, {0}, mesh)}}};
  for (Distribution distribution : {Distribution::Constant, Distribution::Normal, Distribution::Uniform}) {
    GeneratedSource source{distribution, 1, 2, 9};
    std::vector<float> whole(35);
    generateTile({{{0, 0, {}, 140}}, {}, 0, 4}, source, ElementType::F32, std::as_writable_bytes(std::span(whole)));
    for (uint32_t member = 0; member != 3; ++member) {
      Program program;
      program.buffers.push_back({"b", {ElementType::F32, {5, 3}, {}}, 0, 60, -1});
      std::vector<float> buffer(15, 99), expected;
      for (const auto &element : elementsHeld(entry.tiles[0], {member}))
        expected.push_back(element ? whole[*element] : 0);
      generateTile(tileLoadOf(entry, program, mesh, member, LoadParameter{0, 0, 0}), source, ElementType::F32,
                   std::as_writable_bytes(std::span(buffer)));
      EXPECT_EQ(buffer, expected);
    }
  }
}

// Boxes become runs where they can: an all-gather of rows moves one run, of columns one run a row.
TEST(Tile, MergesRuns) {
  Mesh mesh = meshOf({2});
  Tile rows{{blocks(8, {0}, mesh), {6, {}, 6}}}, columns{{{8, {}, 8}, blocks(6, {0}, mesh)}};
  Tile split{{blocks(8, {0}, mesh), {2, {}, 2}, {3, {}, 3}}};
  for (const Tile *source : {&rows, &split}) {
    auto pieces = piecesInto({&mesh, source, 0}, {&mesh, nullptr, 0}, 0, 4, 48);
    ASSERT_EQ(pieces.size(), 2u);
    EXPECT_EQ(pieces[1].box.runBytes, 96u);
    EXPECT_TRUE(pieces[1].box.dims.empty());
  }
  auto pieces = piecesInto({&mesh, &columns, 0}, {&mesh, nullptr, 0}, 0, 4, 48);
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[1].box.runBytes, 12u);
  ASSERT_EQ(pieces[1].box.dims.size(), 1u);
  EXPECT_EQ(pieces[1].box.dims[0].count, 8u);
}

// Packing for messages keeps the order of runs.
TEST(Tile, PacksBoxes) {
  StridedCopy box{4, 0, {{3, 16, 8}, {2, 4, 4}}, 2};
  std::vector<std::byte> source(64), packed(box.bytes()), direct(24), unpacked(24);
  for (size_t i = 0; i != source.size(); ++i)
    source[i] = std::byte(i);
  packBox(box, source.data(), packed.data());
  unpackBox(box, packed.data(), unpacked.data());
  copyBox(box, source.data(), direct.data());
  EXPECT_EQ(unpacked, direct);
  EXPECT_EQ(packed[2], std::byte(8));
}

// Parts of a copy are the copy: every byte that it writes one of them writes, and just one.
TEST(Tile, CopiesInParts) {
  const StridedCopy copies[] = {
      {0, 0, {}, 0}, {3, 5, {}, 10000}, {1, 0, {{0, 8, 8}}, 4}, {2, 1, {{5, 700, 40}, {3, 30, 12}}, 8}, {0, 4, {}, 1}};
  for (const StridedCopy &copy : copies)
    for (unsigned count : {1u, 2u, 3u, 7u}) {
      auto runsOf = [](const StridedCopy &of) {
        std::vector<std::pair<uint64_t, uint64_t>> bytes;
        if (of.runBytes != 0)
          forEachRun(of, [&](uint64_t from, uint64_t to) {
            for (uint64_t byte = 0; byte != of.runBytes; ++byte)
              bytes.emplace_back(from + byte, to + byte);
          });
        return bytes;
      };
      std::vector<std::pair<uint64_t, uint64_t>> together;
      std::vector<StridedCopy> parts = partsOf(copy, count);
      EXPECT_LE(parts.size(), count);
      for (const StridedCopy &part : parts)
        std::ranges::copy(runsOf(part), std::back_inserter(together));
      EXPECT_EQ(together, runsOf(copy));
    }
}

// By several threads a large tensor arrives as by one.
TEST(Tile, IsLoadedByThreads) {
  std::vector<std::byte> tensor(9 << 20), buffer(tensor.size() + 64), back(tensor.size());
  for (size_t i = 0; i != tensor.size(); ++i)
    tensor[i] = static_cast<std::byte>(i * 7 + (i >> 12));
  TileLoad load;
  load.boxes = {{0, 64, {}, tensor.size()}};
  loadTile(load, tensor, buffer, /*threads=*/5);
  EXPECT_TRUE(std::equal(tensor.begin(), tensor.end(), buffer.begin() + 64));
  TileLoad store;
  store.boxes = {{64, 0, {{3, 3 << 20, 3 << 20}}, 3 << 20}};
  storeTile(store, buffer, back, /*threads=*/4);
  EXPECT_EQ(back, tensor);
}

/// A tile that breaks a rule on a mesh of 2 x 3, and a part of the message that says so.
struct BrokenTile {
  TileDim dim;
  const char *message;
};

// Each rule for tiles is enforced.
TEST(Tile, IsChecked) {
  Mesh mesh = meshOf({2, 3});
  const int64_t huge = int64_t(1) << 62;
  const BrokenTile broken[] = {
      {{-1, {}, -1}, "expects a size and a length from 0 to less than 2^40, got -1 and -1"},
      {{huge, {}, huge}, "expects a size and a length from 0 to less than 2^40"},
      {{4, {}, 4, 0}, "expects a step from 1 to less than 2^16"},
      {{4, {}, 4, 1, huge}, "less than 2^40 elements before"},
      {{4, {{2, 2}}, 2}, "is cut along axis 2, but mesh \"m\" has 2"},
      {{4, {{0, 2}, {0, 1}}, 1}, "is cut along axis \"axis0\", which cuts another dimension or this one already"},
      {{4, {{0, 2, 1, 3}}, 2}, "expects a shift along axis \"axis0\" of less than its 2 devices, got 1 of 3"},
      {{4, {{0, 2, 2, 2}}, 2}, "expects a shift along axis \"axis0\" of less than its 2 devices, got 2 of 2"},
      {{4, {{0, 0}}, 0}, "expects blocks of at least 1 that begin below 2^40, got 0 on 2"},
      {{4, {{0, huge}}, 2}, "expects blocks of at least 1 that begin below 2^40"},
      {{7, {{1, 2}}, 2}, "expects 3 blocks along axis \"axis1\" that cover 7 elements, got blocks of 2"},
      {{8, {{0, 4}, {1, 1}}, 1}, "that cover 4 elements, got blocks of 1"},
      {{4, {{0, 2}}, 3}, "expects length 2, step 1 and nothing before, got 3, 1 and 0; only targets have windows"},
  };
  for (const BrokenTile &tile : broken) {
    Error error = checkTile({{tile.dim}}, mesh, false);
    EXPECT_NE(error.text().find(tile.message), std::string::npos) << error.text() << ", expected " << tile.message;
  }
  EXPECT_FALSE(checkTile({{{4, {{0, 2}}, 3}}}, mesh, true));
  EXPECT_EQ(tensorElements({{{int64_t(1) << 39, {}, 1}, {int64_t(1) << 39, {}, 1}}}), std::nullopt);
  EXPECT_EQ(tensorElements({{{int64_t(1) << 39, {}, 1}, {int64_t(1) << 39, {}, 1}, {0, {}, 0}}}), 0u);
}

} // namespace
} // namespace cleave::runtime::test
