// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Mutates texts by lines and words: lines go, come twice or change places; numbers become others, words those of
// elsewhere in the text. The first line, which says what the text is, stays.

#include "Mutation.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

using namespace cleave::fuzz;

namespace {

/// At which readers, and what computes with what they read, go wrong.
constexpr std::string_view strangeNumbers[] = {"0",
                                               "1",
                                               "2",
                                               "3",
                                               "1e300",
                                               "1e-300",
                                               "1e-320",
                                               "1e400",
                                               "-1",
                                               "0.5",
                                               "inf",
                                               "nan",
                                               "1e18",
                                               "1e9",
                                               "65536",
                                               "4294967296",
                                               "18446744073709551615",
                                               "18446744073709551616",
                                               "9223372036854775807",
                                               "1048576",
                                               "0x10",
                                               "99",
                                               "1e12",
                                               "7",
                                               "1e-9",
                                               "100000"};
constexpr std::string_view strangeWords[] = {"~",   "\"\"", "true",  "[]",    "{}", "\"*\"", "\"[\"",
                                             "all", "a b",  "<eos>", "<unk>", "B",  "TB",    "ns"};

std::vector<std::string> linesOf(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return lines;
}

/// Words, numbers, and single other characters.
std::vector<std::string> wordsOf(std::string_view line) {
  auto isWord = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-' || c == '/';
  };
  std::vector<std::string> words;
  while (!line.empty()) {
    size_t length = 1;
    if (isWord(line.front()))
      while (length != line.size() && isWord(line[length]))
        ++length;
    words.emplace_back(line.substr(0, length));
    line.remove_prefix(length);
  }
  return words;
}

bool isWord(const std::string &text) { return std::isalnum(static_cast<unsigned char>(text.front())); }
bool isNumber(const std::string &text) { return std::isdigit(static_cast<unsigned char>(text.front())); }

template <typename T> T &any(std::vector<T> &list, Random &random) { return list[random.below(list.size())]; }

/// A word or number of the text, as `old` is, or a strange one.
std::string anotherWord(std::vector<std::string> &lines, const std::string &old, Random &random) {
  for (int attempt = 0; attempt != 6 && !random.oneIn(3); ++attempt) {
    std::vector<std::string> words = wordsOf(any(lines, random));
    if (std::string word = words.empty() ? "" : any(words, random);
        !word.empty() && isWord(word) && isNumber(word) == isNumber(old))
      return word;
  }
  return std::string(isNumber(old) ? strangeNumbers[random.below(std::size(strangeNumbers))]
                                   : strangeWords[random.below(std::size(strangeWords))]);
}

void mutateLine(std::string &line, std::vector<std::string> &lines, Random &random) {
  std::vector<std::string> words = wordsOf(line);
  // Numbers most of the time: other words are names that readers know.
  std::vector<size_t> places, numbers;
  for (size_t i = 0; i != words.size(); ++i)
    if (isWord(words[i]))
      (isNumber(words[i]) ? numbers : places).push_back(i);
  if (!numbers.empty() && !random.oneIn(4))
    places = numbers;
  if (words.empty())
    return;
  size_t at = places.empty() || random.oneIn(16) ? random.below(words.size()) : any(places, random);
  switch (random.below(16)) {
  case 0:
    words.erase(words.begin() + static_cast<ptrdiff_t>(at));
    break;
  case 1:
    words.insert(words.begin() + static_cast<ptrdiff_t>(at), words[at]);
    break;
  case 2:
    std::swap(words[at], any(words, random));
    break;
  default:
    words[at] = anotherWord(lines, words[at], random);
  }
  line.clear();
  for (const std::string &word : words)
    line += word;
}

void mutateLines(std::vector<std::string> &lines, Random &random) {
  std::string &line = any(lines, random), &other = any(lines, random);
  switch (random.below(20)) {
  case 0:
    lines.erase(lines.begin() + (&line - lines.data()));
    return;
  case 1:
    lines.insert(lines.begin() + (&other - lines.data()), std::string(line));
    return;
  case 2:
    std::swap(line, other);
    return;
  default:
    mutateLine(line, lines, random);
  }
}

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  Random random(seed);
  size_t head = static_cast<size_t>(std::find(data, data + size, '\n') - data);
  head = std::min(head + 1, size);
  std::vector<std::string> lines = linesOf({reinterpret_cast<const char *>(data + head), size - head});
  if (lines.empty() || random.oneIn(20))
    return head + mutateBytes(data + head, size - head, most - head, random);
  mutateLines(lines, random);
  std::string text;
  for (const std::string &line : lines)
    text += line;
  if (head + text.size() > most)
    return size;
  std::copy(text.begin(), text.end(), data + head);
  return head + text.size();
}
