// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds products of integers of 8 bits in what quantized models say about them (QuantizedTensors.h). Models multiply
// dequantized tensors, or numbers less their zero points in int32. Processors multiply unsigned by signed numbers,
// without zero points, and add them to 32 bits. What is left is arithmetic on one value a channel, and follows from
// parameters:
//
//   sum (x - zx) w = sum x w - zx sum w
//   (sum * sx sw + b) / sy = (sum + b / (sx sw)) * (sx sw / sy)
//
// Libraries add to sums and then scale them where they write results.

#include "passes/codegen/ConstantValues.h"
#include "passes/codegen/KernelPasses.h"
#include "passes/codegen/LibraryKernels.h"
#include "passes/codegen/QuantizedTensors.h"

#include "dialects/dist/Dist.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_FORMINTEGERPRODUCTSPASS
#include "passes/codegen/KernelPasses.h.inc"

namespace {

/// Whether an operator's results are some of its operand's elements, whichever numbers stand for them in the same
/// order.
bool keepsElements(Operation *op) {
  if (auto pool = dyn_cast<dfg::PoolOp>(op))
    return pool.getKind() == dfg::PoolKind::Max;
  return isa<dfg::ReshapeOp, dfg::TransposeOp, dfg::SliceOp, dfg::BroadcastOp>(op);
}

/// The only reader of an operator's result.
Operation *onlyUser(Operation *op) { return op->getResult(0).hasOneUse() ? *op->getResult(0).user_begin() : nullptr; }

/// A contraction with one free dimension of its right operand: what has one value for each of its elements.
struct Channels {
  int64_t dim = 0;   ///< of the result
  int64_t count = 0; ///< elements
  int64_t ofRhs = 0; ///< the same dimension of the right operand
  /// Such values beside the product as it is computed: with ones behind the channels of a convolution.
  SmallVector<int64_t> shape;
};

std::optional<Channels> channelsOf(Operation *op) {
  RankedTensorType result = tensorType(op->getResult(0));
  Channels channels;
  if (isa<dfg::ConvOp>(op)) {
    channels = {1, result.getDimSize(1), 0, {result.getDimSize(1)}};
    channels.shape.append(result.getRank() - 2, 1);
    return channels;
  }
  auto dot = cast<dfg::DotGeneralOp>(op);
  int64_t lhsRank = tensorType(dot.getLhs()).getRank();
  if (!dot.getLhsBatch().empty() || dot.getLhsContracting().size() != 1 || dot.getLhsContracting()[0] != lhsRank - 1 ||
      dot.getRhsFree().size() != 1)
    return std::nullopt;
  channels.dim = result.getRank() - 1;
  channels.count = result.getDimSize(channels.dim);
  channels.ofRhs = dot.getRhsFree()[0];
  channels.shape = {channels.count};
  return channels;
}

/// Whether `value` is one number, or one for each index of dimension `dim`, beside a tensor of that shape.
bool isAlong(Value value, ArrayRef<int64_t> shape, int64_t dim) {
  ArrayRef<int64_t> own = tensorType(value).getShape();
  if (isOne(value))
    return true;
  int64_t missing = static_cast<int64_t>(shape.size()) - static_cast<int64_t>(own.size());
  if (missing < 0 || dim < missing || own[dim - missing] != shape[dim])
    return false;
  return tensorType(value).getNumElements() == shape[dim];
}

class FormIntegerProducts : public impl::FormIntegerProductsPassBase<FormIntegerProducts> {
public:
  using FormIntegerProductsPassBase::FormIntegerProductsPassBase;

private:
  void runOnOperation() override {
    bool hasIntegers = kernelDeviceOf(getOperation()).multipliesIntegers;
    Block &body = getOperation().getBody().front();
    auto all = [&](auto visit) {
      for (Operation &op : llvm::make_early_inc_range(body))
        visit(&op);
    };
    all([&](Operation *op) { dropZero(op); });
    all([&](Operation *op) { keepAsNumbers(op); });
    if (hasIntegers)
      all([&](Operation *op) { makeUnsigned(op); });
    ConstantValues constants;
    all([&](Operation *op) { form(op, hasIntegers, constants); });
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
      if (isOpTriviallyDead(&op))
        op.erase();
  }

