// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// As in Rabenseifner's all-reduce (a reduce-scatter, then an all-gather), but direct: each process sends every other
// one its part, so that all of a part's sources are combined at once, in one order, and 16-bit floats are rounded once.
// Parts go in chunks, so that a chunk is combined in the caches while the next one is on its way.

#include "runtime/communicators/mpi/MpiParts.h"

#include "runtime/Reduction.h"

#include <algorithm>
#include <array>

namespace cleave::runtime {

/// Large enough that the fixed cost of a message does not count, small enough for the caches of a core.
constexpr uint64_t chunkBytes = uint64_t(256) << 10;

void MpiParts::add(uint64_t elements) { begins.push_back(begins.back() + elements); }

MpiParts MpiParts::equal(uint64_t elements, unsigned width, size_t processes) {
  MpiParts parts;
  uint64_t line = 64 / width, lines = (elements + line - 1) / line;
  for (size_t process = 1; process <= processes; ++process)
    parts.begins.push_back(std::min(elements, lines * process / processes * line));
  return parts;
}

uint64_t MpiParts::largest() const {
  uint64_t most = 0;
  for (size_t process = 0; process + 1 != begins.size(); ++process)
    most = std::max(most, size(process));
  return most;
}

bool arePartsLarge(const MpiParts &parts, unsigned width) { return parts.largest() * width >= chunkBytes; }

namespace {

/// One reduction on its way.
class Combination {
public:
  Combination(MpiPartsTransport &transport, const MpiParts &parts, ElementType element, Combiner combiner,
              const std::byte *values, std::byte *own, std::byte *all)
      : transport(transport), parts(parts), element(element), combiner(combiner), width(elementBytes(element)),
        chunk(chunkBytes / width), values(values), own(own), all(all) {
    transport.slots.resize(std::max<size_t>(transport.slots.size(), 2 * transport.count * chunkBytes));
  }

  void run() {
    uint64_t chunks = (parts.largest() + chunk - 1) / chunk;
    for (uint64_t index = 0; index <= chunks; ++index) {
      if (index < chunks)
        start(index);
      if (index > 0)
        finish(index - 1);
    }
    transport.waiter->wait(results);
  }

private:
  enum Tag : int { Values, Results };
  struct Range {
    uint64_t begin, size; ///< in the part
  };

  Range chunkOf(size_t process, uint64_t index) const {
    uint64_t begin = std::min(parts.size(process), index * chunk);
    return {begin, std::min(parts.size(process) - begin, chunk)};
  }
  std::byte *slot(size_t process, uint64_t index) const {
    return transport.slots.data() + (index % 2 * transport.count + process) * chunkBytes;
  }
  int bytes(const Range &range) const { return static_cast<int>(range.size * width); }

  template <typename Visit> void forOthers(const Visit &visit) const {
    for (size_t i = 1; i < transport.count; ++i)
      visit((transport.own + i) % transport.count);
  }
  void receive(std::byte *to, const Range &range, size_t process, Tag tag, std::vector<MPI_Request> &list) const {
    if (range.size != 0)
      MPI_Irecv(to, bytes(range), MPI_BYTE, static_cast<int>(process), tag, transport.comm, &list.emplace_back());
  }
  void send(const std::byte *from, const Range &range, size_t process, Tag tag, std::vector<MPI_Request> &list) const {
    if (range.size != 0)
      MPI_Isend(from, bytes(range), MPI_BYTE, static_cast<int>(process), tag, transport.comm, &list.emplace_back());
  }

  /// Asks the others for their values of this process's chunk, and gives them mine of theirs.
  void start(uint64_t index) {
    std::vector<MPI_Request> &list = moving[index % 2];
    list.clear();
    forOthers(
        [&](size_t process) { receive(slot(process, index), chunkOf(transport.own, index), process, Values, list); });
    forOthers([&](size_t process) {
      Range range = chunkOf(process, index);
      send(values + (parts.begin(process) + range.begin) * width, range, process, Values, list);
    });
  }

  /// Combines the chunk and exchanges results. Only now may the others' results overwrite the values, which are sent.
  void finish(uint64_t index) {
    transport.waiter->wait(moving[index % 2]);
    Range range = chunkOf(transport.own, index);
    std::byte *target = own + range.begin * width;
    std::vector<const std::byte *> sources;
    for (size_t process = 0; process != transport.count; ++process)
      sources.push_back(process == transport.own ? values + (parts.begin(process) + range.begin) * width
                                                 : slot(process, index));
    if (range.size != 0)
      combine(element, combiner, sources, std::span(&target, 1), range.size, false);
    if (!all)
      return;
    forOthers([&](size_t process) {
      Range theirs = chunkOf(process, index);
      receive(all + (parts.begin(process) + theirs.begin) * width, theirs, process, Results, results);
    });
    forOthers([&](size_t process) { send(target, range, process, Results, results); });
  }

  MpiPartsTransport &transport;
  const MpiParts &parts;
  const ElementType element;
  const Combiner combiner;
  const unsigned width;
  const uint64_t chunk; ///< elements
  const std::byte *const values;
  std::byte *const own, *const all;
  std::array<std::vector<MPI_Request>, 2> moving;
  std::vector<MPI_Request> results;
};

} // namespace

void combineParts(MpiPartsTransport &transport, const MpiParts &parts, ElementType element, Combiner combiner,
                  const std::byte *values, std::byte *own, std::byte *all) {
  Combination(transport, parts, element, combiner, values, own, all).run();
}

} // namespace cleave::runtime
