// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What does not depend on how processes talk: errors as bytes, and who runs which device.

#include "runtime/Processes.h"

#include <charconv>
#include <cstdlib>
#include <cstring>

namespace cleave::runtime {

bool isStartedWithOthers() {
  return std::getenv("OMPI_COMM_WORLD_SIZE") || std::getenv("PMI_SIZE") || std::getenv("PMIX_RANK");
}

uint32_t rankOfLauncher() {
  for (const char *name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"})
    if (const char *text = std::getenv(name))
      return static_cast<uint32_t>(std::strtoul(text, nullptr, 10));
  return 0;
}

bool namesRank(const Error &error) {
  const std::string &message = error.message();
  size_t digits = message.find_first_not_of("0123456789", 5);
  return message.starts_with("rank ") && digits != std::string::npos && digits > 5 && message[digits] == ':';
}

Error atRank(const Error &error, uint32_t rank) {
  if (!error || namesRank(error))
    return error;
  return Error(error.status(), "rank " + std::to_string(rank) + ": " + error.message(), error.node());
}

std::vector<std::byte> packError(const Error &error) {
  const uint32_t head[] = {static_cast<uint32_t>(error.status()), static_cast<uint32_t>(error.message().size()),
                           static_cast<uint32_t>(error.node().size())};
  std::vector<std::byte> bytes(sizeof head + error.message().size() + error.node().size());
  std::memcpy(bytes.data(), head, sizeof head);
  error.message().copy(reinterpret_cast<char *>(bytes.data() + sizeof head), std::string::npos);
  error.node().copy(reinterpret_cast<char *>(bytes.data() + sizeof head + error.message().size()), std::string::npos);
  return bytes;
}

Error unpackError(std::span<const std::byte> bytes) {
  uint32_t head[3];
  std::memcpy(head, bytes.data(), sizeof head);
  if (static_cast<Status>(head[0]) == Status::Success)
    return Error::success();
  const auto *text = reinterpret_cast<const char *>(bytes.data() + sizeof head);
  return Error(static_cast<Status>(head[0]), std::string(text, head[1]), std::string(text + head[1], head[2]));
}

/// The devices of "0,2,4-7"; nothing if that is not a list.
static std::optional<std::vector<uint32_t>> parseList(std::string_view text) {
  std::vector<uint32_t> list;
  const char *at = text.data(), *end = at + text.size();
  for (;;) {
    uint32_t first = 0, last = 0;
    auto parsed = std::from_chars(at, end, first);
    last = first;
    if (parsed.ec == std::errc() && parsed.ptr != end && *parsed.ptr == '-')
      parsed = std::from_chars(parsed.ptr + 1, end, last);
    if (parsed.ec != std::errc() || last < first || last - first > 0xffff)
      return std::nullopt;
    for (uint32_t device = first; device <= last; ++device)
      list.push_back(device);
    if (parsed.ptr == end)
      return list;
    if (*parsed.ptr != ',')
      return std::nullopt;
    at = parsed.ptr + 1;
  }
}

static Expected<std::vector<uint32_t>> divideByLists(uint32_t devices, const std::vector<std::string> &lists) {
  std::vector<uint32_t> rankOf(devices, UINT32_MAX);
  for (uint32_t rank = 0; rank != lists.size(); ++rank) {
    auto list = parseList(lists[rank]);
    if (!list)
      return makeError(Status::Usage, "--devices-of-rank expects devices as in \"0,2,4-7\", got \"", lists[rank], "\"");
    for (uint32_t device : *list) {
      if (device >= devices)
        return makeError(Status::Usage, "--devices-of-rank expects devices below ", devices, ", got ", device);
      if (rankOf[device] != UINT32_MAX)
        return makeError(Status::Usage, "--devices-of-rank expects each device once, got ", device, " for ranks ",
                         rankOf[device], " and ", rank);
      rankOf[device] = rank;
    }
  }
  for (uint32_t device = 0; device != devices; ++device)
    if (rankOf[device] == UINT32_MAX)
      return makeError(Status::Usage, "--devices-of-rank expects each device once, got no rank for ", device);
  return rankOf;
}

Expected<std::vector<uint32_t>> divideDevices(uint32_t devices, uint32_t processes,
                                              const std::vector<std::string> &lists) {
  if (!lists.empty() && lists.size() != processes)
    return makeError(Status::Usage, "--devices-of-rank expects a list for each of the ", processes, " processes, got ",
                     lists.size());
  if (!lists.empty())
    return divideByLists(devices, lists);
  if (processes > devices)
    return makeError(Status::Usage, "the plan's ", devices, devices == 1 ? " device expects" : " devices expect",
                     " at most as many processes, got ", processes, "; start fewer (mpirun -n)");
  std::vector<uint32_t> rankOf(devices);
  for (uint64_t device = 0; device != devices; ++device)
    rankOf[device] = static_cast<uint32_t>(device * processes / devices);
  return rankOf;
}

} // namespace cleave::runtime
