// RNN, GRU and LSTM: the products of the inputs at once, then one step after the other, unrolled.

#include <algorithm>

#include <fmt/format.h>

#include "framework/io/onnx/operators.h"
#include "framework/ops/activation.h"
#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/matmul.h"
#include "framework/ops/shape.h"
#include "framework/ops/view.h"

namespace diptych::onnx {
namespace {

/// A graph has the ops of each step.
constexpr std::int64_t kMostSteps = 20'000;

using Function = std::function<Tensor(const Tensor&, Location)>;

/// One of the activation functions that the specification names.
struct Activation {
  const char* name;
  std::size_t parameters;  ///< how many of alpha and beta it takes: none, alpha, both
  double alpha;            ///< default
  double beta;
  Tensor (*function)(const Tensor& x, double alpha, double beta, Location where);
};

Tensor linear_activation(const Tensor& x, double alpha, double beta, Location where) {
  return plus(times(x, alpha, where), beta, where);
}
Tensor scaled_tanh(const Tensor& x, double alpha, double beta, Location where) {
  return times(tanh(times(x, beta, where), where), alpha, where);
}
Tensor hard_sigmoid_step(const Tensor& x, double alpha, double beta, Location where) {
  return clip(linear_activation(x, alpha, beta, where), 0, 1, where);
}
Tensor softsign_step(const Tensor& x, double /*alpha*/, double /*beta*/, Location where) {
  return div(x, plus(abs(x, where), 1, where), where);
}
Tensor thresholded_step(const Tensor& x, double alpha, double /*beta*/, Location location) {
  return where(greater_equal(x, scalar_like(x, alpha, location), location), x, scalar_like(x, 0, location), location);
}
template <Tensor (*op)(const Tensor&, Location)>
Tensor plain_step(const Tensor& x, double /*alpha*/, double /*beta*/, Location where) {
  return op(x, where);
}
template <Tensor (*op)(const Tensor&, double, Location)>
Tensor step_with(const Tensor& x, double alpha, double /*beta*/, Location where) {
  return op(x, alpha, where);
}

constexpr Activation kActivations[] = {{"Affine", 2, 1, 0, linear_activation},
                                       {"Elu", 1, 1, 0, step_with<elu>},
                                       {"HardSigmoid", 2, 0.2, 0.5, hard_sigmoid_step},
                                       {"LeakyRelu", 1, 0.01, 0, step_with<leaky_relu>},
                                       {"Relu", 0, 0, 0, plain_step<relu>},
                                       {"ScaledTanh", 2, 1, 1, scaled_tanh},
                                       {"Sigmoid", 0, 0, 0, plain_step<sigmoid>},
                                       {"Softplus", 0, 1, 0, step_with<softplus>},
                                       {"Softsign", 0, 0, 0, softsign_step},
                                       {"Tanh", 0, 0, 0, plain_step<tanh>},
                                       {"ThresholdedRelu", 1, 1, 0, thresholded_step}};

/// Scaling values as the specification has them: "consumed in the order of activation functions", by those alone that
/// take one.
class Scalings {
 public:
  explicit Scalings(const std::optional<std::vector<double>>& values)
      : values_(values.value_or(std::vector<double>())) {}

  double take(bool is_wanted, double otherwise) {
    return is_wanted && next_ < values_.size() ? values_[next_++] : otherwise;
  }

 private:
  std::vector<double> values_;
  std::size_t next_ = 0;
};

/// What the three operators have in common.
struct Cell {
  int gates = 1;
  std::int64_t hidden = 0;          ///< 0: as the weights say
  std::vector<Function> functions;  ///< of each direction in turn
  bool forward = true;
  bool backward = false;
  bool batch_first = false;
  bool resets_after_product = false;  ///< GRU: linear_before_reset
  bool couples_gates = false;         ///< LSTM: input_forget

