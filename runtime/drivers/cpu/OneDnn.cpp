// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Choosing layouts at compile time and running kernels: both build the same primitive descriptor from a description.

#include "runtime/drivers/cpu/OneDnn.h"

#include "runtime/drivers/cpu/GatheredProducts.h"
#include "runtime/drivers/cpu/IntegerProducts.h"
#include "runtime/drivers/cpu/OneDnnOperations.h"
#include "runtime/drivers/cpu/OneDnnWinograd.h"
#include "runtime/drivers/cpu/WinogradTiles.h"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace cleave::runtime {

using namespace onednn;

namespace {

/// Sets the calling thread's OpenMP team size, which oneDNN reads when it plans a kernel and when it runs it.
class TeamSize {
public:
  explicit TeamSize(unsigned threads) : before(omp_get_max_threads()) {
    if (static_cast<int>(threads) != before)
      omp_set_num_threads(static_cast<int>(threads));
    changed = static_cast<int>(threads) != before;
  }
  ~TeamSize() {
    if (changed)
      omp_set_num_threads(before);
  }
  TeamSize(const TeamSize &) = delete;
  TeamSize &operator=(const TeamSize &) = delete;

private:
  int before;
  bool changed;
};

struct Operation {
  std::string_view family;
  onednn::Primitive (*build)(Builder &);
};

constexpr Operation operations[] = {
    {"convolution", buildConvolution},
    {"convolution_weights", buildConvolutionWeights},
    {"deconvolution", buildDeconvolution},
    {"winograd_weights", buildWinogradWeights},
    {"matmul", buildMatmul},
    {"inner_product", buildInnerProduct},
    {"pooling", buildPooling},
    {"pooling_gradient", buildPoolingGradient},
    {"reduction", buildReduction},
    {"softmax", buildSoftmax},
    {"log_softmax", buildSoftmax},
    {"layer_norm", buildLayerNorm},
    {"batch_norm", buildBatchNorm},
    {"lrn", buildLrn},
    {"eltwise", buildEltwise},
    {"binary", buildBinary},
    {"sum", buildSum},
    {"concat", buildConcat},
    {"reorder", buildReorder},
};

onednn::Primitive build(const LibraryKernelQuery &query, std::span<const float> scales = {}) {
  Builder builder(query, scales);
  for (const Operation &operation : operations)
    if (operation.family == builder.family())
      return operation.build(builder);
  refuse(Status::Unsupported, "onednn has no such operation");
}

/// Calls `body`, which returns an Error or an Expected<T>, and turns whatever it throws into an error that names the
/// kernel.
template <typename Body> auto guarded(const LibraryKernelDesc &desc, const Body &body) -> decltype(body()) {
  auto fail = [&](Status status, const auto &...parts) {
    return makeError(status, "onednn kernel ", desc.text(), ": ", parts...);
  };
  try {
    return body();
  } catch (const Refusal &refusal) {
    return fail(refusal.error.status(), refusal.error.message());
  } catch (const dnnl::error &error) {
    if (error.status == dnnl_unimplemented)
      return fail(Status::Unsupported, "not available on this processor or in these layouts; a plan made on another "
                                       "machine has to be compiled on this one");
    if (error.status == dnnl_invalid_arguments)
      return fail(Status::Rejected, "shapes and attributes contradict each other (", error.message, ')');
    return fail(error.status == dnnl_out_of_memory ? Status::Infeasible : Status::Failure, error.message, ", status ",
                static_cast<int>(error.status));
  } catch (const std::bad_alloc &) {
    return fail(Status::Infeasible, "not enough memory");
  } catch (const std::length_error &) { // of a list of oneDNN's own
    return fail(Status::Infeasible, "larger than onednn can plan");
  }
}

/// A primitive with its memory objects, made once; a call updates the addresses that changed. Where scales are a part
/// of it, it is made when a call brings them.
class Kernel final : public LibraryKernelInstance {
public:
  Kernel(const LibraryKernelDesc &desc, const Primitive &primitive, unsigned threads)
      : desc(desc), threads(threads), stream(engine()) {
    size_t numInputs = primitive.inputs.size(), index = 0;
    for (const Binding &binding : primitive.inputs) {
      if (binding.isScale)
        scaleInput = index;
      else if (binding.argument < 0)
        inPlace.emplace_back(index, numInputs);
      else
        addSlot(binding.argument, binding.memory, index);
      ++index;
    }
    for (const Binding &binding : primitive.outputs)
      addSlot(binding.argument, binding.memory, index++);
    if (primitive.desc.scratchpad_desc().get_size() != 0)
      addSlot(DNNL_ARG_SCRATCHPAD, primitive.desc.scratchpad_desc(), index);
    for (const Slot &slot : slots)
      executionArguments.push_back({slot.argument, slot.memory.get()});
    if (!scaleInput)
      function = dnnl::primitive(primitive.desc.get());
  }

