// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds data races: remembers for each word of memory who wrote and who read it last, and whether what a thread does
// now is ordered after that. Within a block barriers order (phases), within a warp barriers of lanes do (stamps);
// different blocks of a launch are never ordered. The idea is that of FastTrack (Flanagan and Freund, 2009): the last
// write is enough, and of reads those since the last barrier.

#ifndef CLEAVE_TEST_PTX_ACCESSORDER_H
#define CLEAVE_TEST_PTX_ACCESSORDER_H

#include "GlobalMemory.h"

#include <array>

namespace cleave::ptx {

/// Who accesses memory, and when. Phases count the barriers of all blocks, which run one after the other.
struct Accessor {
  uint32_t thread, line;
  uint32_t phase, firstPhaseOfBlock;
  /// How many barriers of lanes the warp has met; for each lane, how many of them it had met at the last one that
  /// orders what it did before what this thread does now.
  uint32_t stamp;
  const std::array<uint32_t, lanesOfWarp> *seen;
  bool reads, writes, atomic;
  /// The access counts on nobody writing the memory while the launch runs.
  bool constant;
};

class AccessOrder {
public:
  /// Memory that is `ofBlock` starts anew with each block, and must be written before it is read.
  AccessOrder(const char *space, bool ofBlock) : space(space), ofBlock(ofBlock) {}

  /// Throws Fault for a data race, and for a read of a block's memory that it has not written.
  void note(uint64_t address, size_t bytes, const Accessor &who);

private:
  enum : uint8_t {
    AtomicWrite = 1,
    SeveralAtomic = 2,
    SeveralWarps = 4,
    OtherBlocksRead = 8,
    AtomicReads = 16,
    OtherBlocksWrote = 32,
    ConstantRead = 64
  };
  struct Cell {
    uint32_t writePhase = 0, writeStamp = 0, writeLine : 24 = 0, flags : 8 = 0;
    uint32_t readPhase = 0, readStamp = 0, readLanes = 0;
    uint16_t writeThread = 0, readWarp = 0;
  };
  /// The cells of 4096 bytes: one for each word, or one for each byte where parts of words were accessed.
  struct Page {
    std::vector<Cell> cells;
    /// A cell is for two to this power of bytes.
    uint32_t shift;
  };

  Page &pageAt(uint64_t number);
  void noteCell(Cell &cell, uint64_t address, const Accessor &who);
  void checkWrite(const Cell &cell, uint64_t address, const Accessor &who) const;
  void checkReads(const Cell &cell, uint64_t address, const Accessor &who) const;
  static void recordRead(Cell &cell, const Accessor &who);
  static void recordWrite(Cell &cell, const Accessor &who);
  [[noreturn]] void report(uint64_t address, const Accessor &who, const std::string &other) const;

  const char *space;
  bool ofBlock;
  std::unordered_map<uint64_t, Page> pages;
  struct Recent {
    uint64_t number = ~uint64_t(0);
    Page *page = nullptr;
  };
  std::array<Recent, 64> recent;
};

} // namespace cleave::ptx

#endif
