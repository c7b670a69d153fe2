// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes checkpoints aside and finds the last one. What is not a whole checkpoint has a name that begins with a dot.

#include "runtime/training/Checkpoint.h"

#include "runtime/training/Manifest.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <thread>
#include <unistd.h>

namespace cleave::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "step-";
constexpr const char *tensorsName = "tensors", *manifestName = "manifest";
constexpr uint64_t alignment = 64;
constexpr size_t numKept = 2;

Error failure(const char *what, const fs::path &path, int code) {
  return makeError(Status::Failure, "cannot ", what, " ", path, ": ", std::strerror(code));
}

/// Writes a file whose bytes are on the disk when it returns.
class DurableFile {
public:
  /// Messages are about `subject`: the file itself is aside until all is written.
  DurableFile(const fs::path &path, fs::path subject)
      : subject(std::move(subject)), descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {
    if (descriptor < 0)
      code = errno;
  }
  ~DurableFile() {
    if (descriptor >= 0)
      ::close(descriptor);
  }
  DurableFile(const DurableFile &) = delete;
  DurableFile &operator=(const DurableFile &) = delete;

  void write(std::span<const std::byte> bytes) {
    while (code == 0 && !bytes.empty()) {
      ssize_t written = ::write(descriptor, bytes.data(), std::min(bytes.size(), size_t(1) << 30));
      if (written < 0 && errno == EINTR)
        continue;
      if (written < 0)
        code = errno;
      else
        bytes = bytes.subspan(static_cast<size_t>(written));
    }
  }
  Error finish() {
    if (code == 0 && ::fsync(descriptor) != 0)
      code = errno;
    if (descriptor >= 0 && ::close(std::exchange(descriptor, -1)) != 0 && code == 0)
      code = errno;
    return code == 0 ? Error::success() : failure("write checkpoint", subject, code);
  }

private:
  const fs::path subject;
  int descriptor, code = 0;
};

/// Makes sure that the names in a folder are on the disk.
Error flushFolder(const fs::path &folder, const fs::path &subject) {
  int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0 || ::fsync(descriptor) != 0) {
    int code = errno;
    if (descriptor >= 0)
      ::close(descriptor);
    return failure("write checkpoint", subject, code);
  }
  ::close(descriptor);
  return Error::success();
}

/// Locks a folder for this process; false when another one keeps it. One that has just been killed may take a moment to
/// go.
bool lockSoon(int descriptor) {
  auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (std::chrono::steady_clock::now() >= deadline)
      return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

/// The file of tensors, and the lines of the manifest that say what is where.
Error writeTensors(const fs::path &path, const fs::path &subject, std::span<const NamedTensor> tensors,
                   Manifest &manifest) {
  DurableFile file(path, subject);
  Fnv1a sum;
  uint64_t position = 0;
  const std::vector<std::byte> zeros(alignment);
  auto write = [&](std::span<const std::byte> bytes) {
    file.write(bytes);
    sum.add(bytes);
    position += bytes.size();
  };
  for (const NamedTensor &named : tensors) {
    write(std::span(zeros).first((alignment - position % alignment) % alignment));
    manifest.tensors.push_back({named.name, named.tensor.type(), position});
    write(named.tensor.bytes());
  }
  manifest.tensorBytes = position;
  manifest.tensorChecksum = sum.value();
  return file.finish();
}

} // namespace

fs::path CheckpointFolder::pathOf(const fs::path &folder, uint64_t step) {
  return folder / (std::string(prefix) + std::to_string(step));
}

Expected<Checkpoint> readCheckpoint(const fs::path &folder) {
  auto damaged = [&](const Error &error) {
    return makeError(Status::Rejected, "checkpoint ", folder, ": ", error.message());
  };
  auto text = MappedFile::open(folder / manifestName);
  if (!text)
    return damaged(text.error());
  auto bytes = text->bytes();
  auto manifest = Manifest::parse({reinterpret_cast<const char *>(bytes.data()), bytes.size()});
  if (!manifest)
    return damaged(manifest.error());
  auto file = MappedFile::open(folder / tensorsName);
  if (!file)
    return damaged(file.error());
  Checkpoint checkpoint{folder, manifest->position, {}, std::make_shared<const MappedFile>(std::move(*file))};
  std::span<const std::byte> data = checkpoint.file->bytes();
  Fnv1a sum;
  sum.add(data);
  if (data.size() != manifest->tensorBytes || sum.value() != manifest->tensorChecksum)
    return damaged(makeError(Status::Rejected, "its tensors expect ", manifest->tensorBytes, " bytes with checksum ",
                             std::hex, manifest->tensorChecksum, ", got ", std::dec, data.size(), " with ", std::hex,
                             sum.value()));
  for (const Manifest::Tensor &entry : manifest->tensors) {
    Error unsound = entry.type.check();
    uint64_t size = unsound ? 0 : *entry.type.byteSize();
    if (unsound || entry.offset > data.size() || size > data.size() - entry.offset)
      return damaged(makeError(Status::Rejected, "tensor \"", entry.name, "\" is not in its file"));
    // Nobody writes into the view: the mapping is read-only.
    auto *begin = const_cast<std::byte *>(data.data() + entry.offset);
    auto view = HostTensor::view(entry.type, {begin, size});
    if (!view)
      return damaged(view.error());
    checkpoint.tensors.push_back({entry.name, *view});
  }
  return checkpoint;
}

