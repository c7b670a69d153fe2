// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The presets' machine files, and machines of several of their hosts. Efficiencies are shares of the peak that others
// have published for single large calls (f16 for GPUs with tensor cores) and small ones; comments name the sources.

#include "passes/cost/Presets.h"

#include "passes/cost/MachineFile.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace cleave {

//===-- files -------------------------------------------------------------------------------------------------===//

static constexpr StringLiteral cpuText = R"(# A server of two sockets: Intel Xeon Gold 6148, 20 cores each.
# Peak: 2 AVX-512 units a core at 2.2 GHz with all cores busy; 6 channels of DDR4-2666 a socket (128 GB/s), of which
# STREAM reaches 0.8. Large products of oneDNN reach 0.8 to 0.85 of the peak. UPI joins the sockets: 3 links of 10.4 GT/s,
# 62 GB/s in each direction, two thirds of it for copies.
name: cpu
device_kinds:
  xeon-6148:
    cores: 20
    memory: 96 GiB
    bandwidth: 128 GB/s
    peak: { f64: 1.41 TFLOP/s, f32: 2.82 TFLOP/s }
    launch: 5 us
    overlap_slowdown: 1.1
    efficiency:
      contraction: [ { at: 1 MFLOP, share: 0.1 }, { at: 100 MFLOP, share: 0.5 }, { at: 10 GFLOP, share: 0.82 } ]
      convolution: [ { at: 1 MFLOP, share: 0.1 }, { at: 100 MFLOP, share: 0.45 }, { at: 10 GFLOP, share: 0.75 } ]
      elementwise: 0.8
      reduction: 0.8
      movement: 0.6
hosts:
  - devices: [ { kind: xeon-6148, count: 2 } ]
    links: [ { between: devices, bandwidth: 40 GB/s, latency: 2 us } ]
network: { bandwidth: 25 Gb/s, latency: 20 us }
)";

static constexpr StringLiteral k20Text =
    R"(# The machine of Krizhevsky, One weird trick for parallelizing convolutional neural networks, 2014: eight K20, four
# to a CPU and its PCI Express 2 switch. Four on a switch exchange at 6 GB/s each at the same time; what leaves a switch
# goes through the host's memory, with more latency and half the rate when all four send.
# K20: 3.52 TFLOP/s, 208 GB/s, 5 GB. cuBLAS reaches 0.7 to 0.75 of the peak with large products, the direct convolutions
# of that time about a third (Chetlur et al., cuDNN, 2014; Lavin, maxDNN, 2015), CUDA's bandwidth test 0.7 of the
# memory's rate with ECC. Compute and communication at once: 1.3 times as slow (Miao et al., Galvatron, 2022, on later
# devices; nobody published it for this one).
name: k20x8
device_kinds:
  k20:
    chip: sm_35
    memory: 5 GB
    bandwidth: 208 GB/s
    peak: { f64: 1.17 TFLOP/s, f32: 3.52 TFLOP/s }
    launch: 8 us
    overlap_slowdown: 1.3
    efficiency:
      contraction: [ { at: 10 MFLOP, share: 0.2 }, { at: 1 GFLOP, share: 0.6 }, { at: 20 GFLOP, share: 0.73 } ]
      convolution: [ { at: 10 MFLOP, share: 0.1 }, { at: 1 GFLOP, share: 0.3 }, { at: 20 GFLOP, share: 0.34 } ]
      elementwise: 0.7
      reduction: 0.65
      movement: 0.6
hosts:
  - devices: [ { kind: k20, count: 8 } ]
    switches:
      - { count: 2, devices: 4, bandwidth: 6 GB/s, latency: 5 us, up: { bandwidth: 12 GB/s, latency: 10 us } }
network: { bandwidth: 10 Gb/s, latency: 50 us }
)";

static constexpr StringLiteral v100Text =
    R"(# Amazon's p3.16xlarge: eight V100 SXM2 of 16 GB, NVLink 2 as a hybrid cube mesh, network of 25 Gb/s.
