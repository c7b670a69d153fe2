// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Who a server is, by files that its operator names: checked before a port opens, and used by HTTP and gRPC.

#ifndef CLEAVE_RUNTIME_SERVE_TLSFILES_H
#define CLEAVE_RUNTIME_SERVE_TLSFILES_H

#include "runtime/Error.h"

#include <optional>
#include <string>

namespace cleave::runtime::serve {

/// As they stand in the files, in PEM. Empty: no TLS.
struct TlsIdentity {
  std::string certificates; ///< the server's first, then those that sign it
  std::string key;

  bool isEmpty() const { return certificates.empty(); }
};

/// Reads the files of --tls-certificate and --tls-key; both names empty: an empty identity. `warning` says what clients
/// will not like, as a certificate that has expired. Status::Usage where one of the two is missing, Status::Failure
/// where a file cannot be read, has nothing of its kind in it, or the key is not the certificate's.
Expected<TlsIdentity> readTlsIdentity(const std::string &certificateFile, const std::string &keyFile,
                                      std::string &warning);

/// Notices that the files of an identity were replaced.
class TlsFilesWatch {
public:
  /// Both names empty: nothing is watched.
  TlsFilesWatch(std::string certificateFile, std::string keyFile);

  /// To be called every second or so. The files as they are now, or what is wrong with them, once after they have
  /// changed and were left alone until the next call; else nothing. `warning` as readTlsIdentity has it.
  std::optional<Expected<TlsIdentity>> poll(std::string &warning);

private:
  /// Says of the files whether they are others.
  std::string stamp() const;

  const std::string certificateFile, keyFile;
  std::string used, latest; ///< stamps
};

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_TLSFILES_H