  int directions() const { return forward && backward ? 2 : 1; }
};

/// `defaults`: the functions of one direction.
std::vector<Function> functions_of(NodeView& node, const std::vector<std::string>& defaults, int directions,
                                   double limit) {
  std::vector<std::string> names = node.strings("activations").value_or(std::vector<std::string>());
  if (names.empty()) {
    for (int i = 0; i < directions; ++i) {
      names.insert(names.end(), defaults.begin(), defaults.end());
    }
  }
  if (names.size() != defaults.size() * static_cast<std::size_t>(directions)) {
    node.malformed(fmt::format("it has {} activations", names.size()));
  }
  Scalings alphas(node.reals("activation_alpha"));
  Scalings betas(node.reals("activation_beta"));
  std::vector<Function> result;
  for (const std::string& wanted : names) {
    const auto same = [&](const Activation& each) {
      const std::string_view name = each.name;
      return std::equal(name.begin(), name.end(), wanted.begin(), wanted.end(),
                        [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
    };
    const auto found = std::find_if(std::begin(kActivations), std::end(kActivations), same);
    if (found == std::end(kActivations)) {
      node.refuse(fmt::format("the engine has no activation {}", quote(wanted)));
    }
    const double alpha = alphas.take(found->parameters >= 1, found->alpha);
    const double beta = betas.take(found->parameters == 2, found->beta);
    result.emplace_back([function = found->function, alpha, beta, limit](const Tensor& x, Location where) {
      return function(limit > 0 ? clip(x, -limit, limit, where) : x, alpha, beta, where);
    });
  }
  return result;
}

Cell cell_of(NodeView& node, int gates, const std::vector<std::string>& defaults) {
  Cell cell;
  cell.gates = gates;
  cell.hidden = node.integer("hidden_size", 0);
  const std::string direction = node.text("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    node.malformed("its direction isn't one of ONNX's");
  }
  cell.forward = direction != "reverse";
  cell.backward = direction != "forward";
  cell.batch_first = node.opset() >= 14 && node.integer("layout", 0) != 0;
  cell.functions = functions_of(node, defaults, cell.directions(), node.real("clip", 0));
  if (node.opset() < 7) {
    node.ignore("output_sequence");
  }
  return cell;
}

/// The tensors of one direction, in the engine's orientation, and its functions.
struct Direction {
  Tensor inputs;     ///< [L, B, gates * H]: products of the inputs, with their bias
  Tensor weight;     ///< [H, gates * H]
  Tensor bias;       ///< [gates * H], of the products of the state; undefined: none
  Tensor peepholes;  ///< LSTM: [3 * H]; undefined: none
  std::span<const Function> functions;
  std::int64_t hidden = 0;

  /// Part `gate` of the last axis.
  Tensor gate(const Tensor& x, std::int64_t index, Location where) const {
    return slice(x, -1, index * hidden, (index + 1) * hidden, 1, where);
  }
  Tensor product(const Tensor& h, Location where) const {
    const Tensor y = matmul(h, weight, where);
    return bias.defined() ? add(y, bias, where) : y;
  }
};

/// h, and for an LSTM the cell's c.
struct State {
  Tensor h;
  Tensor c;
};

using Step = State (*)(const Cell& cell, const Direction& d, const Tensor& x, const State& state, Location where);

State simple_step(const Cell& /*cell*/, const Direction& d, const Tensor& x, const State& state, Location where) {
  return {d.functions[0](add(x, d.product(state.h, where), where), where), {}};
}

/// Gates: update, reset, hidden.
State gru_step(const Cell& cell, const Direction& d, const Tensor& x, const State& state, Location where) {
  const Tensor all = d.product(state.h, where);
  const auto gate = [&](std::int64_t index) {
    return d.functions[0](add(d.gate(x, index, where), d.gate(all, index, where), where), where);
  };
  const Tensor update = gate(0);
  const Tensor reset = gate(1);
  Tensor recurrent;
  if (cell.resets_after_product) {
    recurrent = mul(reset, d.gate(all, 2, where), where);
  } else {
    recurrent = matmul(mul(reset, state.h, where), d.gate(d.weight, 2, where), where);
    recurrent = d.bias.defined() ? add(recurrent, d.gate(d.bias, 2, where), where) : recurrent;
  }
  const Tensor fresh = d.functions[1](add(d.gate(x, 2, where), recurrent, where), where);
  const Tensor rest = sub(scalar_like(update, 1, where), update, where);
  return {add(mul(rest, fresh, where), mul(update, state.h, where), where), {}};
}

/// Gates: input, output, forget, cell.
State lstm_step(const Cell& cell, const Direction& d, const Tensor& x, const State& state, Location where) {
  const Tensor all = add(x, d.product(state.h, where), where);
  const auto gate = [&](std::int64_t index, int peephole, const Tensor& c) {
    Tensor sum = d.gate(all, index, where);
    if (d.peepholes.defined()) {
      sum = add(sum, mul(d.gate(d.peepholes, peephole, where), c, where), where);
    }
    return d.functions[0](sum, where);
  };
  const Tensor input = gate(0, 0, state.c);
  const Tensor forget = cell.couples_gates ? sub(scalar_like(input, 1, where), input, where) : gate(2, 2, state.c);
  const Tensor fresh = d.functions[1](d.gate(all, 3, where), where);
  const Tensor c = add(mul(forget, state.c, where), mul(input, fresh, where), where);
  const Tensor output = gate(1, 1, c);
  return {mul(output, d.functions[2](c, where), where), c};
}

/// Row `index` of a tensor with one row for each direction; undefined if there is none.
Tensor of_direction(const Tensor& x, int index, Location where) {
  return x.defined() ? select(x, 0, index, where) : Tensor();
}

void check_operands(const Cell& cell, Inputs in, std::int64_t hidden) {
  const Tensor& x = in[0].tensor;
  const Tensor& w = in[1].tensor;
  const Tensor& r = in[2].tensor;
  const std::int64_t directions = cell.directions();
  const auto has = [&](const Tensor& tensor, const Shape& shape) {
    return !tensor.defined() || tensor.shape() == shape;
  };
  const std::int64_t rows = cell.gates * hidden;
  const std::int64_t batch = x.rank() == 3 ? x.shape()[cell.batch_first ? 0 : 1] : 0;
  const Shape state = cell.batch_first ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden};
  if (x.rank() != 3 || hidden < 1 || w.shape() != Shape{directions, rows, x.shape()[2]} ||
      r.shape() != Shape{directions, rows, hidden} || !has(optional_input(in, 3), {directions, 2 * rows}) ||
      !has(optional_input(in, 4), {batch}) || !has(optional_input(in, 5), state) ||
      !has(optional_input(in, 6), state) || !has(optional_input(in, 7), {directions, 3 * hidden})) {
    throw ShapeError(fmt::format("its inputs don't fit together: {}, weights {} and {}, {} hidden", to_string(x.type()),
                                 to_string(w.type()), to_string(r.type()), hidden));
  }
  const std::int64_t steps = x.shape()[cell.batch_first ? 1 : 0];
  if (steps < 1 || steps > kMostSteps) {
    throw Unsupported(fmt::format("{} steps; the engine unrolls 1 to {}", steps, kMostSteps));
  }
}

/// One direction's outputs: a row for each step, and the state after the last one. A sequence that is shorter keeps
/// its state from its end on, and its rows are 0 there.
State run_direction(const Cell& cell, Step step, const Direction& d, bool backward, State state, const Tensor& lengths,
                    std::vector<Tensor>& rows, Location location) {
  const std::int64_t steps = d.inputs.shape()[0];
  rows.resize(static_cast<std::size_t>(steps));
  for (std::int64_t i = 0; i < steps; ++i) {
    const std::int64_t t = backward ? steps - 1 - i : i;
    State next = step(cell, d, select(d.inputs, 0, t, location), state, location);
    Tensor row = next.h;
    if (lengths.defined()) {
      const Tensor runs = greater(lengths, scalar_like(lengths, static_cast<double>(t), location), location);
      row = where(runs, next.h, scalar_like(next.h, 0, location), location);
      next.h = where(runs, next.h, state.h, location);
      next.c = next.c.defined() ? where(runs, next.c, state.c, location) : next.c;
    }
    rows[static_cast<std::size_t>(t)] = row;
    state = next;
  }
  return state;
}

/// X, W, R, B, sequence_lens, initial_h, and for an LSTM initial_c and P.
void run_cell(const Cell& cell, Step step, Inputs in, Outputs out, Location where) {
  const std::int64_t hidden = cell.hidden > 0 ? cell.hidden : in[2].tensor.rank() == 3 ? in[2].tensor.shape()[2] : 0;
  check_operands(cell, in, hidden);
  const Tensor x = cell.batch_first ? transpose(in[0].tensor, 0, 1, where) : in[0].tensor;
  const Shape& s = x.shape();
  const std::int64_t all_gates = cell.gates * hidden;
  checked_shape(std::vector{s[0], s[1], all_gates}, x.dtype());
  const Tensor rows_of_x = reshape(x, {s[0] * s[1], s[2]}, where);
  const bool is_lstm = cell.gates == 4;
  const auto first_state = [&](std::size_t index, int direction) {
    const Tensor given = optional_input(in, index);
    if (!given.defined()) {
      return full({s[1], hidden}, 0, x.dtype(), where);
    }
    return select(given, cell.batch_first ? 1 : 0, direction, where);
  };
  Tensor lengths = optional_input(in, 4);
  lengths = lengths.defined() ? reshape(lengths, {s[1], 1}, where) : lengths;
  std::vector<std::vector<Tensor>> rows(static_cast<std::size_t>(cell.directions()));
  std::vector<Tensor> last_h;
  std::vector<Tensor> last_c;
  for (int i = 0; i < cell.directions(); ++i) {
    Direction d;
    d.hidden = hidden;
    d.weight = transpose(select(in[2].tensor, 0, i, where), 0, 1, where);
    d.peepholes = of_direction(optional_input(in, 7), i, where);
    const std::size_t each = cell.functions.size() / static_cast<std::size_t>(cell.directions());
    d.functions = std::span(cell.functions).subspan(static_cast<std::size_t>(i) * each, each);
    const Tensor weight = transpose(select(in[1].tensor, 0, i, where), 0, 1, where);
    const Tensor bias = of_direction(optional_input(in, 3), i, where);
    Tensor products = matmul(rows_of_x, weight, where);
    if (bias.defined()) {
      products = add(products, slice(bias, 0, 0, all_gates, 1, where), where);
      d.bias = slice(bias, 0, all_gates, 2 * all_gates, 1, where);
    }
    d.inputs = reshape(products, {s[0], s[1], all_gates}, where);
    const State state = run_direction(cell, step, d, i == 1 || !cell.forward,
                                      {first_state(5, i), is_lstm ? first_state(6, i) : Tensor()}, lengths,
                                      rows[static_cast<std::size_t>(i)], where);
    last_h.push_back(state.h);
    last_c.push_back(state.c);
  }
  std::vector<Tensor> by_direction;
  for (const std::vector<Tensor>& each : rows) {
    by_direction.push_back(stack(each, 0, where));
  }
  const Tensor y = stack(by_direction, 1, where);  // [L, directions, B, H]
  out[0].tensor = cell.batch_first ? permute(y, {2, 0, 1, 3}, where) : y;
  const int at = cell.batch_first ? 1 : 0;
  if (out.size() > 1) {
    out[1].tensor = stack(last_h, at, where);
  }
  if (out.size() > 2) {
    out[2].tensor = stack(last_c, at, where);
  }
}

Translation cell_translation(NodeView& node, Cell cell, Step step, int most_inputs) {
  node.check_inputs(3, most_inputs);
  return {
      [cell = std::move(cell), step](Inputs in, Outputs out, Location where) { run_cell(cell, step, in, out, where); }};
}

Translation rnn(NodeView& node) { return cell_translation(node, cell_of(node, 1, {"Tanh"}), simple_step, 6); }

Translation gru(NodeView& node) {
  Cell cell = cell_of(node, 3, {"Sigmoid", "Tanh"});
  cell.resets_after_product = node.opset() >= 3 && node.integer("linear_before_reset", 0) != 0;
  return cell_translation(node, std::move(cell), gru_step, 6);
}

Translation lstm(NodeView& node) {
  Cell cell = cell_of(node, 4, {"Sigmoid", "Tanh", "Tanh"});
  cell.couples_gates = node.integer("input_forget", 0) != 0;
  return cell_translation(node, std::move(cell), lstm_step, 8);
}

}  // namespace

void add_recurrent(std::vector<Operator>& all) {
  constexpr const char* kLimits = "1 to 20,000 steps, unrolled";
  all.push_back({"GRU", 7, kNewestOpset, gru, kLimits});
  all.push_back({"LSTM", 7, kNewestOpset, lstm, kLimits});
  all.push_back({"RNN", 7, kNewestOpset, rnn, kLimits});
}

}  // namespace diptych::onnx
