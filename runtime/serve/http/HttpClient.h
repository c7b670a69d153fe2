// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One connection to a server, kept open from request to request.

#ifndef CLEAVE_RUNTIME_SERVE_HTTP_HTTPCLIENT_H
#define CLEAVE_RUNTIME_SERVE_HTTP_HTTPCLIENT_H

#include "runtime/serve/http/HttpServer.h"

namespace cleave::runtime::serve {

/// Used by one thread. Connects when it is first asked, and again when the server has closed.
class HttpClient {
public:
  /// Expects "http://HOST:PORT", or "https://HOST:PORT" of a server whose certificate is signed by one in the PEM file
  /// `authorities`; empty: by one that the system trusts. Status::Usage, or Status::Failure where the file is none.
  static Expected<HttpClient> create(const std::string &url, const std::string &authorities = "");
  HttpClient(HttpClient &&) noexcept;
  ~HttpClient();

  /// The answer, whatever its status. With the header "Expect: 100-continue" the body is only sent if the server asks
  /// for it. Status::Failure where there is none.
  Expected<HttpResponse> ask(const std::string &method, const std::string &target, const HttpHeaders &headers,
                             const std::string &body);

private:
  struct State;
  explicit HttpClient(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_HTTP_HTTPCLIENT_H
