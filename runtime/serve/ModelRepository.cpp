// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two maps under a lock; models themselves are never touched while it is held.

#include "runtime/serve/ModelRepository.h"

#include <algorithm>
#include <tuple>

namespace cleave::runtime::serve {

bool ModelRepository::VersionOrder::operator()(const std::string &left, const std::string &right) const {
  auto key = [](const std::string &version) {
    bool isNumber = !version.empty() && std::ranges::all_of(version, [](char c) { return c >= '0' && c <= '9'; });
    size_t zeros = isNumber ? std::min(version.find_first_not_of('0'), version.size()) : 0;
    return std::tuple(!isNumber, isNumber ? version.size() - zeros : 0, version);
  };
  return key(left) < key(right);
}

std::shared_ptr<ServedModel> ModelRepository::add(std::shared_ptr<ServedModel> model) {
  std::lock_guard lock(mutex);
  auto &place = models[model->getName()][model->getVersion()];
  std::swap(place, model);
  return model;
}

std::vector<std::shared_ptr<ServedModel>> ModelRepository::remove(const std::string &name, const std::string &version) {
  std::vector<std::shared_ptr<ServedModel>> removed;
  std::lock_guard lock(mutex);
  auto found = models.find(name);
  if (found == models.end())
    return removed;
  for (auto at = found->second.begin(); at != found->second.end();)
    if (version.empty() || at->first == version) {
      removed.push_back(std::move(at->second));
      at = found->second.erase(at);
    } else {
      ++at;
    }
  if (found->second.empty())
    models.erase(found);
  return removed;
}

std::shared_ptr<ServedModel> ModelRepository::find(const std::string &name, const std::string &version) const {
  std::lock_guard lock(mutex);
  auto found = models.find(name);
  if (found == models.end())
    return nullptr;
  if (version.empty())
    return found->second.rbegin()->second;
  auto at = found->second.find(version);
  return at == found->second.end() ? nullptr : at->second;
}

std::vector<std::string> ModelRepository::versions(const std::string &name) const {
  std::vector<std::string> list;
  std::lock_guard lock(mutex);
  if (auto found = models.find(name); found != models.end())
    for (auto &[version, model] : found->second)
      list.push_back(version);
  return list;
}

std::vector<std::shared_ptr<ServedModel>> ModelRepository::all() const {
  std::vector<std::shared_ptr<ServedModel>> list;
  std::lock_guard lock(mutex);
  for (auto &[name, versions] : models)
    for (auto &[version, model] : versions)
      list.push_back(model);
  return list;
}

} // namespace cleave::runtime::serve
