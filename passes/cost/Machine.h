// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The machine that a model is compiled for: its devices.

#ifndef CLEAVE_PASSES_COST_MACHINE_H
#define CLEAVE_PASSES_COST_MACHINE_H

#include "passes/cost/Executor.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cleave {

/// Whether a device of this driver and chip gets a GPU's kernels, as dist::Device says it.
inline bool isGpu(llvm::StringRef driver, llvm::StringRef chip) {
  return driver == "cuda" || (driver == "null" && !chip.empty());
}

/// Whether devices of this driver run a processor's code, as dist::Device says it.
inline bool isProcessor(llvm::StringRef driver) { return driver != "cuda" && driver != "null"; }

/// One device, as the runtime will open it.
struct DeviceSpec {
  std::string name;         ///< Distinct in a machine.
  std::string driver;       ///< The runtime's driver: "cpu", "cuda", "null", or one that the program has added.
  unsigned cores = 1;       ///< Cores of its host that the device computes on; at least one.
  uint64_t memoryLimit = 0; ///< Bytes that a plan may use; 0: no limit.
  std::string kind = {};    ///< A key of Machine::kinds; empty where nothing is known of the device's speed.
  unsigned host = 0;        ///< The number of its host; devices stand host by host.
  /// What code is compiled for: with the driver "cuda" an architecture, as "sm_90", with "null", too, where it stands
  /// for a GPU; with "cpu" a processor, as "x86-64-v3", or empty for the one that compiles.
  std::string chip = {};
  /// Tells zones apart between which there are links; 0: no link names the zone of its host.
  unsigned zone = 0;

  bool isGpu() const { return cleave::isGpu(driver, chip); }
};

/// The part of a peak rate that is reached, by the size of the work: points in ascending order of size, between which
/// it is interpolated by the size's logarithm. One point: the same for all sizes.
struct EfficiencyCurve {
  struct Point {
    double size = 0; ///< Floating-point operations or bytes of one call.
    double share = 1;
    bool operator==(const Point &) const = default;
  };
  std::vector<Point> points;

  /// The share at a size; 1 without points.
  double at(double size) const;
  bool operator==(const EfficiencyCurve &) const = default;
};

/// How a device multiplies matrices: units that each compute one tile of the result at a time, so that the tiles of a
/// product are done in waves, and what the last wave leaves idle is lost (NVIDIA, Matrix Multiplication Background
/// User's Guide).
struct TileModel {
  struct Tile {
    double rows = 0, columns = 0;
    double share = 1; ///< Of the sustained rate that a unit reaches with it.
    bool operator==(const Tile &) const = default;
  };
  unsigned units = 0;   ///< 0: nothing is known.
  double sustained = 1; ///< Share of the peak that the clock under load leaves.
  std::vector<Tile> tiles;
  /// The share that is left, by the bytes to which rows of the operands are aligned: the largest power of two that
  /// divides them.
  EfficiencyCurve alignment;
  /// What is left of the rate by how many terms an element sums, as a tile's beginning and end take their time; and by
  /// the smaller of rows and columns.
  EfficiencyCurve depth, width;
  bool operator==(const TileModel &) const = default;
};

/// A connection, full duplex.
struct LinkSpec {
  double bandwidth = 0; ///< Bytes a second, in each direction.
  double latency = 0;   ///< Seconds from end to end.
  /// Bytes a second at which a device combines what arrives with what it has; 0: fast enough not to count.
  double combine = 0;
  /// Seconds that a collective takes before anything moves: its launch, and finding its partners ready.
  double start = 0;
  bool operator==(const LinkSpec &) const = default;
};

/// How fast devices of one kind are.
/// Element types of arithmetic, as machine files name them; f8 has 8 bits of floating point, in either division of
/// them.
inline constexpr llvm::StringRef elementTypes[] = {"f64", "f32", "tf32", "bf16", "f16", "f8", "i8"};

