// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the matrix, and makes links and switches of it.

#include "passes/cost/NvidiaTopology.h"

#include "passes/cost/MachineFile.h"
#include "passes/cost/YamlValue.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace cleave {
namespace {

/// Ascending distance; NVLink besides.
enum class Path { Self, Pix, Pxb, Phb, Node, Sys };

struct Connection {
  Path path = Path::Self;
  unsigned links = 0; ///< NVLinks; then the path is not known
  bool operator==(const Connection &) const = default;
};

struct Word {
  StringRef text;
  unsigned column; ///< from 1
};

/// The matrix of the devices.
class TopologyReader {
public:
  TopologyReader(StringRef text, StringRef file, const NvlinkGeneration &nvlink)
      : text(text), file(file), nvlink(nvlink) {}

  Expected<std::vector<std::vector<Connection>>> read();

private:
  static constexpr unsigned mostGpus = 64;

  Error error(unsigned column, const Twine &message) const {
    return make_error<FileError>(FilePosition{file.str(), line, column}, message.str());
  }
  /// Words of a line, without the escape sequences with which the tool underlines its heading.
  SmallVector<Word> words(StringRef row) const;
  Error readHeading(ArrayRef<Word> heading);
  Error readRow(ArrayRef<Word> row);
  Expected<Connection> readConnection(const Word &word, bool isSelf) const;

  StringRef text, file;
  const NvlinkGeneration &nvlink;
  unsigned line = 0, numGpus = 0;
  std::vector<std::vector<Connection>> matrix;
};

SmallVector<Word> TopologyReader::words(StringRef row) const {
  SmallVector<Word> result;
  for (size_t at = 0; at < row.size();) {
    if (row[at] == '\x1b') {
      at = row.find_if([](char c) { return isAlpha(c); }, at);
      at = at == StringRef::npos ? row.size() : at + 1;
    } else if (isSpace(row[at])) {
      ++at;
    } else {
      size_t end = row.find_first_of(" \t\r\x1b", at);
      result.push_back({row.slice(at, end), static_cast<unsigned>(at + 1)});
      at = std::min(end, row.size());
    }
  }
  return result;
}

/// "GPU0 GPU1 …"; what follows is not of devices.
Error TopologyReader::readHeading(ArrayRef<Word> heading) {
  for (const Word &word : heading) {
    if (word.text != "GPU" + std::to_string(numGpus))
      break;
    if (++numGpus > mostGpus)
      return error(word.column, "expects at most " + Twine(mostGpus) + " GPUs, got more");
  }
  return Error::success();
}

Expected<Connection> TopologyReader::readConnection(const Word &word, bool isSelf) const {
  static constexpr std::pair<StringLiteral, Path> paths[] = {
      {"PIX", Path::Pix}, {"PXB", Path::Pxb}, {"PHB", Path::Phb}, {"NODE", Path::Node}, {"SYS", Path::Sys}};
  if (isSelf && word.text != "X")
    return error(word.column, "expects X between a GPU and itself, got \"" + word.text + "\"");
  if (isSelf)
    return Connection();
  for (auto [name, path] : paths)
    if (word.text == name)
      return Connection{path, 0};
  unsigned links = 0;
  if (!nvlink.links && word.text.starts_with("NV"))
    return error(word.column, "expects no NVLink between devices of this kind, got \"" + word.text + "\"");
  if (!word.text.starts_with("NV") || !to_integer(word.text.drop_front(2), links, 10) || links < 1 || links > 18)
    return error(word.column,
                 "expects NV1 to NV18, PIX, PXB, PHB, NODE or SYS between two GPUs, got \"" + word.text + "\"");
  return Connection{Path::Sys, links};
}

Error TopologyReader::readRow(ArrayRef<Word> row) {
  size_t index = matrix.size();
  if (index == numGpus)
    return error(row[0].column, "expects " + Twine(numGpus) + " GPUs as the heading has, got " + row[0].text);
  if (row[0].text != "GPU" + std::to_string(index))
    return error(row[0].column, "expects the row of GPU" + Twine(index) + ", got " + row[0].text);
  if (row.size() <= numGpus)
    return error(row.back().column, "expects " + Twine(numGpus) + " connections, got " + Twine(row.size() - 1));
  std::vector<Connection> &connections = matrix.emplace_back();
  for (size_t other = 0; other < numGpus; ++other) {
    const Word &word = row[other + 1];
    Expected<Connection> connection = readConnection(word, other == index);
    if (!connection)
      return connection.takeError();
    if (other < index && matrix[other][index] != *connection)
      return error(word.column, "expects the same connection as from GPU" + Twine(other) + " to GPU" + Twine(index) +
                                    ", got " + word.text);
    connections.push_back(*connection);
  }
  return Error::success();
}

Expected<std::vector<std::vector<Connection>>> TopologyReader::read() {
  for (StringRef rest = text; !rest.empty();) {
    auto [row, others] = rest.split('\n');
    rest = others;
    ++line;
    SmallVector<Word> parts = words(row);
    if (parts.empty() || !parts[0].text.starts_with("GPU"))
      continue;
    if (Error failure = numGpus ? readRow(parts) : readHeading(parts))
      return failure;
  }
  ++line;
  if (!numGpus)
    return make_error<FileError>(FilePosition{file.str(), 1, 1},
                                 "expects a heading \"GPU0 GPU1 …\" as nvidia-smi topo -m prints it, found none");
  if (matrix.size() < numGpus)
    return error(1, "expects " + Twine(numGpus) + " rows of GPUs, got " + Twine(matrix.size()));
  return std::move(matrix);
}

} // namespace

