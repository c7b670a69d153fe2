// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where a server listens, as people write it.

#ifndef CLEAVE_RUNTIME_SERVE_LISTENADDRESS_H
#define CLEAVE_RUNTIME_SERVE_LISTENADDRESS_H

#include "runtime/Error.h"

#include <boost/asio/ip/tcp.hpp>

#include <cstdint>
#include <string>

namespace cleave::runtime::serve {

/// Reads "PORT", ":PORT", "HOST:PORT" or "[HOST]:PORT"; where `text` has no host, `host` stays as it is. "localhost" is
/// 127.0.0.1. Status::Usage with the flag that it came by.
Error readListenAddress(const std::string &text, const char *flag, std::string &host, uint16_t &port);

/// Takes the port, any that is free where it is 0, and does not listen yet. Status::Usage where the host is no IP
/// address, Status::Failure where the port cannot be had, with the flag that chooses another.
Error bindPort(boost::asio::ip::tcp::acceptor &acceptor, const std::string &host, uint16_t port, const char *flag);

/// Of a port that cannot be had.
Error cannotListen(const std::string &host, uint16_t port, const char *flag, const boost::system::error_code &error);

/// "HOST:PORT", as in URLs.
std::string listenAddressText(const std::string &host, uint16_t port);

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_LISTENADDRESS_H
