// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loading of plan files, and the names and hashes that belong to them.

#include "runtime/Plan.h"

#include "runtime/MappedFile.h"
#include "runtime/PlanReader.h"

#include <array>

namespace cleave::runtime {

Expected<Plan> Plan::parse(std::shared_ptr<const void> owner, std::span<const std::byte> bytes,
                           std::filesystem::path folder) {
  auto contents = readPlanContents(bytes);
  if (!contents)
    return contents.error();
  Plan plan;
  plan.owner = std::move(owner);
  plan.storage = bytes;
  plan.home = std::move(folder);
  plan.contents = std::make_shared<const PlanContents>(std::move(*contents));
  return plan;
}

Expected<Plan> Plan::read(const std::filesystem::path &path) {
  auto file = MappedFile::open(path);
  if (!file)
    return file.error();
  auto owner = std::make_shared<MappedFile>(std::move(*file));
  auto bytes = owner->bytes();
  auto plan = parse(std::move(owner), bytes, path.parent_path());
  if (!plan)
    return makeError(plan.error().status(), path, ": ", plan.error().message());
  return plan;
}

Expected<Plan> Plan::fromBytes(std::span<const std::byte> bytes, std::filesystem::path folder) {
  // The allocator's alignment suffices for every scalar of a FlatBuffer.
  auto owner = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  std::span<const std::byte> copy = *owner;
  return parse(std::move(owner), copy, std::move(folder));
}

bool isOfReplicas(const PlanContents &plan, const Entry &entry) {
  return plan.replicas && (entry.name == "train" || entry.name == fetchEntryName || entry.name == giveEntryName ||
                           entry.name == mergeEntryName);
}

std::set<uint32_t> keeperDevices(const PlanContents &plan) {
  std::set<uint32_t> devices;
  for (const Entry &entry : plan.entries)
    if (entry.name == applyEntryName)
      for (const Program &program : entry.programs)
        devices.insert(plan.meshes[program.mesh].devices.begin(), plan.meshes[program.mesh].devices.end());
  return devices;
}

Plan Plan::ofReplica(uint32_t replica) const {
  auto moved = std::make_shared<PlanContents>(*contents);
  for (Mesh &mesh : moved->meshes)
    for (uint32_t &device : mesh.devices)
      if (device < moved->replicas->devices) // else one of the keeper
        device += replica * moved->replicas->devices;
  Plan plan = *this;
  plan.contents = std::move(moved);
  return plan;
}

Expected<const Entry *> Plan::entry(const std::string &name) const {
  if (name.empty() && !contents->entries.empty())
    return &contents->entries.front();
  std::string known;
  for (const Entry &entry : contents->entries) {
    if (entry.name == name)
      return &entry;
    known += (known.empty() ? "\"" : ", \"") + entry.name + "\"";
  }
  return makeError(Status::Usage, "plan has no entry \"", name, "\", expected one of ", known);
}

const char *actionName(const Action &action) {
  static constexpr std::array<const char *, std::variant_size_v<Action>> names = {
      "call",       "copy",     "send",       "receive",        "load parameter", "load input", "store output",
      "load index", "exchange", "all_reduce", "reduce_scatter", "offload",        "fetch"};
  return names[action.index()];
}

std::span<const Operand> operandsOf(const Action &action) {
  return std::visit(
      [](const auto &collective) -> std::span<const Operand> {
        if constexpr (requires { collective.operands; })
          return collective.operands;
        return {};
      },
      action);
}

std::vector<uint32_t> buffersOf(const Action &action) {
  if (const auto *call = std::get_if<Call>(&action))
    return call->arguments;
  std::vector<uint32_t> buffers;
  for (const Operand &operand : operandsOf(action))
    buffers.insert(buffers.end(), {operand.source, operand.target});
  if (!buffers.empty())
    return buffers;
  return std::visit(
      [](const auto &other) -> std::vector<uint32_t> {
        if constexpr (requires { other.buffer; })
          return {other.buffer};
        if constexpr (requires { other.source; })
          return {other.source, other.target};
        return {};
      },
      action);
}

std::vector<BufferAccess> accessesOf(const PlanContents &plan, const Action &action) {
  std::vector<BufferAccess> accesses;
  if (const auto *call = std::get_if<Call>(&action)) {
    size_t numInputs = plan.kernels[call->kernel].inputs.size();
    for (size_t i = 0; i != call->arguments.size(); ++i)
      accesses.push_back({call->arguments[i], i >= numInputs});
    return accesses;
  }
  for (const Operand &operand : operandsOf(action))
    accesses.insert(accesses.end(), {BufferAccess{operand.source, false}, BufferAccess{operand.target, true}});
  bool reads = std::holds_alternative<Send>(action) || std::holds_alternative<StoreOutput>(action);
  std::visit(
      [&](const auto &other) {
        if constexpr (requires { other.source; })
          accesses = {{other.source, false}, {other.target, true}};
        else if constexpr (requires { other.buffer; })
          accesses = {{other.buffer, !reads}};
      },
      action);
  return accesses;
}

const char *kindName(const Action &action) {
  static constexpr std::array<const char *, 7> names = {"exchange",      "all_gather", "all_to_all", "permute",
                                                        "halo_exchange", "slice",      "broadcast"};
  const auto *exchange = std::get_if<Exchange>(&action);
  return exchange ? names[static_cast<unsigned>(exchange->kind)] : actionName(action);
}

const char *costClassName(CostClass costClass) {
  static constexpr std::array<const char *, 4> names = {"contraction", "elementwise", "reduction", "movement"};
  return names[static_cast<unsigned>(costClass)];
}

const char *combinerName(Combiner combiner) {
  static constexpr std::array<const char *, 4> names = {"sum", "product", "max", "min"};
  return names[static_cast<unsigned>(combiner)];
}

const char *queueKindName(QueueKind kind) {
  static constexpr std::array<const char *, 5> names = {"compute", "send", "receive", "host", "collective"};
  return names[static_cast<unsigned>(kind)];
}

uint64_t checksum(std::span<const std::byte> bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (std::byte byte : bytes)
    hash = (hash ^ static_cast<uint64_t>(byte)) * 0x100000001b3;
  return hash;
}

std::array<std::byte, 8> planSeal(std::span<const std::byte> bytes) {
  std::array<std::byte, 8> seal;
  uint64_t hash = checksum(bytes);
  for (unsigned i = 0; i != seal.size(); ++i)
    seal[i] = static_cast<std::byte>(hash >> (8 * i));
  return seal;
}

} // namespace cleave::runtime
