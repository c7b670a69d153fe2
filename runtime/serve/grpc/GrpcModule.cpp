// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// gRPC binds and listens in one. So the port is bound here first, for who asks for one that is taken to learn it before
// models are loaded; two sockets may be bound to a port as long as at most one of them listens.

#include "runtime/serve/ListenAddress.h"
#include "runtime/serve/grpc/GrpcServer.h"
#include "runtime/serve/grpc/GrpcService.h"

#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <grpc/support/log.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <grpcpp/server_builder.h>
#include <sys/mman.h>
#include <unistd.h>

namespace cleave::runtime::serve {
namespace {

/// Bytes that messages may take while they are received, at least.
constexpr size_t leastMemory = size_t(512) << 20;

/// A file without a name that is gone with this.
class MemoryFile {
public:
  MemoryFile() : descriptor(memfd_create("cleave", MFD_CLOEXEC)) {}
  ~MemoryFile() { close(descriptor); }
  MemoryFile(const MemoryFile &) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor); }
  Error write(const std::string &text) const {
    bool isWritten = ftruncate(descriptor, 0) == 0 &&
                     pwrite(descriptor, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
    return isWritten ? Error::success()
                     : makeError(Status::Failure, "gRPC's certificate cannot be kept: ", std::strerror(errno));
  }

private:
  const int descriptor;
};

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
    if (!options.certificates.empty())
      if (Error error = setTls(options.certificates, options.key))
        return error;
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
    // Only connections with calls are asked; a client that is there answers, however slow its message is.
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, limit(options.idleSeconds * 1e3));
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, limit(options.handshakeSeconds * 1e3));
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

  Error setTls(const std::string &certificates, const std::string &key) override {
    Error error = keyFile.write(key);
    return error ? error : certificateFile.write(certificates);
  }

private:
  /// gRPC takes new certificates from files that it looks at again and again, and no calls while they do not fit. So
  /// these files are ours, in memory, with what has been checked.
  std::shared_ptr<grpc::ServerCredentials> credentials() {
    if (options.certificates.empty())
      return grpc::InsecureServerCredentials();
    static constexpr unsigned everySecond = 1;
    grpc::experimental::TlsServerCredentialsOptions tls(
        std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(keyFile.path(), certificateFile.path(),
                                                                             everySecond));
    tls.watch_identity_key_cert_pairs();
    tls.set_cert_request_type(GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
    return grpc::experimental::TlsServerCredentials(tls);
  }

  const GrpcOptions options;
  boost::asio::io_context context;
  /// Never listens.
  boost::asio::ip::tcp::acceptor bound{context};
  GrpcService service;
  MemoryFile certificateFile, keyFile;
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
