// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Read a header within its time, a body within its own, hand both on, write what comes back.

#include "runtime/serve/http/HttpConnection.h"

#include "runtime/Clock.h"
#include "runtime/Json.h"

#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>

#include <algorithm>
#include <openssl/err.h>
#include <openssl/sslerr.h>
#include <poll.h>
#include <sys/socket.h>

namespace cleave::runtime::serve {

namespace http = boost::beast::http;
using boost::system::error_code;

/// How long a client may go on sending after an answer that closes the connection.
static constexpr double lingerSeconds = 2;
/// What a connection keeps to read into between requests, and has for a body at most.
static constexpr size_t idleBuffer = 4096, bodyBuffer = size_t(64) << 10;

static std::chrono::nanoseconds secondsOf(double seconds) {
  return std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9));
}

bool HttpConnections::add(HttpConnection *connection) {
  std::lock_guard lock(mutex);
  if (all.size() >= options.connections)
    return false;
  all.insert(connection);
  return true;
}

void HttpConnections::remove(HttpConnection *connection) {
  {
    std::lock_guard lock(mutex);
    all.erase(connection);
  }
  removed.notify_all();
}

unsigned HttpConnections::count() const {
  std::lock_guard lock(mutex);
  return static_cast<unsigned>(all.size());
}

bool HttpConnections::closeIdle(double seconds) {
  std::vector<std::weak_ptr<HttpConnection>> present;
  {
    // Their destructor waits for the lock, so that each of them is there.
    std::lock_guard lock(mutex);
    for (HttpConnection *connection : all)
      present.push_back(connection->weak_from_this());
  }
  for (const std::weak_ptr<HttpConnection> &each : present)
    if (auto connection = each.lock())
      connection->closeIfIdle();
  std::unique_lock lock(mutex);
  return removed.wait_for(lock, secondsOf(seconds), [&] { return all.empty(); });
}

void HttpConnection::start(HttpConnections &server, boost::asio::ip::tcp::socket socket) {
  auto made = std::make_shared<HttpConnection>(server, std::move(socket));
  made->isKnown = server.add(made.get());
  if (!made->isKnown) {
    // An answer inside of TLS would be as much work as the connection.
    if (server.getTls())
      return made->close();
    made->refuse(503, "the server has as many connections as it takes; try again later");
    return;
  }
  if (auto tls = server.getTls())
    return made->shakeHands(*tls);
  made->awaitRequest();
}

HttpConnection::HttpConnection(HttpConnections &server, boost::asio::ip::tcp::socket socket)
    : server(server), stream(std::move(socket)) {
  error_code error;
  stream.tcp().socket().set_option(boost::asio::ip::tcp::no_delay(true), error);
  if (auto endpoint = stream.tcp().socket().remote_endpoint(error); !error)
    peer = endpoint.address().to_string() + ":" + std::to_string(endpoint.port());
}

HttpConnection::~HttpConnection() {
  if (isKnown)
    server.remove(this);
}

void HttpConnection::closeIfIdle() {
  boost::asio::post(stream.get_executor(), [self = shared_from_this()] {
    if (self->isIdle)
      self->close();
  });
}

void HttpConnection::close() {
  error_code ignored;
  stream.tcp().socket().shutdown(boost::asio::ip::tcp::socket::shutdown_send, ignored);
  stream.tcp().close();
}

/// Closes when the client has, or soon: with bytes that nobody has read a closed socket takes back what it has sent.
void HttpConnection::closeSoon() {
  stream.tcp().expires_after(secondsOf(lingerSeconds));
  auto discardRest = [self = shared_from_this()](error_code) {
    error_code ignored;
    self->stream.tcp().socket().shutdown(boost::asio::ip::tcp::socket::shutdown_send, ignored);
    self->discard();
  };
  if (!stream.hasTls())
    return discardRest({});
  // TLS has an end of its own, which says that nothing was cut off. Whether the client says so, too, does not matter.
  stream.getTls().async_shutdown(discardRest);
}

/// Of what comes still not even TLS is of interest.
void HttpConnection::discard() {
  buffer.clear();
  stream.tcp().async_read_some(buffer.prepare(bodyBuffer), [self = shared_from_this()](error_code error, size_t) {
    if (error)
      return self->close();
    self->discard();
  });
}

