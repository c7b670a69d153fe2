// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Steps run side by side and are compared one by one, so that what two plans keep is there only once.

#include "tools/cleave/CompareTraining.h"

#include "runtime/Executor.h"
#include "runtime/Generator.h"
#include "runtime/training/KeptParameters.h"
#include "tools/cleave/PlanRunner.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace cleave::tool {

using runtime::HostTensor;

namespace {

using Tensors = std::map<std::string, HostTensor>;

/// What a step gave, and what was kept behind it.
struct Step {
  std::vector<HostTensor> outputs;
  Tensors after;
};

/// A plan's entries, or one of them, on one set of parameters.
class TrainingRun {
public:
  /// `first`: other first values, by the names of parameters; must outlive the run.
  static Expected<TrainingRun> create(const RunnablePlan &subject, std::vector<std::string> entries,
                                      const Tensors &first) {
    TrainingRun run(subject, std::move(entries));
    for (const auto &[name, tensor] : first)
      run.source->add(name, tensor.bytes());
    auto executor = runtime::Executor::create(subject.plan, run.entries, *run.source);
    if (!executor)
      return executor.error();
    run.executor = std::move(*executor);
    for (uint32_t i = 0; i != run.entries.size(); ++i)
      run.kept.merge(runtime::keptParameters(run.executor->entry(i)));
    return run;
  }

  /// The parameters that steps write, as they are now.
  Expected<Tensors> state() const {
    Tensors tensors;
    for (uint32_t index : kept) {
      const runtime::Parameter &parameter = plan->parameters[index];
      auto tensor = HostTensor::allocate(parameter.type);
      if (!tensor)
        return tensor.error();
      if (Error error = executor->readState(index, *tensor))
        return error;
      tensors.emplace(parameter.name, *tensor);
    }
    return tensors;
  }

  Expected<Step> step(const std::string &entry, const std::vector<HostTensor> &inputs) {
    auto index = static_cast<uint32_t>(std::ranges::find(entries, entry) - entries.begin());
    auto outputs = makeOutputs(executor->entry(index));
    if (!outputs)
      return outputs.error();
    auto ticket = executor->submit(index, inputs, *outputs);
    if (!ticket)
      return ticket.error();
    if (auto times = executor->wait(*ticket); !times)
      return times.error();
    auto after = state();
    if (!after)
      return after.error();
    return Step{std::move(*outputs), std::move(*after)};
  }

private:
  TrainingRun(const RunnablePlan &subject, std::vector<std::string> entries)
      : plan(subject.plan), entries(std::move(entries)),
        source(std::make_unique<runtime::ValueSource>(subject.parameters)) {}

  runtime::Plan plan;
  std::vector<std::string> entries;
  std::unique_ptr<runtime::ValueSource> source;
  std::unique_ptr<runtime::Executor> executor;
  std::set<uint32_t> kept;
};

/// What a step changes of a tensor: floats as f64.
Expected<HostTensor> changeOf(const HostTensor &before, const HostTensor &after) {
  runtime::ElementType type = after.type().element;
  unsigned width = elementBytes(type);
  auto change = HostTensor::allocate({runtime::ElementType::F64, after.type().shape, {}});
  if (change)
    for (size_t i = 0; i != change->as<double>().size(); ++i)
      change->as<double>()[i] =
          loadElement(type, after.bytes().data() + i * width) - loadElement(type, before.bytes().data() + i * width);
  return change;
}

/// Two units in the last place of the largest element; 0 of integers.
double storingError(const HostTensor &tensor) {
  double digits = 0;
  switch (tensor.type().element) {
  case runtime::ElementType::F64:
    digits = 0x1p-51;
    break;
  case runtime::ElementType::F32:
    digits = 0x1p-22;
    break;
  case runtime::ElementType::F16:
    digits = 0x1p-9;
    break;
  case runtime::ElementType::BF16:
    digits = 0x1p-6;
    break;
  default:
    break;
  }
  return digits * runtime::largestMagnitude(tensor);
}

class TrainingComparison {
public:
  TrainingComparison(const RunnablePlan &actual, const RunnablePlan &expected, const RunnablePlan *beside,
                     const std::vector<std::string> &bindings, Tolerance tolerance)
      : actual(actual), expected(expected), beside(beside), bindings(bindings), tolerance(tolerance) {}

  Expected<std::vector<TensorDifference>> compare() {
    if (Error error = checkAlike())
      return error;
    if (Error error = compareRounds(/*first=*/0, {}))
      return error;
    if (Error error = compareRounds(/*first=*/rounds, filled))
      return error;
    return std::move(differences);
  }

private:
  /// Steps of each entry from the same values.
  static constexpr uint64_t rounds = 2;

  /// A tensor of a step, in what was run.
  struct Compared {
    std::string name;
    bool isChange = false;
    HostTensor actual, expected, other;
    bool isFloat = true;
    double scale = 0, storing = 0;
  };

