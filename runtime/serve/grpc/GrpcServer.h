// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The server for gRPC. Its libraries take as long to load as everything else that a program does before its first
// instruction, so it stands in a module beside the program, which is loaded when somebody asks for it and knows of the
// program what InferenceServer says.

#ifndef CLEAVE_RUNTIME_SERVE_GRPC_GRPCSERVER_H
#define CLEAVE_RUNTIME_SERVE_GRPC_GRPCSERVER_H

#include "runtime/serve/InferenceServer.h"

namespace cleave::runtime::serve {

struct GrpcOptions {
  std::string address = "127.0.0.1"; ///< an IP address
  uint16_t port = 8001;              ///< 0: any that is free
  std::string certificates, key;     ///< in PEM, for TLS; empty: in the clear
  uint64_t messageBytes = uint64_t(64) << 20;
  uint32_t headerBytes = 16 << 10;
  /// Seconds until a connection that asks nothing is closed, or one is asked whether it is there that does not end what
  /// it asks; and for one to be set up, or to say so.
  double idleSeconds = 60, handshakeSeconds = 10;
};

class GrpcServer {
public:
  virtual ~GrpcServer() = default;
  /// The port, where any was asked for.
  virtual uint16_t port() const = 0;
  /// Of a server with TLS: what it shows, from at most two seconds later on, to connections that come then. In PEM.
  virtual Error setTls(const std::string &certificates, const std::string &key) = 0;
  /// Opens the port and returns at once. Status::Failure where another program was faster.
  virtual Error start() = 0;
  /// Takes no more calls, and waits, at most so long, until those that are there have their answers; others end
  /// without. Whether all had.
  virtual bool drain(double seconds) = 0;
};

/// Loads the module and takes the port, which opens with `start`. `server` must live as long. Status::Usage where the
/// program was built without gRPC or the address is none, Status::Failure where the module cannot be loaded or the port
/// cannot be had.
Expected<std::unique_ptr<GrpcServer>> openGrpcServer(const GrpcOptions &options, InferenceServer &server);

/// What the module exports: as openGrpcServer; null with an error.
extern "C" GrpcServer *cleaveOpenGrpcServer(const GrpcOptions &options, InferenceServer &server, Error &error);

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_GRPC_GRPCSERVER_H
