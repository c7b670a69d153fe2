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
  std::vector<int64_t> shape = onednn::widened(type.shape, result.shape.size()), channels(result.shape.size(), 1);
  channels[channelDim] = result.shape[channelDim];
  bool isList = postOp.kind == "scale" && type.shape == std::vector{result.shape[channelDim]};
  if ((isList || shape == channels) && isDense(type))
    return Operand::Channels;
  if (shape != result.shape)
    refuse(Status::Unsupported, "post operation \"", postOp.kind,
           "\" expects one value, one a channel or one for each of the result's, got ", type.text());
  return Operand::Whole;
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
  constexpr std::pair<std::string_view, Kind> binary[] = {
      {"scale", Kind::Mul},      {"binary_add", Kind::Add}, {"binary_sub", Kind::Sub}, {"binary_mul", Kind::Mul},
      {"binary_div", Kind::Div}, {"binary_max", Kind::Max}, {"binary_min", Kind::Min}, {"sum", Kind::Add}};
  // As steps with constants.
  auto unary = [](const LibraryPostOp &postOp) -> std::vector<Step> {
    auto with = [](Kind kind, float constant) { return Step{kind, Operand::Constant, -1, constant}; };
    if (postOp.kind == "relu")
      return {with(Kind::Max, 0)};
    if (postOp.kind == "clip")
      return {with(Kind::Max, postOp.alpha), with(Kind::Min, postOp.beta)};
    if (postOp.kind == "linear")
      return {with(Kind::Mul, postOp.alpha), with(Kind::Add, postOp.beta)};
    if (postOp.kind == "round")
      return {with(Kind::Round, 0)};
    return {};
  };
  auto find = [&](std::string_view kind) {
    auto found = std::find_if(std::begin(binary), std::end(binary), [&](auto &entry) { return entry.first == kind; });
    return found == std::end(binary) ? std::nullopt : std::optional(found->second);
  };
  for (const LibraryPostOp &postOp : desc.postOps) {
    if (std::vector<Step> made = unary(postOp); !made.empty()) {
      if (postOp.argument >= 0)
        refuse(Status::Rejected, "post operation \"", postOp.kind, "\" expects no input");
      steps.insert(steps.end(), made.begin(), made.end());
    } else if (auto kind = find(postOp.kind)) {
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
  if (steps.size() > Panel::mostSteps)
    refuse(Status::Unsupported, "expects at most ", Panel::mostSteps, " steps in post operations, got ", steps.size());
  isScaled = !steps.empty() && steps[0].kind == Kind::Mul && steps[0].operand != Operand::Whole;
}

Epilogue::Panel::Panel(const Epilogue &epilogue, void *const *arguments) : epilogue(epilogue), arguments(arguments) {
  std::fill_n(scales, panelColumns, 1.0f);
  for (size_t i = 0; i != epilogue.steps.size(); ++i)
    std::fill_n(values[i], panelColumns, epilogue.steps[i].constant);
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
  if (epilogue.isScaled)
    std::copy_n(values[0], panelColumns, scales);
}

/// Of a row, by halves.
struct Epilogue::Panel::Reals {
  __m256 left, right;
};

/// One operation on both halves.
#define CLEAVE_STEP(KIND, OPERATION)                                                                                   \
  case Kind::KIND:                                                                                                     \
    reals.left = OPERATION(reals.left, left);                                                                          \
    reals.right = OPERATION(reals.right, right);                                                                       \
    break

CLEAVE_AVX2 inline void Epilogue::join(Kind kind, const float *operand, Panel::Reals &reals) {
  constexpr int toNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  __m256 left = _mm256_loadu_ps(operand), right = _mm256_loadu_ps(operand + 8);
  switch (kind) {
    CLEAVE_STEP(Add, _mm256_add_ps);
    CLEAVE_STEP(Sub, _mm256_sub_ps);
    CLEAVE_STEP(Mul, _mm256_mul_ps);
    CLEAVE_STEP(Div, _mm256_div_ps);
    CLEAVE_STEP(Max, _mm256_max_ps);
    CLEAVE_STEP(Min, _mm256_min_ps);
  case Kind::Round:
    reals.left = _mm256_round_ps(reals.left, toNearest);
    reals.right = _mm256_round_ps(reals.right, toNearest);
    break;
  }
}

/// What joins the results from element `offset` on, `apart` from each other; in `gathered` where a panel is not whole.
inline const float *Epilogue::Panel::operandOf(size_t step, int64_t offset, int64_t apart, float *gathered) const {
  const Step &each = epilogue.steps[step];
  if (each.operand != Operand::Whole)
    return values[step];
  auto *whole = static_cast<const float *>(arguments[each.argument]) + offset;
  if (apart == 1 && count == panelColumns)
    return whole;
  for (int64_t column = 0; column != count; ++column)
    gathered[column] = whole[column * apart];
  return gathered;
}

CLEAVE_AVX2 static inline __m256i loadIntegers(const int32_t *numbers) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(numbers));
}

