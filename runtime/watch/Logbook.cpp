// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Everything in shared memory is written before the atomic that says that it is there.

#include "runtime/watch/Logbook.h"

#include "runtime/Clock.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <sys/mman.h>

namespace cleave::runtime {

static Logbook *ownBook = nullptr;

Logbook *Logbook::create() {
  void *memory =
      mmap(nullptr, sizeof(Logbook), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return nullptr;
  // Default-initialized: the texts stay untouched.
  ownBook = new (memory) Logbook;
  return ownBook;
}

Logbook *Logbook::own() { return ownBook; }

Logbook::Line *Logbook::take() {
  for (Line &line : lines)
    if (!line.taken.exchange(true))
      return &line;
  return nullptr;
}

void Logbook::giveBack(Line *line) {
  if (!line)
    return;
  line->text.store(0);
  line->taken.store(false);
}

uint32_t Logbook::add(ActivityKind kind, std::string_view text, bool isNumbered) {
  TextHead head{kind, isNumbered};
  auto bytes = static_cast<uint32_t>((sizeof head + text.size() + 1 + 7) / 8 * 8);
  if (text.size() >= textBytes || end.load() + bytes > textBytes)
    return 0;
  uint32_t at = end.fetch_add(bytes);
  if (at + bytes > textBytes)
    return 0;
  std::memcpy(texts.data() + at, &head, sizeof head);
  text.copy(texts.data() + at + sizeof head, text.size());
  texts[at + sizeof head + text.size()] = 0;
  return at;
}

void Logbook::crash(int of, const Line *line) {
  if (line)
    crashed.store(static_cast<uint32_t>(line - lines.data()) + 1);
  signal.store(of);
}

void Logbook::fail(const Error &error) { failed.write(error); }

void Logbook::leaveBy(const Error &error) { words.write(error); }

void Logbook::Note::write(const Error &error) {
  uint32_t none = 0;
  if (!state.compare_exchange_strong(none, 1))
    return;
  status = static_cast<int>(error.status());
  message[error.message().copy(message.data(), message.size() - 1)] = 0;
  node[error.node().copy(node.data(), node.size() - 1)] = 0;
  state.store(2);
}

Error Logbook::Note::read() const {
  if (state.load() != 2)
    return Error::success();
  return Error(static_cast<Status>(status), message.data(), node.data());
}

bool Logbook::lose(uint32_t rank, const Error &error) {
  uint32_t number = numLosses.load();
  if (number == losses.size())
    return false;
  losses[number].rank = rank;
  losses[number].note.write(error);
  numLosses.store(number + 1);
  return true;
}

Error Logbook::lost(uint32_t rank) const {
  for (uint32_t number = 0; number != numLosses.load(); ++number)
    if (losses[number].rank == rank)
      return losses[number].note.read();
  return Error::success();
}

Activity Logbook::read(const Line &line) const {
  Activity activity;
  uint32_t at = line.text.load(std::memory_order_acquire);
  if (at == 0)
    return activity;
  TextHead head;
  std::memcpy(&head, texts.data() + at, sizeof head);
  activity.kind = head.kind;
  activity.since = line.since.load();
  activity.text = texts.data() + at + sizeof head;
  if (head.isNumbered)
    activity.text += std::to_string(line.number.load());
  return activity;
}

std::vector<Activity> Logbook::activities() const {
  std::vector<Activity> list;
  for (const Line &line : lines)
    if (Activity activity = read(line); activity.kind != ActivityKind::None)
      list.push_back(std::move(activity));
  std::ranges::stable_sort(list, std::ranges::greater(), &Activity::since);
  return list;
}

std::optional<Activity> Logbook::crashActivity() const {
  uint32_t line = crashed.load();
  if (line == 0)
    return std::nullopt;
  Activity activity = read(lines[line - 1]);
  return activity.kind == ActivityKind::None ? std::nullopt : std::optional(std::move(activity));
}

NotedActivity::NotedActivity(ActivityKind kind, std::string_view text)
    : line(Logbook::own() ? Logbook::own()->take() : nullptr) {
  if (!line)
    return;
  line->since.store(now());
  line->text.store(Logbook::own()->add(kind, text));
}

} // namespace cleave::runtime