  /// A zero point of zero need not be added.
  static void dropZero(Operation *op) {
    auto cast = dyn_cast<dfg::CastOp>(op);
    auto add = cast && isByte(elementOf(op->getResult(0))) ? cast.getInput().getDefiningOp<dfg::AddOp>() : nullptr;
    if (add && add.getLhs().getDefiningOp<dfg::RoundOp>() && add.getLhs().getType() == add.getType() &&
        wholeOf(add.getRhs()) == 0)
      cast.getInputMutable().assign(add.getLhs());
  }

  /// What is dequantized, moved or chosen from, and quantized as it was, need not be dequantized.
  static void keepAsNumbers(Operation *op) {
    auto cast = dyn_cast<dfg::CastOp>(op);
    auto found = cast ? quantization(cast) : std::nullopt;
    if (!found)
      return;
    SmallVector<Operation *> between;
    Value value = found->real;
    for (Operation *made = value.getDefiningOp(); made && keepsElements(made); made = value.getDefiningOp()) {
      between.push_back(made);
      value = made->getOperand(0);
    }
    auto source = dequantized(value);
    if (!source || source->scale != found->scale || elementOf(source->numbers) != elementOf(cast.getResult()))
      return;
    // Scales along an axis are those of other numbers behind what moves.
    if (!between.empty() && !isOne(found->scale))
      return;
    auto before = source->zero ? integerOf(source->zero) : std::optional<int64_t>(0), after = wholeOf(found->zero);
    if (!before || before != after)
      return;
    OpBuilder builder(op);
    Value numbers = source->numbers;
    for (Operation *moved : llvm::reverse(between)) {
      IRMapping mapping;
      mapping.map(moved->getOperand(0), numbers);
      Operation *made = builder.clone(*moved, mapping);
      made->getResult(0).setType(tensorType(moved->getResult(0)).clone(elementOf(numbers)));
      numbers = made->getResult(0);
    }
    cast.replaceAllUsesWith(numbers);
  }

  /// Signed numbers that are only read as such: unsigned ones with another zero point.
  static void makeUnsigned(Operation *op) {
    auto cast = dyn_cast<dfg::CastOp>(op);
    if (!cast || !elementOf(cast.getResult()).isSignlessInteger(8))
      return;
    auto found = quantization(cast);
    auto zero = found ? wholeOf(found->zero) : std::nullopt;
    if (!zero || cast->use_empty() || !llvm::all_of(cast->getUsers(), [](Operation *user) {
          auto wide = dyn_cast<dfg::CastOp>(user);
          return wide && elementOf(wide.getResult()).isSignlessInteger(32);
        }))
      return;
    OpBuilder builder(op);
    Location loc = op->getLoc();
    Value rounded = found->zero ? cast.getInput().getDefiningOp()->getOperand(0) : cast.getInput();
    Value moved = dfg::AddOp::create(builder, loc, rounded, number(builder, loc, builder.getF32Type(), *zero + 128));
    Value numbers =
        dfg::CastOp::create(builder, loc, moved, IntegerType::get(op->getContext(), 8, IntegerType::Unsigned));
    for (Operation *user : llvm::make_early_inc_range(cast->getUsers())) {
      OpBuilder behind(user);
      Value wide = dfg::CastOp::create(behind, user->getLoc(), numbers, behind.getI32Type());
      Value shift = number(behind, user->getLoc(), behind.getI32Type(), 128);
      // One difference, not two.
      for (Operation *reader : llvm::make_early_inc_range(user->getUsers()))
        if (auto sub = dyn_cast<dfg::SubOp>(reader); sub && sub.getLhs() == user->getResult(0))
          if (auto known = integerOf(sub.getRhs())) {
            OpBuilder at(sub);
            sub.replaceAllUsesWith(
                dfg::SubOp::create(at, sub.getLoc(), wide, number(at, sub.getLoc(), at.getI32Type(), *known + 128))
                    .getResult());
          }
      user->getResult(0).replaceAllUsesWith(dfg::SubOp::create(behind, user->getLoc(), wide, shift).getResult());
    }
  }

