// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Blocking reads and writes.

#include "runtime/serve/http/HttpClient.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>

namespace cleave::runtime::serve {

namespace http = boost::beast::http;
using boost::asio::ip::tcp;

struct HttpClient::State {
  std::string host, port;
  boost::asio::io_context context;
  boost::beast::tcp_stream stream{context};
  boost::beast::flat_buffer buffer;
  bool isOpen = false;

  boost::system::error_code open() {
    boost::system::error_code error;
    tcp::resolver resolver(context);
    auto found = resolver.resolve(host, port, error);
    if (error)
      return error;
    stream.connect(found, error);
    if (!error)
      stream.socket().set_option(tcp::no_delay(true), error);
    isOpen = !error;
    buffer.clear();
    return error;
  }

  void close() {
    stream.close();
    isOpen = false;
  }
};

HttpClient::HttpClient(std::unique_ptr<State> state) : state(std::move(state)) {}
HttpClient::HttpClient(HttpClient &&) noexcept = default;
HttpClient::~HttpClient() = default;

Expected<HttpClient> HttpClient::create(const std::string &url) {
  static const std::string scheme = "http://";
  std::string rest = url.starts_with(scheme) ? url.substr(scheme.size()) : "";
  while (rest.ends_with('/'))
    rest.pop_back();
  size_t colon = rest.rfind(':');
  auto state = std::make_unique<State>();
  state->host = rest.substr(0, colon);
  state->port = colon == std::string::npos ? "" : rest.substr(colon + 1);
  if (state->host.empty() || state->port.empty() || rest.find('/') != std::string::npos)
    return makeError(Status::Usage, "a server's address expects http://HOST:PORT, got \"", url, '"');
  return HttpClient(std::move(state));
}

Expected<HttpResponse> HttpClient::ask(const std::string &method, const std::string &target, const HttpHeaders &headers,
                                       const std::string &body) {
  auto refuse = [&](const boost::system::error_code &error) {
    state->close();
    return makeError(Status::Failure, "no answer from ", state->host, ":", state->port, ": ", error.message());
  };
  if (!state->isOpen)
    if (auto error = state->open())
      return refuse(error);
  http::request<http::string_body> request;
  request.method_string(method);
  request.target(target);
  request.set(http::field::host, state->host);
  for (const auto &[name, value] : headers)
    request.set(name, value);
  request.body() = body;
  request.prepare_payload();
  boost::system::error_code error;
  http::write(state->stream, request, error);
  if (error)
    return refuse(error);
  http::response_parser<http::string_body> parser;
  parser.body_limit(boost::none);
  http::read(state->stream, state->buffer, parser, error);
  if (error)
    return refuse(error);
  auto message = parser.release();
  HttpResponse response{
      message.result_int(), std::string(message[http::field::content_type]), {}, {std::move(message.body())}};
  if (!message.keep_alive())
    state->close();
  return response;
}

} // namespace cleave::runtime::serve
