// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The models that a server answers for, by name and version.

#ifndef CLEAVE_RUNTIME_SERVE_MODELREPOSITORY_H
#define CLEAVE_RUNTIME_SERVE_MODELREPOSITORY_H

#include "runtime/serve/ServedModel.h"

namespace cleave::runtime::serve {

/// Safe to call from any thread. Who has found a model may use it as long as it holds it, whatever replaces it in the
/// meantime: a model ends when its last holder lets go, after it has answered what it was asked.
class ModelRepository {
public:
  /// Puts a model in the place of the one of the same name and version, if there is one, which is returned.
  std::shared_ptr<ServedModel> add(std::shared_ptr<ServedModel> model);
  /// Takes a version out, or all of a name where `version` is empty.
  std::vector<std::shared_ptr<ServedModel>> remove(const std::string &name, const std::string &version = {});
  /// The version, or the newest one where `version` is empty; null where there is none.
  std::shared_ptr<ServedModel> find(const std::string &name, const std::string &version = {}) const;
  /// The versions of a name, the newest last.
  std::vector<std::string> versions(const std::string &name) const;
  /// All models, by name, then by version.
  std::vector<std::shared_ptr<ServedModel>> all() const;

private:
  /// 9 before 10, and numbers before words.
  struct VersionOrder {
    bool operator()(const std::string &left, const std::string &right) const;
  };
  mutable std::mutex mutex;
  std::map<std::string, std::map<std::string, std::shared_ptr<ServedModel>, VersionOrder>> models;
};

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_MODELREPOSITORY_H
