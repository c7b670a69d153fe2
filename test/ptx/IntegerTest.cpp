// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Integer arithmetic and bits, against the host's in another form or values worked out by hand.

#include "Snippet.h"

#include <random>

namespace cleave::ptx::test {
namespace {

/// Numbers at the edges of 32 bits and some at random.
std::vector<uint32_t> words() {
  std::vector<uint32_t> result = {0, 1, 2, 31, 32, 255, 0x7fffffff, 0x80000000, 0x80000001, 0xfffffffe, 0xffffffff};
  std::mt19937 random(5);
  for (int i = 0; i != 5; ++i)
    result.push_back(static_cast<uint32_t>(random()));
  return result;
}

// Sums and products wrap, and high halves are those of the 64-bit product.
TEST(PtxInteger, ArithmeticOf32Bits) {
  for (uint32_t a : words())
    for (uint32_t b : words()) {
      auto sa = static_cast<int32_t>(a), sb = static_cast<int32_t>(b);
      EXPECT_EQ(evaluate<uint32_t>("add.s32 %d, %a, %b;", {a, b}), static_cast<uint32_t>(uint64_t{a} + b));
      EXPECT_EQ(evaluate<uint32_t>("sub.u32 %d, %a, %b;", {a, b}), static_cast<uint32_t>(uint64_t{a} - b));
      EXPECT_EQ(evaluate<uint32_t>("mul.lo.s32 %d, %a, %b;", {a, b}), static_cast<uint32_t>(int64_t{sa} * sb));
      EXPECT_EQ(evaluate<uint32_t>("mul.hi.u32 %d, %a, %b;", {a, b}), static_cast<uint32_t>((uint64_t{a} * b) >> 32));
      EXPECT_EQ(evaluate<int32_t>("mul.hi.s32 %d, %a, %b;", {a, b}), static_cast<int32_t>((int64_t{sa} * sb) >> 32));
      EXPECT_EQ(evaluate<int64_t>("mul.wide.s32 %d, %a, %b;", {a, b}), int64_t{sa} * sb);
      EXPECT_EQ(evaluate<uint64_t>("mul.wide.u32 %d, %a, %b;", {a, b}), uint64_t{a} * b);
      EXPECT_EQ(evaluate<int32_t>("min.s32 %d, %a, %b;", {a, b}), sa < sb ? sa : sb);
      EXPECT_EQ(evaluate<uint32_t>("max.u32 %d, %a, %b;", {a, b}), a < b ? b : a);
    }
}

// A division by zero or of the least number by -1 must not bring the host down.
TEST(PtxInteger, Divisions) {
  for (uint32_t a : words())
    for (uint32_t b : words()) {
      auto sa = static_cast<int32_t>(a), sb = static_cast<int32_t>(b);
      uint32_t quotient = evaluate<uint32_t>("div.u32 %d, %a, %b;", {a, b});
      uint32_t rest = evaluate<uint32_t>("rem.u32 %d, %a, %b;", {a, b});
      int32_t signedQuotient = evaluate<int32_t>("div.s32 %d, %a, %b;", {a, b});
      int32_t signedRest = evaluate<int32_t>("rem.s32 %d, %a, %b;", {a, b});
      if (b == 0)
        continue;
      EXPECT_EQ(uint64_t{quotient} * b + rest, a);
      EXPECT_LT(rest, b);
      EXPECT_EQ(static_cast<uint32_t>(int64_t{signedQuotient} * sb + signedRest), a);
      EXPECT_TRUE(signedRest == 0 || (signedRest < 0) == (sa < 0));
    }
}

// Registers are wider than what an instruction works on.
TEST(PtxInteger, OtherWidths) {
  EXPECT_EQ(evaluate<uint16_t>("add.s16 %d, %a, %b;", {uint16_t(0xffff), uint16_t(2)}), 1);
  EXPECT_EQ(evaluate<uint32_t>("mul.wide.u16 %d, %a, %b;", {uint16_t(0xffff), uint16_t(0xffff)}), 0xfffe0001u);
  EXPECT_EQ(evaluate<int32_t>("mul.wide.s16 %d, %a, %b;", {int16_t(-3), int16_t(7)}), -21);
  EXPECT_EQ(evaluate<uint64_t>("mul.hi.u64 %d, %a, %b;", {~uint64_t(0), ~uint64_t(0)}), ~uint64_t(0) - 1);
  EXPECT_EQ(evaluate<int64_t>("mul.hi.s64 %d, %a, %b;", {int64_t(-1), int64_t(1)}), -1);
  EXPECT_EQ(evaluate<int64_t>("mad.wide.s32 %d, %a, %b, %c;", {int32_t(-5), int32_t(1 << 30), int64_t(3)}),
            -5 * (int64_t(1) << 30) + 3);
  EXPECT_EQ(evaluate<int32_t>("mad.lo.s32 %d, %a, %b, %c;", {7, -6, 2}), -40);
  EXPECT_EQ(evaluate<uint32_t>("mad.hi.u32 %d, %a, %b, %c;", {0x80000000u, 6u, 2u}), 5u);
  EXPECT_EQ(evaluate<int32_t>("add.sat.s32 %d, %a, %b;", {0x7fffffff, 1}), 0x7fffffff);
  EXPECT_EQ(evaluate<uint32_t>("sub.sat.s32 %d, %a, %b;", {0x80000000u, 1u}), 0x80000000u);
  EXPECT_EQ(evaluate<int64_t>("neg.s64 %d, %a;", {int64_t(5)}), -5);
  EXPECT_EQ(evaluate<uint32_t>("abs.s32 %d, %a;", {0x80000000u}), 0x80000000u);
  EXPECT_EQ(evaluate<uint32_t>("sad.u32 %d, %a, %b, %c;", {3u, 10u, 100u}), 107u);
  EXPECT_EQ(evaluate<uint64_t>("rem.u64 %d, %a, %b;", {uint64_t(1) << 40, uint64_t(1000)}), (uint64_t(1) << 40) % 1000);
}

// Chains with a carry are how compilers write 128-bit arithmetic and the reduction of large angles.
TEST(PtxInteger, Carries) {
  std::mt19937_64 random(7);
  for (int i = 0; i != 20; ++i) {
    uint64_t a = random(), b = random();
    std::string split = ".reg .b32 al, ah, bl, bh, dl, dh, zero;\n mov.u32 zero, 0;"
                        " mov.b64 {al, ah}, %a; mov.b64 {bl, bh}, %b;\n";
    EXPECT_EQ(evaluate<uint64_t>(split + "add.cc.u32 dl, al, bl; addc.u32 dh, ah, bh; mov.b64 %d, {dl, dh};", {a, b}),
              a + b);
    EXPECT_EQ(evaluate<uint64_t>(split + "sub.cc.u32 dl, al, bl; subc.u32 dh, ah, bh; mov.b64 %d, {dl, dh};", {a, b}),
              a - b);
    // The carry out of the highest word is the borrow of a comparison.
    EXPECT_EQ(
        evaluate<uint32_t>(split + "sub.cc.u32 dl, al, bl; subc.cc.u32 dh, ah, bh; subc.u32 %d, zero, zero;", {a, b}),
        a < b ? ~0u : 0u);
    // al * b, of which the lower 64 bits.
    EXPECT_EQ(evaluate<uint64_t>(split + "mul.lo.u32 dl, al, bl; mul.hi.u32 dh, al, bl; mad.lo.cc.u32 dh, al, bh, dh;"
                                         "mov.b64 %d, {dl, dh};",
                                 {a, b}),
              (a & 0xffffffff) * b);
    EXPECT_EQ(evaluate<uint32_t>(split + "mul.lo.u32 dl, al, bl; mul.hi.u32 dh, al, bl; mad.lo.cc.u32 dh, al, bh, dh;"
                                         "madc.hi.u32 %d, al, bh, zero;",
                                 {a, b}),
              static_cast<uint32_t>((static_cast<unsigned __int128>(a & 0xffffffff) * b) >> 64));
  }
}

// PTX defines shifts by any count; the host does not.
TEST(PtxBits, Shifts) {
  for (uint32_t count : {0u, 1u, 31u, 32u, 33u, 63u, 64u, 200u, 0xffffffffu}) {
    uint64_t value = 0x9234567812345678;
    auto low = static_cast<uint32_t>(value >> 32);
    EXPECT_EQ(evaluate<uint32_t>("shl.b32 %d, %a, %b;", {low, count}), count > 31 ? 0 : low << count);
    EXPECT_EQ(evaluate<uint32_t>("shr.u32 %d, %a, %b;", {low, count}), count > 31 ? 0 : low >> count);
    EXPECT_EQ(evaluate<int32_t>("shr.s32 %d, %a, %b;", {low, count}),
              static_cast<int32_t>(low) >> (count > 31 ? 31 : count));
    EXPECT_EQ(evaluate<uint64_t>("shl.b64 %d, %a, %b;", {value, count}), count > 63 ? 0 : value << count);
    EXPECT_EQ(evaluate<int64_t>("shr.s64 %d, %a, %b;", {value, count}),
              static_cast<int64_t>(value) >> (count > 63 ? 63 : count));
    EXPECT_EQ(evaluate<uint16_t>("shr.u16 %d, %a, %b;", {uint16_t(0x9234), count}), count > 15 ? 0 : 0x9234 >> count);
    uint64_t both = uint64_t{0x9abcdef0} << 32 | low;
    uint32_t wrapped = count & 31, clamped = count > 32 ? 32 : count;
    EXPECT_EQ(evaluate<uint32_t>("shf.l.wrap.b32 %d, %a, %b, %c;", {low, 0x9abcdef0u, count}),
              static_cast<uint32_t>(both >> (32 - wrapped)));
    EXPECT_EQ(evaluate<uint32_t>("shf.r.clamp.b32 %d, %a, %b, %c;", {low, 0x9abcdef0u, count}),
              static_cast<uint32_t>(both >> clamped));
  }
}

// Fields that end beyond the register's last bit are where descriptions of bfe and bfi differ.
TEST(PtxBits, Fields) {
  EXPECT_EQ(evaluate<uint32_t>("bfe.u32 %d, %a, %b, %c;", {0xabcd1234u, 8u, 8u}), 0x12u);
  EXPECT_EQ(evaluate<uint32_t>("bfe.u32 %d, %a, %b, %c;", {0xabcd1234u, 28u, 8u}), 0xau);
  EXPECT_EQ(evaluate<int32_t>("bfe.s32 %d, %a, %b, %c;", {0xabcd1234u, 28u, 8u}), -6);
  EXPECT_EQ(evaluate<int32_t>("bfe.s32 %d, %a, %b, %c;", {0x00000f00u, 8u, 4u}), -1);
  EXPECT_EQ(evaluate<int32_t>("bfe.s32 %d, %a, %b, %c;", {0x80000000u, 40u, 4u}), -1);
  EXPECT_EQ(evaluate<uint32_t>("bfe.u32 %d, %a, %b, %c;", {0x80000000u, 40u, 4u}), 0u);
  EXPECT_EQ(evaluate<uint32_t>("bfe.u32 %d, %a, %b, %c;", {0x80000001u, 0u, 32u}), 0x80000001u);
  EXPECT_EQ(evaluate<int32_t>("bfe.s32 %d, %a, %b, %c;", {0xffffffffu, 3u, 0u}), 0);
  EXPECT_EQ(evaluate<uint64_t>("bfe.u64 %d, %a, %b, %c;", {0x123456789abcdef0u, 36u, 12u}), 0x567u);
  EXPECT_EQ(evaluate<uint32_t>("bfi.b32 %d, %a, %b, %c, %e;", {0x5u, 0xffffffffu, 4u, 4u}), 0xffffff5fu);
  EXPECT_EQ(evaluate<uint32_t>("bfi.b32 %d, %a, %b, %c, %e;", {0x0u, 0xffffffffu, 28u, 8u}), 0x0fffffffu);
  EXPECT_EQ(evaluate<uint32_t>("bfi.b32 %d, %a, %b, %c, %e;", {0x0u, 0x12345678u, 32u, 8u}), 0x12345678u);
  EXPECT_EQ(evaluate<uint64_t>("bfi.b64 %d, %a, %b, %c, %e;", {uint64_t(0xab), uint64_t(0), 56u, 8u}), uint64_t(0xab)
                                                                                                           << 56);
}

// Counts and searches, with the edge where nothing is found.
TEST(PtxBits, Counts) {
  EXPECT_EQ(evaluate<uint32_t>("clz.b32 %d, %a;", {0u}), 32u);
  EXPECT_EQ(evaluate<uint32_t>("clz.b64 %d, %a;", {uint64_t(1)}), 63u);
  EXPECT_EQ(evaluate<uint32_t>("popc.b64 %d, %a;", {uint64_t(0xf0f0000000000001)}), 9u);
  EXPECT_EQ(evaluate<uint32_t>("brev.b32 %d, %a;", {0x00000003u}), 0xc0000000u);
  EXPECT_EQ(evaluate<uint64_t>("brev.b64 %d, %a;", {uint64_t(1)}), uint64_t(1) << 63);
  EXPECT_EQ(evaluate<uint32_t>("bfind.u32 %d, %a;", {0u}), ~0u);
  EXPECT_EQ(evaluate<uint32_t>("bfind.u32 %d, %a;", {0x00800000u}), 23u);
  EXPECT_EQ(evaluate<uint32_t>("bfind.s32 %d, %a;", {-1}), ~0u);
  EXPECT_EQ(evaluate<uint32_t>("bfind.s32 %d, %a;", {-256}), 7u);
  EXPECT_EQ(evaluate<uint32_t>("bfind.shiftamt.u32 %d, %a;", {1u}), 31u);
  EXPECT_EQ(evaluate<uint32_t>("fns.b32 %d, %a, %b, %c;", {0b10110u, 0u, 2}), 2u);
  EXPECT_EQ(evaluate<uint32_t>("fns.b32 %d, %a, %b, %c;", {0b10110u, 3u, -2}), 1u);
  EXPECT_EQ(evaluate<uint32_t>("fns.b32 %d, %a, %b, %c;", {0b10110u, 0u, 4}), ~0u);
}

// The table of lop3 is the function's value for 0xf0, 0xcc and 0xaa, as the manual defines it.
TEST(PtxBits, Logic) {
  std::mt19937 random(3);
  auto a = static_cast<uint32_t>(random()), b = static_cast<uint32_t>(random()), c = static_cast<uint32_t>(random());
  auto table = [](auto f) { return std::to_string(f(0xf0u, 0xccu, 0xaau) & 255); };
  auto choose = [](uint32_t x, uint32_t y, uint32_t z) { return (x & y) | (~x & z); };
  auto odd = [](uint32_t x, uint32_t y, uint32_t z) { return x ^ y ^ z; };
  EXPECT_EQ(evaluate<uint32_t>("lop3.b32 %d, %a, %b, %c, " + table(choose) + ";", {a, b, c}), choose(a, b, c));
  EXPECT_EQ(evaluate<uint32_t>("lop3.b32 %d, %a, %b, %c, " + table(odd) + ";", {a, b, c}), odd(a, b, c));
  EXPECT_EQ(evaluate<uint32_t>("not.b32 %d, %a;", {a}), ~a);
  EXPECT_EQ(evaluate<uint32_t>("and.b32 %d, %a, %b;", {a, b}), a & b);
  EXPECT_EQ(evaluate<uint32_t>("xor.b32 %d, %a, %b;", {a, b}), a ^ b);
  EXPECT_TRUE(holds("setp.eq.s32 %q1, %a, %a; not.pred %q2, %q1; or.pred %q0, %q1, %q2;", {a}));
  EXPECT_FALSE(holds("setp.eq.s32 %q1, %a, %a; not.pred %q2, %q1; and.pred %q0, %q1, %q2;", {a}));
}

// Bytes picked by number, with the sign of one, and by prmt's named modes.
TEST(PtxBits, Permutations) {
  uint32_t a = 0x83021100u, b = 0x77665544u;
  EXPECT_EQ(evaluate<uint32_t>("prmt.b32 %d, %a, %b, 0x7410;", {a, b}), 0x77441100u);
  EXPECT_EQ(evaluate<uint32_t>("prmt.b32 %d, %a, %b, 0xb0b8;", {a, b}), 0xff00ff00u);
  EXPECT_EQ(evaluate<uint32_t>("prmt.b32.f4e %d, %a, %b, %c;", {a, b, 1u}), 0x44830211u);
  EXPECT_EQ(evaluate<uint32_t>("prmt.b32.rc8 %d, %a, %b, %c;", {a, b, 2u}), 0x02020202u);
  EXPECT_EQ(evaluate<uint32_t>("prmt.b32.rc16 %d, %a, %b, %c;", {a, b, 1u}), 0x83028302u);
}

} // namespace
} // namespace cleave::ptx::test
