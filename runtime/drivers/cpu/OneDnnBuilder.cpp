// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attributes, arguments and post operations of a kernel description, checked before oneDNN sees them: a plan's numbers
// may be hostile, and oneDNN divides by strides and multiplies ints.

#include "runtime/drivers/cpu/OneDnnBuilder.h"

#include "runtime/MemoryLayout.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace cleave::runtime::onednn {

using dnnl::memory;

static constexpr int64_t largestInt = std::numeric_limits<int32_t>::max();

bool multipliesIntegers() {
  auto isa = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  return (isa & dnnl_cpu_isa_avx512_core_vnni) == dnnl_cpu_isa_avx512_core_vnni ||
         (isa & dnnl_cpu_isa_avx2_vnni) == dnnl_cpu_isa_avx2_vnni;
}

const dnnl::engine &engine() {
  static const dnnl::engine instance(dnnl::engine::kind::cpu, 0);
  return instance;
}

Builder::Builder(const LibraryKernelQuery &query, std::span<const float> scales) : query(query), scales(scales) {
  const LibraryKernelDesc &desc = query.desc;
  size_t dot = desc.operation.find('.');
  familyName = desc.operation.substr(0, dot);
  kindName = dot == std::string::npos ? "" : desc.operation.substr(dot + 1);
  for (const std::vector<TensorType> *types : {&desc.inputs, &desc.outputs})
    for (const TensorType &type : *types)
      if (Error error = type.check())
        throw Refusal{error};
  size_t extra = std::count_if(desc.postOps.begin(), desc.postOps.end(),
                               [](const LibraryPostOp &postOp) { return postOp.argument >= 0; });
  if (extra > desc.inputs.size())
    refuse(Status::Rejected, "post operations read ", extra, " inputs, got ", desc.inputs.size());
  operands = desc.inputs.size() - extra;
  inputs.resize(desc.inputs.size());
  outputs.resize(desc.outputs.size());
}

void Builder::expectOperands(size_t least, size_t most) const {
  if (operands < least || operands > most)
    refuse(Status::Rejected, "expects ", least, " to ", most, " inputs besides those of post operations, got ",
           operands);
  if (outputs.size() != 1)
    refuse(Status::Rejected, "expects 1 output, got ", outputs.size());
}

std::vector<int64_t> Builder::integers(const char *name, size_t count, int64_t fallback, int64_t least) const {
  auto found = desc().ints.find(name);
  if (found == desc().ints.end() || (found->second.empty() && count != 0))
    return std::vector<int64_t>(count, fallback);
  if (found->second.size() != count)
    refuse(Status::Rejected, "attribute \"", name, "\" expects ", count, " values, got ", found->second.size());
  for (int64_t value : found->second)
    if (value < least || value > largestInt)
      refuse(Status::Rejected, "attribute \"", name, "\" expects values from ", least, " to ", largestInt, ", got ",
             value);
  return found->second;
}

int Builder::axis(size_t rank) const {
  int64_t axis = integer("axis", -1, -static_cast<int64_t>(rank));
  if (axis < 0)
    axis += rank;
  if (axis < 0 || axis >= static_cast<int64_t>(rank))
    refuse(Status::Rejected, "attribute \"axis\" expects one of ", rank, " dimensions, got ", axis);
  return static_cast<int>(axis);
}

float Builder::real(const char *name, double fallback) const {
  auto found = desc().reals.find(name);
  if (found == desc().reals.end())
    return static_cast<float>(fallback);
  if (found->second.size() != 1 || std::isnan(found->second[0]))
    refuse(Status::Rejected, "attribute \"", name, "\" expects one number");
  return static_cast<float>(found->second[0]);
}

static memory::data_type dataType(ElementType type) {
  switch (type) {
  case ElementType::I1:
  case ElementType::U8:
    return memory::data_type::u8;
  case ElementType::I8:
    return memory::data_type::s8;
  case ElementType::I32:
    return memory::data_type::s32;
  case ElementType::F16:
    return memory::data_type::f16;
  case ElementType::BF16:
    return memory::data_type::bf16;
  case ElementType::F32:
    return memory::data_type::f32;
  default:
    refuse(Status::Unsupported, "onednn has no element type ", elementName(type));
  }
}

