// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention whose keys and values go around in a ring (Liu, Zaharia, Abbeel: Ring Attention with Blockwise Transformers
// for Near-Infinite Context, 2023): where a program gathers them today, and the same without the gathers.

#ifndef CLEAVE_PASSES_DISTRIBUTE_KEYRING_H
#define CLEAVE_PASSES_DISTRIBUTE_KEYRING_H

#include "dialects/dfg/Attention.h"
#include "dialects/dist/Layout.h"

namespace cleave {

/// Attention of a program, with its gradient if there is one, whose keys and values come from all-gathers along the
/// same axes, which nothing else reads. In training the gradients of both leave by reduce-scatters along these axes.
struct KeyRing {
  dfg::Attention attention;
  dist::MeshShape mesh;
  /// The keys and the axes that cut them, evenly.
  dist::Part keys;

  /// The number of devices in the ring, and of keys that each of them holds.
  int64_t numSteps() const { return mesh.ways(keys.axes); }
  int64_t chunkSize() const { return keys.size / numSteps(); }
};

/// The ring that the attention with this softmax can be; none where it cannot, for which `why` then is the reason, to
/// follow "keys and values of attention", or empty where there is no attention with gathered keys.
std::optional<KeyRing> findKeyRing(dfg::SoftmaxOp softmax, const dist::MeshShape &mesh, std::string &why);

/// Writes the ring in the place of the attention. A device begins with its own chunk of keys and values; while it
/// computes with one, the next one comes from its neighbour. Of scores s of chunk c, with the values v:
///
///   m_c = max s    l_c = sum e^(s - m_c)    o_c = sum e^(s - m_c) v
///
/// and of all chunks so far, the new ones m', l', o' from m, l, o and those of c:
///
///   m' = max(m, m_c)    l' = e^(m - m') l + e^(m_c - m') l_c    o' = e^(m - m') o + e^(m_c - m') o_c
///
/// The result is o / l. Where scores have 16 bits, the e^(s - m_c) are rounded as the product with the values reads
/// them, and l_c is the sum of these; m, l and o are f32. The backward pass brings the chunks once more and makes the
/// weights again, e^(s - m - log l); the gradients of a chunk's keys and values go around with it and end where the
/// chunk is from.
void writeKeyRing(KeyRing &ring);

} // namespace cleave

#endif // CLEAVE_PASSES_DISTRIBUTE_KEYRING_H
