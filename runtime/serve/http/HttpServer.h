// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// HTTP/1.1 over TCP: connections, their limits of size and time, and an orderly end. What requests mean is for the
// handler. Boost.Beast reads and writes messages; docs/rationale/serving.md says why it.

#ifndef CLEAVE_RUNTIME_SERVE_HTTP_HTTPSERVER_H
#define CLEAVE_RUNTIME_SERVE_HTTP_HTTPSERVER_H

#include "runtime/serve/TlsFiles.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace cleave::runtime::serve {

/// Header names are lower case.
using HttpHeaders = std::map<std::string, std::string>;

/// Leaves elements as memory is: what is about to be written need not be zero.
template <typename T> struct UninitializedAllocator : std::allocator<T> {
  template <typename Other> struct rebind {
    using other = UninitializedAllocator<Other>;
  };
  template <typename Other> void construct(Other *) noexcept {}
  template <typename Other, typename... Args> void construct(Other *at, Args &&...args) {
    std::construct_at(at, std::forward<Args>(args)...);
  }
};
using HttpBody = std::vector<char, UninitializedAllocator<char>>;

struct HttpRequest {
  std::string method, target; ///< target: the path without the query
  HttpHeaders headers;
  HttpBody body;
  std::string peer;  ///< "127.0.0.1:4711"
  int64_t begin = 0; ///< when its first byte was read; nanoseconds of the steady clock

  /// The header of that name; empty where there is none.
  const std::string &header(const std::string &name) const;
};

struct HttpResponse {
  unsigned status = 200;
  std::string type = "application/json";
  HttpHeaders headers;
  /// Sent one after the other.
  std::vector<std::string> body;
  /// Called when it has been sent, or cannot be; may be empty.
  std::function<void()> sent = {};

  uint64_t bodyBytes() const;
};

/// Answers once, from any thread.
using HttpAnswer = std::function<void(HttpResponse)>;
/// Called when the client has gone before its answer: whoever works for it may stop. May be called late or not at all.
using HttpGone = std::function<void()>;
/// Must not block. Returns what to call when the client goes; may be empty.
using HttpHandler = std::function<HttpGone(HttpRequest, HttpAnswer)>;
/// Asked when a request's header is there, before its body is read: an answer at once, without the body, or who answers
/// the whole request. Must not block. A handler is destroyed uncalled when the body does not come.
using HttpAdmission = std::function<std::variant<HttpResponse, HttpHandler>(const HttpRequest &head)>;

struct HttpOptions {
  std::string address = "127.0.0.1";
  uint16_t port = 8000; ///< 0: any that is free
  TlsIdentity tls;      ///< empty: in the clear
  unsigned threads = 2;
  uint32_t headerBytes = 16 << 10;
  uint64_t bodyBytes = uint64_t(64) << 20;
  /// The body of a refused request is read up to this size, so that the connection can be used again.
  uint64_t unwantedBytes = uint64_t(1) << 20;
  unsigned connections = 16384;
  /// Seconds for a whole header (from its first byte, or since the answer before), for a body, and for an answer to be
  /// taken.
  double idleSeconds = 60, headerSeconds = 10, bodySeconds = 60, writeSeconds = 60;
};

class HttpServer {
public:
  /// Takes the port, which opens with `start`. Status::Failure where it cannot be had, or TLS not be set up.
  static Expected<std::unique_ptr<HttpServer>> open(const HttpOptions &options, HttpAdmission admission);
  ~HttpServer();

  /// The port, where any was asked for.
  uint16_t port() const;
  /// Of a server with TLS: what it shows to connections that come from now on. Status::Failure where it cannot be used.
  Error setTls(const TlsIdentity &identity);
  /// Opens the port and returns at once. Status::Failure where another program was faster.
  Error start();
  /// Accepts no more, closes connections that ask nothing, and waits, at most so long, until those that do have their
  /// answers. Whether all had.
  bool drain(double seconds);
  unsigned connections() const;

private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_HTTP_HTTPSERVER_H
