// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A row is flushed when it is written: a run that is killed leaves those of its steps.

#include "runtime/training/TrainLog.h"

#include <filesystem>
#include <iomanip>
#include <ostream>

namespace cleave::runtime {

Error TrainLog::open(const std::string &name, bool goesOn) {
  path = name;
  std::error_code code;
  bool hasRows = goesOn && std::filesystem::exists(path, code) && std::filesystem::file_size(path, code) != 0;
  file.open(path, hasRows ? std::ios::app : std::ios::trunc);
  if (!hasRows)
    file << "step,epoch,loss,learning_rate,samples_per_second,seconds,seconds_left\n" << std::flush;
  return file ? Error::success()
              : makeError(Status::Failure, "--log expects a file that can be written, got \"", path, '"');
}

Error TrainLog::onStep(const TrainPosition &at, double loss, std::optional<double> learningRate, uint64_t stepsInAll,
                       uint64_t batch) {
  if (!firstStep)
    firstStep = lastStep = at.steps - 1;
  if (at.steps % std::max<uint64_t>(1, every) != 0 || (every == 0 && path.empty()))
    return Error::success();
  auto now = Clock::now();
  double since = std::chrono::duration<double>(now - last).count();
  double all = std::chrono::duration<double>(now - begin).count();
  double rate = since > 0 ? static_cast<double>((at.steps - lastStep) * batch) / since : 0;
  double left = all / static_cast<double>(at.steps - *firstStep) *
                static_cast<double>(stepsInAll > at.steps ? stepsInAll - at.steps : 0);
  if (every != 0) {
    out << "step " << at.steps << " of " << stepsInAll << ": loss " << std::setprecision(5) << loss << ", ";
    if (learningRate)
      out << "learning rate " << *learningRate << ", ";
    out << std::fixed << std::setprecision(0) << rate << " samples/s, " << std::setprecision(1) << left << " s left\n"
        << std::defaultfloat << std::flush;
  }
  lastStep = at.steps;
  last = now;
  if (path.empty())
    return Error::success();
  file << at.steps << "," << at.epoch + 1 << "," << std::setprecision(9) << loss << ",";
  if (learningRate)
    file << *learningRate;
  file << "," << std::fixed << std::setprecision(1) << rate << "," << std::setprecision(3) << all << "," << left
       << std::defaultfloat << "\n"
       << std::flush;
  return file ? Error::success()
              : makeError(Status::Failure, "cannot write the log \"", path, "\" after step ", at.steps);
}

} // namespace cleave::runtime
