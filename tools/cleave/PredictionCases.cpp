// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sizes are such that a step takes milliseconds to fractions of a second on two cores.

#include "tools/cleave/PredictionCases.h"

#include "tools/cleave/OutputFile.h"

#include "passes/zoo/Zoo.h"

#include "llvm/ADT/StringExtras.h"

namespace cleave::tool {
namespace {

struct Choice {
  const char *model, *plans; ///< names of ways, by commas; all, if there are none
};

/// Inference. "halves": the first half of the operators on one device, the others on the next.
const PlanWay inferenceWays[] = {
    {"single", "host:1x1", "single"}, {"threads", "host:1x2", "single"}, {"data", "host:2x1", "data"},
    {"tensor", "host:2x1", "tensor"}, {"halves", "host:2x1", "place"},   {"alternate", "host:2x1", "alternate"},
};
constexpr Choice inferenceModels[] = {
    {"mlp:batch=64,hidden=1024", ""},
    {"lenet:batch=64", ""},
    {"alexnet:batch=2", ""},
    {"alexnet:batch=8", ""},
    {"inception:batch=2", ""},
    {"resnet50:batch=2,image-size=128", ""},
    {"unet:image-size=64,batch=2", ""},
    {"lstm:batch=16,hidden=256,vocabulary=1000", ""},
    {"gpt:layers=2,hidden=256,heads=4,sequence=128,vocabulary=1000,batch=4", ""},
};

/// Training. "zero": Adam's state is divided between the replicas.
const PlanWay trainingWays[] = {
    {"single", "host:1x1", "single", "sgd"},
    {"threads", "host:1x2", "single", "sgd"},
    {"data", "host:2x1", "data", "momentum", "0"},
    {"zero", "host:2x1", "data", "adam", "1"},
    {"tensor", "host:2x1", "tensor", "sgd"},
    {"1f1b", "host:2x1", "pipeline", "sgd", "auto", "1f1b", "4"},
    {"gpipe", "host:2x1", "pipeline", "sgd", "auto", "gpipe", "4"},
    {"auto", "host:2x1", "auto", "sgd"},
};
constexpr Choice trainingModels[] = {
    {"mlp:batch=64,hidden=1024", "single,data,zero,tensor,1f1b"},
    {"lenet:batch=64", "single,threads,data,gpipe"},
    {"alexnet:batch=4", "single,data"},
    {"vgg16:batch=4,image-size=32,classes=10", "single,tensor"},
    {"resnet50:batch=4,image-size=64,classes=10", "single,data"},
    {"inception:batch=2", "single"},
    {"unet:image-size=64,batch=2,features=32", "single,data"},
    {"lstm:batch=16,hidden=256,sequence=16,vocabulary=1000", "single,data,1f1b"},
    {"gpt:layers=2,hidden=256,heads=4,sequence=128,vocabulary=1000,batch=4", "single,data,zero,tensor,auto"},
    {"bert:layers=2,hidden=256,heads=4,sequence=128,vocabulary=1000,batch=4", "single,1f1b"},
    {"moe:layers=2,hidden=128,heads=4,sequence=64,vocabulary=1000,batch=4,experts=4", "single,data"},
};

Expected<std::vector<PlanWay>> waysOf(llvm::ArrayRef<PlanWay> all, llvm::ArrayRef<std::string> names) {
  if (names.empty())
    return all.vec();
  std::vector<PlanWay> ways;
  for (const std::string &name : names) {
    const auto *way = llvm::find_if(all, [&](const PlanWay &one) { return one.name == name; });
    if (way == all.end())
      return makeError(Status::Usage, "--plans expects names of ",
                       llvm::join(llvm::map_range(all, [](const PlanWay &one) { return one.name; }), ", "), ", got \"",
                       name, "\"");
    ways.push_back(*way);
  }
  return ways;
}

} // namespace

CompileRequest PlanWay::requestFor(const std::string &modelFile) const {
  CompileRequest request;
  request.model.model = modelFile;
  TargetOptions &target = request.target;
  target.machine = machine;
  target.strategy = strategy;
  if (!trains())
    return request;
  target.train = true;
  target.loss = "cross-entropy";
  target.optimizer = optimizer;
  target.zero = zero;
  target.schedule = schedule;
  target.microbatches = microbatches;
  return request;
}

Expected<std::vector<PredictedModel>> choosePredictions(bool train, const std::vector<std::string> &models,
                                                        const std::vector<std::string> &plans) {
  auto ways = train ? llvm::ArrayRef(trainingWays) : llvm::ArrayRef(inferenceWays);
  auto given = waysOf(ways, plans);
  if (!given)
    return given.error();
  std::vector<PredictedModel> chosen;
  for (const std::string &model : models)
    chosen.push_back({model, *given});
  if (!models.empty())
    return chosen;
  for (const Choice &choice : train ? llvm::ArrayRef(trainingModels) : llvm::ArrayRef(inferenceModels)) {
    std::vector<std::string> names;
    for (llvm::StringRef name : llvm::split(choice.plans, ','))
      if (!name.empty() && (plans.empty() || llvm::is_contained(plans, name)))
        names.push_back(name.str());
    if (names.empty() && *choice.plans)
      continue;
    auto own = waysOf(ways, *choice.plans ? names : plans);
    if (!own)
      return own.error();
    chosen.push_back({choice.model, std::move(*own)});
  }
  return chosen;
}

Error writeZooModel(llvm::StringRef spec, const std::string &file) {
  auto [name, numbers] = spec.split(':');
  ZooOptions options;
  for (llvm::StringRef number : llvm::split(numbers, ',')) {
    auto [key, text] = number.split('=');
    int64_t value = 0;
    if (number.empty())
      continue;
    if (text.getAsInteger(10, value))
      return makeError(Status::Usage, "a model expects NAME:NUMBER=VALUE,…, got \"", spec.str(), "\"");
    options.numbers[key.str()] = value;
  }
  auto model = buildZooModel(name, options);
  if (!model)
    return fromLlvm(Status::Usage, model.takeError());
  return writeOutput(file, [&](llvm::raw_ostream &out) { out << model->SerializeAsString(); });
}

} // namespace cleave::tool