  Error run(void *const *arguments) override {
    for (auto [input, output] : inPlace)
      if (arguments[input] != arguments[output])
        return makeError(Status::Internal, "onednn kernel ", desc.operation,
                         " adds to its output, which expects input ", input, " in the output's buffer");
    TeamSize team(threads);
    if (scaleInput)
      if (Error error = takeScales(static_cast<const float *>(arguments[*scaleInput])))
        return error;
    for (Slot &slot : slots) {
      void *address = arguments[slot.index];
      if (address == slot.address)
        continue;
      if (dnnl_status_t status = dnnl_memory_set_data_handle_v2(slot.memory.get(), address, stream.get()))
        return failure(status);
      slot.address = address;
    }
    dnnl_status_t status = dnnl_primitive_execute(
        function.get(), stream.get(), static_cast<int>(executionArguments.size()), executionArguments.data());
    if (status == dnnl_success)
      status = dnnl_stream_wait(stream.get());
    return status == dnnl_success ? Error::success() : failure(status);
  }

private:
  struct Slot {
    int argument;
    dnnl::memory memory;
    size_t index;
    void *address;
  };

  /// Makes the primitive with these scales, unless it was made with them.
  Error takeScales(const float *values) {
    size_t count = *desc.inputs[*scaleInput].elementCount();
    if (scales.size() == count && std::memcmp(scales.data(), values, count * sizeof(float)) == 0)
      return Error::success();
    return guarded(desc, [&]() -> Error {
      std::vector<float> taken(values, values + count);
      function = dnnl::primitive(build({desc, {}, {}}, taken).desc.get());
      scales = std::move(taken);
      return Error::success();
    });
  }

  void addSlot(int argument, const dnnl::memory::desc &desc, size_t index) {
    slots.push_back({argument, dnnl::memory(desc, engine(), DNNL_MEMORY_NONE), index, nullptr});
  }

  Error failure(dnnl_status_t status) const {
    return makeError(Status::Failure, "onednn kernel ", desc.operation, " failed with status ",
                     static_cast<int>(status));
  }