# V100: 15.7 TFLOP/s f32, 125 TFLOP/s f16 in tensor cores, 900 GB/s. Large products of f16 reach 0.75 of the peak
# (about 95 TFLOP/s; Jia et al., Dissecting the NVIDIA Volta GPU Architecture, 2018: 0.7 to 0.8), of f32 more than 0.9;
# STREAM reaches 0.89 of the memory's rate. A link has 25 GB/s; all-reduces over a device's six links reach
# about 130 GB/s (nccl-tests on DGX-1V). PCI Express 3: 12 GB/s, two devices to a switch. Compute and communication at
# once: 1.3 times as slow (Miao et al., Galvatron, 2022).
name: v100-16g
device_kinds:
  v100:
    chip: sm_70
    memory: 16 GiB
    bandwidth: 900 GB/s
    peak: { f64: 7.8 TFLOP/s, f32: 15.7 TFLOP/s, f16: 125 TFLOP/s }
    launch: 3 us
    overlap_slowdown: 1.3
    efficiency:
      contraction: [ { at: 100 MFLOP, share: 0.1 }, { at: 2 GFLOP, share: 0.35 }, { at: 17 GFLOP, share: 0.6 },
                     { at: 140 GFLOP, share: 0.72 }, { at: 1 TFLOP, share: 0.76 } ]
      contraction.f32: [ { at: 10 MFLOP, share: 0.2 }, { at: 200 MFLOP, share: 0.6 }, { at: 2 GFLOP, share: 0.8 },
                         { at: 17 GFLOP, share: 0.92 } ]
      convolution: [ { at: 100 MFLOP, share: 0.08 }, { at: 2 GFLOP, share: 0.25 }, { at: 17 GFLOP, share: 0.45 },
                     { at: 140 GFLOP, share: 0.6 } ]
      convolution.f32: [ { at: 10 MFLOP, share: 0.15 }, { at: 200 MFLOP, share: 0.5 }, { at: 2 GFLOP, share: 0.7 },
                         { at: 17 GFLOP, share: 0.85 } ]
      elementwise: [ { at: 1 MB, share: 0.3 }, { at: 16 MB, share: 0.7 }, { at: 256 MB, share: 0.88 } ]
      reduction: [ { at: 1 MB, share: 0.2 }, { at: 16 MB, share: 0.6 }, { at: 256 MB, share: 0.8 } ]
      movement: [ { at: 1 MB, share: 0.25 }, { at: 16 MB, share: 0.6 }, { at: 256 MB, share: 0.75 } ]
hosts:
  - devices: [ { kind: v100, count: 8 } ]
    switches:
      - { count: 4, devices: 2, bandwidth: 12 GB/s, latency: 4 us, up: { bandwidth: 12 GB/s, latency: 4 us } }
    links:
      - { between: [0, 1], bandwidth: 22 GB/s, latency: 3 us }
      - { between: [0, 2], bandwidth: 22 GB/s, latency: 3 us }
      - { between: [0, 3], bandwidth: 44 GB/s, latency: 3 us }
      - { between: [0, 4], bandwidth: 44 GB/s, latency: 3 us }
      - { between: [1, 2], bandwidth: 44 GB/s, latency: 3 us }
      - { between: [1, 3], bandwidth: 22 GB/s, latency: 3 us }
      - { between: [1, 5], bandwidth: 44 GB/s, latency: 3 us }
      - { between: [2, 3], bandwidth: 44 GB/s, latency: 3 us }
      - { between: [2, 6], bandwidth: 22 GB/s, latency: 3 us }
      - { between: [3, 7], bandwidth: 22 GB/s, latency: 3 us }
      - { between: [4, 5], bandwidth: 22 GB/s, latency: 3 us }
      - { between: [4, 6], bandwidth: 22 GB/s, latency: 3 us }
      - { between: [4, 7], bandwidth: 44 GB/s, latency: 3 us }
      - { between: [5, 6], bandwidth: 44 GB/s, latency: 3 us }
      - { between: [5, 7], bandwidth: 22 GB/s, latency: 3 us }
      - { between: [6, 7], bandwidth: 44 GB/s, latency: 3 us }
