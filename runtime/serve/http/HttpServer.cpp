// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The listening socket, the threads and the list of connections.

#include "runtime/serve/ListenAddress.h"
#include "runtime/serve/http/HttpConnection.h"

#include <boost/asio/steady_timer.hpp>

#include <condition_variable>
#include <thread>

namespace cleave::runtime::serve {

using boost::asio::ip::tcp;

const std::string &HttpRequest::header(const std::string &name) const {
  static const std::string none;
  auto found = headers.find(name);
  return found == headers.end() ? none : found->second;
}

uint64_t HttpResponse::bodyBytes() const {
  uint64_t sum = 0;
  for (const std::string &part : body)
    sum += part.size();
  return sum;
}

struct HttpServer::State : HttpConnections {
  explicit State(HttpOptions options, HttpAdmission admission)
      : HttpConnections(std::move(options), std::move(admission)), acceptor(context), retry(context) {}

  void accept() {
    acceptor.async_accept(boost::asio::make_strand(context),
                          [this](boost::system::error_code error, tcp::socket socket) {
                            if (isDraining || error == boost::asio::error::operation_aborted)
                              return;
                            if (!error) {
                              HttpConnection::start(*this, std::move(socket));
                              return accept();
                            }
                            // Most likely there are no file descriptors: later there may be.
                            retry.expires_after(std::chrono::milliseconds(100));
                            retry.async_wait([this](boost::system::error_code) { accept(); });
                          });
  }

  tcp::acceptor acceptor;
  boost::asio::steady_timer retry;
  std::vector<std::thread> threads;
};

/// TLS 1.2 or 1.3, with what OpenSSL takes for safe.
Error HttpServer::setTls(const TlsIdentity &identity) {
  auto made = std::make_shared<boost::asio::ssl::context>(boost::asio::ssl::context::tls_server);
  boost::asio::ssl::context &context = *made;
  boost::system::error_code error;
  context.set_options(boost::asio::ssl::context::default_workarounds, error);
  SSL_CTX_set_min_proto_version(context.native_handle(), TLS1_2_VERSION);
  // Connections that ask nothing have no buffers.
  SSL_CTX_set_mode(context.native_handle(), SSL_MODE_RELEASE_BUFFERS);
  if (!error)
    context.use_certificate_chain(boost::asio::buffer(identity.certificates), error);
  if (!error)
    context.use_private_key(boost::asio::buffer(identity.key), boost::asio::ssl::context::pem, error);
  if (error)
    return makeError(Status::Failure, "TLS cannot be set up with --tls-certificate and --tls-key: ", error.message());
  state->setTls(std::move(made));
  return Error::success();
}

HttpServer::HttpServer(std::unique_ptr<State> state) : state(std::move(state)) {}

Expected<std::unique_ptr<HttpServer>> HttpServer::open(const HttpOptions &options, HttpAdmission admission) {
  std::unique_ptr<HttpServer> made(new HttpServer(std::make_unique<State>(options, std::move(admission))));
  if (!options.tls.isEmpty())
    if (Error error = made->setTls(options.tls))
      return error;
  if (Error error = bindPort(made->state->acceptor, options.address, options.port, "--http"))
    return error;
  return made;
}

HttpServer::~HttpServer() {
  state->context.stop();
  for (std::thread &thread : state->threads)
    thread.join();
}

uint16_t HttpServer::port() const { return state->acceptor.local_endpoint().port(); }

unsigned HttpServer::connections() const { return state->count(); }

Error HttpServer::start() {
  boost::system::error_code error;
  state->acceptor.listen(boost::asio::socket_base::max_listen_connections, error);
  if (error)
    return cannotListen(state->options.address, state->options.port, "--http", error);
  state->accept();
  for (unsigned i = 0; i != std::max(1u, state->options.threads); ++i)
    state->threads.emplace_back([this] { state->context.run(); });
  return Error::success();
}

bool HttpServer::drain(double seconds) {
  state->isDraining = true;
  boost::asio::post(state->context, [this] {
    boost::system::error_code ignored;
    state->acceptor.close(ignored);
  });
  return state->closeIdle(seconds);
}

} // namespace cleave::runtime::serve
