// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All versions of a model are made before the first one answers.

#include "runtime/serve/ModelFolder.h"

#include <algorithm>
#include <set>

namespace cleave::runtime::serve {

namespace fs = std::filesystem;

ModelFolder::ModelFolder(fs::path folder, ModelRepository &models, Load load)
    : folder(std::move(folder)), models(models), make(std::move(load)) {
  worker = std::thread([this] {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return isEnding || !tasks.empty(); });
      if (tasks.empty())
        return;
      auto task = std::move(tasks.front());
      tasks.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  });
}

ModelFolder::~ModelFolder() {
  {
    std::lock_guard lock(mutex);
    isEnding = true;
  }
  changed.notify_all();
  worker.join();
}

void ModelFolder::enqueue(std::function<void()> task) {
  {
    std::lock_guard lock(mutex);
    tasks.push_back(std::move(task));
  }
  changed.notify_all();
}

/// Names that are no path of their own; sorted.
static std::set<std::string> foldersIn(const fs::path &folder) {
  std::set<std::string> names;
  std::error_code code;
  for (fs::directory_iterator at(folder, code), end; !code && at != end; at.increment(code))
    if (std::string name = at->path().filename().string(); !name.starts_with('.') && at->is_directory(code))
      names.insert(std::move(name));
  return names;
}

Expected<std::map<std::string, ModelFolder::Plans>> ModelFolder::plansOf(const std::string &name) const {
  std::map<std::string, Plans> plans;
  bool isName = !name.empty() && !name.starts_with('.') && name.find('/') == std::string::npos;
  for (const std::string &version : isName ? foldersIn(folder / name) : std::set<std::string>()) {
    std::error_code code;
    for (fs::directory_iterator at(folder / name / version, code), end; !code && at != end; at.increment(code))
      if (at->path().extension() == ".plan")
        plans[version].push_back(at->path());
  }
  for (auto &[version, files] : plans)
    std::ranges::sort(files);
  if (plans.empty())
    return makeError(Status::Failure, "model \"", name.substr(0, 80), "\" expects plans at ", folder.string(),
                     "/NAME/VERSION/*.plan, got none");
  return plans;
}

Error ModelFolder::loadNow(const std::string &name) {
  auto plans = plansOf(name);
  if (!plans)
    return plans.error();
  std::vector<std::shared_ptr<ServedModel>> made;
  for (auto &[version, files] : *plans) {
    auto model = make(name, version, files);
    if (!model)
      return model.error();
    made.push_back(std::move(*model));
  }
  // Those that were there before end where this ends.
  std::vector<std::shared_ptr<ServedModel>> old;
  for (std::shared_ptr<ServedModel> &model : made)
    old.push_back(models.add(std::move(model)));
  for (const std::string &version : models.versions(name))
    if (!plans->count(version))
      for (std::shared_ptr<ServedModel> &gone : models.remove(name, version))
        old.push_back(std::move(gone));
  return Error::success();
}

Error ModelFolder::unloadNow(const std::string &name) {
  if (models.remove(name).empty())
    return makeError(Status::Failure, "model \"", name.substr(0, 80), "\" is not loaded");
  return Error::success();
}

Error ModelFolder::loadAll() {
  std::error_code code;
  if (!fs::is_directory(folder, code))
    return makeError(Status::Failure, "--models expects a folder, got \"", folder.string(), '"');
  std::set<std::string> names = foldersIn(folder);
  if (names.empty())
    return makeError(Status::Failure, "--models expects models at ", folder.string(), "/NAME/VERSION/*.plan, got none");
  for (const std::string &name : names)
    if (Error error = loadNow(name))
      return error;
  return Error::success();
}

void ModelFolder::load(const std::string &name, std::function<void(Error)> done) {
  enqueue([this, name, done = std::move(done)] { done(loadNow(name)); });
}

void ModelFolder::unload(const std::string &name, std::function<void(Error)> done) {
  enqueue([this, name, done = std::move(done)] { done(unloadNow(name)); });
}

std::vector<FolderEntry> ModelFolder::list() const {
  std::set<std::pair<std::string, std::string>> all, loaded;
  for (const std::string &name : foldersIn(folder))
    for (const std::string &version : foldersIn(folder / name))
      all.insert({name, version});
  for (const auto &model : models.all())
    loaded.insert({model->getName(), model->getVersion()});
  all.insert(loaded.begin(), loaded.end());
  std::vector<FolderEntry> entries;
  for (auto &[name, version] : all)
    entries.push_back({name, version, loaded.contains({name, version})});
  return entries;
}

} // namespace cleave::runtime::serve
