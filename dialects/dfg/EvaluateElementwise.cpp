// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Values of elementwise operators on known operands. f32 is computed in float; f16 and bf16 are computed in float and
// rounded at the end.

#include "dialects/dfg/Dfg.h"
#include "dialects/dfg/EvaluateElements.h"
#include "dialects/dfg/EvaluateLoops.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace cleave::dfg {

namespace {

/// One evaluation: the operands, widened, and the loop over the result's shape. Array 0 is the result.
class Evaluation {
public:
  Evaluation(Operation *op, ArrayRef<HostTensor> tensors) : op(op) {
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    Type element = type.getElementType();
    if (element.isF16() || element.isBF16())
      element = Float32Type::get(op->getContext());
    result = HostTensor::allocate(type.clone(element), writable);
    SmallVector<Strides> strides = {denseStrides(type.getShape())};
    for (const HostTensor &tensor : tensors) {
      operands.push_back(widen(tensor));
      strides.push_back(broadcastStrides(tensor.getShape(), type.getShape()));
    }
    loop.emplace(type.getShape(), strides);
  }

  Operation *getOp() const { return op; }
  const HostTensor &getResult() const { return result; }
  Type operandType(unsigned index) const { return operands[index].getElementType(); }

  template <typename Out, typename In, typename F> bool unary(F f) {
    int64_t step = loop->innerStride(1);
    loop->run([&](ArrayRef<int64_t> at, int64_t count) {
      Out *out = place<Out>() + at[0];
      const In *in = operand<In>(0) + at[1];
      for (int64_t i = 0; i < count; ++i)
        out[i] = f(in[i * step]);
    });
    return true;
  }

  template <typename Out, typename In, typename F> bool binary(F f) {
    int64_t left = loop->innerStride(1), right = loop->innerStride(2);
    loop->run([&](ArrayRef<int64_t> at, int64_t count) {
      Out *out = place<Out>() + at[0];
      const In *lhs = operand<In>(0) + at[1], *rhs = operand<In>(1) + at[2];
      if (left == 1 && right == 1)
        for (int64_t i = 0; i < count; ++i)
          out[i] = f(lhs[i], rhs[i]);
      else if (left == 1 && right == 0)
        for (int64_t i = 0; i < count; ++i)
          out[i] = f(lhs[i], *rhs);
      else
        for (int64_t i = 0; i < count; ++i)
          out[i] = f(lhs[i * left], rhs[i * right]);
    });
    return true;
  }

  template <typename T> bool select() {
    int64_t p = loop->innerStride(1), l = loop->innerStride(2), r = loop->innerStride(3);
    loop->run([&](ArrayRef<int64_t> at, int64_t count) {
      for (int64_t i = 0; i < count; ++i)
        place<T>()[at[0] + i] =
            operand<bool>(0)[at[1] + i * p] ? operand<T>(1)[at[2] + i * l] : operand<T>(2)[at[3] + i * r];
    });
    return true;
  }

private:
  template <typename T> T *place() { return reinterpret_cast<T *>(writable); }
  template <typename T> const T *operand(unsigned index) const {
    return reinterpret_cast<const T *>(operands[index].data());
  }

  Operation *op;
  SmallVector<HostTensor> operands;
  HostTensor result;
  char *writable = nullptr;
  std::optional<StridedLoop> loop;
};

} // namespace