  static Value number(OpBuilder &builder, Location loc, Type element, int64_t value) {
    auto type = RankedTensorType::get({}, element);
    auto attribute =
        isa<FloatType>(element)
            ? DenseElementsAttr::get(type, builder.getFloatAttr(element, static_cast<double>(value)).getValue())
            : DenseElementsAttr::get(type, APInt(element.getIntOrFloatBitWidth(), static_cast<uint64_t>(value),
                                                 /*isSigned=*/false, /*implicitTrunc=*/true));
    return dfg::ConstantOp::create(builder, loc, type, attribute);
  }

  /// The most that a number less its zero point can be.
  static int64_t magnitudeOf(const Quantized &quantized) {
    return quantized.zero || elementOf(quantized.numbers).isUnsignedInteger(8) ? 255 : 128;
  }

  /// A product of integers that no library multiplies as such, as one of reals: where sums are exact in float32, and
  /// where they become reals of that type next, which round large ones, too.
  static void multiplyAsReals(Operation *op) {
    auto lhs = centred(op->getOperand(0)), rhs = centred(op->getOperand(1));
    if (!lhs || !rhs || tensorType(op->getResult(0)).getNumElements() == 0)
      return;
    SmallVector<Operation *> sums;
    Operation *user = onlyUser(op);
    for (; isa_and_nonnull<dfg::AddOp>(user) && user->getOperand(0) != user->getOperand(1); user = onlyUser(user)) {
      sums.push_back(user);
    }
    auto becomesReal = dyn_cast_or_null<dfg::CastOp>(user);
    if (becomesReal && !elementOf(becomesReal.getResult()).isF32())
      becomesReal = nullptr;
    double depth = cast<CostInterface>(op).getCost().flops / 2 / tensorType(op->getResult(0)).getNumElements();
    double largest = depth * static_cast<double>(magnitudeOf(*lhs) * magnitudeOf(*rhs));
    if (!becomesReal && largest > 1 << 24)
      return;
    OpBuilder builder(op);
    auto real = [&](Value value) {
      return dfg::CastOp::create(builder, op->getLoc(), value, builder.getF32Type()).getResult();
    };
    IRMapping mapping;
    for (Value operand : op->getOperands())
      if (!mapping.contains(operand))
        mapping.map(operand, real(operand));
    Operation *made = builder.clone(*op, mapping);
    Value sum = made->getResult(0);
    sum.setType(tensorType(sum).clone(builder.getF32Type()));
    if (!becomesReal) {
      op->getResult(0).replaceAllUsesWith(dfg::CastOp::create(builder, op->getLoc(), sum, builder.getI32Type()));
      return;
    }
    Value before = op->getResult(0);
    for (Operation *add : sums) {
      builder.setInsertionPoint(add);
      Value other = add->getOperand(add->getOperand(0) == before ? 1 : 0);
      sum = dfg::AddOp::create(builder, add->getLoc(), sum, real(other));
      before = add->getResult(0);
    }
    becomesReal.replaceAllUsesWith(sum);
  }

  void form(Operation *op, bool hasIntegers, ConstantValues &constants) {
    if (!isa<dfg::ConvOp, dfg::DotGeneralOp>(op))
      return;
    if (!(hasIntegers && multiplyIntegers(op, constants)) && reals && elementOf(op->getResult(0)).isSignlessInteger(32))
      multiplyAsReals(op);
  }

