// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How the runtime reports failure: a status that is also the program's exit code, a message for people, and the model
// node that was at work. Nothing here throws.

#ifndef CLEAVE_RUNTIME_ERROR_H
#define CLEAVE_RUNTIME_ERROR_H

#include <cassert>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <variant>

namespace cleave::runtime {

/// What kind of failure it was. The values are the exit codes of every Cleave program.
enum class Status : int {
  Success = 0,
  Failure = 1,     ///< a diagnosed error without a code of its own
  Usage = 2,       ///< the command line is wrong
  Unsupported = 3, ///< an operator or kernel that this build cannot run
  Rejected = 4,    ///< a malformed or unsafe plan
  Infeasible = 5,  ///< not enough memory, devices or processor features
  Different = 6,   ///< results differ from what was expected
  Lost = 7,        ///< a rank or device was lost
  TimedOut = 8,
  Internal = 70,
};

/// Success, or a failure with its status, message and (where known) model node. Converts to true on failure:
/// `if (Error error = work()) return error;`. Copies share the message.
class [[nodiscard]] Error {
public:
  /// Success.
  Error() = default;
  Error(Status status, std::string message, std::string node = {});
  static Error success() { return {}; }

  explicit operator bool() const { return detail != nullptr; }
  /// Status::Success when nothing failed.
  Status status() const;
  /// Lower case, no full stop: subject, expectation, actual, remedy. Empty on success.
  const std::string &message() const;
  /// The model node at which it happened, or "".
  const std::string &node() const;
  /// The same error at `node`, unless it names a node already.
  Error atNode(const std::string &node) const;
  /// Message and node in one line.
  std::string text() const;
  /// What programs print: a line "error: " with the message, and a note that names the node. Empty on success.
  std::string report() const;

private:
  struct Detail {
    Status status;
    std::string message, node;
  };
  std::shared_ptr<const Detail> detail;
};

/// An error whose message is the parts, streamed one after the other.
template <typename... Parts> Error makeError(Status status, const Parts &...parts) {
  std::ostringstream stream;
  (stream << ... << parts);
  return Error(status, stream.str());
}

/// An error in a plan, a file or a description.
template <typename... Parts> Error reject(const Parts &...parts) { return makeError(Status::Rejected, parts...); }

/// A value, or the error that kept it from being made. Converts to true when there is a value.
template <typename T> class [[nodiscard]] Expected {
public:
  Expected(T value) : state(std::in_place_index<0>, std::move(value)) {}
  Expected(Error error) : state(std::in_place_index<1>, std::move(error)) {
    assert(std::get<1>(state) && "an Expected needs a value or a failure");
  }

  explicit operator bool() const { return state.index() == 0; }
  T &operator*() { return *std::get_if<0>(&state); }
  const T &operator*() const { return *std::get_if<0>(&state); }
  T *operator->() { return std::get_if<0>(&state); }
  const T *operator->() const { return std::get_if<0>(&state); }
  /// The error; success when there is a value.
  Error error() const { return state.index() == 1 ? *std::get_if<1>(&state) : Error::success(); }

private:
  std::variant<T, Error> state;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_ERROR_H