/// A descriptor of `dims` with oneDNN's dimension i taken from the layout's order[i].
static memory::desc descriptor(const Layout &layout, const memory::dims &dims, memory::data_type type,
                               const std::vector<unsigned> &order) {
  if (layout.innerBlocks.size() > DNNL_MAX_NDIMS)
    refuse(Status::Unsupported, "a layout has ", layout.innerBlocks.size(), " inner blocks, onednn takes at most ",
           DNNL_MAX_NDIMS);
  memory::desc result(dims, type, memory::dims());
  dnnl_blocking_desc_t &blocking = result.data.format_desc.blocking;
  std::vector<unsigned> position(order.size());
  for (size_t i = 0; i != order.size(); ++i) {
    position[order[i]] = i;
    result.data.padded_dims[i] = layout.padded[order[i]];
    blocking.strides[i] = layout.strides[order[i]];
  }
  blocking.inner_nblks = static_cast<int>(layout.innerBlocks.size());
  for (size_t i = 0; i != layout.innerBlocks.size(); ++i) {
    blocking.inner_blks[i] = layout.innerBlocks[i];
    blocking.inner_idxs[i] = position[layout.innerDims[i]];
  }
  return result;
}

void Builder::bind(Binding &binding, const TensorType &type, bool any, int argument, std::vector<int64_t> view,
                   std::vector<unsigned> order) {
  if (view.empty())
    view = type.shape.empty() ? std::vector<int64_t>{1} : type.shape;
  if (view.size() > DNNL_MAX_NDIMS)
    refuse(Status::Unsupported, type.text(), " has more than ", DNNL_MAX_NDIMS, " dimensions");
  for (int64_t size : view)
    if (size < 1 || size > largestInt)
      refuse(Status::Unsupported, type.text(), " has a dimension of size ", size, ", onednn takes 1 to ", largestInt);
  TensorType seen{type.element, view, type.layout};
  if (view != type.shape) {
    if (any && type.layout)
      refuse(Status::Rejected, type.text(), " has a layout and leaves it open at the same time");
    if (!isDense(type) || seen.elementCount() != type.elementCount())
      refuse(Status::Rejected, type.text(), " expects the type ", TensorType{type.element, view, {}}.text(),
             " or a dense one with as many elements");
    seen.layout.reset();
  }
  if (order.empty()) {
    order.resize(view.size());
    std::iota(order.begin(), order.end(), 0u);
  }
  memory::dims dims(view.size());
  for (size_t i = 0; i != order.size(); ++i)
    dims[i] = view[order[i]];
  memory::data_type element = dataType(type.element);
  binding.memory = any ? memory::desc(dims, element, memory::format_tag::any)
                       : descriptor(seen.layout ? *seen.layout : denseLayout(view), dims, element, order);
  binding.argument = argument;
  binding.any = any;
  binding.view = std::move(view);
  binding.order = std::move(order);
  binding.bound = true;
}

memory::desc Builder::input(size_t index, int argument, std::vector<int64_t> view, std::vector<unsigned> order) {
  bind(inputs[index], inputType(index), anyInput(index), argument, std::move(view), std::move(order));
  return inputs[index].memory;
}

memory::desc Builder::output(int argument, std::vector<int64_t> view) {
  bind(outputs[0], outputType(), anyOutput(), argument, std::move(view), {});
  return outputs[0].memory;
}

memory::desc Builder::inputOr(size_t index, int argument, const std::optional<Layout> &substitute,
                              std::vector<int64_t> view) {
  if (!anyInput(index))
    return input(index, argument, std::move(view));
  TensorType type = inputType(index);
  type.layout = substitute;
  bind(inputs[index], type, false, argument, std::move(view), {});
  inputs[index].any = true;
  return inputs[index].memory;
}

memory::desc Builder::packedInput(size_t index, int argument, const std::vector<int64_t> &dims) {
  Binding &binding = inputs[index];
  binding.memory = memory::desc(dims, memory::data_type::f32, memory::format_tag::any);
  binding.argument = argument;
  binding.any = anyInput(index);
  binding.bound = binding.isPacked = true;
  return binding.memory;
}

