// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Blocking reads and writes.

#include "runtime/serve/http/HttpClient.h"

#include "runtime/serve/http/HttpStream.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/http/span_body.hpp>

#include <limits>
#include <optional>

namespace cleave::runtime::serve {

namespace http = boost::beast::http;
using boost::asio::ip::tcp;

struct HttpClient::State {
  std::string host, port;
  boost::asio::io_context context;
  HttpStream stream{context};
  std::optional<boost::asio::ssl::context> tls;
  boost::beast::flat_buffer buffer;
  bool isOpen = false;

  boost::system::error_code open() {
    boost::system::error_code error;
    tcp::resolver resolver(context);
    auto found = resolver.resolve(host, port, error);
    if (error)
      return error;
    stream.dropTls();
    stream.tcp().connect(found, error);
    if (!error)
      stream.tcp().socket().set_option(tcp::no_delay(true), error);
    if (!error && tls) {
      HttpStream::Tls &own = stream.startTls(*tls);
      own.set_verify_callback(boost::asio::ssl::host_name_verification(host));
      SSL_set_tlsext_host_name(own.native_handle(), host.c_str());
      own.handshake(HttpStream::Tls::client, error);
    }
    isOpen = !error;
    buffer.clear();
    return error;
  }

  void close() {
    stream.tcp().close();
    isOpen = false;
  }
};

HttpClient::HttpClient(std::unique_ptr<State> state) : state(std::move(state)) {}
HttpClient::HttpClient(HttpClient &&) noexcept = default;
HttpClient::~HttpClient() = default;

Expected<HttpClient> HttpClient::create(const std::string &url, const std::string &authorities) {
  static const std::string clear = "http://", secure = "https://";
  bool isSecure = url.starts_with(secure);
  std::string rest = isSecure ? url.substr(secure.size()) : url.starts_with(clear) ? url.substr(clear.size()) : "";
  while (rest.ends_with('/'))
    rest.pop_back();
  size_t colon = rest.rfind(':');
  auto state = std::make_unique<State>();
  state->host = rest.substr(0, colon);
  state->port = colon == std::string::npos ? "" : rest.substr(colon + 1);
  if (state->host.empty() || state->port.empty() || rest.find('/') != std::string::npos)
    return makeError(Status::Usage, "a server's address expects http://HOST:PORT or https://HOST:PORT, got \"", url,
                     '"');
  if (!isSecure && !authorities.empty())
    return makeError(Status::Usage, "--ca expects a server at https://, got \"", url, '"');
  if (isSecure) {
    boost::system::error_code error;
    auto &context = state->tls.emplace(boost::asio::ssl::context::tls_client);
    SSL_CTX_set_min_proto_version(context.native_handle(), TLS1_2_VERSION);
    context.set_verify_mode(boost::asio::ssl::verify_peer);
    authorities.empty() ? context.set_default_verify_paths(error) : context.load_verify_file(authorities, error);
    if (error)
      return makeError(Status::Failure, "--ca expects a PEM file with certificates, got \"", authorities,
                       "\": ", error.message());
  }
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
  // The body is sent from where it is.
  http::request<http::span_body<const char>> request;
  request.method_string(method);
  request.target(target);
  request.set(http::field::host, state->host);
  for (const auto &[name, value] : headers)
    request.set(name, value);
  request.body() = {body.data(), body.size()};
  request.prepare_payload();
  boost::system::error_code error;
  http::request_serializer<http::span_body<const char>> serializer(request);
  bool waits = !body.empty() && boost::beast::iequals(request[http::field::expect], "100-continue");
  if (waits)
    http::write_header(state->stream, serializer, error);
  std::optional<http::response_parser<http::string_body>> parser;
  auto begin = [&] {
    parser.emplace();
    parser->body_limit(std::numeric_limits<uint64_t>::max());
    http::read_header(state->stream, state->buffer, *parser, error);
  };
  if (!error && waits)
    begin();
  bool isInvited = !waits || (!error && parser->get().result() == http::status::continue_);
  if (!error && isInvited) {
    http::write(state->stream, serializer, error);
    if (!error)
      begin();
  }
  if (!error)
    http::read(state->stream, state->buffer, *parser, error);
  if (error)
    return refuse(error);
  auto message = parser->release();
  HttpResponse response{
      message.result_int(), std::string(message[http::field::content_type]), {}, {std::move(message.body())}};
  // A body that was held back may be waited for.
  if (!message.keep_alive() || !isInvited)
    state->close();
  return response;
}

} // namespace cleave::runtime::serve