/// Operators on floating-point numbers only.
template <typename T> static bool evaluateFloatUnary(Evaluation &e) {
  auto map = [&](auto f) { return e.unary<T, T>(f); };
  return TypeSwitch<Operation *, bool>(e.getOp())
      .Case([&](ExpOp) { return map([](T x) { return std::exp(x); }); })
      .Case([&](LogOp) { return map([](T x) { return std::log(x); }); })
      .Case([&](SqrtOp) { return map([](T x) { return std::sqrt(x); }); })
      .Case([&](ReciprocalOp) { return map([](T x) { return T(1) / x; }); })
      .Case([&](FloorOp) { return map([](T x) { return std::floor(x); }); })
      .Case([&](CeilOp) { return map([](T x) { return std::ceil(x); }); })
      .Case([&](RoundOp) { return map([](T x) { return std::nearbyint(x); }); })
      .Case([&](SinOp) { return map([](T x) { return std::sin(x); }); })
      .Case([&](CosOp) { return map([](T x) { return std::cos(x); }); })
      .Case([&](AsinOp) { return map([](T x) { return std::asin(x); }); })
      .Case([&](AcosOp) { return map([](T x) { return std::acos(x); }); })
      .Case([&](AtanOp) { return map([](T x) { return std::atan(x); }); })
      .Case([&](SinhOp) { return map([](T x) { return std::sinh(x); }); })
      .Case([&](CoshOp) { return map([](T x) { return std::cosh(x); }); })
      .Case([&](AsinhOp) { return map([](T x) { return std::asinh(x); }); })
      .Case([&](AcoshOp) { return map([](T x) { return std::acosh(x); }); })
      .Case([&](AtanhOp) { return map([](T x) { return std::atanh(x); }); })
      .Case([&](TanhOp) { return map([](T x) { return std::tanh(x); }); })
      .Case([&](ErfOp) { return map([](T x) { return std::erf(x); }); })
      .Case([&](SigmoidOp) { return map([](T x) { return T(1) / (T(1) + std::exp(-x)); }); })
      .Case(
          [&](SoftplusOp) { return map([](T x) { return std::max(x, T(0)) + std::log1p(std::exp(-std::fabs(x))); }); })
      .Case([&](LeakyReluOp op) {
        return map([alpha = static_cast<T>(op.getAlpha().convertToDouble())](T x) { return x >= 0 ? x : alpha * x; });
      })
      .Case([&](EluOp op) {
        return map([alpha = static_cast<T>(op.getAlpha().convertToDouble())](T x) {
          return x >= 0 ? x : alpha * std::expm1(x);
        });
      })
      .Case([&](GeluOp op) {
        if (op.getApproximate())
          return map(
              [](T x) { return x / 2 * (1 + std::tanh(T(0.79788456080286535588) * (x + T(0.044715) * x * x * x))); });
        return map([](T x) { return x / 2 * (1 + std::erf(x * T(0.70710678118654752440))); });
      })
      .Default([](Operation *) { return false; });
}

/// Operators on all numbers.
template <typename T> static bool evaluateNumber(Evaluation &e) {
  auto map = [&](auto f) { return e.unary<T, T>(f); };
  auto join = [&](auto f) { return e.binary<T, T>(f); };
  return TypeSwitch<Operation *, bool>(e.getOp())
      .Case([&](NegOp) { return map([](T x) { return Element<T>::negate(x); }); })
      .Case([&](AbsOp) { return map([](T x) { return Element<T>::absolute(x); }); })
      .Case([&](SignOp) { return map([](T x) { return x > 0   ? T(1)
                                                      : x < 0 ? T(-1)
                                                              : x; }); })
      .Case([&](ReluOp) { return map([](T x) { return x < 0 ? T(0) : x; }); })
      .Case([&](ClampOp op) {
        T low = convertElement<T>(op.getLow().convertToDouble());
        T high = convertElement<T>(op.getHigh().convertToDouble());
        return map([=](T x) { return Element<T>::smaller(Element<T>::larger(x, low), high); });
      })
      .Case([&](AddOp) { return join([](T a, T b) { return Element<T>::add(a, b); }); })
      .Case([&](SubOp) { return join([](T a, T b) { return Element<T>::subtract(a, b); }); })
      .Case([&](MulOp) { return join([](T a, T b) { return Element<T>::multiply(a, b); }); })
      .Case([&](DivOp) { return join([](T a, T b) { return Element<T>::divide(a, b); }); })
      .Case([&](PowOp) { return join([](T a, T b) { return Element<T>::power(a, b); }); })
      .Case([&](MaxOp) { return join([](T a, T b) { return Element<T>::larger(a, b); }); })
      .Case([&](MinOp) { return join([](T a, T b) { return Element<T>::smaller(a, b); }); })
      .Case([&](ModOp op) {
        if (op.getTruncated())
          return join([](T a, T b) { return Element<T>::remainder(a, b); });
        return join([](T a, T b) { return Element<T>::modulo(a, b); });
      })
      .Default([](Operation *) { return false; });
}

