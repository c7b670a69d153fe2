// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Of several failures the more urgent one counts, else the one heard of first.

#include "runtime/watch/RunWatch.h"

#include <algorithm>
#include <cstring>
#include <sstream>
#include <unistd.h>

namespace cleave::runtime {

std::string secondsText(int64_t nanoseconds) {
  std::ostringstream text;
  int64_t tenths = nanoseconds / (second / 10);
  if (tenths >= 100 || tenths % 10 == 0)
    text << tenths / 10 << " s";
  else
    text << tenths / 10 << "." << tenths % 10 << " s";
  return text.str();
}

RunWatch::RunWatch(uint32_t count, const WatchOptions &options, int64_t time) : options(options), members(count) {
  forgive(time);
  std::array<char, 64> host{};
  gethostname(host.data(), host.size() - 1);
  members.front().host = host.data();
  members.front().joined = true;
}

void RunWatch::forgive(int64_t time) {
  for (Member &member : members)
    member.heard = time;
}

bool RunWatch::join(const GuardMessage &hello, int64_t time) {
  if (hello.rank == 0 || hello.rank >= members.size() || members[hello.rank].joined)
    return false;
  Member &member = members[hello.rank];
  member.joined = true;
  member.heard = time;
  member.host = std::string(hello.host.data(), strnlen(hello.host.data(), hello.host.size()));
  return true;
}

void RunWatch::beat(uint32_t rank, const GuardMessage &beat, int64_t time) {
  Member &member = members[rank];
  member.heard = member.beatAt = time;
  member.beat = beat;
}

std::string RunWatch::name(uint32_t rank) const {
  bool same = std::ranges::all_of(
      members, [&](const Member &member) { return member.host.empty() || member.host == members.front().host; });
  return "rank " + std::to_string(rank) + (same ? "" : " on host \"" + members[rank].host + "\"");
}

std::string RunWatch::lastHeardOf(uint32_t rank, int64_t time) const {
  const Member &member = members[rank];
  if (member.beatAt == 0)
    return "";
  std::string what = member.beat.latest.kind == ActivityKind::None ? "between instructions"
                                                                   : std::string(member.beat.latest.text.data());
  return "; heard of last " + secondsText(time - member.beatAt) + " ago, " + what;
}

void RunWatch::leave(uint32_t rank, int64_t time) {
  if (!members[rank].isThere())
    return;
  fail({rank, Status::Lost, Urgency::Now, name(rank) + " is lost: the connection has ended" + lastHeardOf(rank, time),
        ""},
       time);
}

void RunWatch::lose(const Failure &failure) {
  if (std::exchange(members[failure.rank].lost, true))
    return;
  losses.push_back(failure);
  if (afterLoss != AfterLoss::GoOnAlone)
    return;
  for (uint32_t rank = 1; rank != members.size(); ++rank)
    if (members[rank].isThere())
      lose({rank, failure.status, failure.urgency, failure.text, failure.node});
}

void RunWatch::fail(const Failure &reported, int64_t time) {
  if (goesOn() && reported.urgency == Urgency::IfItHangs)
    return;
  Failure failure = reported;
  // Only here is it known which hosts there are.
  std::string own = "rank " + std::to_string(failure.rank);
  std::string rest = failure.text.substr(std::min(own.size(), failure.text.size()));
  if (failure.text.starts_with(own) && (rest.starts_with(" is") || rest.starts_with(" has") || rest.starts_with(":")))
    failure.text = name(failure.rank) + rest;
  if (goesOn() && failure.rank != 0)
    return lose(failure);
  if (first && first->urgency <= failure.urgency)
    return;
  first = failure;
  int64_t limit = nanoseconds(options.rankTimeout);
  decideAt = failure.urgency == Urgency::Now    ? time
             : failure.urgency == Urgency::Soon ? time + second / 2
             : limit > 0                        ? time + limit
                                                : INT64_MAX;
}

std::optional<Failure> RunWatch::decide(int64_t time) {
  if (first && time >= decideAt)
    return first;
  while (auto silent = findSilent(time)) {
    if (!goesOn())
      return silent;
    lose(*silent);
  }
  return findSlow();
}

std::optional<Failure> RunWatch::findSilent(int64_t time) const {
  int64_t limit = nanoseconds(options.rankTimeout);
  if (limit <= 0)
    return std::nullopt;
  for (uint32_t rank = 1; rank < members.size(); ++rank)
    if (members[rank].isThere() && time - members[rank].heard >= limit)
      return Failure{rank, Status::TimedOut, Urgency::Now,
                     name(rank) + " has not answered for " + secondsText(time - members[rank].heard) +
                         lastHeardOf(rank, time),
                     ""};
  return std::nullopt;
}

/// Who waits has no part in it as long as somebody works, or does nothing at all. Of those who wait, and those who have
/// ended a step and begun no other, the others wait for the one who does it longest. What counts is what beats have
/// said: since then an instruction may have ended.
std::optional<Failure> RunWatch::findSlow() const {
  auto ageOf = [](const Member &member) { return member.isThere() ? member.beat.longest.age : 0; };
  int64_t limit = nanoseconds(options.stepTimeout), longest = 0;
  for (const Member &member : members)
    if (member.beat.longest.kind != ActivityKind::Between)
      longest = std::max(longest, ageOf(member));
  if (limit <= 0 || longest < limit)
    return std::nullopt;
  auto culprit = std::ranges::max_element(members, {}, [&](const Member &member) {
    ActivityKind kind = member.beat.longest.kind;
    int preference = !member.isThere() ? 0 : kind == ActivityKind::Work ? 3 : kind == ActivityKind::None ? 2 : 1;
    return std::pair(preference, ageOf(member));
  });
  auto rank = static_cast<uint32_t>(culprit - members.begin());
  const SentActivity &activity = culprit->beat.longest;
  std::string text = name(rank);
  if (activity.kind == ActivityKind::None)
    text += " is between instructions";
  else
    text += " has been " + std::string(activity.text.data()) + " for " + secondsText(ageOf(*culprit));
  if (ageOf(*culprit) < limit)
    text += ", others have waited for " + secondsText(longest);
  return Failure{rank, Status::TimedOut, Urgency::Now, text + "; --step-timeout allows " + secondsText(limit), ""};
}

bool RunWatch::isOver() const {
  return std::ranges::all_of(members, [](const Member &member) { return !member.isThere(); });
}

} // namespace cleave::runtime
