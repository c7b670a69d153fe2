// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The file formats, one reader and one writer each. Readers get a whole file and return errors that name a byte; the
// caller adds the file's name.

#ifndef CLEAVE_RUNTIME_TENSORFILE_FORMATS_H
#define CLEAVE_RUNTIME_TENSORFILE_FORMATS_H

#include "runtime/FileWriter.h"
#include "runtime/HostTensor.h"
#include "runtime/tensorfile/ByteCursor.h"
#include "runtime/tensorfile/TensorFile.h"

#include <string_view>

namespace cleave::runtime::tensorfile {

/// The dense type, if it is valid and its bytes are exactly the `available` ones, which begin at `position`.
Expected<TensorType> typeOfBytes(ElementType element, std::vector<int64_t> shape, uint64_t available,
                                 uint64_t position);
/// A tensor with a copy of the bytes, their order within each element reversed if `swapped`. I1 becomes 0 or 1.
Expected<HostTensor> tensorOfBytes(TensorType type, Bytes data, bool swapped = false);
/// Copies elements of `size` bytes with their bytes reversed.
void copySwapped(std::byte *target, Bytes source, unsigned size);

/// `expected` decides whether 2-byte elements are bfloat16; may be null. `origin`: where the array begins in the file.
Expected<HostTensor> readNpy(Bytes file, const TensorType *expected, uint64_t origin = 0);
/// The bytes before the elements.
std::string npyHeader(const TensorType &type);

/// The member of that name (without .npy), or the only one if the name is empty.
Expected<HostTensor> readNpz(Bytes file, std::string_view member, const TensorType *expected);
/// All members, by their names without .npy.
Expected<std::vector<ArchiveMember>> readNpz(Bytes file);
/// Writes the archive `previous` (empty: none) with the member added or replaced.
Error writeNpz(FileWriter &out, Bytes previous, std::string_view member, const HostTensor &tensor);
/// Writes an archive of these members.
Error writeNpz(FileWriter &out, std::span<const ArchiveMember> members);

/// `expected` decides whether elements called uint16 are bfloat16; may be null.
Expected<HostTensor> readTensorProto(Bytes file, const TensorType *expected);
/// The message's bytes before the elements, which stand last.
std::string tensorProtoHeader(const TensorType &type);

Expected<HostTensor> readIdx(Bytes file);
Expected<HostTensor> readIdxGzip(Bytes file);
Error writeIdx(FileWriter &out, const HostTensor &tensor);

} // namespace cleave::runtime::tensorfile

#endif // CLEAVE_RUNTIME_TENSORFILE_FORMATS_H
