#include "framework/autograd/custom.h"

#include <fmt/format.h>

#include "framework/autograd/backward.h"
#include "framework/core/tensor_body.h"
#include "framework/ops/creation.h"

namespace diptych {
namespace detail {
namespace {

std::vector<Tensor> zeros_of(const std::vector<TensorType>& types) {
  std::vector<Tensor> result;
  for (const TensorType& type : types) {
    result.push_back(zeros(type.shape, type.dtype));
  }
  return result;
}

class VjpRule final : public autograd::CustomRule {
 public:
  VjpRule(FlatRule rule, std::span<const Tensor> inputs, Location where) : rule_(std::move(rule)), where_(where) {
    for (const Tensor& input : inputs) {
      types_.push_back(input.type());
    }
  }
  std::vector<Tensor> vjp(std::span<const Tensor> cotangents) override {
    std::vector<Tensor> gradients = rule_(with_zeros(cotangents, zeros_of(output_types())));
    if (gradients.size() != types_.size()) {
      throw Error(
          fmt::format("custom_vjp: the rule gave {} gradients for {} arguments", gradients.size(), types_.size()),
          where_, "return one for each argument, in their order");
    }
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (gradients[i].defined() && gradients[i].type() != types_[i]) {
        throw ShapeError(fmt::format("custom_vjp: the gradient of argument {} is {}, the argument {}", i,
                                     to_string(gradients[i].type()), to_string(types_[i])),
                         where_, "a gradient has its argument's type");
      }
    }
    return gradients;
  }

 private:
  FlatRule rule_;
  std::vector<TensorType> types_;
  Location where_;
};

class JvpRule final : public autograd::CustomRule {
 public:
  JvpRule(FlatRule rule, std::vector<Tensor> inputs, Location where)
      : rule_(std::move(rule)), inputs_(std::move(inputs)), where_(where) {}

  std::optional<std::vector<Tensor>> jvp(std::span<const Tensor> tangents) override { return apply(tangents); }

  std::vector<Tensor> apply(std::span<const Tensor> tangents) {
    std::vector<Tensor> results = rule_(with_zeros(tangents, inputs_));
    if (results.size() != output_types().size()) {
      throw Error(
          fmt::format("custom_jvp: the rule gave {} tangents for {} results", results.size(), output_types().size()),
          where_, "return one for each result, in their order");
    }
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (results[i].defined() && results[i].type() != output_types()[i]) {
        throw ShapeError(fmt::format("custom_jvp: the tangent of result {} is {}, the result {}", i,
                                     to_string(results[i].type()), to_string(output_types()[i])),
                         where_, "a tangent has its result's type");
      }
    }
    return results;
  }

  std::vector<Tensor> vjp(std::span<const Tensor> cotangents) override {
    // The rule is linear in the tangents: transposing it gives reverse mode.
    const EnableGrad enable;
    const std::uint64_t serial = autograd::next_serial();
    std::vector<Tensor> tangents;
    std::vector<Tensor> targets;
    for (const Tensor& input : inputs_) {
      const Tensor zero = full_like(input, 0.0);
      tangents.push_back(is_floating(input.dtype()) ? autograd::watch(zero, where_) : zero);
      if (is_floating(input.dtype())) {
        targets.push_back(tangents.back());
      }
    }
    std::vector<Tensor> outputs;
    std::vector<Tensor> seeds;
    const std::vector<Tensor> results = apply(tangents);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (cotangents[i].defined() && results[i].defined() && results[i].requires_grad()) {
        outputs.push_back(results[i]);
        seeds.push_back(cotangents[i]);
      }
    }
    const std::vector<Tensor> found =
        autograd::gradients(outputs, targets, seeds, {/*release=*/false, serial}, where_).gradients;
    std::vector<Tensor> gradients;
    std::size_t next = 0;
    for (const Tensor& input : inputs_) {
      gradients.push_back(is_floating(input.dtype()) ? found[next++] : Tensor());
    }
    return gradients;
  }

 private:
  FlatRule rule_;
  std::vector<Tensor> inputs_;
  Location where_;
};

class CheckpointRule final : public autograd::CustomRule {
 public:
  CheckpointRule(std::vector<autograd::SavedTensor> inputs, std::function<std::vector<Tensor>()> again,
                 std::vector<VariableRead> reads, std::vector<autograd::TapeEdge> targets, Location where)
      : saved_(std::move(inputs)),
        again_(std::move(again)),
        reads_(std::move(reads)),
        targets_(std::move(targets)),
        where_(where) {
    for (const VariableRead& read : reads_) {
      saved_.emplace_back(read.value);
    }
  }