network: { bandwidth: 25 Gb/s, latency: 30 us }
)";

static constexpr StringLiteral a100Text =
    R"(# DGX A100: eight A100 SXM4 of 80 GB on NVSwitch, eight ports of HDR InfiniBand.
# A100: 19.5 TFLOP/s f32, 156 tf32, 312 bf16 and f16, 2039 GB/s. Products of 8192 reach about 0.8 of the peak in f16,
# products of 1024 about 0.4 (NVIDIA, Matrix Multiplication Background User's Guide, and cuBLAS release measurements);
# BabelStream reaches 0.86 of the memory's rate. NVLink 3 has 300 GB/s in each direction, of which all-reduces get
# about 235 (nccl-tests); HDR has 25 GB/s a port, of which RDMA gets 24. Compute and communication at once: 1.3 times as
# slow (Miao et al., Galvatron, 2022).
name: a100-80g
device_kinds:
  a100:
    chip: sm_80
    memory: 80 GiB
    bandwidth: 2039 GB/s
    peak: { f64: 9.7 TFLOP/s, f32: 19.5 TFLOP/s, tf32: 156 TFLOP/s, bf16: 312 TFLOP/s, f16: 312 TFLOP/s }
    launch: 3 us
    overlap_slowdown: 1.3
    efficiency:
      contraction: [ { at: 100 MFLOP, share: 0.08 }, { at: 2 GFLOP, share: 0.4 }, { at: 17 GFLOP, share: 0.65 },
                     { at: 140 GFLOP, share: 0.76 }, { at: 1 TFLOP, share: 0.8 } ]
      contraction.f32: [ { at: 10 MFLOP, share: 0.2 }, { at: 200 MFLOP, share: 0.6 }, { at: 2 GFLOP, share: 0.8 },
                         { at: 17 GFLOP, share: 0.92 } ]
      convolution: [ { at: 100 MFLOP, share: 0.06 }, { at: 2 GFLOP, share: 0.25 }, { at: 17 GFLOP, share: 0.45 },
                     { at: 140 GFLOP, share: 0.6 } ]
      convolution.f32: [ { at: 10 MFLOP, share: 0.15 }, { at: 200 MFLOP, share: 0.5 }, { at: 2 GFLOP, share: 0.7 },
                         { at: 17 GFLOP, share: 0.85 } ]
      elementwise: [ { at: 1 MB, share: 0.2 }, { at: 16 MB, share: 0.6 }, { at: 256 MB, share: 0.86 } ]
      reduction: [ { at: 1 MB, share: 0.15 }, { at: 16 MB, share: 0.5 }, { at: 256 MB, share: 0.8 } ]
      movement: [ { at: 1 MB, share: 0.15 }, { at: 16 MB, share: 0.5 }, { at: 256 MB, share: 0.75 } ]
hosts:
  - devices: [ { kind: a100, count: 8 } ]
    links: [ { between: devices, bandwidth: 235 GB/s, latency: 3 us } ]
network: { bandwidth: 24 GB/s, latency: 5 us, ports: 8 }
)";

static constexpr StringLiteral h100Text =
    R"(# DGX H100: eight H100 SXM5 of 80 GB on NVSwitch, eight ports of NDR InfiniBand.
