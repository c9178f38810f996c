// Sequences: lists of tensors inside a model, whose lengths and places are known when it is planned. No op of the
// engine sees one: what is read from a list is the tensor that was put there.

#include <algorithm>

#include <fmt/format.h>

#include "framework/io/onnx/program.h"
#include "framework/ops/shape.h"
#include "framework/ops/view.h"

namespace diptych::onnx {
namespace {

const Value::Items& items_of(const Value& value) {
  if (value.items == nullptr) {
    throw ShapeError(fmt::format("{} where a sequence is asked for", to_string(value.tensor.type())));
  }
  return *value.items;
}

void give(Value::Items items, Value& out) { out = sequence_of(std::move(items)); }

/// A place from 0 to `end`, counted from the end if it is negative.
std::size_t place_of(const Tensor& position, std::size_t length, std::size_t end) {
  std::int64_t place = host_integer(position);
  place += place < 0 ? static_cast<std::int64_t>(length) : 0;
  if (place < 0 || place > static_cast<std::int64_t>(end)) {
    throw ShapeError(fmt::format("place {} of a sequence of {}", host_integer(position), length));
  }
  return static_cast<std::size_t>(place);
}

Translation of_lists(Run run, std::vector<int> host_inputs) {
  Translation result{std::move(run), std::move(host_inputs)};
  result.takes_sequences = true;
  return result;
}

Translation construct(NodeView& node) {
  node.check_inputs(1, NodeView::kAny);
  return of_lists(
      [](Inputs in, Outputs out, Location /*where*/) {
        Value::Items items;
        for (const Value& value : in) {
          if (value.items != nullptr) {
            throw Unsupported("a sequence of sequences");
          }
          items.push_back(value.tensor);
        }
        give(std::move(items), out[0]);
      },
      {});
}

Translation empty(NodeView& node) {
  node.ignore("dtype");
  node.check_inputs(0, 0);
  return of_lists([](Inputs /*in*/, Outputs out, Location /*where*/) { give({}, out[0]); }, {});
}

Translation insert(NodeView& node) {
  node.check_inputs(2, 3);
  return of_lists(
      [](Inputs in, Outputs out, Location /*where*/) {
        Value::Items items = items_of(in[0]);
        const Tensor position = optional_input(in, 2);
        const std::size_t place = position.defined() ? place_of(position, items.size(), items.size()) : items.size();
        items.insert(items.begin() + static_cast<std::ptrdiff_t>(place), in[1].tensor);
        give(std::move(items), out[0]);
      },
      {2});
}

/// The place of an existing element; the last one by default.
std::size_t existing(const Value::Items& items, const Tensor& position) {
  if (items.empty()) {
    throw ShapeError("an empty sequence has no element");
  }
  return position.defined() ? place_of(position, items.size(), items.size() - 1) : items.size() - 1;
}

Translation erase(NodeView& node) {
  node.check_inputs(1, 2);
  return of_lists(
      [](Inputs in, Outputs out, Location /*where*/) {
        Value::Items items = items_of(in[0]);
        items.erase(items.begin() + static_cast<std::ptrdiff_t>(existing(items, optional_input(in, 1))));
        give(std::move(items), out[0]);
      },
      {1});
}

Translation element(NodeView& node) {
  node.check_inputs(2, 2);
  return of_lists(
      [](Inputs in, Outputs out, Location /*where*/) {
        const Value::Items& items = items_of(in[0]);
        out[0].tensor = items[existing(items, in[1].tensor)];
      },
      {1});
}

Translation length_of_list(NodeView& node) {
  node.check_inputs(1, 1);
  Translation result = of_lists(
      [](Inputs in, Outputs out, Location /*where*/) {
        out[0].tensor = Tensor::scalar(static_cast<std::int64_t>(items_of(in[0]).size()));
      },
      {});
  result.by_type = true;
  return result;
}

Translation join_list(NodeView& node) {
  const std::int64_t axis = node.integer("axis", 0);
  const bool new_axis = node.integer("new_axis", 0) != 0;
  node.check_inputs(1, 1);
  return of_lists(
      [=](Inputs in, Outputs out, Location where) {
        const Value::Items& items = items_of(in[0]);
        if (items.empty()) {
          throw ShapeError("an empty sequence has nothing to join");
        }
        const int place = axis_of(axis, items[0].rank() + (new_axis ? 1 : 0));
        out[0].tensor = new_axis ? stack(items, place, where) : concat(items, place, where);
      },
      {});
}

/// Into pieces of one size, the last one maybe shorter; of the sizes of a list; or of single elements.
Translation split_list(NodeView& node) {
  const std::int64_t axis = node.integer("axis", 0);
  const bool keepdims = node.integer("keepdims", 1) != 0;
  node.check_inputs(1, 2);
  constexpr std::int64_t kMostPieces = 100'000;
  return of_lists(
      [=](Inputs in, Outputs out, Location where) {
        const Tensor& x = in[0].tensor;
        const int place = axis_of(axis, x.rank());
        const std::int64_t whole = x.shape()[place];
        const Tensor sizes = optional_input(in, 1);
        const std::int64_t size = !sizes.defined() ? 1 : sizes.rank() == 0 ? host_integer(sizes) : 0;
        const std::int64_t pieces = sizes.defined() && sizes.rank() > 0 ? sizes.numel()
                                    : size > 0                          ? whole / size
                                                                        : kMostPieces + 1;
        if (pieces > kMostPieces) {
          throw Unsupported(fmt::format("more than {} pieces of {}", kMostPieces, to_string(x.type())));
        }
        Value::Items items = sizes.defined() && sizes.rank() > 0 ? split(x, host_integers(sizes), place, where)
                                                                 : split(x, size, place, where);
        if (!sizes.defined() && !keepdims) {
          for (Tensor& item : items) {
            item = squeeze(item, place, where);
          }
        }
        give(std::move(items), out[0]);
      },
      {1});
}

/// Gives the sequences that a body makes of the elements of its first input, with those of other sequences at the same
/// place and tensors as they are.
Translation map_list(NodeView& node) {
  node.check_inputs(1, NodeView::kAny);
  const std::shared_ptr<const GraphProgram> body = node.body("body");
  const auto own = static_cast<std::size_t>(node.inputs());
  if (body->inputs.size() != own || body->outputs.size() != static_cast<std::size_t>(node.outputs())) {
    node.malformed("its body doesn't take and give what it maps");
  }
  Translation result = of_lists(
      [=](Inputs in, Outputs out, Location /*where*/) {
        const std::size_t length = items_of(in[0]).size();
        std::vector<Value::Items> mapped(out.size());
        for (std::size_t i = 0; i < length; ++i) {
          std::vector<Value> arguments(in.begin(), in.end());
          for (std::size_t k = 0; k < own; ++k) {
            if (in[k].items != nullptr) {
              if (in[k].items->size() != length) {
                throw ShapeError(fmt::format("sequences of {} and {}", length, in[k].items->size()));
              }
              arguments[k] = {(*in[k].items)[i], in[k].known};
            }
          }
          const std::vector<Value> results = body->call(arguments);
          for (std::size_t r = 0; r < out.size(); ++r) {
            if (results[r].is_no_tensor()) {
              throw Unsupported("a sequence of sequences or optionals");
            }
            mapped[r].push_back(results[r].tensor);
          }
        }
        for (std::size_t r = 0; r < out.size(); ++r) {
          give(std::move(mapped[r]), out[r]);
        }
      },
      {});
  result.draws = body->draws;
  return result;
}

/// An optional is what it holds, or without an element marked as such: whether it has one is known when it is planned.
Translation optional(NodeView& node) {
  node.ignore("type");
  node.check_inputs(0, 1);
  return of_lists(
      [](Inputs in, Outputs out, Location /*where*/) {
        if (!in.empty() && in[0].tensor.defined()) {
          out[0] = in[0];
        } else {
          out[0] = absent_optional();
        }
      },
      {});
}

Translation has_element(NodeView& node) {
  node.check_inputs(0, 1);
  Translation result = of_lists(
      [](Inputs in, Outputs out, Location /*where*/) {
        out[0].tensor = Tensor::from({!in.empty() && in[0].tensor.defined() && !in[0].absent}, {});
      },
      {});
  result.by_type = true;
  return result;
}

Translation element_of_optional(NodeView& node) {
  node.check_inputs(1, 1);
  return of_lists(
      [](Inputs in, Outputs out, Location /*where*/) {
        if (in[0].absent) {
          throw Error("the element of an optional that has none");
        }
        out[0] = in[0];
      },
      {});
}

}  // namespace

/// Its tensor is only its length.
Value sequence_of(Value::Items items) {
  Value value{Tensor::scalar(static_cast<std::int64_t>(items.size()))};
  value.items = std::make_shared<const Value::Items>(std::move(items));
  return value;
}

Value absent_optional() {
  Value value{Tensor::from({false}, {})};
  value.absent = true;
  return value;
}

void add_lists(std::vector<Operator>& all) {
  constexpr const char* kLimits = "inside a model, at known places";
  const auto op = [&all](const char* name, int first, Translation (*translate)(NodeView&)) {
    all.push_back({name, first, kNewestOpset, translate, kLimits});
  };
  op("ConcatFromSequence", 11, join_list);
  op("Optional", 15, optional);
  op("OptionalGetElement", 15, element_of_optional);
  op("OptionalHasElement", 15, has_element);
  op("SequenceAt", 11, element);
  op("SequenceConstruct", 11, construct);
  op("SequenceEmpty", 11, empty);
  op("SequenceErase", 11, erase);
  op("SequenceInsert", 11, insert);
  op("SequenceLength", 11, length_of_list);
  op("SequenceMap", 17, map_list);
  op("SplitToSequence", 11, split_list);
}

}  // namespace diptych::onnx
