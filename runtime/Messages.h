// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Messages between two processes of a run, apart from the communication of steps: one process tells
// another what to do, and waits for the answer.

#ifndef CLEAVE_RUNTIME_MESSAGES_H
#define CLEAVE_RUNTIME_MESSAGES_H

#include "runtime/Error.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cleave::runtime {

/// Messages have parts, of sizes that both ends know. Two processes have as many lines between them as they like, by
/// number; on each, messages come in the order in which they were sent. Thread-safe, but for two threads that send, or
/// that receive, on one line at the same time.
class Messages {
public:
  using Parts = std::vector<std::span<std::byte>>;
  using ConstParts = std::vector<std::span<const std::byte>>;

  virtual ~Messages() = default;
  /// Returns when the parts may be changed. Status::Lost, with what is known of it, when the process is gone; the parts
  /// must then live as long as this object.
  virtual Error send(uint32_t to, uint32_t line, const ConstParts &parts) = 0;
  /// Waits for the next message. Status::Lost as above.
  virtual Error receive(uint32_t from, uint32_t line, const Parts &parts) = 0;
};

/// The memory of a value or of a vector of them, as a part of a message.
template <typename T> std::span<std::byte> partOf(T &value) { return std::as_writable_bytes(std::span(&value, 1)); }
template <typename T> std::span<std::byte> partOf(std::vector<T> &values) {
  return std::as_writable_bytes(std::span(values));
}

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_MESSAGES_H
