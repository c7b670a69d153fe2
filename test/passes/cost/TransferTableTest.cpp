// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Links from tables of transfers whose answer is known.

#include "passes/cost/TransferTable.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace cleave;

namespace {

std::vector<MeasuredLink> tableOf(llvm::StringRef text) {
  auto table = parseTransferTable(text, "t.csv");
  EXPECT_TRUE(bool(table)) << llvm::toString(table.takeError());
  return table ? std::move(*table) : std::vector<MeasuredLink>();
}

std::string whyNoTable(llvm::StringRef text) {
  auto table = parseTransferTable(text, "t.csv");
  EXPECT_FALSE(bool(table));
  return table ? "" : llvm::toString(table.takeError());
}

// Rows that lie on a line give it back: 30 ms and 0.1 GB/s one way, 20 ms and 1 GB/s the other.
TEST(TransferTableTest, Exact) {
  auto table = tableOf("# measured\nfrom, to, bytes, seconds\neast,west,1e3,0.03001\neast,west,1e6,0.04\n\n"
                       "west,east,1e6,0.021\neast,west,1e9,10.03\nwest,east,1e9,1.02\n");
  ASSERT_EQ(table.size(), 2u);
  EXPECT_EQ(table[0].link, (LinkSpec{0.1e9, 30e-3}));
  EXPECT_EQ(table[0].samples.size(), 3u);
  EXPECT_NEAR(table[0].worst, 0, 1e-12);
  EXPECT_EQ(table[1].from, "west");
  EXPECT_EQ(table[1].link, (LinkSpec{1e9, 20e-3}));
  auto links = zoneLinksOf(table);
  EXPECT_FALSE(links[0].bothWays);
  EXPECT_FALSE(links[1].bothWays);
  EXPECT_TRUE(zoneLinksOf(llvm::ArrayRef(table).take_front())[0].bothWays);
}

// Two transfers of each of two sizes, 10 % more and 10 % less than 1 s and 2 s. Relative errors are least where each
// size takes the weighted mean of its two, (1/a + 1/b) / (1/a^2 + 1/b^2): 0.99 / 1.01 of 1 s and 2 s; the worst is then
// the slower one's, 1 - 0.99 / 1.01 / 1.1.
TEST(TransferTableTest, RelativeErrors) {
  auto table = tableOf("bytes,seconds\n1e6,0.9\n1e6,1.1\n2e9,1.8\n2e9,2.2\n");
  ASSERT_EQ(table.size(), 1u);
  double part = 0.99 / 1.01, perByte = part / (2e9 - 1e6), latency = part - 1e6 * perByte;
  EXPECT_NEAR(table[0].link.bandwidth, 1 / perByte, 0.005 / perByte);
  EXPECT_NEAR(table[0].link.latency, latency, 0.005 * latency);
  EXPECT_NEAR(table[0].worst, 1 - part / 1.1, 0.006);
}

// Small transfers that took less than their part of large ones have no negative latency.
TEST(TransferTableTest, NoNegativeLatency) {
  auto table = tableOf("bytes,seconds\n1e6,0.0005\n1e9,1\n");
  EXPECT_EQ(table[0].link.latency, 0);
  // The least of (x / 0.0005e-6 ...): v = 2e9 and 1e9 bytes a second, (v1 + v2) / (v1^2 + v2^2).
  EXPECT_NEAR(table[0].link.bandwidth, 5e18 / 3e9, 0.005 * 5e18 / 3e9);
  EXPECT_NEAR(table[0].worst, 0.4, 0.003);
  EXPECT_EQ(table[0].worstAt, 1e9);
}

TEST(TransferTableTest, Errors) {
  EXPECT_EQ(whyNoTable(""), "t.csv:1:1: a table of transfers expects a line of columns and rows, found none");
  EXPECT_EQ(whyNoTable("size,time\n1,2\n"), "t.csv:1:1: a table of transfers expects the columns \"bytes,seconds\" or "
                                            "\"from,to,bytes,seconds\", got \"size,time\"");
  EXPECT_EQ(whyNoTable("bytes,seconds\n1,2,3\n"), "t.csv:2:1: a row expects 2 cells, got 3");
  EXPECT_EQ(whyNoTable("bytes,seconds\n1000, fast\n"),
            "t.csv:2:7: seconds expects a number greater than 0, got \"fast\"");
  EXPECT_EQ(whyNoTable("bytes,seconds\n0,1\n"), "t.csv:2:1: bytes expects a number greater than 0, got \"0\"");
  EXPECT_EQ(whyNoTable("bytes,seconds\n5,1\n5,2\n"),
            "t.csv:2:1: a link expects transfers of at least two sizes, got one");
  EXPECT_EQ(whyNoTable("from,to,bytes,seconds\n,b,1,1\n"),
            "t.csv:2:1: a transfer expects the names of two zones, got none");
  EXPECT_EQ(whyNoTable("from,to,bytes,seconds\na,b,1000,1\na,b,100,nan\n"),
            "t.csv:3:9: seconds expects a number greater than 0, got \"nan\"");
  EXPECT_EQ(whyNoTable("from,to,bytes,seconds\na,b,1000,5\na,b,1000000,1\n"),
            "t.csv:2:1: a link from \"a\" to \"b\" expects transfers that take longer the larger they are, got no such "
            "growth");
}

// What was there keeps what the table does not say.
TEST(TransferTableTest, IntoAMachine) {
  Machine machine;
  machine.name = "m";
  for (const char *zone : {"a", "b"})
    machine.hosts.emplace_back().zone = zone;
  machine.links.push_back({"b", "a", true, true, {1, 2, 3, 4}});
  auto table = tableOf("from,to,bytes,seconds\na,b,1e3,0.03001\na,b,1e9,10.03\n");
  EXPECT_FALSE(bool(setLinks(machine, table)));
  ASSERT_EQ(machine.links.size(), 1u);
  EXPECT_EQ(machine.links[0], (ZoneLinkSpec{"b", "a", true, true, {0.1e9, 30e-3, 3, 4}}));
  machine.network = NetworkSpec{{1, 2, 0, 9}, 4};
  EXPECT_FALSE(bool(setLinks(machine, tableOf("bytes,seconds\n1e3,0.03001\n1e9,10.03\n"))));
  EXPECT_EQ(*machine.network, (NetworkSpec{{0.1e9, 30e-3, 0, 9}, 4}));
  EXPECT_EQ(llvm::toString(setLinks(machine, tableOf("from,to,bytes,seconds\na,c,1e3,0.03\na,c,1e9,10\n"))),
            "t.csv:2:1: a transfer expects zones of machine \"m\", got \"c\"");
}

} // namespace
