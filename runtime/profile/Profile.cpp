// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The file, and interpolation.

#include "runtime/profile/Profile.h"

#include "runtime/FileReplacement.h"
#include "runtime/Plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <sstream>

namespace cleave::runtime {

static constexpr const char *firstLine = "cleave profile 1";

static bool isTime(double seconds) { return std::isfinite(seconds) && seconds >= 0; }

Expected<Profile> Profile::read(const std::filesystem::path &file) {
  Profile profile;
  std::error_code code;
  if (!std::filesystem::exists(file, code))
    return profile;
  std::ifstream in(file);
  std::string line;
  size_t number = 1;
  auto fail = [&](const char *expected) {
    return makeError(Status::Rejected, file, ":", number, ": expects ", expected, ", got \"", line.substr(0, 60),
                     "\"; remove the file and measure again");
  };
  if (!std::getline(in, line) || line != firstLine)
    return fail("the line \"cleave profile 1\"");
  while (std::getline(in, line)) {
    ++number;
    std::istringstream words(line);
    std::string what, name;
    words >> what;
    double first = 0, second = 0;
    if (what == "kernel") {
      uint64_t key = 0;
      KernelTime time;
      if (!(words >> std::hex >> key >> std::dec >> time.alone >> time.busy) || !isTime(time.alone) ||
          !isTime(time.busy))
        return fail("a hash and two times");
      std::getline(words >> std::ws, time.name);
      profile.kernels[key] = std::move(time);
    } else if (what == "curve") {
      if (!(words >> name >> first >> second) || !isTime(first) || !isTime(second))
        return fail("a name, bytes and a time");
      profile.curves[name][first] = second;
    } else if (what == "number") {
      if (!(words >> name >> first) || !isTime(first))
        return fail("a name and a number that is not negative");
      profile.numbers[name] = first;
    } else {
      return fail("kernel, curve or number");
    }
  }
  return profile;
}

Error Profile::write(const std::filesystem::path &file) const {
  std::error_code code;
  std::filesystem::create_directories(file.parent_path(), code);
  return replaceTextFile(file.string(), [&](std::ostream &out) {
    out.precision(9);
    out << firstLine << "\n";
    for (const auto &[name, value] : numbers)
      out << "number " << name << " " << value << "\n";
    for (const auto &[name, points] : curves)
      for (const auto &[bytes, seconds] : points)
        out << "curve " << name << " " << bytes << " " << seconds << "\n";
    for (const auto &[key, time] : kernels)
      out << "kernel " << std::hex << key << std::dec << " " << time.alone << " " << time.busy << " " << time.name
          << "\n";
  });
}

static double medianOf(std::vector<double> values) {
  auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

Profile Profile::medianOf(std::span<const Profile> profiles) {
  std::map<uint64_t, std::array<std::vector<double>, 2>> kernels;
  std::map<std::pair<std::string, double>, std::vector<double>> points;
  std::map<std::string, std::vector<double>> numbers;
  Profile result;
  for (const Profile &profile : profiles) {
    for (const auto &[key, time] : profile.kernels) {
      kernels[key][0].push_back(time.alone);
      kernels[key][1].push_back(time.busy);
      result.kernels[key].name = time.name;
    }
    for (const auto &[name, curve] : profile.curves)
      for (auto [bytes, seconds] : curve)
        points[{name, bytes}].push_back(seconds);
    for (const auto &[name, value] : profile.numbers)
      numbers[name].push_back(value);
  }
  for (auto &[key, times] : kernels) {
    result.kernels[key].alone = runtime::medianOf(std::move(times[0]));
    result.kernels[key].busy = runtime::medianOf(std::move(times[1]));
  }
  for (auto &[point, seconds] : points)
    result.addPoint(point.first, point.second, runtime::medianOf(std::move(seconds)));
  for (auto &[name, values] : numbers)
    result.setNumber(name, runtime::medianOf(std::move(values)));
  return result;
}

std::string divisionName(size_t devices, unsigned cores) {
  return std::to_string(devices) + "x" + std::to_string(cores);
}

uint64_t Profile::keyOf(const std::string &signature, size_t devices, unsigned cores) {
  std::string text = divisionName(devices, cores) + " " + signature;
  return checksum(std::as_bytes(std::span(text)));
}

const KernelTime *Profile::kernel(uint64_t key) const {
  auto found = kernels.find(key);
  return found == kernels.end() ? nullptr : &found->second;
}

std::optional<double> Profile::curve(const std::string &name, double bytes) const {
  auto found = curves.find(name);
  if (found == curves.end() || found->second.empty())
    return std::nullopt;
  const std::map<double, double> &points = found->second;
  auto above = points.lower_bound(bytes);
  if (above == points.begin())
    return above->second;
  auto below = std::prev(above);
  if (above == points.end())
    return below->second * bytes / below->first;
  double part = (bytes - below->first) / (above->first - below->first);
  return below->second + part * (above->second - below->second);
}

std::optional<double> Profile::number(const std::string &name) const {
  auto found = numbers.find(name);
  return found == numbers.end() ? std::nullopt : std::optional(found->second);
}

} // namespace cleave::runtime
