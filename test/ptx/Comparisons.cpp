// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Comparisons, and choices between two values.

#include "Formats.h"
#include "Statement.h"
#include "Values.h"

#include <cmath>

namespace cleave::ptx {
namespace {

using Compute = Instruction::Compute;

/// `unordered` comparisons are true where one of the values is NaN.
enum Relation : uint8_t { Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual, Number, NaN };
constexpr uint8_t unordered = 8;
/// What becomes of the result and a further predicate.
enum Combination : uint8_t { Alone, WithAnd, WithOr, WithXor };

template <typename T> bool compare(uint8_t kind, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    bool anyNaN = std::isnan(a) || std::isnan(b);
    if ((kind & 7) == Number)
      return !anyNaN;
    if ((kind & 7) == NaN)
      return anyNaN;
    if (anyNaN)
      return kind & unordered;
  }
  switch (kind & 7) {
  case Equal:
    return a == b;
  case NotEqual:
    return a != b;
  case Less:
    return a < b;
  case LessEqual:
    return a <= b;
  case Greater:
    return a > b;
  default:
    return a >= b;
  }
}

bool combine(uint8_t combination, bool result, bool other) {
  switch (combination) {
  case WithAnd:
    return result && other;
  case WithOr:
    return result || other;
  case WithXor:
    return result != other;
  default:
    return result;
  }
}

template <typename T> T flushed(const Instruction &i, T value) {
  if constexpr (std::is_floating_point_v<T>)
    if (i.flush && std::fpclassify(value) == FP_SUBNORMAL)
      return std::copysign(T(0), value);
  return value;
}

double element(const Instruction &i, const uint64_t *slots, int operand, int index) {
  auto bits = static_cast<uint16_t>(slots[i.operands[operand]] >> (16 * index));
  return i.type == Type::BF16 || i.type == Type::BF16x2 ? fromBrain(bits) : fromHalf(bits);
}

// Operands of setp: result, opposite result, a, b, the further predicate. Instruction::count is the combination.

template <typename T> void setPredicate(const Instruction &i, uint64_t *slots) {
  T a = flushed(i, read<T>(slots, i.operands[2])), b = flushed(i, read<T>(slots, i.operands[3]));
  bool result = compare(i.kind, a, b), other = slots[i.operands[4]] & 1;
  slots[i.operands[0]] = combine(i.count, result, other);
  slots[i.operands[1]] = combine(i.count, !result, other);
}

/// Of two elements each result is that of its own.
template <int elements> void setNarrowPredicate(const Instruction &i, uint64_t *slots) {
  bool results[2], other = slots[i.operands[4]] & 1;
  for (int e = 0; e != elements; ++e)
    results[e] = compare(i.kind, element(i, slots, 2, e), element(i, slots, 3, e));
  slots[i.operands[0]] = combine(i.count, results[0], other);
  slots[i.operands[1]] = combine(i.count, elements == 2 ? results[1] : !results[0], other);
}

Compute setPredicateOf(Type type) {
  switch (type) {
  case Type::F32:
    return together<setPredicate<float>>();
  case Type::F64:
    return setPredicate<double>;
  case Type::F16:
  case Type::BF16:
    return setNarrowPredicate<1>;
  case Type::F16x2:
  case Type::BF16x2:
    return setNarrowPredicate<2>;
  default:
    return withInteger(type, [](auto t) -> Compute { return together<setPredicate<decltype(t)>>(); });
  }
}

void takeRelation(Statement &s) {
  int relation = s.takeOneOf({"eq", "ne", "lt", "le", "gt", "ge", "num", "nan", "equ", "neu", "ltu", "leu", "gtu",
                              "geu", "lo", "ls", "hi", "hs"});
  // lo, ls, hi and hs are lt, le, gt and ge of unsigned integers.
  s.instruction.kind = static_cast<uint8_t>(relation >= 14 ? relation - 14 + Less : relation);
  s.instruction.count = static_cast<uint8_t>(s.takeOneOf({"", "and", "or", "xor"}, Alone));
  s.instruction.flush = s.take("ftz");
}

/// The operands from a on, with the predicate that the result is combined with.
void placeSources(Statement &s, Type type) {
  bool combined = s.instruction.count != Alone;
  s.expectOperands(combined ? 4 : 3);
  s.instruction.type = type;
  s.instruction.operands[2] = s.source(1, type);
  s.instruction.operands[3] = s.source(2, type);
  s.instruction.operands[4] = combined ? s.source(3, Type::Pred) : s.builder.constant(0);
}

void decodeSetPredicate(Statement &s) {
  takeRelation(s);
  Type type = s.takeType();
  placeSources(s, type);
  Operand first = s.operands[0];
  s.instruction.operands[1] = first.elements.empty() ? s.builder.newSlot() : s.result(first.elements[0]);
  s.instruction.operands[0] = s.result(0);
  s.instruction.compute = setPredicateOf(type);
  s.emit();
}

uint64_t trueValue(Statement &s, Type type) {
  switch (type) {
  case Type::F32:
    return 0x3f800000;
  case Type::F16:
    return 0x3c00;
  case Type::BF16:
    return 0x3f80;
  case Type::U16:
  case Type::S16:
  case Type::U32:
  case Type::S32:
    return ~uint64_t(0);
  default:
    s.fail("'set' is not known with this type of result");
  }
}

void select(const Instruction &i, uint64_t *slots) {
  slots[i.operands[0]] = slots[i.operands[slots[i.operands[3]] & 1 ? 1 : 2]];
}

/// set: a comparison into a predicate of its own, then a choice between the type's true and zero.
void decodeSet(Statement &s) {
  takeRelation(s);
  Type resultType = s.takeType(), type = s.takeType();
  placeSources(s, type);
  Instruction choose;
  choose.operands = {s.result(0), s.builder.constant(trueValue(s, resultType)), s.builder.constant(0),
                     s.builder.newSlot()};
  choose.compute = together<select>();
  Instruction compare = s.instruction;
  compare.operands[0] = choose.operands[3];
  compare.operands[1] = s.builder.newSlot();
  compare.compute = setPredicateOf(type);
  s.emitBefore(compare);
  choose.line = s.line;
  choose.guard = s.instruction.guard;
  choose.guardInverted = s.instruction.guardInverted;
  s.instruction = choose;
  s.emit();
}

void decodeSelect(Statement &s) {
  Type type = s.takeType();
  s.expectOperands(4);
  s.instruction.operands = {s.result(0), s.source(1, type), s.source(2, type), s.source(3, Type::Pred)};
  s.instruction.compute = together<select>();
  s.emit();
}

/// a where c is at least zero, else b.
template <typename T> void selectBySign(const Instruction &i, uint64_t *slots) {
  T c = flushed(i, read<T>(slots, i.operands[3]));
  slots[i.operands[0]] = slots[i.operands[c >= T(0) ? 1 : 2]];
}

void decodeSelectBySign(Statement &s) {
  s.instruction.flush = s.take("ftz");
  Type type = s.takeType(), deciding = s.takeType();
  s.expectOperands(4);
  s.instruction.operands = {s.result(0), s.source(1, type), s.source(2, type), s.source(3, deciding)};
  s.instruction.compute = deciding == Type::F32 ? selectBySign<float> : selectBySign<int32_t>;
  s.emit();
}

} // namespace

void addComparisonDecoders(DecoderTable &table) {
  table["setp"] = decodeSetPredicate;
  table["set"] = decodeSet;
  table["selp"] = decodeSelect;
  table["slct"] = decodeSelectBySign;
}

} // namespace cleave::ptx
