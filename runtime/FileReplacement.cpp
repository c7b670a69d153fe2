// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writing to a temporary file, then renaming it.

#include "runtime/FileReplacement.h"

#include "runtime/FileWriter.h"
#include "runtime/StandardOutput.h"

#include <filesystem>
#include <fstream>
#include <iostream>

namespace cleave::runtime {

Error replaceTextFile(const std::string &path, const std::function<void(std::ostream &)> &write) {
  if (path == "-") {
    write(std::cout);
    return flushStandardOutput();
  }
  std::error_code code;
  auto status = std::filesystem::status(path, code);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    std::ofstream out(path, std::ios::binary);
    write(out);
    out.close();
    return out ? Error::success() : makeError(Status::Failure, "cannot write ", path);
  }
  auto file = FileWriter::create(path);
  if (!file)
    return file.error();
  std::ostringstream text;
  write(text);
  file->write(text.view());
  return file->commit();
}

} // namespace cleave::runtime