/// TLS begins within the time for a header. Who asks in the clear is told so in the clear. OpenSSL keeps of the context
/// what the connection needs.
void HttpConnection::shakeHands(boost::asio::ssl::context &tls) {
  stream.tcp().expires_after(secondsOf(server.options.headerSeconds));
  stream.startTls(tls).async_handshake(HttpStream::Tls::server, [self = shared_from_this()](error_code error) {
    if (!error)
      return self->awaitRequest();
    bool isClear = error.category() == boost::asio::error::get_ssl_category() &&
                   ERR_GET_REASON(static_cast<unsigned long>(error.value())) == SSL_R_HTTP_REQUEST;
    if (!isClear)
      return self->close();
    boost::asio::post(self->stream.get_executor(), [self] {
      self->stream.dropTls();
      self->refuse(400, "the server expects TLS; ask it by https://");
    });
  });
}

/// Until its first byte a request takes as long as it likes, up to the limit for idle connections.
void HttpConnection::awaitRequest() {
  isIdle = true;
  isAnswering = false;
  if (server.isDraining)
    return close();
  if (buffer.capacity() > idleBuffer)
    buffer.shrink_to_fit();
  parser.emplace();
  parser->header_limit(server.options.headerBytes);
  parser->body_limit(server.options.bodyBytes);
  request = {};
  request.begin = now();
  if (buffer.size() != 0)
    return readHeader();
  stream.tcp().expires_after(secondsOf(server.options.idleSeconds));
  stream.async_read_some(buffer.prepare(idleBuffer), [self = shared_from_this()](error_code error, size_t bytes) {
    if (error)
      return self->close();
    self->buffer.commit(bytes);
    self->request.begin = now();
    self->readHeader();
  });
}

void HttpConnection::readHeader() {
  isIdle = false;
  stream.tcp().expires_after(secondsOf(server.options.headerSeconds));
  http::async_read_header(stream, buffer, *parser, [self = shared_from_this()](error_code error, size_t) {
    if (error == http::error::header_limit)
      return self->refuse(431, "a request's header expects at most " +
                                   std::to_string(self->server.options.headerBytes) + " bytes");
    if (error == http::error::body_limit)
      return self->refuse(413, "a request's body expects at most " + std::to_string(self->server.options.bodyBytes) +
                                   " bytes; send a smaller batch, or start the server with a larger --max-body");
    if (error.category() == make_error_code(http::error::bad_method).category() &&
        error != http::error::end_of_stream && error != http::error::partial_message)
      return self->refuse(400, "a request expects to be HTTP/1.1: " + error.message());
    if (error)
      return self->close();
    self->admit();
  });
}

/// Asks whether the request is wanted. Who waits for "100 Continue" before sending a body gets it now, or an answer.
void HttpConnection::admit() {
  const auto &message = parser->get();
  keepsAlive = message.keep_alive();
  isHead = message.method() == http::verb::head;
  if (auto length = parser->content_length(); length && *length > server.options.bodyBytes)
    return refuse(413, "a request's body expects at most " + std::to_string(server.options.bodyBytes) +
                           " bytes; send a smaller batch, or start the server with a larger --max-body");
  request.method = std::string(message.method_string());
  request.target = std::string(message.target().substr(0, message.target().find('?')));
  for (const auto &field : message) {
    std::string name(field.name_string());
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    request.headers[name] = std::string(field.value());
  }
  request.peer = peer;
  bool isUninvited = message.version() >= 11 && !parser->is_done() && buffer.size() == 0 &&
                     boost::beast::iequals(message[http::field::expect], "100-continue");
  auto admitted = server.admission(request);
  if (auto *answer = std::get_if<HttpResponse>(&admitted))
    return refuseUnread(std::move(*answer), isUninvited);
  handler = std::get<HttpHandler>(std::move(admitted));
  if (parser->is_done())
    return handle();
  stream.tcp().expires_after(secondsOf(server.options.bodySeconds));
  if (isUninvited)
    return inviteBody();
  readBody();
}

void HttpConnection::inviteBody() {
  static const std::string goOn = "HTTP/1.1 100 Continue\r\n\r\n";
  boost::asio::async_write(stream, boost::asio::buffer(goOn), [self = shared_from_this()](error_code error, size_t) {
    if (error)
      return self->close();
    self->readBody();
  });
}

void HttpConnection::readBody() {
  // The parser reads no more at a time than there is room for.
  buffer.reserve(static_cast<size_t>(std::min<uint64_t>(parser->content_length().value_or(bodyBuffer), bodyBuffer)));
  http::async_read(stream, buffer, *parser, [self = shared_from_this()](error_code error, size_t) {
    if (error == http::error::body_limit)
      return self->refuse(413, "a request's body expects at most " + std::to_string(self->server.options.bodyBytes) +
                                   " bytes");
    if (error.category() == make_error_code(http::error::bad_method).category() &&
        error != http::error::end_of_stream && error != http::error::partial_message)
      return self->refuse(400, "a request's body expects to be HTTP/1.1: " + error.message());
    if (error)
      return self->close();
    self->handle();
  });
}

