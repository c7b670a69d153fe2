// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the simulator asks about a machine: how long a device takes alone for what it does, and which links lie between
// two devices. The compiler answers from a machine's description, a host from measurements, a test from a table.

#ifndef CLEAVE_RUNTIME_SIMULATOR_MACHINEMODEL_H
#define CLEAVE_RUNTIME_SIMULATOR_MACHINEMODEL_H

#include "runtime/Plan.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace cleave::runtime {

/// How bytes get from one device to another, or to itself.
struct Way {
  double latency = 0;                                         ///< Seconds.
  double bandwidth = std::numeric_limits<double>::infinity(); ///< Bytes a second while nothing else is under way.
  /// The links that they cross, which others may cross as well: directions of connections, by their numbers.
  std::vector<uint32_t> links;
};

/// What an instruction does on its device alone: a kernel's call, or bytes that are copied, loaded or stored.
struct LocalWork {
  const Instruction *instruction = nullptr;
  const Kernel *kernel = nullptr; ///< of a call
  double bytes = 0;               ///< copied; of a call: read and written
};

/// A reduction or a gathering of `bytes` (of the whole tensor in a device's hands) among devices.
struct GroupWork {
  enum class Kind { AllReduce, ReduceScatter, AllGather };
  Kind kind = Kind::AllReduce;
  double bytes = 0;
  std::span<const uint32_t> devices;
};

class MachineModel {
public:
  virtual ~MachineModel() = default;

  /// Devices of one kind take equally long for everything; any numbers.
  virtual uint32_t kindOf(uint32_t device) const = 0;
  /// The host that a device is part of; numbers from 0 on.
  virtual uint32_t hostOf(uint32_t device) const = 0;
  /// The group of hosts that its host is part of, where links between hosts differ; any numbers.
  virtual uint32_t zoneOf(uint32_t /*device*/) const { return 0; }
  /// Seconds of the work on a device while nothing else runs.
  virtual double seconds(uint32_t device, const LocalWork &work) const = 0;
  /// The overhead of each step of the device.
  virtual double stepSeconds(uint32_t /*device*/) const { return 0; }

  /// Makes `way` that of so many bytes from one device to another.
  virtual void findWay(uint32_t from, uint32_t to, double bytes, Way &way) const = 0;
  /// Bytes a second of all links, by their numbers. Those that no way has crossed yet may be anything.
  virtual std::span<const double> bandwidths() const = 0;
  /// Seconds of a communication within a group where that is known as a whole; otherwise it follows from the links.
  virtual std::optional<double> groupSeconds(const GroupWork &) const { return std::nullopt; }

  /// How many times as long a device's computation and communication take while both go on.
  virtual double overlapSlowdown(uint32_t /*device*/) const { return 1; }
  /// How many times as long a call takes while another device of the host computes, too.
  virtual double contention(uint32_t /*device*/, const LocalWork &) const { return 1; }
  /// Threads that a host runs at once.
  virtual double coresOf(uint32_t /*host*/) const { return std::numeric_limits<double>::infinity(); }
  /// Threads of its host that a call takes of a device which the plan gives so many cores: no more than the host runs
  /// at once, as the seconds of a call that is alone know of the others. All else that the device does takes one. None:
  /// it does all without its host, as GPUs do.
  virtual double threadsOf(uint32_t device, unsigned cores) const {
    return std::min<double>(std::max(1u, cores), coresOf(hostOf(device)));
  }
  /// Seconds until a queue that slept goes on after what it waited for.
  virtual double wakeSeconds(uint32_t /*device*/) const { return 0; }
  /// Seconds until who waits for a step knows that it is over.
  virtual double returnSeconds() const { return 0; }
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SIMULATOR_MACHINEMODEL_H
