// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A channel is a mailbox with two timelines: how often something was offered, and how often it was taken. The sender
// offers the address of its bytes (or its error) and sleeps until it is taken; the receiver copies and says so.

#include "runtime/communicators/local/LocalCommunicator.h"

#include "runtime/Timeline.h"

#include <array>
#include <cstring>
#include <unordered_map>

namespace cleave::runtime {
namespace {

struct Channel {
  Timeline offered, taken;
  std::span<const std::byte> bytes;
  Error poison;
};

class LocalCommunicator : public Communicator {
public:
  explicit LocalCommunicator(const Entry &entry) {
    for (const Program &program : entry.programs)
      for (Phase phase : {Phase::Prepare, Phase::Body})
        for (const Instruction &instruction : program.instructions(phase))
          if (const auto *send = std::get_if<Send>(&instruction.action))
            channelsOf(phase)[send->channel];
  }

  Error send(const Transfer &transfer, std::span<const std::byte> bytes, const Error &poison) override {
    Channel &channel = channelsOf(transfer.phase).at(transfer.channel);
    auto turn = static_cast<uint32_t>(transfer.step + 1);
    channel.bytes = bytes;
    channel.poison = poison;
    channel.offered.signal(turn);
    channel.taken.wait(turn);
    return poison;
  }

  Error receive(const Transfer &transfer, std::span<std::byte> bytes, const Error &poison) override {
    Channel &channel = channelsOf(transfer.phase).at(transfer.channel);
    auto turn = static_cast<uint32_t>(transfer.step + 1);
    channel.offered.wait(turn);
    Error error = poison ? poison : channel.poison;
    if (!error && bytes.size() != channel.bytes.size())
      error = makeError(Status::Internal, "channel ", transfer.channel, " expects ", bytes.size(), " bytes, got ",
                        channel.bytes.size());
    if (!error && !bytes.empty())
      std::memcpy(bytes.data(), channel.bytes.data(), bytes.size());
    channel.taken.signal(turn);
    return error;
  }

private:
  using Channels = std::unordered_map<uint32_t, Channel>;
  Channels &channelsOf(Phase phase) { return channels[static_cast<unsigned>(phase)]; }

  // Filled by the constructor; afterwards only looked up, by several threads.
  std::array<Channels, 2> channels;
};

} // namespace

std::unique_ptr<Communicator> createLocalCommunicator(const Entry &entry) {
  return std::make_unique<LocalCommunicator>(entry);
}

} // namespace cleave::runtime
