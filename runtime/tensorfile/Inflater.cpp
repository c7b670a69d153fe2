// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// zlib behind the interface of Inflater.

#include "runtime/tensorfile/Inflater.h"

#include <algorithm>
#include <zlib.h>

namespace cleave::runtime::tensorfile {

/// Deflate cannot express more than 258 bytes in 2 bits; the rest is room for headers.
static constexpr uint64_t largestRatio = 1032, headerRoom = 1 << 10;
/// zlib counts in unsigned int.
static constexpr size_t largestPiece = size_t(1) << 30;

struct Inflater::Stream {
  z_stream state = {};
  Bytes compressed;
  Kind kind;
  uint64_t origin;
  size_t fed = 0;
  uint64_t produced = 0;
  bool ready = false, ended = false;
};

Inflater::Inflater(Bytes compressed, Kind kind, uint64_t origin) : stream(new Stream{{}, compressed, kind, origin}) {
  stream->ready = inflateInit2(&stream->state, kind == Gzip ? 16 + MAX_WBITS : -MAX_WBITS) == Z_OK;
}

Inflater::~Inflater() { inflateEnd(&stream->state); }

uint64_t Inflater::position() const { return stream->origin + stream->fed - stream->state.avail_in; }

Expected<size_t> Inflater::inflateInto(std::span<std::byte> target) {
  z_stream &state = stream->state;
  if (!stream->ready)
    return makeError(Status::Infeasible, "not enough memory to decompress");
  state.next_out = reinterpret_cast<Bytef *>(target.data());
  state.avail_out = static_cast<uInt>(target.size());
  while (state.avail_out != 0 && !stream->ended) {
    if (state.avail_in == 0) {
      Bytes piece =
          stream->compressed.subspan(stream->fed, std::min(largestPiece, stream->compressed.size() - stream->fed));
      state.next_in = reinterpret_cast<Bytef *>(const_cast<std::byte *>(piece.data()));
      state.avail_in = static_cast<uInt>(piece.size());
      stream->fed += piece.size();
    }
    int status = ::inflate(&state, Z_NO_FLUSH);
    if (status == Z_STREAM_END) {
      bool more = state.avail_in != 0 || stream->fed != stream->compressed.size();
      if (stream->kind == Gzip && more)
        inflateReset(&state);
      else
        stream->ended = true;
    } else if (status == Z_BUF_ERROR) {
      break; // the input has ended
    } else if (status != Z_OK) {
      return malformed(position(), "the compressed data is damaged (", state.msg ? state.msg : "unknown reason", ')');
    }
  }
  size_t made = target.size() - state.avail_out;
  stream->produced += made;
  return made;
}

Expected<std::vector<std::byte>> Inflater::read(uint64_t count) {
  if (count > largestRatio * stream->compressed.size() + headerRoom)
    return malformed(position(), "expected ", count, " bytes, which ", stream->compressed.size(),
                     " compressed bytes cannot hold");
  std::vector<std::byte> result;
  while (result.size() != count) {
    size_t before = result.size();
    size_t piece = std::min<uint64_t>({count - before, std::max<size_t>(before, 1 << 16), largestPiece});
    result.resize(before + piece);
    auto made = inflateInto(std::span(result).subspan(before));
    if (!made)
      return made.error();
    if (*made != piece)
      return malformed(position(), "expected ", count, " bytes to decompress, the data ends after ", before + *made);
  }
  return result;
}

Error Inflater::expectEnd() {
  std::byte extra;
  auto made = inflateInto(std::span(&extra, 1));
  if (!made)
    return made.error();
  if (*made != 0)
    return malformed(position(), "expected ", stream->produced - 1, " bytes to decompress, got more");
  if (!stream->ended)
    return malformed(position(), "the compressed data is cut off");
  if (position() != stream->origin + stream->compressed.size())
    return malformed(position(), "expected the end of the compressed data, got more");
  return Error::success();
}

} // namespace cleave::runtime::tensorfile