struct DeviceKind {
  uint64_t memory = 0;                ///< Bytes.
  double bandwidth = 0;               ///< Of the memory, bytes a second.
  std::map<std::string, double> peak; ///< Floating-point operations a second by element type.
  /// By cost class: for "contraction" the share of the peak by operations; for "elementwise", "reduction" and
  /// "movement" the share of the bandwidth by bytes read and written. Contractions that slide a window have
  /// "convolution", where it is there, and those by Winograd's algorithm "winograd", or "winograd_training"
  /// where weights change from step to step; "streaming" is the share of the
  /// bandwidth at which contractions of few operations read their operands; "attention" is what attention as one kernel
  /// reaches, in terms of what it does on an A100 (Executor::attentionForward). A class may be followed by an element
  /// type: see findCurve.
  std::map<std::string, EfficiencyCurve> efficiency;
  /// Products of matrices by their extents, in the place of a curve: keys as those of `efficiency` for contractions.
  std::map<std::string, TileModel> tiles;
  /// Whether libraries may compute attention by one kernel, where they have one (dfg::hasAttentionKernels).
  bool fusesAttention = true;
  double launch = 0; ///< Seconds of every call besides its work.
  double step = 0;   ///< Seconds of overhead of a step: until the device begins, and until its end is known.
  /// The way between the host's memory and the device's, which inputs and outputs take. Without a bandwidth they lie in
  /// the device's own memory.
  LinkSpec host;
  double price = 0; ///< Of a device, US dollars an hour.
  /// While a device computes and communicates at once, both take this many times as long.
  double overlapSlowdown = 1;
  /// While another device of the host computes, computing takes this many times as long: they share memory and power.
  double neighbourSlowdown = 1;
  std::string driver = "null"; ///< The runtime's driver.
  unsigned cores = 1;
  /// Of a GPU its architecture, as "sm_90"; empty where it is not said, which is sm_80 with the driver "cuda". With the
  /// driver "cpu" the processor, as "x86-64-v3"; empty: the one that compiles.
  std::string chip;

  bool isGpu() const { return cleave::isGpu(driver, chip); }
  /// The curve of a class for an element type, where there is one for it ("contraction.f32"), else of the class; null
  /// where there is none.
  const EfficiencyCurve *findCurve(llvm::StringRef costClass, llvm::StringRef elementType) const;
  /// The tiles of contractions of an element type, unless there is a curve for just this type; null where there are
  /// none.
  const TileModel *findTiles(llvm::StringRef elementType) const;
  /// Processors that work independently of each other, as far as the tiles of its products tell: multiprocessors of a
  /// GPU. 0: nothing is known.
  unsigned processors() const;
  bool operator==(const DeviceKind &) const = default;
};

/// Devices of a host on one switch.
struct SwitchSpec {
  unsigned devices = 0; ///< The next so many devices of the host.
  LinkSpec link;        ///< From each of them to the switch.
  LinkSpec up;          ///< From the switch to the host.
  bool operator==(const SwitchSpec &) const = default;
};

/// A connection between two devices of a host that nothing else uses.
struct PairSpec {
  unsigned first = 0, second = 0; ///< Positions in the host.
  LinkSpec link;
  bool operator==(const PairSpec &) const = default;
};

/// A host's connection to a network without bottlenecks of its own.
struct NetworkSpec {
  LinkSpec link;      ///< Of one port; the latency is that between two hosts.
  unsigned ports = 1; ///< One device's transfer takes one of them.
  bool operator==(const NetworkSpec &) const = default;
};

/// What lies between the hosts of two zones, or between those of one, in the place of the network: it is crossed on the
/// way from a host's port to the other's, and its latency is that between two hosts.
struct ZoneLinkSpec {
  std::string from, to;  ///< Zones of hosts.
  bool bothWays = true;  ///< Each way has the bandwidth; else it is for this direction alone, which goes before both.
  bool isShared = false; ///< By all transfers of a direction, within a zone by all; else each two hosts have their own.
  LinkSpec link;
  bool operator==(const ZoneLinkSpec &) const = default;
};