void HttpConnection::handle() {
  request.body = std::move(parser->release().body());
  parser.reset();
  // Answers take as long as they take.
  stream.tcp().expires_never();
  isAnswering = true;
  gone = std::exchange(handler, {})(std::move(request), [self = shared_from_this()](HttpResponse answer) {
    auto shared = std::make_shared<HttpResponse>(std::move(answer));
    boost::asio::post(self->stream.get_executor(), [self, shared] { self->write(std::move(*shared)); });
  });
  if (gone)
    watchClient();
}

/// Answers without having read the body. A small one that is on its way is skipped afterwards; else the connection
/// ends, as it does where it is unknown whether the body will still be sent.
void HttpConnection::refuseUnread(HttpResponse answer, bool isUninvited) {
  if (!parser->is_done()) {
    auto length = parser->content_length();
    keepsAlive &= length && *length <= server.options.unwantedBytes && !isUninvited;
    unwanted = keepsAlive ? *length : 0;
  }
  write(std::move(answer));
}

void HttpConnection::skipUnwanted() {
  size_t here = static_cast<size_t>(std::min<uint64_t>(unwanted, buffer.size()));
  buffer.consume(here);
  unwanted -= here;
  // What has come by now the kernel throws away, without a copy; of TLS every byte counts.
  while (unwanted != 0 && !stream.hasTls()) {
    ssize_t skipped = ::recv(stream.tcp().socket().native_handle(), nullptr, unwanted, MSG_TRUNC | MSG_DONTWAIT);
    if (skipped <= 0)
      break;
    unwanted -= static_cast<uint64_t>(skipped);
  }
  if (unwanted == 0)
    return awaitRequest();
  size_t most = static_cast<size_t>(std::min<uint64_t>(unwanted, stream.hasTls() ? bodyBuffer : idleBuffer));
  stream.async_read_some(buffer.prepare(most), [self = shared_from_this()](error_code error, size_t bytes) {
    if (error)
      return self->close();
    self->buffer.commit(bytes);
    self->skipUnwanted();
  });
}

/// Waits until there is something to read while a request is answered: the next request, or the end.
void HttpConnection::watchClient() {
  stream.tcp().socket().async_wait(
      boost::asio::ip::tcp::socket::wait_read, [self = shared_from_this()](error_code error) {
        if (error || !self->isAnswering || !self->gone)
          return;
        char byte;
        ssize_t found = ::recv(self->stream.tcp().socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
        // The end of TLS comes as bytes.
        pollfd end = {self->stream.tcp().socket().native_handle(), POLLRDHUP, 0};
        bool isOver = found == 0 || (found > 0 && self->stream.hasTls() && ::poll(&end, 1, 0) == 1);
        if (isOver || (found < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
          std::exchange(self->gone, {})();
      });
}

/// An answer to what cannot be read, after which nothing more is.
void HttpConnection::refuse(unsigned status, const std::string &message) {
  keepsAlive = isHead = false;
  handler = {};
  isAnswering = true;
  isIdle = false;
  std::ostringstream body;
  body << "{\"error\": " << JsonString{message} << "}";
  HttpResponse answer;
  answer.status = status;
  answer.body = {body.str()};
  write(std::move(answer));
}

void HttpConnection::write(HttpResponse answer) {
  isAnswering = false;
  gone = {};
  stream.tcp().socket().cancel();
  response = std::move(answer);
  keepsAlive &= !server.isDraining;
  std::ostringstream text;
  text << "HTTP/1.1 " << response.status << " " << http::obsolete_reason(static_cast<http::status>(response.status))
       << "\r\nContent-Type: " << response.type << "\r\nContent-Length: " << response.bodyBytes() << "\r\n";
  for (const auto &[name, value] : response.headers)
    text << name << ": " << value << "\r\n";
  text << (keepsAlive ? "" : "Connection: close\r\n") << "\r\n";
  head = text.str();
  std::vector<boost::asio::const_buffer> parts = {boost::asio::buffer(head)};
  for (const std::string &part : response.body)
    if (!isHead)
      parts.push_back(boost::asio::buffer(part));
  stream.tcp().expires_after(secondsOf(server.options.writeSeconds));
  boost::asio::async_write(stream, parts, [self = shared_from_this()](error_code error, size_t) {
    if (self->response.sent)
      self->response.sent();
    self->response = {};
    if (error)
      return self->close();
    if (!self->keepsAlive)
      return self->closeSoon();
    self->stream.tcp().expires_after(secondsOf(self->server.options.bodySeconds));
    self->skipUnwanted();
  });
}

} // namespace cleave::runtime::serve
