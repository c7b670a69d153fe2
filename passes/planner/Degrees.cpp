// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Degrees as text, and the mesh that they make.

#include "passes/planner/Degrees.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <numeric>

using namespace llvm;

namespace cleave {

static Error degreesError(const Twine &message) { return createStringError(inconvertibleErrorCode(), message); }

/// Reads "2:2:1"; equal shares are none.
static Expected<std::vector<int64_t>> parseShares(StringRef name, StringRef text) {
  std::vector<int64_t> shares;
  SmallVector<StringRef> items;
  text.split(items, ':');
  for (StringRef item : items) {
    int64_t share = 0;
    if (!to_integer(item, share, 10) || share < 1 || share > largestShare)
      return degreesError("degrees expect shares from 1 to " + Twine(largestShare) + " for " + name +
                          ", as 2:1, got \"" + text + "\"");
    shares.push_back(share);
  }
  return shares;
}

Expected<Degrees> parseDegrees(StringRef text) {
  Degrees degrees;
  SmallVector<StringRef> items;
  text.split(items, ',', /*MaxSplit=*/-1, /*KeepEmpty=*/!text.empty());
  for (StringRef item : items) {
    auto [name, sizeText] = item.split('=');
    std::optional<int64_t> *degree = StringSwitch<std::optional<int64_t> *>(name)
                                         .Case(dataAxis, &degrees.data)
                                         .Case(modelAxis, &degrees.model)
                                         .Case(pipelineDegree, &degrees.pipeline)
                                         .Case(sequenceAxis, &degrees.sequence)
                                         .Case(expertAxis, &degrees.expert)
                                         .Default(nullptr);
    int64_t size = 0;
    std::vector<int64_t> shares;
    if (!degree)
      return degreesError("degrees expect data=N, model=N, pipeline=N, sequence=N or expert=N, got \"" + item + "\"");
    if (*degree)
      return degreesError("degrees expect " + name + " once, got \"" + text + "\"");
    if ((name == dataAxis || name == modelAxis) && sizeText.contains(':')) {
      Expected<std::vector<int64_t>> parsed = parseShares(name, sizeText);
      if (!parsed)
        return parsed.takeError();
      size = static_cast<int64_t>(parsed->size());
      if (!all_equal(*parsed))
        shares = std::move(*parsed);
    } else if (!to_integer(sizeText, size, 10))
      size = 0;
    if (size < 1 || size > mostDevices)
      return degreesError("degrees expect a number of devices from 1 to " + Twine(mostDevices) + " for " + name +
                          ", got \"" + sizeText + "\"");
    *degree = size;
    if (!shares.empty())
      (name == dataAxis ? degrees.dataShares : degrees.modelShares) = std::move(shares);
  }
  if (!degrees.dataShares.empty() && !degrees.modelShares.empty())
    return degreesError("degrees expect shares for data or model, not for both, got \"" + text + "\"");
  return degrees;
}

Expected<MeshSpec> meshOfDegrees(const Degrees &degrees, StringRef ownAxis, const Machine &machine) {
  auto available = static_cast<int64_t>(machine.devices.size());
  bool ownIsData = ownAxis == dataAxis;
  int64_t other = (ownIsData ? degrees.model : degrees.data).value_or(1);
  int64_t own = (ownIsData ? degrees.data : degrees.model).value_or(std::max<int64_t>(1, available / other));
  if (own * other > available) {
    std::string product;
    for (auto [name, size] :
         {std::pair(dataAxis, ownIsData ? own : other), std::pair(modelAxis, ownIsData ? other : own)})
      if (size > 1)
        product += (product.empty() ? "" : ",") + name.str() + "=" + std::to_string(size);
    return degreesError("degrees expect at most the " + Twine(available) + " devices of machine \"" + machine.name +
                        "\", got " + product + ", which makes " + Twine(own * other));
  }
  if (own * other == 1)
    return MeshSpec::ofDevice(0);
  MeshSpec mesh{"mesh", std::vector<unsigned>(own * other), {}};
  std::iota(mesh.devices.begin(), mesh.devices.end(), 0u);
  if (int64_t data = ownIsData ? own : other; data > 1)
    mesh.axes.push_back({dataAxis.str(), data, degrees.dataShares});
  if (int64_t model = ownIsData ? other : own; model > 1)
    mesh.axes.push_back({modelAxis.str(), model, degrees.modelShares});
  return mesh;
}

} // namespace cleave
