// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One client's connection: requests one after the other, each read, handed on and answered. Private to HttpServer.

#ifndef CLEAVE_RUNTIME_SERVE_HTTP_HTTPCONNECTION_H
#define CLEAVE_RUNTIME_SERVE_HTTP_HTTPCONNECTION_H

#include "runtime/serve/http/HttpServer.h"
#include "runtime/serve/http/HttpStream.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/vector_body.hpp>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>

namespace cleave::runtime::serve {

class HttpConnection;

/// What all connections of a server share.
class HttpConnections {
public:
  HttpConnections(HttpOptions options, HttpAdmission admission)
      : options(std::move(options)), admission(std::move(admission)), context(static_cast<int>(this->options.threads)) {
  }

  /// Whether there is room for it.
  bool add(HttpConnection *connection);
  void remove(HttpConnection *connection);
  unsigned count() const;
  /// Has connections close when they have answered what they were asked; whether all have within so many seconds.
  bool closeIdle(double seconds);

  const HttpOptions options;
  const HttpAdmission admission;
  std::atomic<bool> isDraining = false;

  using Tls = std::shared_ptr<boost::asio::ssl::context>;
  /// What connections begin TLS with that come from now on; null: in the clear.
  void setTls(Tls context) {
    std::lock_guard lock(mutex);
    tls = std::move(context);
  }
  Tls getTls() const {
    std::lock_guard lock(mutex);
    return tls;
  }

private:
  mutable std::mutex mutex;
  Tls tls;
  std::condition_variable removed;
  std::set<HttpConnection *> all;

public:
  /// Goes first, with the connections that its operations hold.
  boost::asio::io_context context;
};

/// Lives as long as an operation on its socket, or an answer that is to come, holds it.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
public:
  static void start(HttpConnections &server, boost::asio::ip::tcp::socket socket);
  HttpConnection(HttpConnections &server, boost::asio::ip::tcp::socket socket);
  ~HttpConnection();

  /// Closes where nothing is being answered. From any thread.
  void closeIfIdle();

private:
  using Parser =
      boost::beast::http::request_parser<boost::beast::http::vector_body<char, UninitializedAllocator<char>>>;

  void shakeHands(boost::asio::ssl::context &tls);
  void awaitRequest();
  void readHeader();
  void admit();
  void inviteBody();
  void readBody();
  void handle();
  void refuseUnread(HttpResponse answer, bool isUninvited);
  void skipUnwanted();
  void refuse(unsigned status, const std::string &message);
  void watchClient();
  void write(HttpResponse response);
  void close();
  void closeSoon();
  void discard();

  HttpConnections &server;
  HttpStream stream;
  boost::beast::flat_buffer buffer;
  std::optional<Parser> parser;
  HttpRequest request;
  HttpHandler handler;
  uint64_t unwanted = 0; ///< bytes of a body that are to be skipped before the next request
  std::string peer, head;
  HttpResponse response;
  HttpGone gone;
  bool isKnown = false, isIdle = true, isAnswering = false, keepsAlive = false, isHead = false;
};

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_HTTP_HTTPCONNECTION_H