# H100: 67 TFLOP/s f32, 495 tf32, 989 bf16 and f16 (dense), 3.35 TB/s. Products of 8192 reach about 0.7 of the peak in
# f16, where power limits the clock; STREAM 0.9 of the memory's rate. NVLink 4 has 450 GB/s in each direction, of which
# all-reduces get about 370 in rings (nccl-tests); NDR has 50 GB/s a port, of which RDMA gets 48.
name: h100
device_kinds:
  h100:
    chip: sm_90
    memory: 80 GiB
    bandwidth: 3350 GB/s
    peak: { f64: 34 TFLOP/s, f32: 67 TFLOP/s, tf32: 494.7 TFLOP/s, bf16: 989.4 TFLOP/s, f16: 989.4 TFLOP/s }
    launch: 3 us
    overlap_slowdown: 1.3
    efficiency:
      contraction: [ { at: 100 MFLOP, share: 0.03 }, { at: 2 GFLOP, share: 0.22 }, { at: 17 GFLOP, share: 0.5 },
                     { at: 140 GFLOP, share: 0.65 }, { at: 1 TFLOP, share: 0.7 } ]
      contraction.f32: [ { at: 10 MFLOP, share: 0.08 }, { at: 200 MFLOP, share: 0.4 }, { at: 2 GFLOP, share: 0.65 },
                         { at: 17 GFLOP, share: 0.75 } ]
      convolution: [ { at: 100 MFLOP, share: 0.02 }, { at: 2 GFLOP, share: 0.15 }, { at: 17 GFLOP, share: 0.35 },
                     { at: 140 GFLOP, share: 0.5 } ]
      elementwise: [ { at: 1 MB, share: 0.15 }, { at: 16 MB, share: 0.55 }, { at: 256 MB, share: 0.9 } ]
      reduction: [ { at: 1 MB, share: 0.1 }, { at: 16 MB, share: 0.45 }, { at: 256 MB, share: 0.85 } ]
      movement: [ { at: 1 MB, share: 0.1 }, { at: 16 MB, share: 0.45 }, { at: 256 MB, share: 0.8 } ]
hosts:
  - devices: [ { kind: h100, count: 8 } ]
    links: [ { between: devices, bandwidth: 370 GB/s, latency: 3 us } ]
network: { bandwidth: 48 GB/s, latency: 5 us, ports: 8 }
)";

static constexpr StringLiteral h200Text =
    R"(# DGX H200: as DGX H100, with 141 GB of faster memory (4.8 TB/s) on each device.
name: h200
device_kinds:
  h200:
    chip: sm_90
    memory: 141 GB
    bandwidth: 4800 GB/s
    peak: { f64: 34 TFLOP/s, f32: 67 TFLOP/s, tf32: 494.7 TFLOP/s, bf16: 989.4 TFLOP/s, f16: 989.4 TFLOP/s }
    launch: 3 us
    overlap_slowdown: 1.3
    efficiency:
      contraction: [ { at: 100 MFLOP, share: 0.03 }, { at: 2 GFLOP, share: 0.22 }, { at: 17 GFLOP, share: 0.5 },
                     { at: 140 GFLOP, share: 0.65 }, { at: 1 TFLOP, share: 0.7 } ]
      contraction.f32: [ { at: 10 MFLOP, share: 0.08 }, { at: 200 MFLOP, share: 0.4 }, { at: 2 GFLOP, share: 0.65 },
                         { at: 17 GFLOP, share: 0.75 } ]
      convolution: [ { at: 100 MFLOP, share: 0.02 }, { at: 2 GFLOP, share: 0.15 }, { at: 17 GFLOP, share: 0.35 },
                     { at: 140 GFLOP, share: 0.5 } ]
      elementwise: [ { at: 1 MB, share: 0.12 }, { at: 16 MB, share: 0.5 }, { at: 256 MB, share: 0.9 } ]
      reduction: [ { at: 1 MB, share: 0.08 }, { at: 16 MB, share: 0.4 }, { at: 256 MB, share: 0.85 } ]
      movement: [ { at: 1 MB, share: 0.08 }, { at: 16 MB, share: 0.4 }, { at: 256 MB, share: 0.8 } ]
hosts:
  - devices: [ { kind: h200, count: 8 } ]
    links: [ { between: devices, bandwidth: 370 GB/s, latency: 3 us } ]
