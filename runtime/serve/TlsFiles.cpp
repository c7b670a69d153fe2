// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// OpenSSL reads the files, so that it will do so again when a server starts.

#include "runtime/serve/TlsFiles.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sstream>
#include <sys/stat.h>

namespace cleave::runtime::serve {
namespace {

template <auto Free> struct FreeBy {
  template <typename Object> void operator()(Object *object) const { Free(object); }
};
using Memory = std::unique_ptr<BIO, FreeBy<BIO_free>>;
using Certificate = std::unique_ptr<X509, FreeBy<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, FreeBy<EVP_PKEY_free>>;

Expected<std::string> readFile(const std::string &file, const char *option, const char *what) {
  std::ostringstream text;
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  // An empty file sets no error, and what is read of it is checked by whoever parses it.
  if (!in || !(text << in.rdbuf()).good())
    if (errno != 0)
      return makeError(Status::Failure, option, " expects a PEM file with ", what, ", got \"", file,
                       "\": ", std::strerror(errno));
  return text.str();
}

Memory memoryOf(const std::string &text) {
  return Memory(BIO_new_mem_buf(text.data(), static_cast<int>(std::min<size_t>(text.size(), 1 << 30))));
}

/// Instead of asking at the terminal.
int noPassphrase(char *, int, int, void *) { return 0; }

std::string textOf(const ASN1_TIME *time) {
  Memory out(BIO_new(BIO_s_mem()));
  ASN1_TIME_print(out.get(), time);
  char *text = nullptr;
  auto length = BIO_get_mem_data(out.get(), &text);
  return {text, static_cast<size_t>(length)};
}

} // namespace

Expected<TlsIdentity> readTlsIdentity(const std::string &certificateFile, const std::string &keyFile,
                                      std::string &warning) {
  if (certificateFile.empty() != keyFile.empty())
    return makeError(Status::Usage, "--tls-certificate and --tls-key expect each other, got ",
                     certificateFile.empty() ? "--tls-key" : "--tls-certificate", " alone");
  if (certificateFile.empty())
    return TlsIdentity();
  auto certificates = readFile(certificateFile, "--tls-certificate", "the server's certificate");
  if (!certificates)
    return certificates.error();
  auto keyText = readFile(keyFile, "--tls-key", "the certificate's private key");
  if (!keyText)
    return keyText.error();
  Certificate certificate(PEM_read_bio_X509(memoryOf(*certificates).get(), nullptr, noPassphrase, nullptr));
  if (!certificate)
    return makeError(Status::Failure, "--tls-certificate expects a PEM file with the server's certificate, got \"",
                     certificateFile, "\" with none that can be read");
  Key key(PEM_read_bio_PrivateKey(memoryOf(*keyText).get(), nullptr, noPassphrase, nullptr));
  if (!key)
    return makeError(Status::Failure, "--tls-key expects a PEM file with a private key without a passphrase, got \"",
                     keyFile, "\" with none that can be read");
  if (X509_check_private_key(certificate.get(), key.get()) != 1)
    return makeError(Status::Failure, "--tls-key expects the key of the certificate in \"", certificateFile,
                     "\", got the one of another in \"", keyFile, '"');
  if (const ASN1_TIME *end = X509_get0_notAfter(certificate.get()); X509_cmp_current_time(end) < 0)
    warning = "the certificate in \"" + certificateFile + "\" expired at " + textOf(end) +
              "; clients that check it will refuse it";
  else if (const ASN1_TIME *begin = X509_get0_notBefore(certificate.get()); X509_cmp_current_time(begin) > 0)
    warning = "the certificate in \"" + certificateFile + "\" is valid from " + textOf(begin) +
              " on; clients that check it will refuse it until then";
  return TlsIdentity{std::move(*certificates), std::move(*keyText)};
}

TlsFilesWatch::TlsFilesWatch(std::string certificateFile, std::string keyFile)
    : certificateFile(std::move(certificateFile)), keyFile(std::move(keyFile)), used(stamp()), latest(used) {}

std::string TlsFilesWatch::stamp() const {
  std::ostringstream text;
  for (const std::string &file : {certificateFile, keyFile}) {
    struct stat found = {};
    if (stat(file.c_str(), &found) == 0)
      text << found.st_ino << " " << found.st_size << " " << found.st_mtim.tv_sec << "." << found.st_mtim.tv_nsec
           << " ";
    else
      text << "none ";
  }
  return text.str();
}

std::optional<Expected<TlsIdentity>> TlsFilesWatch::poll(std::string &warning) {
  std::string now = certificateFile.empty() ? used : stamp();
  bool isSettled = now == std::exchange(latest, now);
  if (now == used || !isSettled)
    return std::nullopt;
  used = now;
  return readTlsIdentity(certificateFile, keyFile, warning);
}

} // namespace cleave::runtime::serve
