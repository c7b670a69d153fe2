// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tokens are compared in a time that says nothing about them.

#include "runtime/serve/ServerState.h"

namespace cleave::runtime::serve {

/// Takes as long for any token of its length.
static bool isSameToken(std::string_view left, std::string_view right) {
  unsigned char difference = left.size() != right.size();
  for (size_t i = 0; i != std::min(left.size(), right.size()); ++i)
    difference |= static_cast<unsigned char>(left[i] ^ right[i]);
  return difference == 0;
}

bool ServerState::isAllowed(std::string_view authorization) const {
  static constexpr std::string_view scheme = "Bearer ";
  return token.empty() ||
         (authorization.starts_with(scheme) && isSameToken(authorization.substr(scheme.size()), token));
}

bool ServerState::isReady() const {
  bool isReady = !isDraining;
  for (const auto &model : models.all())
    isReady &= model->isReady();
  return isReady;
}

} // namespace cleave::runtime::serve
