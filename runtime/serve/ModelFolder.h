// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Models in a folder, NAME/VERSION/*.plan, that are loaded, replaced and unloaded while a server runs. Of several plans
// of a version the first by name runs; the others, in this order, are for when devices are lost.

#ifndef CLEAVE_RUNTIME_SERVE_MODELFOLDER_H
#define CLEAVE_RUNTIME_SERVE_MODELFOLDER_H

#include "runtime/serve/ModelRepository.h"

#include <condition_variable>
#include <deque>
#include <thread>

namespace cleave::runtime::serve {

/// What the folder has of a model.
struct FolderEntry {
  std::string name, version;
  bool isLoaded = false;
};

/// Safe to call from any thread. Changes happen one after the other on a thread of its own. A model that is replaced
/// answers what it was asked, while the new one answers what comes: for that long both have their memory.
class ModelFolder {
public:
  using Plans = std::vector<std::filesystem::path>;
  /// Makes a model of plan files, with trust and options applied.
  using Load = std::function<Expected<std::shared_ptr<ServedModel>>(const std::string &name, const std::string &version,
                                                                    const Plans &plans)>;

  ModelFolder(std::filesystem::path folder, ModelRepository &models, Load load);
  /// Does what was asked for before.
  ~ModelFolder();

  /// Loads all models that the folder has. Status::Failure where it cannot be read or has none.
  Error loadAll();
  /// Loads all versions of a model as they are now, and takes out those that are gone; `done` is told the first error,
  /// after which all versions are as before.
  void load(const std::string &name, std::function<void(Error)> done);
  void unload(const std::string &name, std::function<void(Error)> done);
  /// All models of the folder, and those that are loaded but no longer in it.
  std::vector<FolderEntry> list() const;

private:
  Error loadNow(const std::string &name);
  Error unloadNow(const std::string &name);
  Expected<std::map<std::string, Plans>> plansOf(const std::string &name) const;
  void enqueue(std::function<void()> task);

  const std::filesystem::path folder;
  ModelRepository &models;
  const Load make;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> tasks;
  bool isEnding = false;
  std::thread worker;
};

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_MODELFOLDER_H
