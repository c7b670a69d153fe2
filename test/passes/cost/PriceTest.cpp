// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Prices of devices and their hosts.

#include "passes/cost/Price.h"

#include "passes/cost/MachineFile.h"

#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

using namespace cleave;

namespace {

Machine machineIn(llvm::StringRef text) {
  auto machine = parseMachineFile(text, "test.yaml");
  EXPECT_TRUE(bool(machine)) << llvm::toString(machine.takeError());
  return std::move(*machine);
}

constexpr llvm::StringLiteral priced = R"(
device_kinds: { a: { price: 2 USD/h }, b: {} }
hosts:
  - { count: 2, price: 0.5 USD/h, devices: [ { kind: a, count: 2 } ] }
  - { price: 10 USD/h, devices: [ { kind: b, count: 4 } ] }
)";

// Each device is paid for, and each host once.
TEST(PriceTest, SumsDevicesAndHosts) {
  Machine machine = machineIn(priced);
  EXPECT_EQ(pricePerHour(machine, {}), 0);
  EXPECT_EQ(pricePerHour(machine, {0}), 2.5);
  EXPECT_EQ(pricePerHour(machine, {0, 1}), 4.5);
  EXPECT_EQ(pricePerHour(machine, {1, 2}), 5);
  EXPECT_EQ(pricePerHour(machine, {4}), 10);
  EXPECT_EQ(pricePerHour(machine, {4, 5, 6, 7, 0}), 12.5);
  EXPECT_EQ(priceOf(7.2, 10), 0.02);
}

TEST(PriceTest, FindsWhatHasNone) {
  EXPECT_TRUE(hasPrices(machineIn(priced)));
  EXPECT_EQ(findUnpriced(machineIn(priced)), nullptr);
  Machine half = machineIn("device_kinds: { a: { price: 2 USD/h }, b: {} }\n"
                           "hosts: [ { devices: [ { kind: a }, { kind: b } ] } ]\n");
  ASSERT_NE(findUnpriced(half), nullptr);
  EXPECT_EQ(*findUnpriced(half), "b");
  Machine none = machineIn("device_kinds: { a: {} }\nhosts: [ { devices: [ { kind: a } ] } ]\n");
  EXPECT_FALSE(hasPrices(none));
}

// A machine that is written has its prices.
TEST(PriceTest, IsWritten) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  writeMachineFile(machineIn(priced), stream);
  Machine again = machineIn(text);
  EXPECT_EQ(again.kinds.at("a").price, 2);
  EXPECT_EQ(again.hosts.front().price, 0.5);
  EXPECT_EQ(again.hosts.back().price, 10);
}

} // namespace
