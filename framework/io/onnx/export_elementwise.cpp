// What elementwise ops are in ONNX: arithmetic, comparisons, logic, casts and activation functions.

#include <cmath>
#include <string>

#include "framework/io/onnx/exporter.h"
#include "framework/ops/elementwise_ops.h"

namespace diptych::onnx {
namespace {

void gelu(Call& call) { call.out.emit("Gelu", call.inputs, call.result); }
void gelu_tanh(Call& call) {
  call.out.emit("Gelu", call.inputs, call.result, {{"approximate", AttributeValue(std::string("tanh"))}});
}

void softplus(Call& call) {
  const double beta = call.as<ops::SoftplusAttributes>().beta;
  if (beta == 1) {
    call.out.emit("Softplus", call.inputs, call.result);
    return;
  }
  const std::string scaled = call.out.emit("Mul", {call.inputs[0], scalar(call, beta)});
  call.out.emit("Div", {call.out.emit("Softplus", {scaled}), scalar(call, beta)}, call.result);
}

void clip(Call& call) {
  const auto bound = [&](double value) { return std::isinf(value) ? std::string() : scalar(call, value); };
  const auto& [low, high] = call.as<ops::ClipAttributes>();
  const std::string least = bound(low);
  call.out.emit("Clip", {call.inputs[0], least, bound(high)}, call.result);
}

void cast(Call& call) {
  call.out.emit("Cast", call.inputs, call.result, {{"to", AttributeValue(code_of(call.type.dtype))}});
}

/// `op` on one input, twice over: f(g(x)).
void sqrt_reciprocal(Call& call) { call.out.emit("Reciprocal", {call.out.emit("Sqrt", call.inputs)}, call.result); }

// Names as template arguments need linkage.
#define DIPTYCH_ONNX_NAME(name) constexpr char k##name[] = #name
DIPTYCH_ONNX_NAME(Abs);
DIPTYCH_ONNX_NAME(Add);
DIPTYCH_ONNX_NAME(And);
DIPTYCH_ONNX_NAME(Atan);
DIPTYCH_ONNX_NAME(Ceil);
DIPTYCH_ONNX_NAME(Cos);
DIPTYCH_ONNX_NAME(Div);
DIPTYCH_ONNX_NAME(Equal);
DIPTYCH_ONNX_NAME(Erf);
DIPTYCH_ONNX_NAME(Exp);
DIPTYCH_ONNX_NAME(Floor);
DIPTYCH_ONNX_NAME(Greater);
DIPTYCH_ONNX_NAME(GreaterOrEqual);
DIPTYCH_ONNX_NAME(HardSwish);
DIPTYCH_ONNX_NAME(Identity);
DIPTYCH_ONNX_NAME(IsInf);
DIPTYCH_ONNX_NAME(IsNaN);
DIPTYCH_ONNX_NAME(Less);
DIPTYCH_ONNX_NAME(LessOrEqual);
DIPTYCH_ONNX_NAME(Log);
DIPTYCH_ONNX_NAME(Max);
DIPTYCH_ONNX_NAME(Min);
DIPTYCH_ONNX_NAME(Mul);
DIPTYCH_ONNX_NAME(Neg);
DIPTYCH_ONNX_NAME(Not);
DIPTYCH_ONNX_NAME(Or);
DIPTYCH_ONNX_NAME(Pow);
DIPTYCH_ONNX_NAME(Reciprocal);
DIPTYCH_ONNX_NAME(Relu);
DIPTYCH_ONNX_NAME(Round);
DIPTYCH_ONNX_NAME(Sigmoid);
DIPTYCH_ONNX_NAME(Sign);
DIPTYCH_ONNX_NAME(Sin);
DIPTYCH_ONNX_NAME(Sqrt);
DIPTYCH_ONNX_NAME(Sub);
DIPTYCH_ONNX_NAME(Tanh);
DIPTYCH_ONNX_NAME(Where);
DIPTYCH_ONNX_NAME(Xor);
#undef DIPTYCH_ONNX_NAME

}  // namespace

void add_elementwise(Emitters& all) {
  all.insert({
      {&op::abs, same<kAbs>},
      {&op::add, same<kAdd>},
      {&op::cast, cast},
      {&op::atan, same<kAtan>},
      {&op::ceil, same<kCeil>},
      {&op::clip, clip},
      {&op::copy, same<kIdentity>},
      {&op::cos, same<kCos>},
      {&op::div, same<kDiv>},
      {&op::elu,
       [](Call& call) {
         call.out.emit("Elu", call.inputs, call.result,
                       {{"alpha", AttributeValue(call.as<ops::EluAttributes>().alpha)}});
       }},
      {&op::equal, same<kEqual>},
      {&op::erf, same<kErf>},
      {&op::exp, same<kExp>},
      {&op::expm1,
       [](Call& call) {
         call.out.emit("Sub", {call.out.emit("Exp", call.inputs), scalar(call, 1)}, call.result);
       }},
      {&op::floor, same<kFloor>},
      {&op::gelu, gelu},
      {&op::gelu_tanh, gelu_tanh},
      {&op::greater, same<kGreater>},
      {&op::greater_equal, same<kGreaterOrEqual>},
      {&op::hard_sigmoid,
       [](Call& call) {
         call.out.emit("HardSigmoid", call.inputs, call.result, {{"alpha", AttributeValue(1.0 / 6)}});
       }},
      {&op::hard_swish, same<kHardSwish>},
      {&op::isinf, same<kIsInf>},
      {&op::isnan, same<kIsNaN>},
      {&op::leaky_relu,
       [](Call& call) {
         call.out.emit("LeakyRelu", call.inputs, call.result,
                       {{"alpha", AttributeValue(call.as<ops::LeakyReluAttributes>().slope)}});
       }},
      {&op::less, same<kLess>},
      {&op::less_equal, same<kLessOrEqual>},
      {&op::log, same<kLog>},
      {&op::log1p,
       [](Call& call) {
         call.out.emit("Log", {call.out.emit("Add", {call.inputs[0], scalar(call, 1)})}, call.result);
       }},
      {&op::logical_and, same<kAnd>},
      {&op::logical_not, same<kNot>},
      {&op::logical_or, same<kOr>},
      {&op::logical_xor, same<kXor>},
      {&op::maximum, same<kMax>},
      {&op::minimum, same<kMin>},
      {&op::mul, same<kMul>},
      {&op::neg, same<kNeg>},
      {&op::not_equal, [](Call& call) { call.out.emit("Not", {call.out.emit("Equal", call.inputs)}, call.result); }},
      {&op::pow, same<kPow>},
      {&op::reciprocal, same<kReciprocal>},
      {&op::relu, same<kRelu>},
      {&op::round, same<kRound>},
      {&op::rsqrt, sqrt_reciprocal},
      {&op::sigmoid, same<kSigmoid>},
      {&op::sign, same<kSign>},
      {&op::silu,
       [](Call& call) {
         call.out.emit("Mul", {call.inputs[0], call.out.emit("Sigmoid", call.inputs)}, call.result);
       }},
      {&op::sin, same<kSin>},
      {&op::softplus, softplus},
      {&op::sqrt, same<kSqrt>},
      {&op::square,
       [](Call& call) {
         call.out.emit("Mul", {call.inputs[0], call.inputs[0]}, call.result);
       }},
      {&op::stop_gradient, same<kIdentity>},
      {&op::sub, same<kSub>},
      {&op::tanh, same<kTanh>},
      {&op::where, same<kWhere>},
  });
}

}  // namespace diptych::onnx
