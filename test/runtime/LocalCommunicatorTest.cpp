// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The conformance tests of communicators, for the local one.

#include "CommunicatorConformance.h"

#include "runtime/Communicator.h"

namespace cleave::runtime::test {
namespace {

const CommunicatorKind kinds[] = {{"local", [](uint32_t) { return true; }, createLocalCommunicator}};
INSTANTIATE_TEST_SUITE_P(Local, CommunicatorConformanceTest, testing::ValuesIn(kinds),
                         [](const auto &info) { return info.param.name; });

} // namespace
} // namespace cleave::runtime::test
