// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Between a plan's kernel description and oneDNN's primitive descriptors: checked attributes, arguments bound to
// oneDNN's argument numbers, post operations. The operations (OneDnnOperations.h) are written with it.

#ifndef CLEAVE_RUNTIME_DRIVERS_CPU_ONEDNNBUILDER_H
#define CLEAVE_RUNTIME_DRIVERS_CPU_ONEDNNBUILDER_H

#include "runtime/drivers/cpu/OneDnn.h"

#include <oneapi/dnnl/dnnl.hpp>

#include <span>

namespace cleave::runtime::onednn {

/// Thrown inside the oneDNN files when a description is refused, beside dnnl::error; OneDnn.cpp turns both into errors.
struct Refusal {
  Error error;
};

template <typename... Parts> [[noreturn]] void refuse(Status status, const Parts &...parts) {
  throw Refusal{makeError(status, parts...)};
}

/// How a kernel argument reaches the primitive.
struct Binding {
  /// DNNL_ARG_*, or -1 for an input that is not passed: it is the output buffer itself (`sum`), or a part of the
  /// primitive (`scale`).
  int argument = -1;
  bool isScale = false;
  /// What was asked for; the chosen descriptor once the primitive descriptor is known.
  dnnl::memory::desc memory;
  /// The shape under which oneDNN sees the tensor, and for each of oneDNN's dimensions the one of that shape.
  std::vector<int64_t> view;
  std::vector<unsigned> order;
  bool bound = false, any = false;
  /// In a format of oneDNN's own, of which a plan records nothing but the bytes, as a list of f32.
  bool isPacked = false;
};

/// A primitive descriptor and its arguments, complete.
struct Primitive {
  dnnl::primitive_desc_base desc;
  std::vector<Binding> inputs, outputs;
};

/// Whether the processor adds products of 8-bit integers to 32 bits at once (VNNI). Without, oneDNN adds pairs of them
/// in 16 bits, which saturate.
bool multipliesIntegers();

/// The processor's engine, made once.
const dnnl::engine &engine();

/// Reads a description for one operation. Every method throws Refusal or dnnl::error.
class Builder {
public:
  /// `scales`: what the input of a post operation `scale` holds; where it is not known yet, any, which change neither
  /// layouts nor code.
  explicit Builder(const LibraryKernelQuery &query, std::span<const float> scales = {});

  /// The operation up to the dot ("pooling"), and what follows it ("max").
  const std::string &family() const { return familyName; }
  const std::string &kind() const { return kindName; }
  const LibraryKernelDesc &desc() const { return query.desc; }
  /// Inputs of the operation itself; those of post operations follow.
  size_t numOperands() const { return operands; }
  /// Refuses any other number of operands, and more or less than one output.
  void expectOperands(size_t least, size_t most) const;

  const TensorType &inputType(size_t index) const { return query.desc.inputs[index]; }
  const TensorType &outputType() const { return query.desc.outputs[0]; }
  bool anyInput(size_t index) const { return query.isAnyInput(index); }
  /// Whether oneDNN may choose how an input is packed.
  bool mayPack(size_t index) const {
    return query.isAnyInput(index) && query.isConstant(index) && !query.sharesConstants;
  }
  bool anyOutput() const { return query.isAnyOutput(0); }

  /// The attribute with `count` values in [least, 2^31), or `count` times `fallback`.
  std::vector<int64_t> integers(const char *name, size_t count, int64_t fallback, int64_t least) const;
  int64_t integer(const char *name, int64_t fallback, int64_t least) const {
    return integers(name, 1, fallback, least)[0];
  }
  /// The attribute `axis` (default -1) as a dimension below `rank`.
  int axis(size_t rank) const;
  float real(const char *name, double fallback) const;

  /// Binds an argument to oneDNN's number for it. `view`: the shape for oneDNN where it is not the type's own (a
  /// dense argument only); `order`: oneDNN's dimension i is the view's order[i].
  dnnl::memory::desc input(size_t index, int argument, std::vector<int64_t> view = {},
                           std::vector<unsigned> order = {});
  dnnl::memory::desc output(int argument, std::vector<int64_t> view = {});
  /// As input(), for operations that cannot choose: "any" becomes `substitute`, a layout of the type's shape (none:
  /// dense).
  dnnl::memory::desc inputOr(size_t index, int argument, const std::optional<Layout> &substitute,
                             std::vector<int64_t> view = {});

  /// Binds an argument that for oneDNN has the dimensions `dims` and for the plan is the list of what oneDNN packs them
  /// into.
  dnnl::memory::desc packedInput(size_t index, int argument, const std::vector<int64_t> &dims);
  /// As packedInput(), in a format that is known.
  void packedOutput(int argument, const dnnl::memory::desc &format);

  /// User scratchpad and the post operations; binds their inputs. `view` is the output's shape for oneDNN, in which
  /// dimension `channels` has an element of `scale` each; -1: of operations that have no such post operation.
  dnnl::primitive_attr attributes(const std::vector<int64_t> &view, int channels = -1);
  dnnl::primitive_attr attributes() { return attributes(outputType().shape); }

  /// Refuses unbound arguments and layouts that the primitive did not take as they are.
  Primitive finish(dnnl::primitive_desc_base made);

private:
  void bind(Binding &binding, const TensorType &type, bool any, int argument, std::vector<int64_t> view,
            std::vector<unsigned> order);
  void bindScale(dnnl::primitive_attr &attributes, size_t position, const std::vector<int64_t> &view, int channels);
  void appendBinary(dnnl::post_ops &chain, size_t position, const LibraryPostOp &postOp,
                    const std::vector<int64_t> &view);

  const LibraryKernelQuery &query;
  std::span<const float> scales;
  std::string familyName, kindName;
  size_t operands = 0;
  std::vector<Binding> inputs, outputs;
};

/// The type with `view`'s elements as oneDNN placed them. The original `type` when that is dense row-major.
TensorType typeOf(const Binding &binding, const TensorType &type);

/// The blocked layout that vectorized pooling and normalization want for [N, C, ...], if C is worth a block.
std::optional<Layout> preferredDataLayout(const TensorType &type);

/// The eltwise algorithm of that name with its parameters as oneDNN wants them; nothing for other names.
struct Eltwise {
  dnnl::algorithm algorithm;
  float alpha, beta;
};
std::optional<Eltwise> eltwiseNamed(std::string_view kind, float alpha, float beta);
/// "add", "mul", ...; nothing for other names.
std::optional<dnnl::algorithm> binaryNamed(std::string_view kind);

/// From a filled oneDNN operation descriptor to a primitive descriptor.
template <typename Desc> dnnl::primitive_desc_base describe(const Desc &desc, const dnnl::primitive_attr &attributes) {
  return dnnl::primitive_desc(&desc.data, &attributes, engine(), nullptr, false);
}
/// Of a backward operation, whose code follows that of its `forward` one.
template <typename Desc>
dnnl::primitive_desc_base describe(const Desc &desc, const dnnl::primitive_attr &attributes,
                                   const dnnl::primitive_desc_base &forward) {
  return dnnl::primitive_desc(&desc.data, &attributes, engine(), forward.get(), false);
}

/// `shape` with ones in front, up to `rank` dimensions.
inline std::vector<int64_t> widened(std::vector<int64_t> shape, size_t rank) {
  if (shape.size() < rank)
    shape.insert(shape.begin(), rank - shape.size(), 1);
  return shape;
}

} // namespace cleave::runtime::onednn

#endif // CLEAVE_RUNTIME_DRIVERS_CPU_ONEDNNBUILDER_H