/// NVLinks, as the connections of pairs or as a common switch.
static void addNvlinks(ArrayRef<std::vector<Connection>> matrix, const NvlinkGeneration &nvlink, HostSpec &host) {
  constexpr double latency = 3e-6;
  unsigned most = 0, perDevice = 0;
  for (const std::vector<Connection> &row : matrix) {
    unsigned sum = 0;
    for (const Connection &connection : row) {
      most = std::max(most, connection.links);
      sum += connection.links;
    }
    perDevice = std::max(perDevice, sum);
  }
  if (perDevice > nvlink.links) {
    host.link = LinkSpec{most * nvlink.linkBandwidth, latency};
    return;
  }
  for (unsigned first = 0; first < matrix.size(); ++first)
    for (unsigned second = first + 1; second < matrix.size(); ++second)
      if (unsigned links = matrix[first][second].links)
        host.pairs.push_back({first, second, {links * nvlink.linkBandwidth, latency}});
}

/// Runs of neighbours that are nearer to each other than to the rest, each on a switch.
static void addSwitches(ArrayRef<std::vector<Connection>> matrix, double bandwidth, HostSpec &host) {
  constexpr double latency = 4e-6;
  auto isPath = [](const Connection &connection, Path from, Path to) {
    return !connection.links && connection.path >= from && connection.path <= to;
  };
  auto anywhere = [&](Path from, Path to) {
    return any_of(matrix, [&](const std::vector<Connection> &row) {
      return any_of(row, [&](const Connection &connection) { return isPath(connection, from, to); });
    });
  };
  auto [from, to] = anywhere(Path::Pix, Path::Pxb) ? std::pair(Path::Pix, Path::Pxb) : std::pair(Path::Phb, Path::Node);
  for (size_t device = 0; device < matrix.size(); ++device) {
    if (device == 0 || !isPath(matrix[device - 1][device], from, to))
      host.switches.push_back({0, {bandwidth, latency}, {bandwidth, latency}});
    ++host.switches.back().devices;
  }
}

Expected<Machine> parseNvidiaTopology(StringRef text, StringRef file, const Preset &preset) {
  if (!preset.nvlink)
    return make_error<FileError>(FilePosition{file.str()},
                                 "expects devices of NVIDIA, got those of preset " + preset.name.str());
  auto matrix = TopologyReader(text, file, *preset.nvlink).read();
  if (!matrix)
    return matrix.takeError();
  auto known = parseMachineFile(preset.text, preset.name);
  if (!known)
    return known.takeError();
  Machine machine;
  machine.name = preset.name.str();
  machine.kinds = known->kinds;
  machine.network = known->network;
  HostSpec &host = machine.hosts.emplace_back();
  host.devices.push_back({known->kinds.begin()->first, static_cast<unsigned>(matrix->size())});
  addNvlinks(*matrix, *preset.nvlink, host);
  // Devices on a common NVLink switch use nothing else.
  if (!host.link)
    addSwitches(*matrix, preset.nvlink->pcieBandwidth, host);
  addDevices(machine);
  return machine;
}

} // namespace cleave
