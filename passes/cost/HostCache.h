// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is known of the speed of the host that Cleave runs on: what `cleave probe` has measured and left in a machine
// file in the user's cache, or guesses.

#ifndef CLEAVE_PASSES_COST_HOSTCACHE_H
#define CLEAVE_PASSES_COST_HOSTCACHE_H

#include "passes/cost/Machine.h"

namespace cleave {

/// $CLEAVE_CACHE, else $XDG_CACHE_HOME/cleave, else ~/.cache/cleave; empty where the environment names none of them.
std::string cacheFolder();

/// The processor by its own name and by LLVM's: "Intel(R) Xeon(R) Processor, sapphirerapids".
std::string hostProcessor();

/// Cores that this process can keep busy: of its affinity, within its control group's quota; at least one.
unsigned hostCores();

/// Bytes of memory that this process may take: the host's, or what its control group allows.
uint64_t hostMemory();

/// Where measurements of this processor with this number of cores are; empty without a cache folder.
std::string hostCacheFile();

/// The kind of a device of so many cores: "cpu-2".
std::string hostKindName(unsigned cores);

/// Gives a machine of `count` devices on this host its cores, kinds and links: those measured, of the largest kind
/// where there are more cores than were measured together; else guesses, with a note: guessCpuKind(), and with AVX2
/// convolutions by Winograd's algorithm at 1.6 times the peak. A device has no more cores than
/// the host. A file that cannot be used is a warning.
void describeHost(Machine &machine, unsigned count, unsigned cores);

/// A guess at a CPU device where nothing was measured: 80 GFLOP/s a core for f32 (AVX2 at 2.5 GHz), of which large
/// matrix products reach 0.8 and convolutions 0.7; 12 GB/s of memory a core, and 50 GB/s at most; 2 us a call.
DeviceKind guessCpuKind(unsigned cores);

} // namespace cleave

#endif // CLEAVE_PASSES_COST_HOSTCACHE_H
