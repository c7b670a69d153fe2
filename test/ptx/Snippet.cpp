// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Snippet.h"

namespace cleave::ptx::test {

std::string header() { return ".version 7.8\n.target sm_90\n.address_size 64\n"; }

std::string kernel(int parameters, const std::string &body, const std::string &moduleVariables) {
  std::string list, loads;
  for (int i = 0; i != parameters; ++i) {
    std::string n = std::to_string(i);
    list += (i ? ", .param .u64 k_" : ".param .u64 k_") + n;
    loads += "  ld.param.u64 %p" + n + ", [k_" + n + "];\n";
  }
  return header() + moduleVariables + ".visible .entry k(" + list + ")\n{\n  .reg .pred %q<4>;\n  .reg .b16 %h<10>;\n" +
         "  .reg .b32 %r<20>;\n  .reg .b64 %d<20>;\n  .reg .b64 %p<10>;\n" + loads + body + "\n  ret;\n}\n";
}

Module parsed(const std::string &ptx) {
  std::variant<Module, std::string> result = Module::parse(ptx);
  if (auto *error = std::get_if<std::string>(&result))
    ADD_FAILURE() << *error << "\n" << ptx;
  else
    return std::get<Module>(result);
  return std::get<Module>(Module::parse(header()));
}

std::string runKernel(const std::string &ptx, const Launch &launch, const Memory &memory) {
  return run(parsed(ptx), launch, memory).value_or("");
}

uint64_t evaluateBits(int width, const std::string &code, const std::vector<Source> &sources) {
  const char *names[] = {"%a", "%b", "%c", "%e"};
  std::string bits = std::to_string(width);
  std::string body = "  .reg .b" + bits + " %d;\n";
  uint64_t result = 0;
  Launch launch{.entry = "k", .arguments = {reinterpret_cast<uint64_t>(&result)}};
  for (size_t i = 0; i != sources.size(); ++i) {
    std::string type = ".b" + std::to_string(sources[i].width);
    body += std::string("  .reg ") + type + " " + names[i] + ";\n";
    body += "  ld.param" + type + " " + names[i] + ", [k_" + std::to_string(i + 1) + "];\n";
    launch.arguments.push_back(sources[i].bits);
  }
  Memory memory;
  memory.allow(&result, sizeof result);
  std::string text =
      kernel(static_cast<int>(launch.arguments.size()), body + "  " + code + "\n  st.global.b" + bits + " [%p0], %d;");
  EXPECT_EQ(runKernel(text, launch, memory), "") << code;
  return result;
}

bool holds(const std::string &code, const std::vector<Source> &sources) {
  return evaluateBits(32, code + "\n  selp.b32 %d, 1, 0, %q0;", sources) == 1;
}

} // namespace cleave::ptx::test