  LibraryKernelDesc desc;
  unsigned threads;
  dnnl::primitive function;
  dnnl::stream stream;
  std::vector<Slot> slots;
  std::vector<dnnl_exec_arg_t> executionArguments;
  std::optional<size_t> scaleInput;
  std::vector<float> scales;
  /// Pairs of argument indices that must be one buffer.
  std::vector<std::pair<size_t, size_t>> inPlace;
};

/// Refuses a kernel for which the plan reserved too little.
Error checkScratch(uint64_t scratch, const LibraryKernelDesc &desc, unsigned threads) {
  if (scratch <= desc.scratchBytes)
    return Error::success();
  return makeError(Status::Infeasible, "onednn kernel ", desc.text(), ": expects ", scratch,
                   " bytes of scratch on this processor with ", threads, " threads, got ", desc.scratchBytes,
                   ": the plan was made for another processor or number of cores, compile it on this machine");
}

/// A kernel that plans nothing, on a team of its own size.
class OnTeam final : public LibraryKernelInstance {
public:
  OnTeam(std::unique_ptr<LibraryKernelInstance> kernel, unsigned threads)
      : kernel(std::move(kernel)), threads(threads) {}
  Error run(void *const *arguments) override {
    TeamSize team(threads);
    return kernel->run(arguments);
  }

private:
  std::unique_ptr<LibraryKernelInstance> kernel;
  unsigned threads;
};

class Provider final : public LibraryProvider {
public:
  Expected<std::unique_ptr<LibraryKernelInstance>> load(const LibraryKernelDesc &desc, unsigned threads) override {
    TeamSize team(std::max(threads, 1u));
    using Result = Expected<std::unique_ptr<LibraryKernelInstance>>;
    if (isGatheredProduct(desc)) {
      Expected<uint64_t> scratch = gatheredProductScratch(desc, 1);
      if (!scratch)
        return scratch.error();
      if (Error error = checkScratch(*scratch, desc, threads))
        return error;
      return std::unique_ptr<LibraryKernelInstance>(
          new OnTeam(makeGatheredProduct(desc, std::max(threads, 1u)), std::max(threads, 1u)));
    }
    if (isTileConvolution(desc)) {
      auto kernel = makeTileConvolution(desc);
      if (!kernel)
        return kernel.error();
      return std::unique_ptr<LibraryKernelInstance>(new OnTeam(std::move(*kernel), std::max(threads, 1u)));
    }
    return guarded(desc, [&]() -> Result {
      if (isIntegerProduct(desc))
        return std::unique_ptr<LibraryKernelInstance>(
            new OnTeam(makeIntegerProduct(desc, std::max(threads, 1u)), std::max(threads, 1u)));
      LibraryKernelQuery query{desc, {}, {}};
      onednn::Primitive primitive = build(query);
      uint64_t scratch = primitive.desc.scratchpad_desc().get_size();
      if (Error error = checkScratch(scratch, desc, threads))
        return error;
      return std::unique_ptr<LibraryKernelInstance>(new Kernel(desc, primitive, std::max(threads, 1u)));
    });
  }
};

/// Takes the types with the layouts that the primitive has, and the bytes of their buffers.
void settle(const std::vector<Binding> &bindings, std::vector<TensorType> &types, std::vector<uint64_t> &bytes) {
  for (size_t i = 0; i != bindings.size(); ++i) {
    if (bindings[i].any)
      types[i] = typeOf(bindings[i], types[i]);
    bytes.push_back(std::max<uint64_t>(bindings[i].memory.get_size(), *types[i].byteSize()));
  }
}

/// oneDNN's names for its code: plain loops ("simple_layer_normalization" is not among them), and convolution by way of
/// a matrix product. A matrix product by way of one is no detour.
KernelQuality qualityOf(std::string_view family, std::string_view implementation) {
  if (implementation.starts_with("ref") || implementation.starts_with("simple:") ||
      implementation.starts_with("simple_n"))
    return KernelQuality::Plain;
  bool isConvolution = family.find("convolution") != std::string_view::npos;
  return isConvolution && implementation.find("gemm") != std::string_view::npos ? KernelQuality::Indirect
                                                                                : KernelQuality::Good;
}

/// Whether such code computes a post operation where it has the result in registers. All other code takes relu, sums
/// and scales in a pass over the result, and interprets the rest one element after the other: an addition takes 70 ns
/// an element.
bool fusesPostOp(KernelQuality quality, const LibraryPostOp &postOp) {
  return quality == KernelQuality::Good || postOp.kind == "relu" || postOp.kind == "sum" || postOp.kind == "scale";
}

class Library final : public KernelLibrary {
public:
  std::string_view name() const override { return "onednn"; }
  bool choosesLayouts() const override { return true; }