  /// Both plans have the same entries with the same ports, and keep the same tensors.
  Error checkAlike() {
    auto ports = [](const std::vector<runtime::Port> &list) {
      std::string text;
      for (const runtime::Port &port : list)
        text += (text.empty() ? "" : ", ") + ("\"" + port.name + "\" ") + port.type.text();
      return text;
    };
    auto describe = [&](const runtime::PlanContents &plan) {
      std::vector<std::string> facts;
      for (const runtime::Entry &entry : plan.entries) {
        facts.push_back("entry \"" + entry.name + "\" from " + ports(entry.inputs) + " to " + ports(entry.outputs));
        for (uint32_t index : runtime::keptParameters(entry))
          facts.push_back("\"" + plan.parameters[index].name + "\" " + plan.parameters[index].type.text());
      }
      std::ranges::sort(facts);
      facts.erase(std::ranges::unique(facts).begin(), facts.end());
      return facts;
    };
    std::vector<std::string> ours = describe(*actual.plan), theirs = describe(*expected.plan), different;
    std::ranges::set_symmetric_difference(ours, theirs, std::back_inserter(different));
    if (different.empty())
      return Error::success();
    bool isOurs = std::ranges::binary_search(ours, different.front());
    return makeError(Status::Failure, "the plan and its model expect the same entries and parameters, got ",
                     different.front(), " in the ", isOurs ? "plan" : "model",
                     " alone; name the plan's model with --model");
  }

  /// Runs the plan step after step, and the others each step from where the plan was before it: what differs by
  /// rounding may be far apart a few steps later, with no step wrong.
  Error compareRounds(uint64_t first, const Tensors &values) {
    std::vector<std::string> names;
    for (const runtime::Entry &entry : actual.plan->entries)
      names.push_back(entry.name);
    auto run = TrainingRun::create(actual, names, values);
    if (!run)
      return run.error();
    auto before = run->state();
    if (!before)
      return before.error();
    for (uint64_t round = first; round != first + rounds; ++round)
      for (const runtime::Entry &entry : actual.plan->entries) {
        auto inputs = makeInputs(entry, bindings, round);
        if (!inputs)
          return inputs.error();
        auto ours = run->step(entry.name, *inputs);
        if (!ours)
          return ours.error();
        std::vector<Step> steps = {*ours};
        for (const RunnablePlan *plan : {&expected, beside}) {
          if (!plan)
            break;
          auto other = TrainingRun::create(*plan, {entry.name}, *before);
          if (!other)
            return other.error();
          auto step = other->step(entry.name, *inputs);
          if (!step)
            return step.error();
          steps.push_back(std::move(*step));
        }
        if (Error error = compareStep(entry, *before, steps, /*changes=*/first != 0))
          return error;
        before = std::move(ours->after);
      }
    if (first == 0)
      fillState(*before);
    return Error::success();
  }

  /// Which tensors are alike: the model's parameters, and what the optimizer keeps under one name of each.
  std::string kindOf(const std::string &name) const {
    if (models.contains(name))
      return "";
    return name.substr(name.rfind('/') + 1);
  }

  /// The least that a tensor's state is filled with, in parts of the largest of its kind. A gradient that is zero but
  /// for rounding is about 1e-7 of the model's largest; filled by its own size, its state would make a step of noise.
  static constexpr double leastShare = 0.01;

  /// Chooses other first values for floats that are not the model's: of each tensor's own size, so that they drown no
  /// small gradient, and other ones for each element, so that an element that reads another's state shows.
  void fillState(const Tensors &state) {
    std::set<uint32_t> kept;
    for (const runtime::Entry &entry : expected.plan->entries)
      kept.merge(runtime::keptParameters(entry));
    for (uint32_t index : runtime::modelParameters(*expected.plan, kept))
      models.insert(expected.plan->parameters[index].name);
    std::map<std::string, double> largest;
    std::set<std::string> withSign;
    for (const auto &[name, tensor] : state) {
      if (!isFloatingPoint(tensor.type().element) || models.contains(name))
        continue;
      largest[kindOf(name)] = std::max(largest[kindOf(name)], runtime::largestMagnitude(tensor));
      if (hasNegative(tensor))
        withSign.insert(kindOf(name));
    }
    uint64_t seed = 0;
    for (const auto &[name, tensor] : state) {
      if (!isFloatingPoint(tensor.type().element) || models.contains(name))
        continue;
      // A kind without a sign holds means of squares: its floor is the square of that of gradients.
      bool isSigned = withSign.contains(kindOf(name));
      double least = (isSigned ? leastShare : leastShare * leastShare) * largest[kindOf(name)];
      double size = std::max(runtime::largestMagnitude(tensor), least);
      runtime::GeneratedSource source{runtime::Distribution::Uniform, isSigned ? -size : size / 2, size, ++seed};
      runtime::generate(source, tensor.type().element, tensor.bytes());
      filled.emplace(name, tensor);
    }
  }

