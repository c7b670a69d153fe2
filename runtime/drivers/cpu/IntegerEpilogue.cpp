// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rounds where other libraries round: after each operation, without joined products and sums.

#include "runtime/drivers/cpu/IntegerEpilogue.h"

#include "runtime/MemoryLayout.h"

#include <algorithm>
#include <cstring>
#include <immintrin.h>

namespace cleave::runtime::integers {

using onednn::refuse;

Epilogue::Operand Epilogue::operandOf(const LibraryKernelDesc &desc, const LibraryPostOp &postOp,
                                      size_t channelDim) const {
  if (postOp.argument < 0 || postOp.argument >= static_cast<int64_t>(desc.inputs.size()))
    refuse(Status::Rejected, "post operation \"", postOp.kind, "\" expects an input, got ", postOp.argument);
  const TensorType &type = desc.inputs[postOp.argument], &result = desc.outputs[0];
  if (type.element != ElementType::F32)
    refuse(Status::Unsupported, "post operation \"", postOp.kind, "\" expects f32, got ", type.text());
  if (type.elementCount() == uint64_t(1))
    return Operand::One;
  std::vector<int64_t> shape = onednn::widened(type.shape, result.shape.size());
  if (shape == result.shape)
    return Operand::Whole;
  std::vector<int64_t> channels(result.shape.size(), 1);
  channels[channelDim] = result.shape[channelDim];
  bool isList = postOp.kind == "scale" && type.shape == std::vector{result.shape[channelDim]};
  if ((shape != channels && !isList) || !isDense(type))
    refuse(Status::Unsupported, "post operation \"", postOp.kind,
           "\" expects one value, one a channel or one for each of the result's, got ", type.text());
  return Operand::Channels;
}

Epilogue::Epilogue(const LibraryKernelDesc &desc, int bias, size_t channelDim)
    : bias(bias), output(static_cast<int>(desc.inputs.size())), element(desc.outputs[0].element) {
  if (bias >= 0) {
    const TensorType &type = desc.inputs[bias];
    biasIsInteger = type.element == ElementType::I32;
    if (type.elementCount() != static_cast<uint64_t>(desc.outputs[0].shape[channelDim]) || !isDense(type) ||
        (!biasIsInteger && type.element != ElementType::F32))
      refuse(Status::Unsupported, "bias expects one i32 or f32 a channel, got ", type.text());
  }
  bool isInteger = element == ElementType::I32;
  if (!isInteger && element != ElementType::F32 && element != ElementType::U8 && element != ElementType::I8)
    refuse(Status::Unsupported, "result expects i32, f32 or integers of 8 bits, got ", desc.outputs[0].text());
  // Integers that pass through float32 would be rounded.
  if (isInteger && (!desc.postOps.empty() || (bias >= 0 && !biasIsInteger)))
    refuse(Status::Unsupported, "results i32 expect no post operations, and a bias i32");
  if (desc.postOps.size() > Panel::mostSteps)
    refuse(Status::Unsupported, "expects at most ", Panel::mostSteps, " post operations");
  constexpr std::pair<std::string_view, Kind> binary[] = {
      {"scale", Kind::Mul},      {"binary_add", Kind::Add}, {"binary_sub", Kind::Sub}, {"binary_mul", Kind::Mul},
      {"binary_div", Kind::Div}, {"binary_max", Kind::Max}, {"binary_min", Kind::Min}, {"sum", Kind::Add}};
  constexpr std::pair<std::string_view, Kind> unary[] = {
      {"relu", Kind::Relu}, {"clip", Kind::Clip}, {"round", Kind::Round}, {"linear", Kind::Linear}};
  auto find = [](auto &table, std::string_view kind) {
    auto found = std::find_if(std::begin(table), std::end(table), [&](auto &entry) { return entry.first == kind; });
    return found == std::end(table) ? std::nullopt : std::optional(found->second);
  };
  for (const LibraryPostOp &postOp : desc.postOps) {
    if (auto kind = find(unary, postOp.kind)) {
      if (postOp.argument >= 0)
        refuse(Status::Rejected, "post operation \"", postOp.kind, "\" expects no input");
      steps.push_back({*kind, Operand::None, -1, postOp.alpha, postOp.beta});
    } else if (auto kind = find(binary, postOp.kind)) {
      Operand operand = operandOf(desc, postOp, channelDim);
      if (postOp.kind == "scale" && (!steps.empty() || operand == Operand::Whole))
        refuse(Status::Rejected,
               "post operation \"scale\" expects to be the first, with an input of one f32 or one a channel");
      if (postOp.kind == "sum") {
        if (element != ElementType::F32 || (postOp.alpha != 0 && postOp.alpha != 1) ||
            desc.inputs[postOp.argument].shape != desc.outputs[0].shape)
          refuse(Status::Unsupported, "post operation \"sum\" expects results f32 and a factor of 1");
        sums.push_back(postOp.argument);
        operand = Operand::Whole;
      }
      steps.push_back({*kind, operand, postOp.argument});
    } else {
      refuse(Status::Unsupported, "has no post operation \"", postOp.kind, "\" for integers");
    }
  }
}

bool Epilogue::readsWhole(size_t index) const {
  return std::any_of(steps.begin(), steps.end(), [&](const Step &step) {
    return step.operand == Operand::Whole && step.argument == static_cast<int>(index);
  });
}

void Epilogue::Panel::begin(int64_t first, int64_t count) {
  this->count = count;
  if (epilogue.bias >= 0) {
    void *to = epilogue.biasIsInteger ? static_cast<void *>(added) : biases;
    std::memcpy(to, static_cast<const float *>(arguments[epilogue.bias]) + first,
                static_cast<size_t>(count) * sizeof(float));
  }
  for (size_t i = 0; i != epilogue.steps.size(); ++i) {
    const Step &step = epilogue.steps[i];
    auto *from = step.argument < 0 ? nullptr : static_cast<const float *>(arguments[step.argument]);
    if (step.operand == Operand::One)
      std::fill_n(values[i], panelColumns, from[0]);
    else if (step.operand == Operand::Channels)
      std::copy_n(from + first, count, values[i]);
  }
}

/// Eight results after one operation.
#define CLEAVE_STEP(KIND, EXPRESSION)                                                                                  \
  case Kind::KIND:                                                                                                     \
    x = EXPRESSION;                                                                                                    \
    break

CLEAVE_AVX2 void Epilogue::Panel::finish(const int32_t *sums, int64_t offset, int64_t step) const {
  bool isWhole = count == panelColumns && step == 1;
  void *output = arguments[epilogue.output];
  auto store = [&](const auto *results) {
    auto *to = static_cast<std::remove_const_t<std::remove_pointer_t<decltype(results)>> *>(output) + offset;
    if (isWhole) {
      std::memcpy(to, results, panelColumns * sizeof *results);
      return;
    }
    for (int64_t i = 0; i != count; ++i)
      to[i * step] = results[i];
  };
  alignas(32) int32_t integers[panelColumns];
  alignas(32) float reals[panelColumns];
  for (int64_t half = 0; half != panelColumns; half += 8) {
    __m256i sum = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(sums + half));
    if (epilogue.biasIsInteger)
      sum = _mm256_add_epi32(sum, _mm256_loadu_si256(reinterpret_cast<const __m256i *>(added + half)));
    if (epilogue.element == ElementType::I32) {
      _mm256_store_si256(reinterpret_cast<__m256i *>(integers + half), sum);
      continue;
    }
    __m256 x = _mm256_cvtepi32_ps(sum);
    if (epilogue.bias >= 0 && !epilogue.biasIsInteger)
      x = _mm256_add_ps(x, _mm256_loadu_ps(biases + half));
    for (size_t i = 0; i != epilogue.steps.size(); ++i) {
      const Step &each = epilogue.steps[i];
      __m256 y = _mm256_loadu_ps(values[i] + half);
      if (each.operand == Operand::Whole) {
        auto *from = static_cast<const float *>(arguments[each.argument]) + offset;
        alignas(32) float beside[8] = {};
        if (isWhole) {
          y = _mm256_loadu_ps(from + half);
        } else {
          for (int64_t lane = 0; lane < std::min<int64_t>(count - half, 8); ++lane)
            beside[lane] = from[(half + lane) * step];
          y = _mm256_load_ps(beside);
        }
      }
      switch (each.kind) {
        CLEAVE_STEP(Add, _mm256_add_ps(x, y));
        CLEAVE_STEP(Sub, _mm256_sub_ps(x, y));
        CLEAVE_STEP(Mul, _mm256_mul_ps(x, y));
        CLEAVE_STEP(Div, _mm256_div_ps(x, y));
        CLEAVE_STEP(Max, _mm256_max_ps(x, y));
        CLEAVE_STEP(Min, _mm256_min_ps(x, y));
        CLEAVE_STEP(Relu, _mm256_max_ps(x, _mm256_setzero_ps()));
        CLEAVE_STEP(Clip, _mm256_min_ps(_mm256_max_ps(x, _mm256_set1_ps(each.alpha)), _mm256_set1_ps(each.beta)));
        CLEAVE_STEP(Round, _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
        CLEAVE_STEP(Linear,
                    _mm256_add_ps(_mm256_mul_ps(x, _mm256_set1_ps(each.alpha)), _mm256_set1_ps(each.beta)));
      }
    }
    if (epilogue.element == ElementType::F32) {
      _mm256_store_ps(reals + half, x);
      continue;
    }
    bool isSigned = epilogue.element == ElementType::I8;
    x = _mm256_min_ps(_mm256_max_ps(x, _mm256_set1_ps(isSigned ? -128.0f : 0.0f)),
                      _mm256_set1_ps(isSigned ? 127.0f : 255.0f));
    _mm256_store_si256(reinterpret_cast<__m256i *>(integers + half), _mm256_cvtps_epi32(x));
  }
  if (epilogue.element == ElementType::F32)
    return store(reals);
  if (epilogue.element == ElementType::I32)
    return store(integers);
  // Signed bytes have the bits of unsigned ones.
  uint8_t bytes[panelColumns];
  for (int64_t i = 0; i != panelColumns; ++i)
    bytes[i] = static_cast<uint8_t>(integers[i]);
  store(bytes);
}

} // namespace cleave::runtime::integers
