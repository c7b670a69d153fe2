// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "AccessOrder.h"

#include <bit>

namespace cleave::ptx {
namespace {

constexpr uint64_t pageBits = 12, pageBytes = 1 << pageBits, wordBytes = 4, wordShift = 2;

/// Whether what `thread` of the same block did at a phase and stamp comes before what `who` does.
bool isOrdered(const Accessor &who, uint32_t thread, uint32_t phase, uint32_t stamp) {
  if (thread == who.thread || phase < who.phase)
    return true;
  return thread / lanesOfWarp == who.thread / lanesOfWarp && stamp < (*who.seen)[thread % lanesOfWarp];
}

} // namespace

AccessOrder::Page &AccessOrder::pageAt(uint64_t number) {
  Recent &entry = recent[number % recent.size()];
  if (entry.number != number) {
    auto [found, isNew] = pages.try_emplace(number);
    if (isNew)
      found->second = {std::vector<Cell>(pageBytes / wordBytes), wordShift};
    entry = {number, &found->second};
  }
  return *entry.page;
}

void AccessOrder::note(uint64_t address, size_t bytes, const Accessor &who) {
  // Accesses are aligned, so that none crosses a page.
  Page &page = pageAt(address >> pageBits);
  if (bytes < wordBytes && page.shift == wordShift) {
    std::vector<Cell> cells(pageBytes);
    for (size_t i = 0; i != pageBytes; ++i)
      cells[i] = page.cells[i >> wordShift];
    page = {std::move(cells), 0};
  }
  Cell *cell = &page.cells[address % pageBytes >> page.shift];
  for (size_t i = 0, count = bytes >> page.shift; i != count; ++i)
    noteCell(cell[i], address + (i << page.shift), who);
}

void AccessOrder::noteCell(Cell &cell, uint64_t address, const Accessor &who) {
  if (ofBlock && cell.writePhase < who.firstPhaseOfBlock) {
    if (who.reads)
      throw Fault(std::string("the thread reads ") + space + " memory at " + hexadecimal(address) +
                  " that no thread of the block has written");
    cell = {};
  }
  if (who.constant && cell.writePhase != 0)
    throw Fault(std::string("a read by ld.global.nc of ") + space + " memory at " + hexadecimal(address) +
                " that the launch has written in line " + std::to_string(cell.writeLine));
  if (who.writes && (cell.flags & ConstantRead))
    throw Fault(std::string("a write of ") + space + " memory at " + hexadecimal(address) +
                " that the launch has read by ld.global.nc");
  checkWrite(cell, address, who);
  if (who.writes) {
    checkReads(cell, address, who);
    recordWrite(cell, who);
  } else {
    recordRead(cell, who);
  }
}

void AccessOrder::report(uint64_t address, const Accessor &who, const std::string &other) const {
  throw Fault(std::string("a data race: the thread ") + (who.writes ? "writes " : "reads ") + space + " memory at " +
              hexadecimal(address) + " that " + other + ", and nothing orders the two");
}

void AccessOrder::checkWrite(const Cell &cell, uint64_t address, const Accessor &who) const {
  if (cell.writePhase == 0 || ((cell.flags & AtomicWrite) && who.atomic))
    return;
  if (cell.writePhase >= who.firstPhaseOfBlock && cell.writePhase < who.phase && !(cell.flags & OtherBlocksWrote))
    return;
  auto line = [&] { return std::to_string(cell.writeLine); };
  if (cell.writePhase < who.firstPhaseOfBlock || (cell.flags & OtherBlocksWrote))
    report(address, who, "another block wrote in line " + line());
  if ((cell.flags & SeveralAtomic) && cell.writePhase == who.phase)
    report(address, who, "several threads wrote in line " + line());
  if (!isOrdered(who, cell.writeThread, cell.writePhase, cell.writeStamp))
    report(address, who, "thread " + std::to_string(cell.writeThread) + " wrote in line " + line());
}

void AccessOrder::checkReads(const Cell &cell, uint64_t address, const Accessor &who) const {
  if (cell.readPhase == 0 || ((cell.flags & AtomicReads) && who.atomic))
    return;
  if ((cell.flags & OtherBlocksRead) || cell.readPhase < who.firstPhaseOfBlock)
    report(address, who, "another block has read");
  if (cell.readPhase < who.phase)
    return;
  if (cell.flags & SeveralWarps)
    report(address, who, "threads of several warps have read");
  for (uint32_t left = cell.readLanes; left != 0; left &= left - 1)
    if (uint32_t reader = cell.readWarp * lanesOfWarp + static_cast<uint32_t>(std::countr_zero(left));
        !isOrdered(who, reader, cell.readPhase, cell.readStamp))
      report(address, who, "thread " + std::to_string(reader) + " has read");
}

void AccessOrder::recordRead(Cell &cell, const Accessor &who) {
  uint32_t lane = 1u << who.thread % lanesOfWarp;
  auto warp = static_cast<uint16_t>(who.thread / lanesOfWarp);
  uint32_t flags = cell.flags;
  if (cell.readPhase == 0)
    flags = (flags & (ConstantRead | AtomicWrite | SeveralAtomic | OtherBlocksWrote)) | AtomicReads;
  if (!who.atomic)
    flags &= ~uint32_t(AtomicReads);
  if (cell.readPhase == who.phase) {
    if (cell.readWarp != warp)
      flags |= SeveralWarps;
    cell.readLanes |= lane;
  } else {
    if (cell.readPhase != 0 && cell.readPhase < who.firstPhaseOfBlock)
      flags |= OtherBlocksRead;
    flags &= ~uint32_t(SeveralWarps);
    cell.readPhase = who.phase;
    cell.readWarp = warp;
    cell.readLanes = lane;
  }
  if (who.constant)
    flags |= ConstantRead;
  cell.readStamp = who.stamp;
  cell.flags = flags & 255;
}

void AccessOrder::recordWrite(Cell &cell, const Accessor &who) {
  // Others' atomic writes stay unordered with plain accesses until the next barrier.
  bool both = who.atomic && (cell.flags & AtomicWrite);
  bool otherBlocks = both && (cell.writePhase < who.firstPhaseOfBlock || (cell.flags & OtherBlocksWrote));
  bool several =
      both && cell.writePhase == who.phase && (cell.writeThread != who.thread || (cell.flags & SeveralAtomic));
  cell.writePhase = who.phase;
  cell.writeStamp = who.stamp;
  cell.writeLine = who.line & 0xffffff;
  cell.writeThread = static_cast<uint16_t>(who.thread);
  cell.flags = (who.atomic ? AtomicWrite : 0) | (several ? SeveralAtomic : 0) | (otherBlocks ? OtherBlocksWrote : 0);
  cell.readPhase = 0;
}

} // namespace cleave::ptx
