#include "tests/runtime/random_program.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/dispatch/apply.h"
#include "framework/ops/row_ops.h"
#include "framework/ops/shape_ops.h"
#include "framework/ops/window_ops.h"
#include "tests/runtime/random_layers.h"

namespace diptych::testing {
namespace {

/// What a program is drawn from. Shapes that stand there twice are drawn twice as often.
struct Style {
  std::vector<Shape> shapes;
  std::vector<DType> dtypes;
  std::vector<const OpDef*> often;  ///< two thirds of the ops, with operands that fit
  std::vector<Shape> always;        ///< arguments that each program has, in f32: what a layer needs
  std::int64_t most_elements;
};

/// Of all ops alike, on tensors of a few elements, where edges meet.
const Style& any_ops() {
  static const Style style{
      .shapes = {{},
                 {1},
                 {4},
                 {5},
                 {4, 4},
                 {4, 5},
                 {5, 4},
                 {1, 4},
                 {4, 1},
                 {2, 4, 5},
                 {3, 1, 4},
                 {0, 4},
                 {4, 4},
                 {4},
                 {4, 4, 4},
                 {20},
                 {1, 1}},
      .dtypes = {DType::float32, DType::float32, DType::float32, DType::float64, DType::int64, DType::int32,
                 DType::boolean, DType::uint8, DType::bfloat16, DType::float16, DType::int8, DType::uint64},
      .often = {},
      .always = {},
      .most_elements = 4000};
  return style;
}

/// Of layers, on tensors of several tiles and blocks: what fusion is for.
Style layers_of_rows(Random& random) {
  static const std::vector<const OpDef*> ops =
      ops_named({"linear", "linear",  "linear", "matmul",  "matmul",       "add",         "add",        "mul",
                 "mul",    "sub",     "div",    "where",   "greater",      "relu",        "gelu",       "tanh",
                 "silu",   "sigmoid", "exp",    "square",  "softmax",      "log_softmax", "layer_norm", "rms_norm",
                 "sum",    "max",     "cast",   "permute", "masked_scale", "maximum"});
  const auto rows = random.pick(std::vector<std::int64_t>{33, 40, 128, 128, 128, 130});
  const auto columns = random.pick(std::vector<std::int64_t>{24, 70, 96, 96});  // 128 x 96: whole blocks of a sum
  const Shape all{rows, columns};
  return {.shapes = {all,
                     all,
                     all,
                     all,
                     {columns},
                     {columns},
                     {columns, columns},
                     {columns, columns},
                     {rows, 1},
                     {1, columns},
                     {2, rows, columns},
                     {}},
          .dtypes = {DType::float32, DType::float32, DType::float32, DType::float32, DType::float64, DType::boolean,
                     DType::bfloat16},
          .often = ops,
          .always = {all, {columns, columns}, {columns}},
          .most_elements = 40'000};
}

Style layers_of_images(Random& random) {
  static const std::vector<const OpDef*> ops = [] {
    std::vector<const OpDef*> all =
        ops_named({"conv2d", "conv2d", "conv2d", "conv2d",  "add", "add", "mul",   "mul",     "sub",    "relu",
                   "relu",   "silu",   "clip",   "sigmoid", "sum", "max", "where", "greater", "square", "rsqrt"});
    for (const OpDef* const norm : ops_named({"batch_norm", "batch_norm_statistics", "batch_norm_input_gradient",
                                              "batch_norm_weight_gradient", "batch_norm_statistics", "batch_norm"})) {
      all.push_back(norm);
    }
    return all;
  }();
  const auto size = random.pick(std::vector<std::int64_t>{1, 7, 14, 17});
  const auto channels = random.pick(std::vector<std::int64_t>{1, 2, 3, 8, 17});
  const auto images = random.pick(std::vector<std::int64_t>{1, 2, 2, 3});
  const Shape all{images, channels, size, size};
  return {.shapes = {all,
                     all,
                     all,
                     all,
                     {channels, channels, 3, 3},
                     {channels, channels, 3, 3},
                     {channels, channels, 1, 1},
                     {channels},
                     {channels},
                     {channels, 4},
                     {channels, 1, 1},
                     {channels, 1, 1},
                     {images, channels, 1, 1}},
          .dtypes = {DType::float32, DType::float32, DType::float32, DType::float32, DType::float64, DType::boolean},
          .often = ops,
          .always = {all, {channels, channels, 3, 3}, {channels}, {channels, 1, 1}},
          .most_elements = 40'000};
}

Style random_style(Random& random) {
  if (!random.one_in(5)) {
    return any_ops();
  }
  return random.one_in(3) ? layers_of_images(random) : layers_of_rows(random);
}

Tensor random_argument(Random& random, const Style& style) {
  const Shape& shape = random.pick(style.shapes);
  const Tensor dense = random_tensor(random, random.pick(style.dtypes), shape);
  if (shape.rank() >= 2 && random.one_in(3)) {
    return transpose(dense);
  }
  if (shape.rank() >= 1 && shape[0] > 2 && random.one_in(4)) {
    return slice(dense, 0, 1, shape[0], random.one_in(2) ? 2 : 1);
  }
  return dense;
}

/// Fills in attributes by the names and the printed form of their fields; what doesn't fit is refused by inference.
void randomise_attributes(Random& random, const Style& style, AttributeValue& attributes, const Shape& like) {
  const std::string text = attributes.print();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t equals = text.find('=', at);
    std::size_t end = equals;
    for (int depth = 0; end < text.size() && (depth > 0 || text[end] != ','); ++end) {
      depth += text[end] == '[' ? 1 : text[end] == ']' ? -1 : 0;
    }
    const std::string name = text.substr(at, equals - at);
    const std::string value = text.substr(equals + 1, end - equals - 1);
    at = end + 2;
    std::string drawn;
    if (value.starts_with('[')) {
      Dims dims;
      if (name == "axes") {
        for (int axis = 0; axis < like.rank(); ++axis) {
          dims.push_back(axis);
        }
        if (random.one_in(2)) {
          for (int axis = like.rank() - 1; axis > 0; --axis) {
            std::swap(dims[axis], dims[static_cast<int>(random.below(static_cast<std::size_t>(axis) + 1))]);
          }
        } else if (random.one_in(2)) {
          dims = {};
          for (auto axis = static_cast<int>(random.below(static_cast<std::size_t>(like.rank()) + 1));
               axis < like.rank(); ++axis) {
            dims.push_back(axis);
          }
        } else if (like.rank() > 0) {
          dims = Dims{static_cast<std::int64_t>(random.below(static_cast<std::size_t>(like.rank())))};
        }
      } else if (random.one_in(3)) {
        dims = like;
        if (dims.rank() < 4) {
          Dims longer{static_cast<std::int64_t>(1 + random.below(3))};
          for (std::int64_t length : dims) {
            longer.push_back(length == 1 ? static_cast<std::int64_t>(1 + random.below(4)) : length);
          }
          dims = longer;
        }
      } else if (random.one_in(2)) {
        dims = Dims{like.product()};
      } else {
        dims = random.pick(style.shapes);
      }
      drawn = to_string(dims);
    } else if (value == "true" || value == "false") {
      drawn = random.one_in(2) ? "true" : "false";
    } else if (parse_dtype(value)) {
      drawn = name_of(static_cast<DType>(random.below(kDTypeCount)));
    } else if (name == "value") {
      static const std::vector<std::string> numbers{"0", "-0", "1", "2", "-1", "0.5", "4", "3", "-2"};
      drawn = random.pick(numbers);
    } else if (name == "depth") {
      drawn = "9";
    } else {
      drawn = std::to_string(random.below(6));
    }
    attributes.type()->parse_field(attributes.get(), name, drawn);
  }
}

/// The type of its result, unless inference refuses it.
std::optional<TensorType> inferred(const Step& step, const std::vector<TensorType>& types) {
  std::vector<const TensorType*> inputs;
  for (const std::size_t input : step.inputs) {
    inputs.push_back(&types[input]);
  }
  if (!step.op->takes(inputs.size())) {
    return std::nullopt;
  }
  try {
    TensorType type;
    step.op->infer_type({*step.op, inputs, step.attributes.get(), {}}, type);
    return type;
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// All that a program calls. What the passes check-labels and merge-products alone make, graphs have by them.
const std::vector<const OpDef*>& drawn_ops() {
  static const std::vector<const OpDef*> drawn = [] {
    const auto all = registry();
    std::vector<const OpDef*> ops(all.begin(), all.end());
    std::erase_if(ops, [](const OpDef* op) {
      return op == &op::class_labels || op == &op::cross_entropy_of_classes ||
             op == &op::cross_entropy_backward_of_classes || op == &op::merged_linear;
    });
    return ops;
  }();
  return drawn;
}

Step random_op(Random& random, const Style& style, const std::vector<TensorType>& types) {
  Step step;
  const auto& ops = drawn_ops();
  const bool is_usual = !style.often.empty() && !random.one_in(3);
  step.op = is_usual ? random.pick(style.often) : ops[random.below(ops.size())];
  for (int tries = is_usual ? 30 : 1; tries > 0; --tries) {
    step.inputs.clear();
    const bool is_short = is_usual && step.op->least_inputs > 0 && random.one_in(2);
    for (int i = 0; i < (is_short ? step.op->least_inputs : step.op->inputs); ++i) {
      // Recent values more often: deep graphs instead of wide ones. Of layers, the last one, and any operand.
      const std::size_t recent = std::min(random.below(types.size()), random.below(types.size()));
      const std::size_t back = !is_usual ? recent : i > 0 ? random.below(types.size()) : random.one_in(2) ? 0 : recent;
      step.inputs.push_back(random.one_in(5) && i > 0 ? step.inputs[0] : types.size() - 1 - back);
    }
    step.attributes = AttributeValue(step.op->attributes, nullptr);
    if (step.op->attributes != nullptr && !(is_usual && random.one_in(2))) {
      randomise_attributes(random, style, step.attributes,
                           step.inputs.empty() ? random.pick(style.shapes) : types[step.inputs[0]].shape);
    }
    if (tries == 1 || inferred(step, types)) {
      break;
    }
  }
  return step;
}

/// Up to four values that fit each other along an axis, one of them perhaps twice; nothing to join gives no inputs.
Step random_concat(Random& random, const std::vector<TensorType>& types) {
  Step step;
  step.op = &op::concat;
  step.attributes = AttributeValue(step.op->attributes, nullptr);
  const std::size_t first = types.size() - 1 - std::min(random.below(types.size()), random.below(types.size()));
  const int rank = types[first].shape.rank();
  if (rank == 0) {
    return step;
  }
  // Along the outermost axis parts are dense.
  const int axis = random.one_in(2) ? 0 : static_cast<int>(random.below(static_cast<std::size_t>(rank)));
  step.attributes.type()->parse_field(step.attributes.get(), "axis", std::to_string(axis));
  std::vector<std::size_t> fitting;
  for (std::size_t value = 0; value < types.size(); ++value) {
    TensorType type = types[value];
    if (type.shape.rank() == rank) {
      type.shape[axis] = types[first].shape[axis];
      if (type == types[first]) {
        fitting.push_back(value);
      }
    }
  }
  step.inputs = {first};
  for (std::size_t more = 1 + random.below(3); more > 0; --more) {
    step.inputs.push_back(random.pick(fitting));
  }
  if (random.one_in(2)) {
    std::swap(step.inputs.front(), step.inputs.back());
  }
  return step;
}

constexpr std::size_t kNotOurs = SIZE_MAX;  // storage of an argument or a state, which isn't updated in place

}  // namespace

Program random_program(Random& random) {
  const Style style = random_style(random);
  Program program;
  std::vector<TensorType> types;
  std::vector<std::size_t> storages;  // of values: by whose op it was allocated
  // One NaN, and all of its row or channel is.
  const bool has_special = style.always.empty() || random.one_in(4);
  const std::size_t argument_count = 1 + random.below(3) + style.always.size();
  for (std::size_t i = 0; i < argument_count; ++i) {
    program.arguments.push_back(i < style.always.size()
                                    ? random_tensor(random, DType::float32, style.always[i], has_special)
                                    : random_argument(random, style));
    types.push_back(program.arguments.back().type());
    storages.push_back(kNotOurs);
  }
  const std::size_t state_count = random.below(3) + (style.often.empty() ? 0 : 2);
  for (std::size_t i = 0; i < state_count; ++i) {
    // Often the type of an argument, so that assignments fit.
    const TensorType type =
        random.one_in(2) ? types[random.below(types.size())] : TensorType{DType::float32, random.pick(style.shapes)};
    program.states.push_back(random_tensor(random, type.dtype, type.shape));
  }
  const std::size_t wanted = 2 + random.below(14);
  for (int tries = 0; tries < 300 && program.steps.size() < wanted; ++tries) {
    Step step;
    if (state_count > 0 && random.one_in(6)) {
      step.variable = random.below(state_count);
      const Tensor& state = program.states[step.variable];
      const std::size_t value = random.below(types.size());
      if (types[value] == state.type()) {
        step.kind = Step::Kind::assign;
        step.inputs = {value};
        const std::size_t shared = storages[value];  // the state's from now on
        std::replace(storages.begin(), storages.end(), shared, kNotOurs);
      } else {
        step.kind = Step::Kind::read;
        types.push_back(state.type());
        storages.push_back(kNotOurs);
      }
      program.steps.push_back(step);
      continue;
    }
    if (random.one_in(8)) {
      const std::size_t a = random.below(types.size());
      const std::size_t b = random.below(types.size());
      step.choice = 1 + random.below(300);
      step.kind = random.one_in(2) ? Step::Kind::update : random.one_in(2) ? Step::Kind::branch : Step::Kind::loop;
      step.inputs = step.kind == Step::Kind::loop ? std::vector{a} : std::vector{b, a};
      if (step.kind == Step::Kind::update) {
        step.inputs = {a, b};
        if (storages[a] == kNotOurs || types[a] != types[b] || types[a].dtype == DType::boolean) {
          continue;
        }
      } else if (!is_real(types[a].dtype)) {
        continue;
      } else {
        types.push_back(types[a]);
        storages.push_back(kNotOurs);
      }
      program.steps.push_back(step);
      continue;
    }
    step = random.one_in(8) ? random_concat(random, types) : random_op(random, style, types);
    const std::optional<TensorType> type = inferred(step, types);
    if (!type || type->shape.rank() > 6 || type->shape.product() > style.most_elements ||
        std::any_of(type->shape.begin(), type->shape.end(), [](std::int64_t length) { return length < 0; })) {
      continue;
    }
    const bool is_view = step.op->view != nullptr;
    const bool repeats = is_view && type->shape.product() > types[step.inputs[0]].shape.product();
    storages.push_back(repeats ? kNotOurs : is_view ? storages[step.inputs[0]] : types.size());
    types.push_back(*type);
    program.steps.push_back(step);
  }
  const std::size_t results = 1 + random.below(4);
  for (std::size_t i = 0; i < results; ++i) {
    program.results.push_back(types.size() - 1 - std::min(random.below(types.size()), random.below(types.size())));
  }
  if (!style.often.empty()) {
    append_layers(random, program, types.size());
  }
  const std::size_t by = random.below(argument_count);
  if (random.one_in(3) && is_real(types[by].dtype)) {
    program.gradient = static_cast<int>(by);
    program.aside = random.one_in(2) ? 0 : static_cast<std::uint32_t>(random.below(16));
  }
  return program;
}

}  // namespace diptych::testing