  std::vector<Tensor> vjp(std::span<const Tensor> cotangents) override {
    for (const autograd::SavedTensor& saved : saved_) {
      saved.check("checkpoint", where_);
    }
    const bool record = thread_context.grad_enabled;
    const EnableGrad enable;
    const std::uint64_t serial = autograd::next_serial();
    std::vector<Tensor> outputs;
    {
      const Rebind then(reads_);
      outputs = again_();
    }
    std::vector<Tensor> recomputed;
    std::vector<Tensor> seeds;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (cotangents[i].defined() && outputs[i].requires_grad()) {
        recomputed.push_back(outputs[i]);
        seeds.push_back(cotangents[i]);
      }
    }
    return autograd::gradients(recomputed, targets_, seeds,
                               {.release = !record, .outer_before = record ? UINT64_MAX : 0, .boundary = serial},
                               where_)
        .gradients;
  }

 private:
  std::vector<autograd::SavedTensor> saved_;
  std::function<std::vector<Tensor>()> again_;
  std::vector<VariableRead> reads_;
  std::vector<autograd::TapeEdge> targets_;
  Location where_;
};

/// Replaces the tensors by the same values without their tape.
void detach_all(std::span<Tensor> tensors) {
  for (Tensor& tensor : tensors) {
    tensor = detached_alias(tensor);
  }
}

}  // namespace

std::vector<Tensor> with_zeros(std::span<const Tensor> tensors, std::span<const Tensor> like) {
  std::vector<Tensor> result;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    result.push_back(tensors[i].defined() ? tensors[i] : full_like(like[i], 0.0));
  }
  return result;
}

void attach_vjp(std::span<const Tensor> inputs, std::span<Tensor> outputs, std::uint64_t serial, FlatRule rule,
                Location where) {
  for (const autograd::TapeEdge& edge : autograd::dependencies(outputs, serial)) {
    const bool argument = std::any_of(inputs.begin(), inputs.end(), [&](const Tensor& input) {
      return input.body()->tape == edge.node && input.body()->tape_output == edge.output;
    });
    if (!argument) {
      throw Error(fmt::format("custom_vjp: the function uses a tensor {} that gradients are asked for, but that is no "
                              "argument",
                              to_string(edge.type)),
                  where, "pass it as an argument, or through stop_gradient()");
    }
  }
  detach_all(outputs);
  if (any_watched(inputs)) {
    autograd::record_custom(std::make_unique<VjpRule>(std::move(rule), inputs, where), inputs, outputs, where);
  }
}

void attach_jvp(std::span<const Tensor> inputs, std::span<Tensor> outputs, FlatRule rule, Location where) {
  detach_all(outputs);
  autograd::record_custom(
      std::make_unique<JvpRule>(std::move(rule), std::vector<Tensor>(inputs.begin(), inputs.end()), where), inputs,
      outputs, where);
}

void attach_checkpoint(std::vector<autograd::SavedTensor> inputs, std::vector<Tensor>& outputs, std::uint64_t serial,
                       std::vector<VariableRead> reads, std::function<std::vector<Tensor>()> again, Location where) {
  std::vector<autograd::TapeEdge> targets = autograd::dependencies(outputs, serial);
  if (targets.empty()) {
    return;
  }
  detach_all(outputs);
  auto rule = std::make_unique<CheckpointRule>(std::move(inputs), std::move(again), std::move(reads), targets, where);
  autograd::record_custom(std::move(rule), targets, outputs, where);
}

}  // namespace detail

namespace autograd {

std::vector<Tensor> grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                         const GradArguments& arguments, Location where) {
  for (const Tensor& output : outputs) {
    if (!output.requires_grad()) {
      throw Error(
          fmt::format("grad: the output {} depends on nothing that gradients are asked for", to_string(output.type())),
          where, "compute it from tensors of requires_grad(), outside no_grad()");
    }
    if (arguments.cotangents.empty() && output.numel() != 1) {
      throw ShapeError(fmt::format("grad: the output {} is no scalar", to_string(output.type())), where,
                       "reduce it with sum() or mean() first, or give its cotangent");
    }
  }
  for (const Tensor& input : inputs) {
    if (!input.requires_grad()) {
      throw Error(fmt::format("grad: no gradient is asked for by the input {}", to_string(input.type())), where,
                  "compute the outputs from requires_grad(input)");
    }
  }
  if (!arguments.cotangents.empty()) {
    detail::check_like("grad", arguments.cotangents, outputs, where);
  }
  const bool record = arguments.create_graph;
  return gradients(outputs, inputs, arguments.cotangents,
                   {.release = !arguments.retain_graph && !record, .outer_before = record ? UINT64_MAX : 0}, where)
      .gradients;
}

}  // namespace autograd
}  // namespace diptych
