// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The communicator between devices of one process: the receiver copies straight from the sender's buffer.

#ifndef CLEAVE_RUNTIME_COMMUNICATORS_LOCAL_LOCALCOMMUNICATOR_H
#define CLEAVE_RUNTIME_COMMUNICATORS_LOCAL_LOCALCOMMUNICATOR_H

#include "runtime/Communicator.h"

#include <memory>

namespace cleave::runtime {

/// A communicator for all sites of `channels`, which must outlive it.
std::unique_ptr<Communicator> createLocalCommunicator(const Channels &channels);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMMUNICATORS_LOCAL_LOCALCOMMUNICATOR_H
