// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The last colon is the port's, as addresses of IPv6 have colons of their own.

#include "runtime/serve/ListenAddress.h"

#include <charconv>

namespace cleave::runtime::serve {

Error readListenAddress(const std::string &text, const char *flag, std::string &host, uint16_t &port) {
  size_t colon = text.rfind(':');
  std::string before = colon == std::string::npos ? "" : text.substr(0, colon);
  std::string digits = colon == std::string::npos ? text : text.substr(colon + 1);
  if (before.starts_with('[') && before.ends_with(']'))
    before = before.substr(1, before.size() - 2);
  if (!before.empty())
    host = before == "localhost" ? "127.0.0.1" : before;
  auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (code != std::errc() || end != digits.data() + digits.size() || digits.empty())
    return makeError(Status::Usage, flag, " expects a port, :PORT, HOST:PORT or [HOST]:PORT, got \"", text, '"');
  return Error::success();
}

Error cannotListen(const std::string &host, uint16_t port, const char *flag, const boost::system::error_code &error) {
  return makeError(Status::Failure, "cannot listen at ", listenAddressText(host, port), ": ", error.message(),
                   error == boost::asio::error::address_in_use ? std::string("; choose another port with ") + flag
                                                               : std::string());
}

Error bindPort(boost::asio::ip::tcp::acceptor &acceptor, const std::string &host, uint16_t port, const char *flag) {
  boost::system::error_code error;
  auto address = boost::asio::ip::make_address(host, error);
  if (error)
    return makeError(Status::Usage, "the address to listen at expects an IP address, got \"", host, '"');
  boost::asio::ip::tcp::endpoint endpoint(address, port);
  acceptor.open(endpoint.protocol(), error);
  if (!error)
    acceptor.set_option(boost::asio::ip::tcp::acceptor::reuse_address(true), error);
  if (!error)
    acceptor.bind(endpoint, error);
  return error ? cannotListen(host, port, flag, error) : Error::success();
}

std::string listenAddressText(const std::string &host, uint16_t port) {
  std::string text = host;
  if (host.find(':') != std::string::npos)
    text.insert(0, 1, '[').push_back(']');
  return text.append(1, ':').append(std::to_string(port));
}

} // namespace cleave::runtime::serve