void Builder::packedOutput(int argument, const memory::desc &format) {
  Binding &binding = outputs[0];
  binding.memory = format;
  binding.argument = argument;
  binding.any = anyOutput();
  binding.bound = binding.isPacked = true;
}

/// The shape under which a post operation's input meets an output of shape `view`: as many dimensions, ones in front.
static std::vector<int64_t> broadcastView(const TensorType &type, const std::vector<int64_t> &view) {
  TensorType whole{type.element, view, {}};
  if (type.shape.size() != view.size() && type.elementCount() == whole.elementCount())
    return view;
  std::vector<int64_t> shape = type.shape;
  while (shape.size() > view.size() && shape.front() == 1)
    shape.erase(shape.begin());
  if (shape.size() < view.size())
    shape.insert(shape.begin(), view.size() - shape.size(), 1);
  return shape;
}

void Builder::appendBinary(dnnl::post_ops &chain, size_t position, const LibraryPostOp &postOp,
                           const std::vector<int64_t> &view) {
  auto algorithm = binaryNamed(std::string_view(postOp.kind).substr(7));
  if (!algorithm)
    refuse(Status::Unsupported, "onednn has no post operation \"", postOp.kind, '"');
  int argument = DNNL_ARG_ATTR_MULTIPLE_POST_OP(static_cast<int>(position)) | DNNL_ARG_SRC_1;
  chain.append_binary(*algorithm, input(postOp.argument, argument, broadcastView(inputType(postOp.argument), view)));
}

void Builder::bindScale(dnnl::primitive_attr &attributes, size_t position, const std::vector<int64_t> &view,
                        int channels) {
  int input = desc().postOps[position].argument;
  const TensorType &type = inputType(input);
  uint64_t count = *type.elementCount();
  if (position != 0 || channels < 0 || !isDense(type) || type.element != ElementType::F32 ||
      (count != 1 && count != static_cast<uint64_t>(view[channels])))
    refuse(Status::Rejected,
           "post operation \"scale\" expects to be the first, of a contraction, with an input of one "
           "f32 or one a channel, got ",
           type.text());
  std::vector<float> values(count, 0.5f);
  if (!scales.empty())
    std::copy_n(scales.begin(), count, values.begin());
  attributes.set_output_scales(count == 1 ? 0 : 1 << channels, values);
  inputs[input].bound = inputs[input].isScale = true;
}

dnnl::primitive_attr Builder::attributes(const std::vector<int64_t> &view, int channels) {
  dnnl::post_ops chain;
  dnnl::primitive_attr result;
  int appended = 0;
  for (size_t i = 0; i != desc().postOps.size(); ++i) {
    const LibraryPostOp &postOp = desc().postOps[i];
    bool reads = postOp.kind == "sum" || postOp.kind == "scale" || postOp.kind.starts_with("binary_");
    if (reads != (postOp.argument >= 0))
      refuse(Status::Rejected, "post operation \"", postOp.kind, "\" expects ", reads ? "an" : "no", " input, got ",
             postOp.argument);
    if (reads && (postOp.argument < static_cast<int64_t>(operands) ||
                  postOp.argument >= static_cast<int64_t>(inputs.size()) || inputs[postOp.argument].bound))
      refuse(Status::Rejected, "post operation \"", postOp.kind, "\" expects an input of its own from ", operands,
             " to ", inputs.size() - 1, ", got ", postOp.argument);
    if (postOp.kind == "scale") {
      bindScale(result, i, view, channels);
      continue;
    }
    if (postOp.kind == "sum") {
      chain.append_sum(postOp.alpha == 0 ? 1.0f : postOp.alpha);
      inputs[postOp.argument].bound = true;
    } else if (reads) {
      appendBinary(chain, appended, postOp, view);
    } else if (auto eltwise = eltwiseNamed(postOp.kind, postOp.alpha, postOp.beta)) {
      chain.append_eltwise(1.0f, eltwise->algorithm, eltwise->alpha, eltwise->beta);
    } else {
      refuse(Status::Unsupported, "onednn has no post operation \"", postOp.kind, '"');
    }
    ++appended;
  }
  result.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  result.set_post_ops(chain);
  return result;
}

/// The plan's type of what oneDNN packs.
static TensorType packedType(const memory::desc &format) {
  return {ElementType::F32, {static_cast<int64_t>(format.get_size() / sizeof(float))}, std::nullopt};
}