/// Stores the first `count` of 16 results, `step` apart.
template <typename T> CLEAVE_AVX2 static inline void scatter(const T *results, int64_t count, int64_t step, T *to) {
  for (int64_t i = 0; i != count; ++i)
    to[i * step] = results[i];
}

CLEAVE_AVX2 void Epilogue::Panel::finish(const int32_t *sums, const int64_t *offsets, int64_t rows, int64_t from,
                                         int64_t step) const {
  bool isWhole = count == panelColumns && step == 1, isSigned = epilogue.element == ElementType::I8;
  char *output = static_cast<char *>(arguments[epilogue.output]);
  float gathered[panelColumns] = {};
  size_t numSteps = epilogue.steps.size();
  __m256i addedLeft = loadIntegers(added), addedRight = loadIntegers(added + 8);
  __m256 biasLeft = _mm256_loadu_ps(biases), biasRight = _mm256_loadu_ps(biases + 8);
  __m256 scaleLeft = _mm256_loadu_ps(scales), scaleRight = _mm256_loadu_ps(scales + 8);
  __m256 least = _mm256_set1_ps(isSigned ? -128.0f : 0.0f), most = _mm256_set1_ps(isSigned ? 127.0f : 255.0f);
  for (int64_t row = 0; row != rows; ++row, sums += panelColumns) {
    int64_t offset = offsets[row] + from;
    __m256i left = _mm256_add_epi32(loadIntegers(sums), addedLeft);
    __m256i right = _mm256_add_epi32(loadIntegers(sums + 8), addedRight);
    if (epilogue.element == ElementType::I32) {
      int32_t integers[panelColumns];
      auto *to = reinterpret_cast<int32_t *>(output) + offset, *at = isWhole ? to : integers;
      _mm256_storeu_si256(reinterpret_cast<__m256i *>(at), left);
      _mm256_storeu_si256(reinterpret_cast<__m256i *>(at + 8), right);
      if (!isWhole)
        scatter(integers, count, step, to);
      continue;
    }
    Reals reals = {_mm256_mul_ps(_mm256_add_ps(_mm256_cvtepi32_ps(left), biasLeft), scaleLeft),
                   _mm256_mul_ps(_mm256_add_ps(_mm256_cvtepi32_ps(right), biasRight), scaleRight)};
    for (size_t i = epilogue.isScaled; i < numSteps; ++i)
      join(epilogue.steps[i].kind, operandOf(i, offset, step, gathered), reals);
    if (epilogue.element == ElementType::F32) {
      float numbers[panelColumns];
      auto *to = reinterpret_cast<float *>(output) + offset, *at = isWhole ? to : numbers;
      _mm256_storeu_ps(at, reals.left);
      _mm256_storeu_ps(at + 8, reals.right);
      if (!isWhole)
        scatter(numbers, count, step, to);
      continue;
    }
    left = _mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(reals.left, least), most));
    right = _mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(reals.right, least), most));
    // Packing goes along each half of the registers.
    __m256i shorts = _mm256_permute4x64_epi64(_mm256_packs_epi32(left, right), 0xD8);
    __m128i low = _mm256_castsi256_si128(shorts), high = _mm256_extracti128_si256(shorts, 1);
    // Signed bytes have the bits of unsigned ones.
    uint8_t bytes[panelColumns];
    auto *to = reinterpret_cast<uint8_t *>(output) + offset, *at = isWhole ? to : bytes;
    _mm_storeu_si128(reinterpret_cast<__m128i *>(at),
                     isSigned ? _mm_packs_epi16(low, high) : _mm_packus_epi16(low, high));
    if (!isWhole)
      scatter(bytes, count, step, to);
  }
}

} // namespace cleave::runtime::integers
