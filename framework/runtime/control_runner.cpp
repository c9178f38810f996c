#include "framework/runtime/control_runner.h"

#include <algorithm>
#include <cstring>

#include "framework/capture/control_apply.h"
#include "framework/core/tensor_body.h"

namespace diptych::runtime {
namespace {

using graph::ScanAttributes;
using graph::WhileAttributes;

/// A tensor that doesn't own its elements.
Tensor borrowed(const TensorType& type, const Strides& strides) {
  TensorBody* body = new_body();
  body->type = type;
  body->strides = strides;
  body->numel = type.shape.product();
  body->contiguous = is_contiguous(type.shape, strides);
  return Tensor::adopt(body);
}

void copy_to(void* destination, const Tensor& tensor, std::size_t bytes) {
  if (bytes > 0) {
    std::memcpy(destination, tensor.body()->data, bytes);
  }
}

std::byte* row_at(void* rows, std::int64_t index, std::size_t row_bytes) {
  return static_cast<std::byte*>(rows) + static_cast<std::size_t>(index) * row_bytes;
}

void clear_rows(void* rows, std::int64_t first, std::int64_t length, std::size_t row_bytes) {
  if (const std::size_t left = static_cast<std::size_t>(length - first) * row_bytes; left > 0) {
    std::memset(row_at(rows, first, row_bytes), 0, left);
  }
}

}  // namespace

ControlRunner::ControlRunner(const LoweredNode& node, const ExecutableOptions& options)
    : op_(node.op), attributes_(node.attributes) {
  std::vector<Strides> strides;
  for (const Place& input : node.inputs) {
    inputs_.push_back(borrowed(input.type, input.strides));
    strides.push_back(input.strides);
  }
  for (const Place& output : node.outputs) {
    output_bytes_.push_back(bytes_of(output.type));
  }
  std::span<const Strides> region_strides = strides;
  if (op_ == &graph::cond_op()) {
    region_strides = region_strides.subspan(1);
  } else if (op_ == &graph::scan_op()) {
    const auto& scan = attributes_.as<ScanAttributes>();
    const std::size_t first = scan.bounded ? 1 : 0;
    for (std::int64_t i = 0; i < scan.scanned; ++i) {
      const std::size_t x = first + static_cast<std::size_t>(scan.carries + i);
      const TensorType row = graph::row_type(node.inputs[x].type);
      strides[x] = contiguous_strides(row.shape);
      rows_.push_back(borrowed(row, strides[x]));
    }
    region_strides = region_strides.subspan(first);
  }
  for (const auto& region : node.regions) {
    regions_.push_back(std::make_unique<Executable>(*region, region_strides, options));
  }
}

void ControlRunner::run(std::span<void* const> inputs, std::span<void* const> outputs) const {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    inputs_[i].body()->data = inputs[i];
  }
  if (op_ == &graph::cond_op()) {
    run_cond(outputs);
  } else if (op_ == &graph::while_op()) {
    run_while(outputs);
  } else {
    run_scan(outputs);
  }
}

void ControlRunner::run_cond(std::span<void* const> outputs) const {
  const bool predicate = *static_cast<const bool*>(inputs_[0].body()->data);
  Tensors results;
  regions_[predicate ? 0 : 1]->run(std::span(inputs_).subspan(1), results);
  for (std::size_t i = 0; i < results.size(); ++i) {
    copy_to(outputs[i], results[i], bytes(i));
  }
}

void ControlRunner::run_while(std::span<void* const> outputs) const {
  const auto& loop = attributes_.as<WhileAttributes>();
  const auto carries = static_cast<std::size_t>(loop.carries);
  Tensors arguments = inputs_;  // carries, then the closed-over values
  Tensors results;
  std::int64_t count = 0;
  for (;; ++count) {
    results.clear();
    regions_[0]->run(arguments, results);
    if (!*results[0].data<bool>()) {
      break;
    }
    if (loop.limit > 0 && count == loop.limit) {
      throw graph::iteration_limit_error(loop.limit);
    }
    for (std::size_t i = 0; loop.record && i < carries; ++i) {
      copy_to(row_at(outputs[carries + i], count, bytes(i)), arguments[i], bytes(i));
    }
    results.clear();
    regions_[1]->run(arguments, results);
    std::move(results.begin(), results.end(), arguments.begin());
  }
  for (std::size_t i = 0; i < carries; ++i) {
    copy_to(outputs[i], arguments[i], bytes(i));
    if (loop.record) {
      clear_rows(outputs[carries + i], count, loop.limit, bytes(i));
    }
  }
  if (loop.record) {
    *static_cast<std::int64_t*>(outputs.back()) = count;
  }
}

void ControlRunner::run_scan(std::span<void* const> outputs) const {
  const auto& scan = attributes_.as<ScanAttributes>();
  const auto carries = static_cast<std::size_t>(scan.carries);
  const std::size_t first = scan.bounded ? 1 : 0;
  const std::int64_t count =
      scan.bounded ? std::clamp<std::int64_t>(*inputs_[0].data<std::int64_t>(), 0, scan.length) : scan.length;
  Tensors arguments(inputs_.begin() + static_cast<std::ptrdiff_t>(first), inputs_.end());
  std::copy(rows_.begin(), rows_.end(), arguments.begin() + static_cast<std::ptrdiff_t>(carries));
  const auto row_bytes = [&](std::size_t y) {
    return scan.length > 0 ? bytes(y) / static_cast<std::size_t>(scan.length) : 0;
  };
  Tensors results;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t index = scan.reverse ? count - 1 - i : i;
    for (std::size_t x = 0; x < rows_.size(); ++x) {
      TensorBody& row = *rows_[x].body();
      row.data = row_at(inputs_[first + carries + x].body()->data, index, bytes_of(row.type));
    }
    results.clear();
    regions_[0]->run(arguments, results);
    for (std::size_t y = carries; y < results.size(); ++y) {
      copy_to(row_at(outputs[y], index, row_bytes(y)), results[y], row_bytes(y));
    }
    std::move(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(carries), arguments.begin());
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (i < carries) {
      copy_to(outputs[i], arguments[i], bytes(i));
    } else {
      clear_rows(outputs[i], count, scan.length, row_bytes(i));
    }
  }
}

}  // namespace diptych::runtime
