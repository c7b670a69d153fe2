// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How much longer everything takes than in an ordinary build: for tests that wait for something without seeing it.

#ifndef CLEAVE_TEST_RUNTIME_SLOWNESS_H
#define CLEAVE_TEST_RUNTIME_SLOWNESS_H

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CLEAVE_TEST_SANITIZED
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CLEAVE_TEST_SANITIZED
#endif

namespace cleave::runtime::test {

#ifdef CLEAVE_TEST_SANITIZED
constexpr int slowness = 5;
#else
constexpr int slowness = 1;
#endif

} // namespace cleave::runtime::test

#endif // CLEAVE_TEST_RUNTIME_SLOWNESS_H
