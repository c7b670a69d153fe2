// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lines of a record.

#include "runtime/training/asynchronous/SyncRecord.h"

#include <charconv>
#include <sstream>

namespace cleave::runtime {

static std::string headerOf(const RecordedRun &run) {
  std::ostringstream text;
  text << "cleave-record 1 replicas " << run.replicas.count << " bound ";
  if (run.replicas.bound)
    text << *run.replicas.bound;
  else
    text << "inf";
  text << " local " << run.replicas.localSteps << " seed " << run.seed;
  return text.str();
}

namespace {

/// Words of a line, which are read one after the other.
class Words {
public:
  explicit Words(const std::string &line) : stream(line) {}
  bool word(const char *expected) {
    std::string got;
    return stream >> got && got == expected;
  }
  std::string next() {
    std::string got;
    stream >> got;
    return got;
  }
  template <typename T> bool number(T &value) {
    std::string text = next();
    auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    return !text.empty() && parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
  }
  bool ends() {
    std::string got;
    return !(stream >> got);
  }

private:
  std::istringstream stream;
};

} // namespace

static bool parseHeader(const std::string &line, RecordedRun &run) {
  Words words(line);
  if (!words.word("cleave-record") || !words.word("1") || !words.word("replicas") ||
      !words.number(run.replicas.count) || !words.word("bound"))
    return false;
  std::string bound = words.next();
  run.replicas.bound.reset();
  uint64_t number = 0;
  if (bound != "inf") {
    if (!Words(bound).number(number))
      return false;
    run.replicas.bound = number;
  }
  // More replicas than a machine has devices would take memory for nothing.
  constexpr uint32_t most = 65536;
  return words.word("local") && words.number(run.replicas.localSteps) && words.word("seed") && words.number(run.seed) &&
         words.ends() && run.replicas.count >= 2 && run.replicas.count <= most;
}

/// Whether it is a line of a record, which it is added to.
static bool parseEvent(const std::string &line, SyncRecord &record) {
  Words words(line);
  std::string what = words.next();
  uint32_t replicas = record.run.replicas.count, replica = 0;
  if (what == "round") {
    RecordedRound round;
    round.begins.resize(replicas);
    if (!words.number(round.epoch) || !words.number(round.sample) || !words.number(round.batches) || !words.ends())
      return false;
    record.rounds.push_back(std::move(round));
    return true;
  }
  if (record.rounds.empty() || !words.number(replica) || replica >= replicas)
    return false;
  RecordedRound &round = record.rounds.back();
  if (what == "begin") {
    RecordedRound::Begin begin;
    // A version is read when it is there, and a replica has one step at a time.
    if (!words.number(begin.batch) || !words.number(begin.version) || !words.ends() ||
        (begin.batch >= round.batches && begin.batch >= replicas) || begin.version > round.applied.size())
      return false;
    round.begins[replica].push_back(begin);
    return true;
  }
  if (what != "apply" || !words.ends())
    return false;
  round.applied.push_back(replica);
  return true;
}

Expected<SyncRecord> SyncRecord::read(const std::string &file) {
  std::ifstream stream(file);
  if (!stream)
    return makeError(Status::Failure, "record \"", file, "\" cannot be read");
  auto refuse = [&](uint64_t line) {
    return makeError(Status::Rejected, "record \"", file, "\" line ", line,
                     ": expects what `cleave train --record` writes");
  };
  SyncRecord record;
  std::string line;
  if (!std::getline(stream, line) || !parseHeader(line, record.run))
    return refuse(1);
  for (uint64_t number = 2; std::getline(stream, line); ++number) {
    if (stream.eof())
      break; // cut off
    if (!parseEvent(line, record))
      return refuse(number);
  }
  return record;
}

Expected<RecordWriter> RecordWriter::open(const std::string &file, const RecordedRun &run) {
  RecordWriter writer(file);
  writer.stream.open(file);
  writer.stream << headerOf(run) << std::endl;
  if (Error error = writer.check())
    return error;
  return writer;
}

void RecordWriter::round(uint64_t epoch, uint64_t sample, uint64_t batches) {
  stream << "round " << epoch << ' ' << sample << ' ' << batches << '\n';
}

void RecordWriter::begin(uint32_t replica, uint64_t batch, uint64_t version) {
  stream << "begin " << replica << ' ' << batch << ' ' << version << '\n' << std::flush;
}

void RecordWriter::apply(uint32_t replica) { stream << "apply " << replica << '\n' << std::flush; }

Error RecordWriter::check() const {
  return stream ? Error::success() : makeError(Status::Failure, "record \"", name, "\" cannot be written");
}

} // namespace cleave::runtime
