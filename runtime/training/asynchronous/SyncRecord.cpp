// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lines of a record.

#include "runtime/training/asynchronous/SyncRecord.h"

#include "runtime/training/asynchronous/ReplicaClocks.h"

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
  text << " local " << run.replicas.localSteps;
  if (run.replicas.overlap != 0)
    text << " overlap " << run.replicas.overlap;
  text << " seed " << run.seed;
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
  if (!words.word("local") || !words.number(run.replicas.localSteps))
    return false;
  std::string next = words.next();
  if (next == "overlap") {
    if (!words.number(run.replicas.overlap) || run.replicas.overlap == 0 ||
        run.replicas.overlap >= run.replicas.localSteps)
      return false;
    next = words.next();
  }
  return next == "seed" && words.number(run.seed) && words.ends() && run.replicas.count >= 2 &&
         run.replicas.count <= most;
}

namespace {

/// Events of a record in their order, in which they must be possible.
class EventParser {
public:
  explicit EventParser(SyncRecord &record)
      : record(record), replicas(record.run.replicas), clocks(replicas.count, replicas.bound) {}

  /// Whether it is a line of the record, which it is added to.
  bool parse(const std::string &line) {
    Words words(line);
    std::string what = words.next();
    if (what == "round")
      return parseRound(words);
    uint32_t replica = 0;
    if (record.rounds.empty() || !words.number(replica) || replica >= replicas.count)
      return false;
    if (what == "begin")
      return parseBegin(words, replica);
    if (!words.ends() || (what != "apply" && what != "lose"))
      return false;
    return what == "apply" ? apply(replica) : lose(replica);
  }

private:
  RecordedRound &round() { return record.rounds.back(); }

  bool parseRound(Words &words) {
    RecordedRound next;
    next.begins.resize(replicas.count);
    if (!words.number(next.epoch) || !words.number(next.sample) || !words.number(next.batches) || !words.ends())
      return false;
    record.rounds.push_back(std::move(next));
    working.assign(replicas.count, false);
    clocks.restart();
    return true;
  }

  bool parseBegin(Words &words, uint32_t replica) {
    RecordedRound::Begin begin;
    // A version is read when it is there, and a replica has one step at a time.
    if (!words.number(begin.batch) || !words.number(begin.version) || !words.ends() ||
        (begin.batch >= round().batches && begin.batch >= replicas.count) || begin.version > round().applied.size() ||
        working[replica] || clocks.hasLeft(replica) || !clocks.mayBegin(replica))
      return false;
    working[replica] = true;
    round().begins[replica].push_back(begin);
    return true;
  }

  /// Together all give, and the line names any of them.
  bool apply(uint32_t replica) {
    for (uint32_t giver = 0; giver != replicas.count; ++giver) {
      if (!replicas.areTogether() && giver != replica)
        continue;
      if (!working[giver])
        return false;
      working[giver] = false;
      clocks.advance(giver);
    }
    round().applied.push_back(replica);
    return true;
  }

  bool lose(uint32_t replica) {
    if (replicas.areTogether() || clocks.hasLeft(replica) || clocks.count() == 1)
      return false;
    clocks.leave(replica);
    working[replica] = false;
    round().losses.push_back({replica, round().applied.size()});
    return true;
  }

  SyncRecord &record;
  const Replicas &replicas;
  ReplicaClocks clocks;
  std::vector<bool> working;
};

} // namespace

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
  EventParser parser(record);
  for (uint64_t number = 2; std::getline(stream, line); ++number) {
    if (stream.eof())
      break; // cut off
    if (!parser.parse(line))
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

void RecordWriter::lose(uint32_t replica) { stream << "lose " << replica << '\n' << std::flush; }

Error RecordWriter::check() const {
  return stream ? Error::success() : makeError(Status::Failure, "record \"", name, "\" cannot be written");
}

} // namespace cleave::runtime
