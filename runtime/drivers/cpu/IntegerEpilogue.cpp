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

/// One operation on all rows.
#define CLEAVE_STEP(KIND, OPERATION)                                                                                   \
  case Kind::KIND:                                                                                                     \
    _Pragma("GCC unroll 6") for (int row = 0; row < Rows; ++row) {                                                     \
      reals[row].left = OPERATION(reals[row].left, _mm256_loadu_ps(operands[row]));                                    \
      reals[row].right = OPERATION(reals[row].right, _mm256_loadu_ps(operands[row] + 8));                              \
    }                                                                                                                  \
    break

/// Rounds the first number, as a function of two.
CLEAVE_AVX2 static inline __m256 roundedFirst(__m256 number, __m256) {
  return _mm256_round_ps(number, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

template <int Rows>
CLEAVE_AVX2 inline void Epilogue::join(Kind kind, const float *const *operands, Panel::Reals *reals) {
  switch (kind) {
    CLEAVE_STEP(Add, _mm256_add_ps);
    CLEAVE_STEP(Sub, _mm256_sub_ps);
    CLEAVE_STEP(Mul, _mm256_mul_ps);
    CLEAVE_STEP(Div, _mm256_div_ps);
    CLEAVE_STEP(Max, _mm256_max_ps);
    CLEAVE_STEP(Min, _mm256_min_ps);
    CLEAVE_STEP(Round, roundedFirst);
  }
}
#undef CLEAVE_STEP

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
  std::fill(gathered + count, gathered + panelColumns, 0.0f);
  return gathered;
}

CLEAVE_AVX2 static inline __m256i loadIntegers(const int32_t *numbers) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(numbers));
}

/// Calls store(row, to) for each row, with a place for 16 results: the output, or one from which they are scattered.
template <typename T, typename Store>
CLEAVE_AVX2 static inline void storeRows(int rows, T *output, const int64_t *offsets, int64_t from, int64_t count,
                                         int64_t step, const Store &store) {
  bool isWhole = count == panelColumns && step == 1;
  for (int row = 0; row != rows; ++row) {
    T results[panelColumns], *to = output + offsets[row] + from;
    store(row, isWhole ? to : results);
    if (!isWhole)
      for (int64_t i = 0; i != count; ++i)
        to[i * step] = results[i];
  }
}

template <int Rows>
CLEAVE_AVX2 inline void Epilogue::Panel::finishRows(const int32_t *sums, const int64_t *offsets, int64_t from,
                                                    int64_t step) const {
  void *output = arguments[epilogue.output];
  auto integers = [&](int row, int half) CLEAVE_AVX2 {
    return _mm256_add_epi32(loadIntegers(sums + row * panelColumns + half), loadIntegers(added + half));
  };
  if (epilogue.element == ElementType::I32) {
    storeRows(Rows, static_cast<int32_t *>(output), offsets, from, count, step, [&](int row, int32_t *to) CLEAVE_AVX2 {
      _mm256_storeu_si256(reinterpret_cast<__m256i *>(to), integers(row, 0));
      _mm256_storeu_si256(reinterpret_cast<__m256i *>(to + 8), integers(row, 8));
    });
    return;
  }
  auto scaled = [&](int row, int half) CLEAVE_AVX2 {
    return _mm256_mul_ps(_mm256_add_ps(_mm256_cvtepi32_ps(integers(row, half)), _mm256_loadu_ps(biases + half)),
                         _mm256_loadu_ps(scales + half));
  };
  Reals reals[Rows];
#pragma GCC unroll 6
  for (int row = 0; row < Rows; ++row)
    reals[row] = {scaled(row, 0), scaled(row, 8)};
  float gathered[Rows][panelColumns];
  for (size_t i = epilogue.isScaled, numSteps = epilogue.steps.size(); i < numSteps; ++i) {
    const float *operands[Rows];
    for (int row = 0; row < Rows; ++row)
      operands[row] = operandOf(i, offsets[row] + from, step, gathered[row]);
    join<Rows>(epilogue.steps[i].kind, operands, reals);
  }
  if (epilogue.element == ElementType::F32) {
    storeRows(Rows, static_cast<float *>(output), offsets, from, count, step, [&](int row, float *to) CLEAVE_AVX2 {
      _mm256_storeu_ps(to, reals[row].left);
      _mm256_storeu_ps(to + 8, reals[row].right);
    });
    return;
  }
  bool isSigned = epilogue.element == ElementType::I8;
  __m256 least = _mm256_set1_ps(isSigned ? -128.0f : 0.0f), most = _mm256_set1_ps(isSigned ? 127.0f : 255.0f);
  storeRows(Rows, static_cast<uint8_t *>(output), offsets, from, count, step, [&](int row, uint8_t *to) CLEAVE_AVX2 {
    __m256i left = _mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(reals[row].left, least), most));
    __m256i right = _mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(reals[row].right, least), most));
    // Packing goes along each half of the registers.
    __m256i shorts = _mm256_permute4x64_epi64(_mm256_packs_epi32(left, right), 0xD8);
    __m128i low = _mm256_castsi256_si128(shorts), high = _mm256_extracti128_si256(shorts, 1);
    // Signed bytes have the bits of unsigned ones.
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to),
                     isSigned ? _mm_packs_epi16(low, high) : _mm_packus_epi16(low, high));
  });
}

CLEAVE_AVX2 void Epilogue::Panel::finish(const int32_t *sums, const int64_t *offsets, int64_t rows, int64_t from,
                                         int64_t step) const {
  if (rows == tileRows)
    return finishRows<tileRows>(sums, offsets, from, step);
  for (int64_t row = 0; row != rows; ++row)
    finishRows<1>(sums + row * panelColumns, offsets + row, from, step);
}

} // namespace cleave::runtime::integers