TensorType typeOf(const Binding &binding, const TensorType &type) {
  if (binding.isPacked)
    return packedType(binding.memory);
  const dnnl_memory_desc_t &data = binding.memory.data;
  if (data.format_kind != dnnl_blocked || data.extra.flags != dnnl_memory_extra_flag_none || data.offset0 != 0)
    refuse(Status::Unsupported, "onednn chose a layout for ", type.text(), " that a plan cannot record");
  const dnnl_blocking_desc_t &blocking = data.format_desc.blocking;
  Layout layout;
  layout.padded.resize(binding.view.size());
  layout.strides.resize(binding.view.size());
  for (size_t i = 0; i != binding.order.size(); ++i) {
    layout.padded[binding.order[i]] = data.padded_dims[i];
    layout.strides[binding.order[i]] = blocking.strides[i];
  }
  for (int i = 0; i != blocking.inner_nblks; ++i) {
    layout.innerBlocks.push_back(blocking.inner_blks[i]);
    layout.innerDims.push_back(static_cast<int32_t>(binding.order[blocking.inner_idxs[i]]));
  }
  TensorType result{type.element, binding.view, std::move(layout)};
  // Blocks of a single pixel and channels-last images of one channel have row-major bytes, too, but oneDNN tells them
  // apart when the plan is loaded, and may have fast code for the one and plain loops for the other.
  return isPlain(result) ? TensorType{type.element, type.shape, std::nullopt} : result;
}

/// Takes the layout that the primitive wants for an argument, which must be the given one where one was given.
static void settleBinding(Binding &binding, const TensorType &type, const dnnl::primitive_desc_base &made,
                          const char *what, size_t index) {
  if (!binding.bound)
    refuse(Status::Rejected, what, ' ', index, " is not used");
  if (binding.argument < 0)
    return;
  Binding wanted = binding;
  wanted.memory = made.query_md(dnnl::query::exec_arg_md, binding.argument);
  if (binding.isPacked) {
    if (!binding.any && type != packedType(wanted.memory))
      refuse(Status::Unsupported, what, ' ', index, " expects ", packedType(wanted.memory).text(), ", got ",
             type.text(), ": the plan was made for another processor, compile it on this machine");
    binding = std::move(wanted);
    return;
  }
  if (wanted.memory.data.ndims != static_cast<int>(binding.view.size()))
    refuse(Status::Unsupported, "onednn takes no ", what, ' ', index);
  TensorType has = binding.any ? TensorType() : typeOf(binding, type), wants = typeOf(wanted, type);
  if (!binding.any && (has.shape != wants.shape || needsReorder(has, wants)))
    refuse(Status::Unsupported, what, ' ', index, " expects layout ", layoutText(wants), ", got ", layoutText(has),
           ": reorder it first");
  binding = std::move(wanted);
}

Primitive Builder::finish(dnnl::primitive_desc_base made) {
  for (size_t i = 0; i != inputs.size(); ++i)
    settleBinding(inputs[i], inputType(i), made, "input", i);
  settleBinding(outputs[0], outputType(), made, "output", 0);
  for (size_t i = 0; i != inputs.size(); ++i) {
    if (inputs[i].argument >= 0 || inputs[i].isScale)
      continue;
    bool any = anyInput(i) || anyOutput();
    if (any ? inputType(i).shape != outputType().shape || inputType(i).element != outputType().element
            : inputType(i) != outputType())
      refuse(Status::Rejected, "input ", i, " is added to by \"sum\" and expects the output's type ",
             outputType().text(), ", got ", inputType(i).text());
    inputs[i].memory = outputs[0].memory;
    inputs[i].view = outputs[0].view;
    inputs[i].order = outputs[0].order;
    inputs[i].any = any;
  }
  return Primitive{std::move(made), std::move(inputs), std::move(outputs)};
}

std::optional<Layout> preferredDataLayout(const TensorType &type) {
  int64_t block = dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_mic ? 16 : 8;
  if (type.shape.size() < 3 || type.shape[1] < block)
    return std::nullopt;
  return blockedLayout(type.shape, 1, block);
}

} // namespace cleave::runtime::onednn
