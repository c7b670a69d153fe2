// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// gRPC binds and listens in one. So the port is bound here first, for who asks for one that is taken to learn it before
// models are loaded; two sockets may be bound to a port as long as at most one of them listens.

#include "runtime/serve/ListenAddress.h"
#include "runtime/serve/grpc/GrpcServer.h"
#include "runtime/serve/grpc/GrpcService.h"

#include <boost/asio/io_context.hpp>
#include <cstdlib>
#include <grpc/support/log.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_builder.h>

namespace cleave::runtime::serve {
namespace {

/// Bytes that messages may take while they are received, at least.
constexpr size_t leastMemory = size_t(512) << 20;

class Server final : public GrpcServer {
public:
  Server(GrpcOptions options, InferenceServer &server) : options(std::move(options)), service(server) {}
  ~Server() override {
    if (server)
      server->Shutdown(std::chrono::system_clock::now());
  }

  Error bind() { return bindPort(bound, options.address, options.port, "--grpc"); }
  uint16_t port() const override { return bound.local_endpoint().port(); }

  Error start() override {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    std::string address = listenAddressText(options.address, port());
    int got = 0;
    builder.AddListeningPort(address, credentials(), &got);
    builder.RegisterService(&service);
    auto limit = [](double value) { return static_cast<int>(std::min(value, 2e9)); };
    builder.SetMaxReceiveMessageSize(limit(static_cast<double>(options.messageBytes)));
    // Messages that are on their way in, of all connections together: gRPC has no limit of connections.
    grpc::ResourceQuota quota("cleave");
    quota.Resize(std::max<size_t>(leastMemory, 8 * options.messageBytes));
    builder.SetResourceQuota(quota);
    // Whoever is faster has the port; otherwise both would.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, limit(options.headerBytes));
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, limit(options.idleSeconds * 1e3));
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, limit(options.handshakeSeconds * 1e3));
    server = builder.BuildAndStart();
    if (!server || got != port())
      return makeError(Status::Failure, "cannot listen at ", address,
                       ": another program has the port; choose another one with --grpc");
    return Error::success();
  }

  bool drain(double seconds) override {
    if (!server)
      return true;
    if (auto *health = server->GetHealthCheckService())
      health->SetServingStatus(false);
    auto limit = std::chrono::system_clock::now() + std::chrono::duration_cast<std::chrono::system_clock::duration>(
                                                        std::chrono::duration<double>(seconds));
    server->Shutdown(limit);
    return std::chrono::system_clock::now() < limit;
  }

private:
  std::shared_ptr<grpc::ServerCredentials> credentials() const {
    if (options.certificates.empty())
      return grpc::InsecureServerCredentials();
    grpc::SslServerCredentialsOptions tls(GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
    tls.pem_key_cert_pairs.push_back({options.key, options.certificates});
    return grpc::SslServerCredentials(tls);
  }

  const GrpcOptions options;
  boost::asio::io_context context;
  /// Never listens.
  boost::asio::ip::tcp::acceptor bound{context};
  GrpcService service;
  std::unique_ptr<grpc::Server> server;
};

} // namespace

extern "C" GrpcServer *cleaveOpenGrpcServer(const GrpcOptions &options, InferenceServer &server, Error &error) {
  // What clients do wrong is no line on the server's standard error, unless somebody asks gRPC for it.
  if (!std::getenv("GRPC_VERBOSITY"))
    gpr_set_log_function([](gpr_log_func_args *) {});
  auto made = std::make_unique<Server>(options, server);
  error = made->bind();
  return error ? nullptr : made.release();
}

} // namespace cleave::runtime::serve
