// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two hosts on this machine: network namespaces with a cable between them, and host names of their own.

#ifndef CLEAVE_TEST_RUNTIME_TWOHOSTS_H
#define CLEAVE_TEST_RUNTIME_TWOHOSTS_H

#include <filesystem>
#include <string>
#include <vector>

namespace cleave::runtime::test {

/// The hosts "alpha" and "beta", for as long as the object lives; one at a time on a machine.
class TwoHosts {
public:
  /// `folder` gets the program that stands for ssh.
  explicit TwoHosts(const std::filesystem::path &folder);
  ~TwoHosts();
  TwoHosts(const TwoHosts &) = delete;
  TwoHosts &operator=(const TwoHosts &) = delete;

  /// Whether they were made: it takes root's rights and iproute2.
  explicit operator bool() const { return made; }
  /// What starts mpirun on alpha.
  std::vector<std::string> onAlpha() const;
  /// mpirun's options for two ranks on each host.
  std::vector<std::string> options() const;
  /// Takes the cable away.
  void cut() const;

private:
  std::filesystem::path folder;
  bool made = false;
};

} // namespace cleave::runtime::test

#endif // CLEAVE_TEST_RUNTIME_TWOHOSTS_H