/// Hosts that are alike.
struct HostSpec {
  struct Devices {
    std::string kind; ///< A key of Machine::kinds.
    unsigned count = 1;
    bool operator==(const Devices &) const = default;
  };
  unsigned count = 1; ///< The next so many hosts of the machine.
  std::vector<Devices> devices;
  unsigned cores = 0; ///< Which devices that are no GPUs share; 0: each of them has its own.
  /// Bytes of its memory, of which each device may take an equal part for what does not stay in its own; 0: none of it.
  uint64_t memory = 0;
  /// Any two devices, each with a connection of its own to a common switch; none: see Topology.
  std::optional<LinkSpec> link;
  std::vector<SwitchSpec> switches;
  std::vector<PairSpec> pairs;
  /// Where it is not the machine's.
  std::optional<NetworkSpec> network;
  std::string zone; ///< What links between hosts call these; empty: none names them.
  double price = 0; ///< Of a host, US dollars an hour, in addition to those of its devices.

  unsigned numDevices() const;
  /// A device's part of the memory.
  uint64_t memoryOfDevice() const { return numDevices() == 0 ? 0 : memory / numDevices(); }
  bool operator==(const HostSpec &) const = default;
};

/// What measured steps said: everything takes `step` times as long as the rest of the machine says (Calibration.h).
struct StepCalibration {
  double step = 1;
  unsigned steps = 0; ///< How many were measured.
  bool operator==(const StepCalibration &) const = default;
};

/// Devices in the order of their indices, and what a machine file says of their speed.
struct Machine {
  std::string name;
  std::vector<DeviceSpec> devices;
  std::map<std::string, DeviceKind> kinds;
  /// In the order of the devices; empty where nothing is known: all devices are of one host then.
  std::vector<HostSpec> hosts;
  /// Between hosts.
  std::optional<NetworkSpec> network;
  /// Between hosts where it is not the network alone.
  std::vector<ZoneLinkSpec> links;
  Executor executor; ///< What runs plans on it.
  StepCalibration calibration;
  /// What the user should know of how the machine was found: warnings, and a hint where `cleave probe` would help.
  std::vector<std::string> warnings, notes;
};

/// The most devices that a machine may have.
inline constexpr unsigned mostDevices = 65536;

/// The architecture of NVIDIA's GPUs for which kernels are compiled where none is said, and the oldest one.
inline constexpr llvm::StringLiteral oldestChip = "sm_80";

/// Whether this names an architecture of NVIDIA's GPUs: "sm_" and two or three digits.
bool isChipName(llvm::StringRef name);

/// Whether this names a processor to compile for: "native", or one of x86-64 as LLVM names it ("x86-64-v3", "znver4"),
/// or several joined by "+" for what all of them have.
bool isProcessorName(llvm::StringRef name);

/// Why the driver "cuda" cannot run devices of a kind: the cores of a processor, or an architecture older than
/// `oldestChip`; empty where it can.
std::string whyNotCuda(const DeviceKind &kind);

/// By entry of `hosts` the number of its zone, as devices have it.
std::vector<unsigned> zoneNumbers(const Machine &machine);

/// By host of the machine, the part of its memory that each of its devices may take.
std::vector<uint64_t> hostMemory(const Machine &machine);

/// Adds the devices of `hosts` to a machine that has none: "KIND.INDEX", with the driver, cores and memory of the kind.
void addDevices(Machine &machine);

/// A machine's first devices, at least one and no more than it has, with what connects them.
Machine firstDevices(const Machine &machine, unsigned count);

/// Reads the text of `--machine`:
///
///   host        one CPU device with all cores that this process may use
///   host:N      N CPU devices with max(1, cores / N) cores each
///   host:NxC    N CPU devices of C cores
///   null:N      N devices that compute nothing
///   PRESET      a machine by name, as in a100-80g, a100-80g:4 (devices of one host), a100-80g:8x128 (128 hosts of 8);
///               joined by + where kinds are mixed (Presets.h)
///   FILE.yaml   a machine file (MachineFile.h)
///   cuda:NAME   a preset or a machine file, whose devices are run by the driver "cuda", as in cuda:h100:2
///
/// The speed of this host is what `cleave probe` has measured (HostCache.h), where it has. Errors name the text, or the
/// file with line and column.
llvm::Expected<Machine> parseMachine(llvm::StringRef text);

/// Whether such a text names a file, with or without "cuda:".
bool namesMachineFile(llvm::StringRef text);

} // namespace cleave

#endif // CLEAVE_PASSES_COST_MACHINE_H