  static bool hasNegative(const HostTensor &tensor) {
    runtime::ElementType type = tensor.type().element;
    unsigned width = elementBytes(type);
    for (size_t at = 0; at < tensor.bytes().size(); at += width)
      if (loadElement(type, tensor.bytes().data() + at) < 0)
        return true;
    return false;
  }

  /// `steps`: the plan's, the reference's and, where there is one, those of other arithmetic.
  Error compareStep(const runtime::Entry &entry, const Tensors &before, const std::vector<Step> &steps, bool changes) {
    std::vector<Compared> tensors;
    for (size_t i = 0; i != entry.outputs.size(); ++i) {
      Compared output{entry.outputs[i].name, false, steps[0].outputs[i], steps[1].outputs[i], steps.back().outputs[i]};
      output.isFloat = isFloatingPoint(output.expected.type().element);
      output.scale = std::max(1.0, runtime::largestMagnitude(output.expected));
      tensors.push_back(std::move(output));
    }
    std::map<std::string, std::vector<double>> largest; // changes, by kind
    for (const auto &[name, after] : steps[1].after) {
      if (!changes)
        break;
      auto change = [&](const Step &step) { return changeOf(before.at(name), step.after.at(name)); };
      auto ours = change(steps[0]), theirs = change(steps[1]), otherwise = change(steps.back());
      for (const Error &error : {ours.error(), theirs.error(), otherwise.error()})
        if (error)
          return error;
      Compared compared{name, true, *ours, *theirs, *otherwise};
      compared.storing = storingError(after);
      compared.isFloat = isFloatingPoint(after.type().element);
      if (compared.isFloat)
        largest[kindOf(name)].push_back(compared.scale = runtime::largestMagnitude(*theirs));
      tensors.push_back(std::move(compared));
    }
    for (auto &[kind, list] : largest)
      std::ranges::nth_element(list, list.begin() + static_cast<std::ptrdiff_t>(list.size() / 2));
    for (Compared &tensor : tensors)
      if (auto like = largest.find(kindOf(tensor.name)); tensor.isChange && tensor.isFloat && like != largest.end())
        tensor.scale = std::max(tensor.scale, like->second[like->second.size() / 2]);
    double narrow = tolerance.share * narrowing(tensors);
    for (const Compared &tensor : tensors)
      add({entry.name, tensor.name, tensor.isChange,
           runtime::compare(tensor.actual, tensor.expected, tensor.isFloat ? tolerance.rtol : 0,
                            (tolerance.atol + narrow) * tensor.scale + tensor.storing + nearTies(tensor))});
    return Error::success();
  }

  /// By how much the count of correct predictions may differ in narrower arithmetic, in which the two largest results
  /// may change places where they are nearly equal: by what that arithmetic changes, and one.
  double nearTies(const Compared &tensor) const {
    return beside && !tensor.isChange && tensor.name == "correct"
               ? runtime::compare(tensor.expected, tensor.other, 0, 0).maxError + 1
               : 0;
  }

  /// The most that other arithmetic changes of any tensor, in relation to its scale.
  double narrowing(const std::vector<Compared> &tensors) const {
    double most = 0;
    for (const Compared &tensor : tensors)
      if (beside && tensor.isFloat && tensor.scale > 0)
        most = std::max(most, runtime::compare(tensor.expected, tensor.other, 0, 0).maxError / tensor.scale);
    return most;
  }

  /// Of the steps of an entry the worst stays.
  void add(TensorDifference difference) {
    auto known = std::ranges::find_if(differences, [&](const TensorDifference &other) {
      return other.entry == difference.entry && other.name == difference.name && other.isChange == difference.isChange;
    });
    auto badness = [](const TensorDifference &d) { return std::pair(d.comparison.differing, d.comparison.maxError); };
    if (known == differences.end())
      differences.push_back(std::move(difference));
    else if (badness(difference) > badness(*known))
      *known = std::move(difference);
  }

  const RunnablePlan &actual, &expected, *beside;
  const std::vector<std::string> &bindings;
  Tolerance tolerance;
  /// Names of the parameters that are the model's, and first values of the others.
  std::set<std::string> models;
  Tensors filled;
  std::vector<TensorDifference> differences;
};

} // namespace

std::string TensorDifference::subject() const {
  if (entry.empty())
    return "output \"" + name + "\"";
  return isChange ? "change of \"" + name + "\" by entry \"" + entry + "\""
                  : "output \"" + name + "\" of entry \"" + entry + "\"";
}

Expected<std::vector<TensorDifference>> compareTraining(const RunnablePlan &actual, const RunnablePlan &expected,
                                                        const RunnablePlan *beside,
                                                        const std::vector<std::string> &inputBindings,
                                                        Tolerance tolerance) {
  return TrainingComparison(actual, expected, beside, inputBindings, tolerance).compare();
}

} // namespace cleave::tool
