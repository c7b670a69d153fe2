// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Comma-separated rows, and a line through them.

#include "passes/cost/TransferTable.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace cleave {

static Error tableError(const FilePosition &position, const Twine &message) {
  return make_error<FileError>(position, message.str());
}

Error fitTransfers(MeasuredLink &measured) {
  ArrayRef<CallSample> samples = measured.samples;
  auto [least, most] = std::ranges::minmax(samples, {}, &CallSample::size);
  std::string pair = measured.from.empty() ? "" : " from \"" + measured.from + "\" to \"" + measured.to + "\"";
  if (least.size == most.size)
    return tableError(measured.position, "a link" + pair + " expects transfers of at least two sizes, got one");
  // Of (latency + bytes perByte) / seconds - 1.
  double uu = 0, uv = 0, vv = 0, u = 0, v = 0;
  for (const CallSample &sample : samples) {
    double ofLatency = 1 / sample.seconds, ofByte = sample.size / sample.seconds;
    uu += ofLatency * ofLatency;
    uv += ofLatency * ofByte;
    vv += ofByte * ofByte;
    u += ofLatency;
    v += ofByte;
  }
  double determinant = uu * vv - uv * uv;
  double latency = (u * vv - v * uv) / determinant, perByte = (v * uu - u * uv) / determinant;
  if (!(latency >= 0)) {
    latency = 0;
    perByte = v / vv;
  }
  if (!(perByte > 0) || !std::isfinite(perByte))
    return tableError(measured.position,
                      "a link" + pair + " expects transfers that take longer the larger they are, got no such growth");
  measured.link = {roundDigits(1 / perByte), roundDigits(latency)};
  for (const CallSample &sample : samples) {
    double error = std::abs((measured.link.latency + sample.size / measured.link.bandwidth) / sample.seconds - 1);
    if (error < measured.worst)
      continue;
    measured.worst = error;
    measured.worstAt = sample.size;
  }
  return Error::success();
}

namespace {

/// A cell, and where it begins.
struct Cell {
  StringRef text;
  FilePosition position;
};

} // namespace

static SmallVector<Cell> cellsOf(StringRef line, FilePosition position) {
  SmallVector<StringRef> parts;
  line.split(parts, ',');
  SmallVector<Cell> cells;
  for (StringRef part : parts) {
    position.column = static_cast<unsigned>(part.data() - line.data() + (part.size() - part.ltrim().size()) + 1);
    cells.push_back({part.trim(), position});
  }
  return cells;
}

static Error readNumber(const Cell &cell, StringRef column, double &target) {
  if (!to_float(cell.text, target) || !std::isfinite(target) || target <= 0)
    return tableError(cell.position, column + " expects a number greater than 0, got \"" + cell.text + "\"");
  return Error::success();
}

static Error readRow(ArrayRef<Cell> cells, size_t numColumns, std::vector<MeasuredLink> &table) {
  if (cells.size() != numColumns)
    return tableError(cells.front().position,
                      "a row expects " + Twine(numColumns) + " cells, got " + Twine(cells.size()));
  std::string from, to;
  if (numColumns == 4) {
    for (const Cell &cell : cells.take_front(2))
      if (cell.text.empty())
        return tableError(cell.position, "a transfer expects the names of two zones, got none");
    from = cells[0].text.str();
    to = cells[1].text.str();
  }
  CallSample sample;
  if (Error failure = readNumber(cells[numColumns - 2], "bytes", sample.size))
    return failure;
  if (Error failure = readNumber(cells[numColumns - 1], "seconds", sample.seconds))
    return failure;
  auto known = find_if(table, [&](const MeasuredLink &link) { return link.from == from && link.to == to; });
  if (known == table.end())
    known = table.insert(known, {from, to, {}, cells.front().position, {}, 0, 0});
  known->samples.push_back(sample);
  return Error::success();
}

Expected<std::vector<MeasuredLink>> parseTransferTable(StringRef text, StringRef file) {
  std::vector<MeasuredLink> table;
  size_t numColumns = 0;
  FilePosition position{file.str(), 0, 1};
  while (!text.empty()) {
    StringRef line;
    std::tie(line, text) = text.split('\n');
    ++position.line;
    line = line.rtrim();
    if (line.empty() || line.starts_with("#"))
      continue;
    SmallVector<Cell> cells = cellsOf(line, position);
    if (numColumns != 0) {
      if (Error failure = readRow(cells, numColumns, table))
        return failure;
      continue;
    }
    std::string header;
    for (const Cell &cell : cells)
      header += (header.empty() ? "" : ",") + cell.text.str();
    if (header != "bytes,seconds" && header != "from,to,bytes,seconds")
      return tableError(position, "a table of transfers expects the columns \"bytes,seconds\" or "
                                  "\"from,to,bytes,seconds\", got \"" +
                                      header + "\"");
    numColumns = cells.size();
  }
  if (table.empty())
    return tableError({file.str(), 1, 1}, "a table of transfers expects a line of columns and rows, found none");
  for (MeasuredLink &link : table)
    if (Error failure = fitTransfers(link))
      return failure;
  return table;
}

std::vector<ZoneLinkSpec> zoneLinksOf(ArrayRef<MeasuredLink> table) {
  std::vector<ZoneLinkSpec> links;
  for (const MeasuredLink &measured : table) {
    if (measured.from.empty())
      continue;
    bool isOneOfTwo = measured.from != measured.to && any_of(table, [&](const MeasuredLink &other) {
                        return other.from == measured.to && other.to == measured.from;
                      });
    links.push_back({measured.from, measured.to, !isOneOfTwo, false, measured.link});
  }
  return links;
}

Error setLinks(Machine &machine, ArrayRef<MeasuredLink> table) {
  for (const MeasuredLink &measured : table) {
    if (measured.from.empty()) {
      LinkSpec &link = (machine.network ? *machine.network : machine.network.emplace()).link;
      link.bandwidth = measured.link.bandwidth;
      link.latency = measured.link.latency;
    }
    for (StringRef zone : {StringRef(measured.from), StringRef(measured.to)})
      if (!zone.empty() && none_of(machine.hosts, [&](const HostSpec &host) { return host.zone == zone; }))
        return tableError(measured.position,
                          "a transfer expects zones of machine \"" + machine.name + "\", got \"" + zone + "\"");
  }
  for (ZoneLinkSpec &link : zoneLinksOf(table)) {
    auto isSame = [&](const ZoneLinkSpec &other) {
      return other.bothWays == link.bothWays && ((other.from == link.from && other.to == link.to) ||
                                                 (link.bothWays && other.from == link.to && other.to == link.from));
    };
    if (auto known = find_if(machine.links, isSame); known != machine.links.end()) {
      known->link.bandwidth = link.link.bandwidth;
      known->link.latency = link.link.latency;
    } else {
      machine.links.push_back(std::move(link));
    }
  }
  return Error::success();
}

} // namespace cleave
