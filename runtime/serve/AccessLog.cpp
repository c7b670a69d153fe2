// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lines are whole: each is one write.

#include "runtime/serve/AccessLog.h"

#include "runtime/Json.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <sstream>

namespace cleave::runtime::serve {

Expected<std::unique_ptr<AccessLog>> AccessLog::open(const std::string &name) {
  std::FILE *file = name == "-" ? stderr : std::fopen(name.c_str(), "ae");
  if (!file)
    return makeError(Status::Failure, "the access log expects a file that can be written, got \"", name,
                     "\": ", std::strerror(errno));
  return std::unique_ptr<AccessLog>(new AccessLog(file));
}

AccessLog::~AccessLog() {
  if (file != stderr)
    std::fclose(file);
}

/// The time in UTC, to milliseconds, as RFC 3339 has it.
static std::string timeNow() {
  auto now = std::chrono::system_clock::now().time_since_epoch();
  std::time_t seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  std::tm parts = {};
  gmtime_r(&seconds, &parts);
  char date[32], whole[48];
  std::strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &parts);
  auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(now).count() % 1000;
  std::snprintf(whole, sizeof(whole), "%s.%03dZ", date, static_cast<int>(milliseconds));
  return whole;
}

void AccessLog::write(const AccessEntry &entry) {
  std::ostringstream line;
  line << "{\"time\": \"" << timeNow() << "\", \"peer\": " << JsonString{entry.peer}
       << ", \"method\": " << JsonString{entry.method} << ", \"target\": " << JsonString{entry.target}
       << ", \"status\": " << entry.status << ", \"request_bytes\": " << entry.requestBytes
       << ", \"response_bytes\": " << entry.responseBytes
       << ", \"ms\": " << JsonNumber{static_cast<double>(entry.nanoseconds) * 1e-6};
  if (!entry.id.empty())
    line << ", \"id\": " << JsonString{entry.id};
  if (entry.job) {
    const JobTimes &times = entry.job->times;
    line << ", \"samples\": " << entry.job->samples;
    if (times.start != 0)
      line << ", \"receive_ms\": " << JsonNumber{static_cast<double>(times.queued - times.arrival) * 1e-6}
           << ", \"queue_ms\": " << JsonNumber{static_cast<double>(times.start - times.queued) * 1e-6}
           << ", \"infer_ms\": " << JsonNumber{static_cast<double>(times.running) * 1e-6};
  }
  line << "}\n";
  std::string text = line.str();
  std::lock_guard lock(mutex);
  std::fwrite(text.data(), 1, text.size(), file);
  std::fflush(file);
}

} // namespace cleave::runtime::serve