  /// Whether the product became one of integers.
  static bool multiplyIntegers(Operation *op, ConstantValues &constants) {
    bool isReal = elementOf(op->getResult(0)).isF32();
    auto operandOf = [&](Value value) {
      while (auto reshape = value.getDefiningOp<dfg::ReshapeOp>())
        value = reshape.getInput();
      return isReal ? dequantized(value) : centred(value);
    };
    auto lhs = operandOf(op->getOperand(0)), rhs = operandOf(op->getOperand(1));
    auto channels = channelsOf(op);
    if (!lhs || !rhs || !channels || tensorType(rhs->numbers).getShape() != tensorType(op->getOperand(1)).getShape() ||
        !constants.contains(rhs->numbers) || tensorType(op->getResult(0)).getNumElements() == 0 ||
        tensorType(op->getOperand(0)).getNumElements() == 0)
      return false;
    if ((lhs->zero && !isOne(lhs->zero)) || (lhs->scale && !isOne(lhs->scale)) ||
        (rhs->scale && (!constants.contains(rhs->scale) ||
                        !isAlong(rhs->scale, tensorType(rhs->numbers).getShape(), channels->ofRhs))))
      return false;
    // Weights about 128 are signed ones about 0.
    bool isShifted = elementOf(rhs->numbers).isUnsignedInteger(8);
    if (isShifted ? !rhs->zero || integerOf(rhs->zero) != 128 : static_cast<bool>(rhs->zero))
      return false;
    // Around an image lie zero points.
    auto conv = dyn_cast<dfg::ConvOp>(op);
    bool isPadded = conv && llvm::any_of(conv.getPads(), [](int64_t pad) { return pad != 0; });
    if (isPadded && lhs->zero && !integerOf(lhs->zero))
      return false;
    Formation formation(op, *lhs, *rhs, *channels, constants);
    formation.run(isShifted);
    return true;
  }

  /// Builds one product and its epilogue.
  class Formation {
  public:
    Formation(Operation *op, const Quantized &lhs, const Quantized &rhs, const Channels &channels,
              ConstantValues &constants)
        : op(op), lhs(lhs), rhs(rhs), channels(channels), constants(constants), builder(op), loc(op->getLoc()) {}

    void run(bool shiftsWeights) {
      RankedTensorType result = tensorType(op->getResult(0));
      Value weights = shiftsWeights ? shifted(rhs.numbers, -128, builder.getI8Type()) : rhs.numbers;
      if (elementOf(lhs.numbers).isSignlessInteger(8)) {
        auto known = lhs.zero ? integerOf(lhs.zero) : std::optional<int64_t>(0);
        Value shift = number(builder, loc, builder.getI32Type(), known.value_or(0) + 128);
        lhs.zero = known ? shift : dfg::AddOp::create(builder, loc, asChannels(lhs.zero), shift).getResult();
        lhs.numbers = shifted(lhs.numbers, 128, IntegerType::get(op->getContext(), 8, IntegerType::Unsigned));
      }
      Value sum = product(weights);
      last = op;
      Value moved = lhs.zero ? correction(weights) : Value();
      if (moved && (!lhs.scale || !constants.contains(moved))) {
        // What is added to sums next joins it.
        if (auto add = dyn_cast_or_null<dfg::AddOp>(onlyUser(op));
            add && !lhs.scale && constants.contains(moved) && joinsSums(add, op)) {
          builder.setInsertionPoint(add);
          moved = dfg::AddOp::create(builder, add.getLoc(), moved, asChannels(otherOf(add, op)));
          last = add;
        }
        sum = dfg::AddOp::create(builder, loc, sum, moved);
        moved = {};
      }
      if (lhs.scale)
        sum = scaled(sum, moved);
      // A product of two dimensions takes what follows with it, until it is quantized.
      while (!isByte(elementOf(sum)) && tensorType(sum).getShape() != result.getShape() && follows())
        sum = rebuilt(sum);
      last->getResult(0).replaceAllUsesWith(reshaped(sum, tensorType(last->getResult(0)).getShape()));
    }

  private:
    /// Integers of 8 bits as those of the other kind, 128 more or less.
    Value shifted(Value numbers, int64_t by, Type element) {
      Value wide = dfg::CastOp::create(builder, loc, numbers, builder.getI32Type());
      Value moved = dfg::AddOp::create(builder, loc, wide, number(builder, loc, builder.getI32Type(), by));
      return dfg::CastOp::create(builder, loc, moved, element);
    }

