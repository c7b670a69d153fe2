// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decodes jumps, calls, and what the threads of a block or warp do together.

#include "Statement.h"

namespace cleave::ptx {
namespace {

void decodeJump(Statement &s) {
  s.take("uni");
  s.expectOperands(1);
  s.instruction.action = Action::Jump;
  s.builder.targetNext(s.operands[0].name, s.line);
  s.emit();
}

void decodeJumpByTable(Statement &s) {
  s.take("uni");
  if (!s.take("idx"))
    s.fail("'brx' is known as 'brx.idx' only");
  s.expectOperands(2);
  s.instruction.action = Action::JumpByTable;
  s.instruction.operands[0] = s.source(0, Type::U32);
  s.instruction.immediate = s.builder.tableIndex(s.operands[1].name, s.line);
  s.emit();
}

template <Action action> void decodeEnd(Statement &s) {
  s.take("uni");
  s.expectOperands(0);
  s.instruction.action = action;
  s.emit();
}

/// What moves between the caller's parameters, named by `operands`, and the callee's.
std::vector<CallSite::Piece> piecesOf(Statement &s, const std::vector<Operand> &operands,
                                      const std::vector<Parameter> &parameters) {
  if (operands.size() != parameters.size())
    s.fail("the function called expects " + std::to_string(parameters.size()) + " parameters or results, got " +
           std::to_string(operands.size()));
  std::vector<CallSite::Piece> pieces;
  for (size_t i = 0; i != operands.size(); ++i) {
    const Symbol *symbol = s.builder.find(operands[i].name);
    if (!symbol || symbol->kind != Symbol::Param || symbol->bytes != parameters[i].bytes)
      s.fail("expected a '.param' variable of " + std::to_string(parameters[i].bytes) + " bytes, got '" +
             std::string(operands[i].name) + "'");
    pieces.push_back({static_cast<uint32_t>(symbol->value), parameters[i].offset, parameters[i].bytes});
  }
  return pieces;
}

void decodeCall(Statement &s) {
  s.take("uni");
  auto operand = s.operands.begin();
  static const std::vector<Operand> none;
  const std::vector<Operand> *results = &none, *arguments = &none;
  if (operand != s.operands.end() && operand->kind == Operand::List)
    results = &(operand++)->elements;
  if (operand == s.operands.end() || operand->kind != Operand::Name)
    s.fail("'call' expects the name of a function");
  std::string callee((operand++)->name);
  if (operand != s.operands.end() && operand->kind == Operand::List)
    arguments = &(operand++)->elements;
  auto found = s.program.functionIndex.find(callee);
  if (operand != s.operands.end() || found == s.program.functionIndex.end())
    s.fail("'" + callee + "' is no function declared above; calls by address are not supported");
  const Function &function = s.program.functions[found->second];
  CallSite site{found->second, piecesOf(s, *arguments, function.parameters), piecesOf(s, *results, function.results)};
  s.instruction.action = Action::Call;
  s.instruction.immediate = static_cast<int64_t>(s.builder.function.calls.size());
  s.builder.function.calls.push_back(std::move(site));
  s.emit();
}

/// Blocks run one after the other and threads in turns, so that memory is always in order.
void decodeFence(Statement &s) {
  s.ignore({"cta", "gl", "sys", "gpu", "cluster", "sc", "acq_rel", "acquire", "release"});
  s.instruction.compute = [](const Instruction &, uint64_t *) {};
  s.emit();
}

void decodeWarpBarrier(Statement &s) {
  s.expectOperands(1);
  s.instruction.action = Action::WarpBarrier;
  s.instruction.operands[5] = s.source(0, Type::B32);
  s.emit();
}

/// Operands: result, barrier, number of threads, predicate. Instruction::count: whether all threads of a warp must be
/// at the same instruction.
void decodeBarrier(Statement &s) {
  if (s.take("warp")) {
    if (!s.take("sync"))
      s.fail("'bar.warp' is known as 'bar.warp.sync' only");
    return decodeWarpBarrier(s);
  }
  bool aligned = s.take("aligned") || s.name == "bar";
  s.take("cta");
  bool reduces = s.takeOneOf({"sync", "red"}) == 1;
  s.instruction.action = Action::Barrier;
  s.instruction.count = aligned;
  size_t first = reduces ? 1 : 0;
  if (reduces) {
    constexpr BarrierKind kinds[] = {BarrierKind::Count, BarrierKind::And, BarrierKind::Or};
    s.instruction.kind = static_cast<uint8_t>(kinds[s.takeOneOf({"popc", "and", "or"})]);
    s.takeType();
    s.expectOperands(3, 4);
    s.instruction.operands[0] = s.result(0);
    s.instruction.operands[3] = s.source(s.operands.back(), Type::Pred);
    s.operands.pop_back();
  } else {
    s.expectOperands(1, 2);
  }
  s.instruction.operands[1] = s.source(first, Type::U32);
  s.instruction.operands[2] = s.operands.size() > first + 1 ? s.source(first + 1, Type::U32) : noSlot;
  s.emit();
}

/// Operands: result, whether the lane read is in range, value, distance, clamp, mask of lanes.
void decodeShuffle(Statement &s) {
  if (!s.take("sync"))
    s.fail("'shfl' is known as 'shfl.sync' only");
  s.instruction.action = Action::Shuffle;
  s.instruction.kind = static_cast<uint8_t>(s.takeOneOf({"up", "down", "bfly", "idx"}));
  Type type = s.takeType();
  s.expectOperands(5);
  Operand first = s.operands[0];
  s.instruction.operands[1] = first.elements.empty() ? s.builder.newSlot() : s.result(first.elements[0]);
  s.instruction.operands[0] = s.result(0);
  for (size_t i = 1; i != 5; ++i)
    s.instruction.operands[i + 1] = s.source(i, type);
  s.emit();
}

/// Operands: result, value; the mask of lanes is where that of a shuffle is.
void decodeAmongLanes(Statement &s, VoteKind kind) {
  if (!s.take("sync"))
    s.fail("'" + std::string(s.name) + "' is known with '.sync' only");
  s.instruction.action = Action::Vote;
  s.instruction.kind = static_cast<uint8_t>(kind);
  s.instruction.type = s.takeType();
  s.expectOperands(3);
  s.instruction.operands[0] = s.result(0);
  s.instruction.operands[1] = s.source(1, s.name == "vote" ? Type::Pred : s.instruction.type);
  s.instruction.operands[5] = s.source(2, Type::B32);
  s.emit();
}

void decodeVote(Statement &s) {
  constexpr VoteKind kinds[] = {VoteKind::Any, VoteKind::All, VoteKind::Uniform, VoteKind::Ballot};
  decodeAmongLanes(s, kinds[s.takeOneOf({"any", "all", "uni", "ballot"})]);
}

void decodeMatch(Statement &s) {
  if (!s.take("any"))
    s.fail("'match' is known as 'match.any' only");
  decodeAmongLanes(s, VoteKind::MatchAny);
}

void decodeReduction(Statement &s) {
  constexpr VoteKind kinds[] = {VoteKind::Add, VoteKind::Min, VoteKind::Max,
                                VoteKind::And, VoteKind::Or,  VoteKind::Xor};
  decodeAmongLanes(s, kinds[s.takeOneOf({"add", "min", "max", "and", "or", "xor"})]);
}

} // namespace

void addControlDecoders(DecoderTable &table) {
  table["bra"] = decodeJump;
  table["brx"] = decodeJumpByTable;
  table["call"] = decodeCall;
  table["ret"] = decodeEnd<Action::Return>;
  table["exit"] = decodeEnd<Action::Exit>;
  table["trap"] = decodeEnd<Action::Trap>;
  table["membar"] = table["fence"] = decodeFence;
}

void addWarpDecoders(DecoderTable &table) {
  table["bar"] = table["barrier"] = decodeBarrier;
  table["shfl"] = decodeShuffle;
  table["vote"] = decodeVote;
  table["match"] = decodeMatch;
  table["redux"] = decodeReduction;
}

} // namespace cleave::ptx