/// Operators on the bits of integers.
template <typename T> static bool evaluateBits(Evaluation &e) {
  auto join = [&](auto f) { return e.binary<T, T>(f); };
  return TypeSwitch<Operation *, bool>(e.getOp())
      .Case([&](NotOp) { return e.unary<T, T>([](T x) { return static_cast<T>(~x); }); })
      .Case([&](AndOp) { return join([](T a, T b) { return static_cast<T>(a & b); }); })
      .Case([&](OrOp) { return join([](T a, T b) { return static_cast<T>(a | b); }); })
      .Case([&](XorOp) { return join([](T a, T b) { return static_cast<T>(a ^ b); }); })
      .Case([&](ShiftLeftOp) { return join([](T a, T b) { return Element<T>::shiftLeft(a, b); }); })
      .Case([&](ShiftRightOp) { return join([](T a, T b) { return Element<T>::shiftRight(a, b); }); })
      .Default([](Operation *) { return false; });
}

static bool evaluateLogical(Evaluation &e) {
  auto join = [&](auto f) { return e.binary<bool, bool>(f); };
  return TypeSwitch<Operation *, bool>(e.getOp())
      .Case([&](NotOp) { return e.unary<bool, bool>([](bool x) { return !x; }); })
      .Case([&](AndOp) { return join([](bool a, bool b) { return a && b; }); })
      .Case([&](OrOp) { return join([](bool a, bool b) { return a || b; }); })
      .Case([&](XorOp) { return join([](bool a, bool b) { return a != b; }); })
      .Default([](Operation *) { return false; });
}

template <typename T> static bool evaluateCompare(Evaluation &e, Comparison comparison) {
  auto join = [&](auto f) { return e.binary<bool, T>(f); };
  switch (comparison) {
  case Comparison::Equal:
    return join([](T a, T b) { return a == b; });
  case Comparison::Less:
    return join([](T a, T b) { return a < b; });
  case Comparison::LessOrEqual:
    return join([](T a, T b) { return a <= b; });
  case Comparison::Greater:
    return join([](T a, T b) { return a > b; });
  case Comparison::GreaterOrEqual:
    return join([](T a, T b) { return a >= b; });
  }
  return false;
}

static bool evaluateCast(Evaluation &e) {
  return withElementType(e.operandType(0), [&](auto from) {
    return withElementType(e.getResult().getElementType(), [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      return e.unary<To, From>([](From x) { return convertElement<To>(x); });
    });
  });
}

FailureOr<SmallVector<HostTensor>> evaluateElementwise(Operation *op, ArrayRef<HostTensor> operands) {
  Type resultElement = cast<RankedTensorType>(op->getResult(0).getType()).getElementType();
  // A double is rounded to 16 bits once, not by way of a float.
  if (isa<CastOp>(op) && operands[0].getElementType().isF64() && (resultElement.isF16() || resultElement.isBF16()))
    return SmallVector<HostTensor>{narrow(operands[0], resultElement)};
  Evaluation evaluation(op, operands);
  bool done = false;
  if (isa<CastOp>(op)) {
    done = evaluateCast(evaluation);
  } else if (auto compare = dyn_cast<CompareOp>(op)) {
    done = withElementType(evaluation.operandType(0), [&](auto zero) {
      return evaluateCompare<decltype(zero)>(evaluation, compare.getComparison());
    });
  } else if (isa<SelectOp>(op)) {
    done = withElementType(evaluation.getResult().getElementType(),
                           [&](auto zero) { return evaluation.select<decltype(zero)>(); });
  } else {
    done = withElementType(evaluation.operandType(0), [&](auto zero) {
      using T = decltype(zero);
      if constexpr (std::is_same_v<T, bool>)
        return evaluateLogical(evaluation);
      else if constexpr (std::is_floating_point_v<T>)
        return evaluateNumber<T>(evaluation) || evaluateFloatUnary<T>(evaluation);
      else
        return evaluateNumber<T>(evaluation) || evaluateBits<T>(evaluation);
    });
  }
  if (!done)
    return failure();
  return SmallVector<HostTensor>{narrow(evaluation.getResult(), resultElement)};
}

} // namespace cleave::dfg
