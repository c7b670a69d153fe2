// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tensors in files: the formats in which people have inputs, expected outputs and data sets.
//
//   .npy               NumPy, versions 1 to 3, either byte order, C or Fortran order
//   .npz               a ZIP archive of .npy members, stored or deflated; "file.npz:name" names one
//   .pb                one ONNX TensorProto
//   .idx, *-ubyte      IDX (big-endian), as the MNIST family comes
//   .gz                an IDX file compressed with gzip
//   .raw, .bin         nothing but the elements, row-major and little-endian; only the caller knows the type
//
// A name with none of these endings is told by its first bytes. bfloat16 has no name in NumPy: it is written as uint16
// with the remark "# bfloat16" in the header, which NumPy skips and this reader knows; a uint16 or 2-byte void array is
// also read as bfloat16 where the caller expects that, and so is a TensorProto of uint16, as which programs in NumPy
// write it.

#ifndef CLEAVE_RUNTIME_TENSORFILE_TENSORFILE_H
#define CLEAVE_RUNTIME_TENSORFILE_TENSORFILE_H

#include "runtime/HostTensor.h"

#include <span>

namespace cleave::runtime {

/// Reads a tensor. With `expected`, whose layout does not count, element type and shape must be those; raw files need
/// it. Status::Rejected for a malformed file, with the byte at which it goes wrong; Status::Failure for a file that
/// cannot be read or holds another type; Status::Unsupported for valid contents without an element type here. Whatever
/// the file claims, memory stays within a small multiple of what it really holds.
Expected<HostTensor> readTensorFile(const std::string &path, const TensorType *expected = nullptr);

/// Writes a tensor in the format of the path's ending (.gz is not written), into a temporary file that takes the path's
/// name when complete. "file.npz:name" adds or replaces a member and keeps the others; without a name it is "arr_0".
Error writeTensorFile(const std::string &path, const HostTensor &tensor);

/// Whether writeTensorFile knows the ending of a path's name.
bool namesTensorFile(const std::string &path);
/// The file that the path names: of "file.npz:name" what comes before the colon.
std::string fileOfTensor(const std::string &path);

/// A member of an archive.
struct ArchiveMember {
  std::string name;
  HostTensor tensor;
};
/// All members of an ".npz" file. Errors as of readTensorFile.
Expected<std::vector<ArchiveMember>> readTensorArchive(const std::string &path);
/// Writes an ".npz" file with these members and no others.
Error writeTensorArchive(const std::string &path, std::span<const ArchiveMember> members);
/// Whether it takes the path's name.
bool namesTensorArchive(const std::string &path);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TENSORFILE_TENSORFILE_H
