// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes an ONNX model from ONNX's textual syntax, so that tests can be read. Lines before the one that begins with
// `<` (the model's header) are the test's own. An input of a node that is named _ is absent. Options change what the
// syntax cannot say:
//   --external NAME=FILE[:OFFSET[:LENGTH]]   keep an initializer in a file, which is not written
//   --group NODE=GROUP                       metadata of a node, by its first output
//   --tensor NAME                            write an initializer alone, as a tensor file
//   --cut N                                  write only N bytes

#include "onnx/onnx_pb.h"

#include "onnx/defs/parser.h"

#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

static std::string readModelText(const std::string &path) {
  std::ifstream stream(path);
  std::string line, text;
  bool inModel = false;
  while (std::getline(stream, line)) {
    inModel |= line.rfind("<", 0) == 0;
    if (inModel && line.rfind("//", 0) != 0)
      text += line + "\n";
  }
  return text;
}

static void removeAbsent(onnx::GraphProto &graph) {
  for (onnx::NodeProto &node : *graph.mutable_node())
    for (std::string &input : *node.mutable_input())
      if (input == "_")
        input.clear();
}

static void makeExternal(onnx::ModelProto &model, const std::string &argument) {
  std::stringstream parts(argument.substr(argument.find('=') + 1));
  std::string name = argument.substr(0, argument.find('=')), value;
  for (onnx::TensorProto &tensor : *model.mutable_graph()->mutable_initializer()) {
    if (tensor.name() != name)
      continue;
    tensor.clear_float_data();
    tensor.clear_raw_data();
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    for (const char *key : {"location", "offset", "length"}) {
      if (!std::getline(parts, value, ':'))
        break;
      onnx::StringStringEntryProto &entry = *tensor.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    }
  }
}

/// Metadata of nodes is newer than the library's schema: it is written as the field that it is.
static void setNodeMetadata(onnx::ModelProto &model, const std::string &name, const std::string &group) {
  onnx::StringStringEntryProto entry;
  entry.set_key("ctx_group");
  entry.set_value(group);
  for (onnx::NodeProto &node : *model.mutable_graph()->mutable_node())
    if (node.output_size() && node.output(0) == name)
      node.mutable_unknown_fields()->AddLengthDelimited(9, entry.SerializeAsString());
}

int main(int argc, char **argv) {
  std::string input, output;
  std::vector<std::string> externals, groups;
  std::string tensor;
  long cut = -1;
  for (int i = 1; i < argc; ++i) {
    std::string option = argv[i];
    if (option == "-o")
      output = argv[++i];
    else if (option == "--external")
      externals.push_back(argv[++i]);
    else if (option == "--cut")
      cut = std::stol(argv[++i]);
    else if (option == "--group")
      groups.push_back(argv[++i]);
    else if (option == "--tensor")
      tensor = argv[++i];
    else
      input = option;
  }
  std::string text = readModelText(input);
  onnx::ModelProto model;
  onnx::OnnxParser parser(text.c_str());
  auto status = parser.Parse(model);
  if (!status.IsOK()) {
    std::cerr << input << ": " << status.ErrorMessage() << "\n";
    return 1;
  }
  removeAbsent(*model.mutable_graph());
  for (const std::string &external : externals)
    makeExternal(model, external);
  for (const std::string &group : groups)
    setNodeMetadata(model, group.substr(0, group.find('=')), group.substr(group.find('=') + 1));
  std::string bytes = model.SerializeAsString();
  for (const onnx::TensorProto &candidate : model.graph().initializer())
    if (candidate.name() == tensor)
      bytes = candidate.SerializeAsString();
  if (cut >= 0)
    bytes.resize(std::min<size_t>(bytes.size(), cut));
  std::ofstream(output, std::ios::binary) << bytes;
  return 0;
}
