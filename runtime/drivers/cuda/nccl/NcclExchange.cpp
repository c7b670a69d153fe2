// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Both processes of a message walk the channel's pieces in their order, so the one packs as the other unpacks.

#include "runtime/drivers/cuda/nccl/NcclExchange.h"

namespace cleave::runtime {
namespace {

class NcclExchange : public CudaLink {
public:
  NcclExchange(NcclLinkContext &context, std::vector<CudaEnd> ends, std::unique_ptr<CudaLink> inside)
      : context(context), gathering(context, std::move(ends)), inside(std::move(inside)) {}

  Error prepare(const ExchangeChannel &channel) {
    uint32_t own = context.world->rank();
    for (const Piece &piece : channel.pieces) {
      uint32_t from = context.rankOfSite[piece.from], to = context.rankOfSite[piece.to];
      if (from == to || (from != own && to != own))
        continue;
      bool isSent = from == own;
      const CudaEnd::Operand &operand = gathering.find(isSent ? piece.from : piece.to)->operands[piece.operand];
      auto &messages = isSent ? sent : received;
      auto side = isSent ? NcclMessage::Side::Sent : NcclMessage::Side::Received;
      NcclMessage &message = messages.try_emplace(isSent ? to : from, side).first->second;
      message.add(isSent ? operand.source : operand.target, piece.box);
    }
    for (auto *messages : {&sent, &received})
      for (auto &[rank, message] : *messages)
        if (Error error = message.prepare(context.messages))
          return error;
    return gathering.prepare();
  }

  Error enqueue() override {
    if (Error error = inside->enqueue())
      return error;
    if (sent.empty() && received.empty())
      return Error::success();
    if (Error error = gathering.join())
      return error;
    for (auto &[rank, message] : sent)
      if (Error error = message.enqueue(gathering.stream()))
        return error;
    if (Error error = transfer(gathering.stream()))
      return error;
    for (auto &[rank, message] : received)
      if (Error error = message.enqueue(gathering.stream()))
        return error;
    return gathering.part();
  }

private:
  Error transfer(cudaStream_t stream) {
    NcclWorld &world = *context.world;
    const Nccl &nccl = world.library();
    return world.communicate(stream, "sending and receiving", [&](NcclCalls &calls) {
      for (auto &[rank, message] : sent)
        calls.note(
            nccl.ncclSend(message.data(), message.bytes(), ncclInt8, static_cast<int>(rank), world.all(), stream));
      for (auto &[rank, message] : received)
        calls.note(
            nccl.ncclRecv(message.data(), message.bytes(), ncclInt8, static_cast<int>(rank), world.all(), stream));
    });
  }

  NcclLinkContext &context;
  NcclGathering gathering;
  std::unique_ptr<CudaLink> inside;
  std::map<uint32_t, NcclMessage> sent, received; ///< by the other rank
};

} // namespace

Expected<std::unique_ptr<CudaLink>> createNcclExchange(NcclLinkContext &context, const ExchangeChannel &channel,
                                                       std::vector<CudaEnd> ends, std::unique_ptr<CudaLink> inside) {
  auto link = std::make_unique<NcclExchange>(context, std::move(ends), std::move(inside));
  if (Error error = link->prepare(channel))
    return error;
  return std::unique_ptr<CudaLink>(std::move(link));
}

} // namespace cleave::runtime
