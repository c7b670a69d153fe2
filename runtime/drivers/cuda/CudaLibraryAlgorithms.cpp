// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Keeps, reads and appends algorithms; measures with events.

#include "runtime/drivers/cuda/CudaLibraryAlgorithms.h"

#include "runtime/MemoryLayout.h"
#include "runtime/Plan.h"
#include "runtime/drivers/cuda/CudaGpus.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iomanip>

namespace cleave::runtime {

static std::string checksumText(std::string_view text) {
  std::ostringstream stream;
  stream << std::hex << std::setw(16) << std::setfill('0') << checksum(std::as_bytes(std::span(text)));
  return stream.str();
}

CudaAlgorithmCache::CudaAlgorithmCache(std::filesystem::path path) : file(std::move(path)) {
  if (file.empty())
    return;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    size_t first = line.find('\t'), last = line.rfind('\t');
    if (first == std::string::npos || first == last ||
        line.substr(0, first) != checksumText(std::string_view(line).substr(first + 1)))
      continue;
    values[line.substr(first + 1, last - first - 1)] = line.substr(last + 1);
  }
}

CudaAlgorithmCache &CudaAlgorithmCache::ofProcess() {
  static CudaAlgorithmCache cache([] {
    const char *file = std::getenv("CLEAVE_ALGORITHM_CACHE");
    return std::filesystem::path(file ? file : "");
  }());
  return cache;
}

std::optional<std::string> CudaAlgorithmCache::find(const std::string &key) {
  std::lock_guard lock(mutex);
  auto found = values.find(key);
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

void CudaAlgorithmCache::insert(const std::string &key, const std::string &value) {
  std::lock_guard lock(mutex);
  values[key] = value;
  if (file.empty())
    return;
  // In one piece at the end of the file, so that lines of several processes do not mix. The line break in front ends
  // what another one may have left behind.
  std::string entry = key + '\t' + value;
  std::ofstream stream(file, std::ios::app);
  stream << '\n' + checksumText(entry) + '\t' + entry + '\n' << std::flush;
}

/// Tabs and line breaks are the file's.
static std::string onOneLine(std::string text) {
  std::replace_if(text.begin(), text.end(), [](char c) { return c == '\t' || c == '\n' || c == '\r'; }, ' ');
  return text;
}

static void describeType(std::ostream &stream, const TensorType &type) {
  stream << ' ' << TensorType{type.element, type.shape, std::nullopt}.text();
  if (isPlain(type))
    return;
  for (int64_t stride : type.layout->strides)
    stream << '/' << stride;
}

Expected<std::string> algorithmKey(const CudaRuntime &cuda, const std::string &library, const LibraryKernelDesc &desc) {
  int gpu = 0;
  if (Error error = checkCuda(cuda, cuda.cudaGetDevice(&gpu), "cudaGetDevice"))
    return error;
  std::ostringstream stream;
  stream << library << ' ' << productName(cuda, gpu) << ": " << desc.operation;
  for (const auto &[name, list] : desc.ints) {
    stream << ' ' << name << '=';
    for (size_t i = 0; i != list.size(); ++i)
      stream << (i ? "," : "") << list[i];
  }
  for (const LibraryPostOp &postOp : desc.postOps)
    stream << ' ' << postOp.kind << '(' << postOp.argument << ')';
  for (const TensorType &type : desc.inputs)
    describeType(stream, type);
  stream << " ->";
  for (const TensorType &type : desc.outputs)
    describeType(stream, type);
  stream << " in " << desc.scratchBytes;
  return onOneLine(stream.str());
}

namespace {

/// Two events around what is measured.
struct EventPair {
  explicit EventPair(const CudaRuntime &cuda) : cuda(cuda) {}
  EventPair(const EventPair &) = delete;
  EventPair &operator=(const EventPair &) = delete;
  ~EventPair() {
    for (cudaEvent_t event : {begin, end})
      if (event)
        cuda.cudaEventDestroy(event);
  }

  const CudaRuntime &cuda;
  cudaEvent_t begin = nullptr, end = nullptr;
};

} // namespace

Expected<float> measureOnStream(const CudaRuntime &cuda, cudaStream_t stream, const std::function<Error()> &work,
                                float leastOfOthers) {
  static std::mutex measuring;
  std::lock_guard lock(measuring);
  EventPair events(cuda);
  for (cudaEvent_t *event : {&events.begin, &events.end})
    if (Error error = checkCuda(cuda, cuda.cudaEventCreateWithFlags(event, cudaEventDefault), "cudaEventCreate"))
      return error;
  // The first call loads code.
  if (Error error = work())
    return error;
  auto measure = [&](int calls) -> Expected<float> {
    if (Error error = checkCuda(cuda, cuda.cudaEventRecord(events.begin, stream), "cudaEventRecord"))
      return error;
    for (int call = 0; call != calls; ++call)
      if (Error error = work())
        return error;
    if (Error error = checkCuda(cuda, cuda.cudaEventRecord(events.end, stream), "cudaEventRecord"))
      return error;
    if (Error error = checkCuda(cuda, cuda.cudaEventSynchronize(events.end), "cudaEventSynchronize"))
      return error;
    float milliseconds = 0;
    if (Error error =
            checkCuda(cuda, cuda.cudaEventElapsedTime(&milliseconds, events.begin, events.end), "cudaEventElapsedTime"))
      return error;
    return milliseconds / static_cast<float>(calls);
  };
  // A single call is measured with what it takes to begin.
  constexpr float hopeless = 3, toBegin = 0.05f;
  if (leastOfOthers != std::numeric_limits<float>::infinity())
    if (auto time = measure(1); !time || *time > hopeless * leastOfOthers + toBegin)
      return time;
  constexpr int rounds = 3, calls = 4;
  constexpr float clearlyLonger = 1.5f, enough = 25;
  float least = std::numeric_limits<float>::infinity();
  for (int round = 0; round != rounds; ++round) {
    auto time = measure(calls);
    if (!time)
      return time;
    least = std::min(least, *time);
    // What takes so long varies little.
    if (*time > enough || least > clearlyLonger * leastOfOthers)
      break;
  }
  return least;
}

} // namespace cleave::runtime