    /// The sums of products of numbers.
    Value product(Value weights) {
      if (auto conv = dyn_cast<dfg::ConvOp>(op)) {
        Value image = reshaped(lhs.numbers, tensorType(op->getOperand(0)).getShape());
        SmallVector<int64_t> pads(conv.getPads());
        if (lhs.zero && llvm::any_of(pads, [](int64_t pad) { return pad != 0; })) {
          size_t space = pads.size() / 2;
          SmallVector<int64_t> low(2, 0), high(2, 0);
          low.append(pads.begin(), pads.begin() + space);
          high.append(pads.begin() + space, pads.end());
          Value around = number(builder, loc, elementOf(image), *integerOf(lhs.zero));
          image = dfg::PadOp::create(builder, loc, image, around, low, high);
          pads.assign(pads.size(), 0);
        }
        return dfg::ConvOp::create(builder, loc, image, weights, conv.getStrides(), pads, conv.getDilations(),
                                   conv.getGroups(), /*wide=*/true);
      }
      auto dot = cast<dfg::DotGeneralOp>(op);
      RankedTensorType type = tensorType(op->getOperand(0));
      int64_t depth = type.getShape().back();
      Value rows = reshaped(lhs.numbers, {type.getNumElements() / depth, depth});
      return dfg::DotGeneralOp::create(builder, loc, rows, weights, ArrayRef<int64_t>(), ArrayRef<int64_t>(),
                                       ArrayRef<int64_t>(1), dot.getRhsContracting(), /*wide=*/true);
    }

    /// What sums of numbers are too large by, negative: the zero point times the sum of the weights, by channel.
    Value correction(Value weights) {
      Value wide = dfg::CastOp::create(builder, loc, weights, builder.getI32Type());
      SmallVector<int64_t> dims;
      for (int64_t dim = 0; dim < tensorType(weights).getRank(); ++dim)
        if (dim != channels.ofRhs)
          dims.push_back(dim);
      Value sums = dfg::ReduceOp::create(builder, loc, wide, dfg::ReduceKind::Sum, dims, /*keep_dims=*/false);
      Value moved = dfg::MulOp::create(builder, loc, asChannels(sums), asChannels(lhs.zero));
      return dfg::NegOp::create(builder, loc, moved);
    }

    Value reshaped(Value value, ArrayRef<int64_t> shape) {
      auto wanted = tensorType(value).clone(shape);
      return wanted == value.getType() ? value : dfg::ReshapeOp::create(builder, loc, wanted, value).getResult();
    }

    /// One value, or one a channel, as it joins the product.
    Value asChannels(Value value) {
      return reshaped(value, isOne(value) ? ArrayRef<int64_t>() : ArrayRef<int64_t>(channels.shape));
    }

    /// The operand of a binary operator that is not what `before` gave.
    static Value otherOf(Operation *user, Operation *before) {
      return user->getOperand(user->getOperand(0) == before->getResult(0) ? 1 : 0);
    }

    /// Whether `add`, which reads what `before` gave, adds one constant a channel, or one.
    bool joinsSums(dfg::AddOp add, Operation *before) {
      Value other = otherOf(add, before);
      return add.getType() == before->getResult(0).getType() && constants.contains(other) &&
             isAlong(other, tensorType(op->getResult(0)).getShape(), channels.dim);
    }