network: { bandwidth: 48 GB/s, latency: 5 us, ports: 8 }
)";

static constexpr Preset presets[] = {{"cpu", cpuText},
                                     {"k20x8", k20Text, NvlinkGeneration{0, 0, 6e9}},
                                     {"v100-16g", v100Text, NvlinkGeneration{6, 22e9, 12e9}},
                                     {"a100-80g", a100Text, NvlinkGeneration{12, 235e9 / 12, 24e9}},
                                     {"h100", h100Text, NvlinkGeneration{18, 370e9 / 18, 48e9}},
                                     {"h200", h200Text, NvlinkGeneration{18, 370e9 / 18, 48e9}}};

ArrayRef<Preset> allPresets() { return presets; }

const Preset *findPreset(StringRef name) {
  for (const Preset &preset : presets)
    if (preset.name == name)
      return &preset;
  return nullptr;
}

//===-- machines ----------------------------------------------------------------------------------------------===//

static Error presetError(const Twine &message) { return createStringError(inconvertibleErrorCode(), message); }

/// Keeps a host's first devices, and what is between them.
static void keepDevices(HostSpec &host, unsigned count) {
  host.devices.front().count = count;
  erase_if(host.pairs, [&](const PairSpec &pair) { return pair.second >= count; });
  unsigned left = count;
  for (SwitchSpec &part : host.switches) {
    part.devices = std::min(part.devices, left);
    left -= part.devices;
  }
  erase_if(host.switches, [](const SwitchSpec &part) { return part.devices == 0; });
}

Expected<unsigned> parseCount(StringRef text, StringRef what, unsigned most, StringRef machine) {
  unsigned count = 0;
  if (!to_integer(text, count, 10) || count < 1 || count > most)
    return presetError("machine \"" + machine + "\" expects a number of " + what + " from 1 to " + Twine(most) +
                       ", got \"" + text + "\"");
  return count;
}

/// Adds the hosts of "NAME:DEVICESxHOSTS" to a machine.
static Error addPreset(StringRef text, Machine &machine) {
  auto [name, size] = text.split(':');
  const Preset *preset = findPreset(name);
  if (!preset) {
    SmallVector<StringRef> names;
    for (const Preset &known : presets)
      names.push_back(known.name);
    return presetError("machine expects host, host:N, host:NxC, null:N, a .yaml file, or one of " + join(names, ", ") +
                       ", as in a100-80g:8x4, also after cuda:; got \"" + text + "\"");
  }
  auto file = parseMachineFile(preset->text, preset->name);
  if (!file)
    return file.takeError();
  HostSpec host = file->hosts.front();
  if (text.contains(':')) {
    auto [devices, hosts] = size.split('x');
    auto count = parseCount(devices, "devices", host.numDevices(), text);
    if (!count)
      return count.takeError();
    keepDevices(host, *count);
    if (size.contains('x')) {
      auto numHosts = parseCount(hosts, "hosts", mostDevices / *count, text);
      if (!numHosts)
        return numHosts.takeError();
      host.count = *numHosts;
    }
  }
  host.network = file->network;
  machine.kinds.insert(file->kinds.begin(), file->kinds.end());
  machine.hosts.push_back(std::move(host));
  return Error::success();
}

Expected<Machine> parsePreset(StringRef text) {
  Machine machine;
  machine.name = text.str();
  SmallVector<StringRef> parts;
  text.split(parts, '+');
  uint64_t numDevices = 0;
  for (StringRef part : parts) {
    if (Error failure = addPreset(part, machine))
      return failure;
    numDevices += uint64_t(machine.hosts.back().count) * machine.hosts.back().numDevices();
    if (numDevices > mostDevices)
      return presetError("machine \"" + text + "\" expects at most " + Twine(mostDevices) + " devices, got more");
  }
  addDevices(machine);
  return machine;
}

} // namespace cleave