  Expected<LibraryChoice> choose(const LibraryKernelQuery &query, unsigned threads) const override {
    if (isGatheredProduct(query.desc))
      return chooseGathered(query.desc, std::max(threads, 1u));
    TeamSize team(std::max(threads, 1u));
    return guarded(query.desc, [&]() -> Expected<LibraryChoice> {
      if (wantsIntegerProduct(query.desc))
        return chooseIntegerProduct(query, std::max(threads, 1u));
      // oneDNN 2.6 computes the second of two elementwise post operations with the constants of the first.
      if (std::count_if(query.desc.postOps.begin(), query.desc.postOps.end(),
                        [](const LibraryPostOp &postOp) { return postOp.argument < 0; }) > 1)
        refuse(Status::Unsupported, "expects at most 1 post operation that reads no input");
      std::optional<LibraryKernelQuery> tiles = inWinogradTiles(query);
      if (!tiles)
        return choosePrimitive(query);
      auto choice = ifAvailable(*tiles);
      if (choice && isFasterUnpacked(*choice)) {
        tiles->constantInputs.clear();
        if (auto unpacked = ifAvailable(*tiles))
          return *unpacked;
      }
      if (choice)
        return *choice;
      LibraryKernelQuery open = withOpenLayouts(*tiles);
      bool needsOtherLayouts = ifAvailable(open).has_value();
      if (!needsOtherLayouts && !query.desc.postOps.empty() && ifAvailable(withoutPostOps(open)))
        refuse(Status::Unsupported, "takes less by Winograd's algorithm, which has no such post operations");
      LibraryChoice direct = choosePrimitive(query);
      if (needsOtherLayouts && direct.quality == KernelQuality::Good)
        direct.quality = KernelQuality::Indirect;
      return direct;
    });
  }

private:
  /// Throws where oneDNN refuses the query.
  static LibraryChoice choosePrimitive(const LibraryKernelQuery &query) {
    if (query.desc.operation == "convolution.winograd" && takesOwnTiles()) {
      auto choice = chooseTileConvolution(query);
      if (!choice)
        throw Refusal{choice.error()};
      return *choice;
    }
    onednn::Primitive primitive = build(query);
    LibraryChoice choice{query.desc, {}, {}};
    settle(primitive.inputs, choice.desc.inputs, choice.inputBytes);
    settle(primitive.outputs, choice.desc.outputs, choice.outputBytes);
    choice.desc.library = "onednn";
    for (size_t i = 0; i != primitive.inputs.size(); ++i)
      if (primitive.inputs[i].isPacked) {
        LibraryKernelDesc packing = packingOf(choice.desc, query.desc.inputs[i], primitive.inputs[i].memory);
        packing.scratchBytes = build({packing, {}, {}}).desc.scratchpad_desc().get_size();
        choice.packings.emplace(i, std::move(packing));
      }
    // What counts is the kernel that the runtime gets when it asks with the layouts as they are recorded.
    onednn::Primitive recorded = build({choice.desc, {}, {}});
    choice.desc.scratchBytes = recorded.desc.scratchpad_desc().get_size();
    choice.desc.implementation = recorded.desc.impl_info_str();
    choice.quality = qualityOf(Builder(query).family(), choice.desc.implementation);
    for (const LibraryPostOp &postOp : query.desc.postOps)
      if (!fusesPostOp(choice.quality, postOp))
        refuse(Status::Unsupported, "implementation ", choice.desc.implementation, " computes post operation \"",
               postOp.kind, "\" one element after the other");
    return choice;
  }

  static std::optional<LibraryChoice> ifAvailable(const LibraryKernelQuery &query) {
    try {
      return choosePrimitive(query);
    } catch (const Refusal &) {
    } catch (const dnnl::error &) {
    }
    return std::nullopt;
  }

  /// The query with every layout left to the library.
  static LibraryKernelQuery withOpenLayouts(LibraryKernelQuery query) {
    for (std::vector<TensorType> *types : {&query.desc.inputs, &query.desc.outputs})
      for (TensorType &type : *types)
        type.layout.reset();
    query.anyInputs = {true, true};
    query.anyOutputs = {true};
    for (size_t i = 2; i < query.desc.inputs.size(); ++i)
      query.anyInputs.push_back(query.desc.inputs[i].shape == query.desc.outputs[0].shape);
    return query;
  }

  static LibraryKernelQuery withoutPostOps(LibraryKernelQuery query) {
    for (const LibraryPostOp &postOp : query.desc.postOps)
      if (postOp.argument >= 0)
        query.desc.inputs.pop_back();
    query.desc.postOps.clear();
    return query;
  }

  /// Everything is dense.
  static Expected<LibraryChoice> chooseGathered(const LibraryKernelDesc &desc, unsigned threads) {
    Expected<uint64_t> scratch = gatheredProductScratch(desc, threads);
    if (!scratch)
      return scratch.error();
    LibraryChoice choice{desc, {}, {}};
    for (const TensorType &type : desc.inputs)
      choice.inputBytes.push_back(*type.byteSize());
    choice.outputBytes.push_back(*desc.outputs[0].byteSize());
    choice.desc.library = "onednn";
    choice.desc.scratchBytes = *scratch;
    choice.desc.implementation = "sgemm";
    return choice;
  }
};

} // namespace

std::unique_ptr<LibraryProvider> createOneDnnProvider() { return std::make_unique<Provider>(); }

const KernelLibrary &oneDnnLibrary() {
  static const Library library;
  return library;
}

} // namespace cleave::runtime
