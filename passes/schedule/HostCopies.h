// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// When copies between a device's arena and its host's memory run, so that little of what is kept there is in the arena.

#ifndef CLEAVE_PASSES_SCHEDULE_HOSTCOPIES_H
#define CLEAVE_PASSES_SCHEDULE_HOSTCOPIES_H

#include "passes/schedule/Problem.h"

namespace cleave::schedule {

/// Orders the copies of ordered devices, whose calls follow each other, by what tasks follow (Task::after).
///
/// On the way there: a call whose result is moved away follows the moving of those before it, but for as many bytes as
/// two of the largest have, which may be on their way at once.
///
/// On the way back, by estimated times: every fetch comes as late as it can without being waited for longer than it
/// must be. Fetches follow each other in the order of their first readers, and none begins before all values have been
/// made that are moved away before its reader runs: between two passes the device has memory for others. Where the way
/// is too slow even so, readers wait; on the clock on which they do, each fetch ends when its first reader begins, or
/// the next fetch does, whichever is earlier.
void paceHostCopies(Problem &problem);

} // namespace cleave::schedule

#endif // CLEAVE_PASSES_SCHEDULE_HOSTCOPIES_H