Expected<CheckpointFolder> CheckpointFolder::open(const fs::path &folder) {
  std::error_code code;
  fs::create_directories(folder, code);
  if (code)
    return makeError(Status::Failure, "cannot create ", folder, ": ", code.message());
  int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0)
    return failure("open", folder, errno);
  CheckpointFolder opened(folder, descriptor);
  if (!lockSoon(descriptor))
    return makeError(Status::Failure, "another process writes checkpoints into ", folder,
                     "; wait for it, or choose another folder");
  // What a process that was killed has left.
  for (const fs::directory_entry &entry : fs::directory_iterator(folder, code))
    if (entry.path().filename().string().starts_with("." + std::string(prefix)))
      fs::remove_all(entry.path(), code);
  fs::path attempt = folder / ("." + std::string(prefix) + "attempt");
  if (!fs::create_directory(attempt, code))
    return makeError(Status::Failure, "checkpoint folder ", folder, " expects to take new files, got: ", code.message(),
                     "; choose another folder");
  fs::remove(attempt, code);
  return opened;
}

CheckpointFolder::~CheckpointFolder() {
  if (descriptor >= 0)
    ::close(descriptor);
}

std::vector<uint64_t> CheckpointFolder::steps(const fs::path &folder) {
  std::vector<uint64_t> found;
  std::error_code code;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder, code)) {
    std::string name = entry.path().filename().string();
    uint64_t step = 0;
    const char *end = name.data() + name.size();
    if (!name.starts_with(prefix))
      continue;
    auto parsed = std::from_chars(name.data() + prefix.size(), end, step);
    if (parsed.ec == std::errc() && parsed.ptr == end)
      found.push_back(step);
  }
  std::ranges::sort(found, std::greater());
  return found;
}

std::optional<Checkpoint> CheckpointFolder::readLatest(const fs::path &folder,
                                                       const std::function<void(const Error &)> &skipped) {
  for (uint64_t step : steps(folder)) {
    auto checkpoint = readCheckpoint(pathOf(folder, step));
    if (checkpoint)
      return std::move(*checkpoint);
    skipped(checkpoint.error());
  }
  return std::nullopt;
}

/// Takes the name from a checkpoint first, so that what is half removed never looks like one.
Error CheckpointFolder::removeAside(const fs::path &path) {
  fs::path aside = folder / ("." + path.filename().string() + ".removed");
  std::error_code code;
  fs::remove_all(aside, code);
  fs::rename(path, aside, code);
  if (code)
    return makeError(Status::Failure, "cannot remove ", path, ": ", code.message());
  fs::remove_all(aside, code);
  return Error::success();
}

Error CheckpointFolder::write(const TrainPosition &position, std::span<const NamedTensor> tensors) {
  fs::path final = pathOf(folder, position.steps);
  fs::path aside = folder / ("." + final.filename().string() + ".part");
  Error error = write(position, tensors, aside, final);
  // On a full disk it would take the room that whoever tries again needs.
  std::error_code code;
  if (error)
    fs::remove_all(aside, code);
  return error;
}

Error CheckpointFolder::write(const TrainPosition &position, std::span<const NamedTensor> tensors,
                              const fs::path &aside, const fs::path &final) {
  std::error_code code;
  fs::remove_all(aside, code);
  if (!fs::create_directory(aside, code))
    return makeError(Status::Failure, "cannot write checkpoint ", final, ": ", code.message());
  Manifest manifest{position, {}, 0, 0};
  if (Error error = writeTensors(aside / tensorsName, final, tensors, manifest))
    return error;
  DurableFile file(aside / manifestName, final);
  std::string text = manifest.text();
  file.write(std::as_bytes(std::span(text)));
  if (Error error = file.finish())
    return error;
  if (Error error = flushFolder(aside, final))
    return error;
  // One of the same step can only be there if it was skipped as damaged.
  if (fs::exists(final, code))
    if (Error error = removeAside(final))
      return error;
  fs::rename(aside, final, code);
  if (code)
    return makeError(Status::Failure, "cannot write checkpoint ", final, ": ", code.message());
  if (Error error = flushFolder(folder, final))
    return error;
  std::vector<uint64_t> all = steps(folder);
  // Later ones have been skipped as damaged.
  std::erase_if(all, [&](uint64_t step) { return step > position.steps; });
  for (size_t i = numKept; i < all.size(); ++i)
    if (Error error = removeAside(pathOf(folder, all[i])))
      return error;
  return Error::success();
}

} // namespace cleave::runtime
