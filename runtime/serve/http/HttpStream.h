// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A TCP connection, in the clear or inside of TLS, to read from and write to as Asio's and Beast's operations do.

#ifndef CLEAVE_RUNTIME_SERVE_HTTP_HTTPSTREAM_H
#define CLEAVE_RUNTIME_SERVE_HTTP_HTTPSTREAM_H

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/tcp_stream.hpp>

#include <optional>

namespace cleave::runtime::serve {

class HttpStream {
public:
  using Tls = boost::asio::ssl::stream<boost::beast::tcp_stream &>;
  using executor_type = boost::beast::tcp_stream::executor_type;

  explicit HttpStream(boost::asio::ip::tcp::socket socket) : plain(std::move(socket)) {}
  explicit HttpStream(boost::asio::io_context &context) : plain(context) {}

  // Asio's names.
  // NOLINTBEGIN(readability-identifier-naming)
  executor_type get_executor() { return plain.get_executor(); }
  template <typename Buffers, typename Handler> void async_read_some(const Buffers &buffers, Handler &&handler) {
    tls ? tls->async_read_some(buffers, std::forward<Handler>(handler))
        : plain.async_read_some(buffers, std::forward<Handler>(handler));
  }
  template <typename Buffers, typename Handler> void async_write_some(const Buffers &buffers, Handler &&handler) {
    tls ? tls->async_write_some(buffers, std::forward<Handler>(handler))
        : plain.async_write_some(buffers, std::forward<Handler>(handler));
  }
  /// `error...`: where it goes; without, it is thrown.
  template <typename Buffers, typename... Error> size_t read_some(const Buffers &buffers, Error &...error) {
    return tls ? tls->read_some(buffers, error...) : plain.read_some(buffers, error...);
  }
  template <typename Buffers, typename... Error> size_t write_some(const Buffers &buffers, Error &...error) {
    return tls ? tls->write_some(buffers, error...) : plain.write_some(buffers, error...);
  }
  // NOLINTEND(readability-identifier-naming)

  /// What carries all: its socket, and limits of time, which hold for TLS as well.
  boost::beast::tcp_stream &tcp() { return plain; }

  /// From here on what is read and written is inside of TLS, once its handshake is done.
  Tls &startTls(boost::asio::ssl::context &context) { return tls.emplace(plain, context); }
  void dropTls() { tls.reset(); }
  bool hasTls() const { return tls.has_value(); }
  Tls &getTls() { return *tls; }

private:
  boost::beast::tcp_stream plain;
  std::optional<Tls> tls;
};

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_HTTP_HTTPSTREAM_H
