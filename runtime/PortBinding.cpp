// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the ports of bindings.

#include "runtime/PortBinding.h"

#include <charconv>

namespace cleave::runtime {

/// The port that a binding's name part means, and the rest. A port's name may hold "=": the longest match counts.
static Expected<std::pair<size_t, std::string>> parseBinding(const std::string &binding, const std::vector<Port> &ports,
                                                             const char *option, const char *what) {
  size_t best = ports.size(), length = 0;
  for (size_t i = 0; i != ports.size(); ++i) {
    const std::string &name = ports[i].name;
    if (binding.size() > name.size() && binding.compare(0, name.size(), name) == 0 && binding[name.size()] == '=' &&
        (best == ports.size() || name.size() > length)) {
      best = i;
      length = name.size();
    }
  }
  size_t equals = binding.find('=');
  if (best == ports.size() && equals != std::string::npos && binding.front() == '@') {
    size_t position = 0;
    auto parsed = std::from_chars(binding.data() + 1, binding.data() + equals, position);
    if (parsed.ec == std::errc() && parsed.ptr == binding.data() + equals && position < ports.size()) {
      best = position;
      length = equals;
    }
  }
  if (best != ports.size() && length + 1 < binding.size())
    return std::pair(best, binding.substr(length + 1));
  std::string known;
  for (size_t i = 0; i != ports.size(); ++i)
    known += (i ? ", @" : "@") + std::to_string(i) + " \"" + ports[i].name + "\"";
  return makeError(Status::Usage, option, " expects NAME=", what, " with NAME one of ", known.empty() ? "none" : known,
                   ", got \"", binding, "\"");
}

Expected<PortBindings> bindPorts(const std::vector<std::string> &bindings, const std::vector<Port> &ports,
                                 const char *option, const char *what) {
  PortBindings files(ports.size());
  for (const std::string &binding : bindings) {
    auto parsed = parseBinding(binding, ports, option, what);
    if (!parsed)
      return parsed.error();
    if (files[parsed->first])
      return makeError(Status::Usage, option, " names \"", ports[parsed->first].name, "\" twice");
    files[parsed->first] = parsed->second;
  }
  return files;
}

} // namespace cleave::runtime