    /// The sums, and `moved` for each channel if there is something, as reals. What is added to them next comes in
    /// front of their scale, and where they are then kept within limits and divided by one, as those are that are
    /// quantized, the two scales are one.
    Value scaled(Value sum, Value moved) {
      SmallVector<dfg::AddOp> sums;
      SmallVector<Operation *> limits;
      dfg::DivOp division;
      Operation *before = op;
      for (Operation *user = onlyUser(op); user; before = user, user = onlyUser(user)) {
        if (auto div = dyn_cast<dfg::DivOp>(user)) {
          if (div.getLhs().getType() == div.getType() && isOne(div.getRhs()) && constants.contains(div.getRhs()))
            division = div;
          break;
        }
        if (auto add = dyn_cast<dfg::AddOp>(user); add && limits.empty() && joinsSums(add, before))
          sums.push_back(add);
        else if (isa<dfg::ReluOp, dfg::ClampOp>(user))
          limits.push_back(user);
        else
          break;
      }
      // The next builders read what stands in front of the last of these.
      if (division)
        builder.setInsertionPoint(division);
      else if (!sums.empty())
        builder.setInsertionPoint(sums.back());
      Value factor = dfg::MulOp::create(builder, loc, asChannels(lhs.scale), asChannels(rhs.scale));
      if (moved)
        moved = dfg::CastOp::create(builder, loc, moved, builder.getF32Type());
      if (!sums.empty()) {
        // Scales are positive. By one of zero nothing can be divided: as small a number does, times which sums vanish.
        factor = dfg::MaxOp::create(builder, loc, factor, real(1e-20));
        Value bias;
        for (dfg::AddOp add : sums) {
          Value other = asChannels(otherOf(add, last));
          bias = bias ? dfg::AddOp::create(builder, add.getLoc(), bias, other).getResult() : other;
          last = add;
        }
        bias = dfg::DivOp::create(builder, last->getLoc(), bias, factor);
        moved = moved ? dfg::AddOp::create(builder, loc, moved, bias).getResult() : bias;
      }
      Value reals = dfg::CastOp::create(builder, loc, sum, builder.getF32Type());
      if (moved)
        reals = dfg::AddOp::create(builder, loc, reals, broadcastToChannels(moved));
      if (!division)
        return dfg::MulOp::create(builder, loc, reals, factor);
      Value divisor = asChannels(division.getRhs());
      reals = dfg::MulOp::create(builder, loc, reals, dfg::DivOp::create(builder, loc, factor, divisor));
      for (Operation *step : limits) {
        auto limit = [&](const APFloat &value) {
          return dfg::DivOp::create(builder, step->getLoc(), real(value.convertToDouble()), divisor).getResult();
        };
        auto clamp = dyn_cast<dfg::ClampOp>(step);
        reals = dfg::MaxOp::create(builder, step->getLoc(), reals, limit(clamp ? clamp.getLow() : APFloat(0.0)));
        if (clamp)
          reals = dfg::MinOp::create(builder, step->getLoc(), reals, limit(clamp.getHigh()));
      }
      last = division;
      return reals;
    }

    Value real(double value) {
      auto type = RankedTensorType::get({}, builder.getF32Type());
      auto number = DenseElementsAttr::get(type, builder.getF32FloatAttr(static_cast<float>(value)).getValue());
      return dfg::ConstantOp::create(builder, loc, type, number);
    }

    /// One value a channel, as a routine's bias is, also where there is one for all.
    Value broadcastToChannels(Value value) {
      RankedTensorType type = tensorType(value);
      auto wanted = RankedTensorType::get(channels.shape, type.getElementType());
      return type == wanted ? value : dfg::BroadcastOp::create(builder, loc, wanted, value).getResult();
    }

    /// Whether the only reader of the last operator is elementwise, with one value a channel at most beside.
    bool follows() {
      Operation *user = onlyUser(last);
      if (!isa_and_nonnull<ElementwiseInterface>(user) || user->getNumOperands() > 2 ||
          tensorType(user->getResult(0)).getShape() != tensorType(op->getResult(0)).getShape())
        return false;
      if (user->getNumOperands() == 1)
        return true;
      Value other = otherOf(user, last);
      return other != last->getResult(0) && isAlong(other, tensorType(op->getResult(0)).getShape(), channels.dim);
    }

    Value rebuilt(Value sum) {
      Operation *user = onlyUser(last);
      builder.setInsertionPoint(user);
      IRMapping mapping;
      for (Value operand : user->getOperands())
        mapping.map(operand, operand == last->getResult(0) ? sum : asChannels(operand));
      Operation *made = builder.clone(*user, mapping);
      made->getResult(0).setType(tensorType(sum).clone(elementOf(user->getResult(0))));
      last = user;
      return made->getResult(0);
    }

    Operation *op;
    Quantized lhs, rhs;
    Channels channels;
    ConstantValues &constants;
    OpBuilder builder;
    Location loc;
    /// The operator whose result what was built stands for.
    Operation *last = nullptr;
  };
};

} // namespace
} // namespace cleave
