// Lowers an equation to views, sums and matrix products. Internally each axis has a label: 'a'-'z' and 'A'-'Z' are the
// user's letters; digits are the axes of "...", counted from its right end.

#include "framework/ops/einsum.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "framework/ops/elementwise.h"
#include "framework/ops/matmul.h"
#include "framework/ops/reduction.h"
#include "framework/ops/view.h"

namespace diptych {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool contains(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

/// A tensor whose axis i has the label labels[i].
struct Labelled {
  Tensor tensor;
  std::string labels;

  std::int64_t length(char label) const { return tensor.shape()[static_cast<int>(labels.find(label))]; }
};

class Equation {
 public:
  Equation(std::string_view text, Location where) : text_(text), where_(where) {}

  Tensor evaluate(const std::vector<Tensor>& tensors) {
    parse();
    if (tensors.size() != inputs_.size()) {
      throw Error(fmt::format("einsum: \"{}\" has {} operands, {} were given", text_, inputs_.size(), tensors.size()),
                  where_, "separate operands by commas");
    }
    std::vector<Labelled> operands;
    int ellipsis = 0;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      operands.push_back(diagonal({tensors[i], with_axes(inputs_[i], tensors[i], i, ellipsis)}, i));
    }
    const std::string output = result_labels(ellipsis);
    check_lengths(operands);

    Labelled total = operands[0];
    for (std::size_t i = 1; i < operands.size(); ++i) {
      std::string kept = output;
      for (std::size_t k = i + 1; k < operands.size(); ++k) {
        kept += operands[k].labels;
      }
      total = contract(total, operands[i], kept);
    }
    return arrange(sum_missing(total, output), output);
  }

 private:
  [[noreturn]] void fail(std::size_t position, std::string_view what) const {
    throw Error(fmt::format("einsum: {} at position {} of \"{}\"", what, position, text_), where_,
                "an equation looks like \"bik,bkj->bij\"");
  }

  /// Fills inputs_ and output_; '.' stands for "...".
  void parse() {
    std::string* term = &inputs_.emplace_back();
    for (std::size_t i = 0; i < text_.size(); ++i) {
      const char c = text_[i];
      if (c == ' ') {
        continue;
      }
      if (is_letter(c)) {
        if (has_output_ && contains(*term, c)) {
          fail(i, fmt::format("'{}' stands twice in the result", c));
        }
        if (has_output_ && std::none_of(inputs_.begin(), inputs_.end(),
                                        [&](const std::string& input) { return contains(input, c); })) {
          fail(i, fmt::format("'{}' of the result is in no operand", c));
        }
        term->push_back(c);
      } else if (text_.substr(i, 3) == "...") {
        if (contains(*term, '.')) {
          fail(i, "a second \"...\"");
        }
        term->push_back('.');
        i += 2;
      } else if (c == ',' && !has_output_) {
        term = &inputs_.emplace_back();
      } else if (text_.substr(i, 2) == "->" && !has_output_) {
        has_output_ = true;
        term = &output_;
        ++i;
      } else {
        fail(i, fmt::format("unexpected '{}'", c));
      }
    }
  }

  /// The labels of all axes of an operand.
  std::string with_axes(const std::string& term, const Tensor& tensor, std::size_t index, int& ellipsis) const {
    const int letters = static_cast<int>(term.size()) - (contains(term, '.') ? 1 : 0);
    const int rest = tensor.rank() - letters;
    if (rest < 0 || (rest > 0 && !contains(term, '.'))) {
      throw ShapeError(fmt::format("einsum: operand {} is {}, but \"{}\" names {} axes for it", index,
                                   to_string(tensor.type()), text_, letters),
                       where_, "give each axis a letter, or write \"...\" for the others");
    }
    ellipsis = std::max(ellipsis, rest);
    std::string labels;
    for (const char c : term) {
      c == '.' ? labels += ellipsis_labels(rest) : labels += c;
    }
    return labels;
  }

  /// One axis for each label: the elements at which all axes of a label have the same index.
  Labelled diagonal(Labelled x, std::size_t operand) const {
    for (std::size_t first = 0; first < x.labels.size();) {
      const std::size_t other = x.labels.find(x.labels[first], first + 1);
      if (other == std::string::npos) {
        ++first;
      } else {
        x = diagonal_of(x, first, other, operand);
      }
    }
    return x;
  }

  /// Two axes become one, the last.
  Labelled diagonal_of(const Labelled& x, std::size_t first, std::size_t other, std::size_t operand) const {
    const char label = x.labels[first];
    const Shape& shape = x.tensor.shape();
    const std::int64_t length = shape[static_cast<int>(first)];
    if (shape[static_cast<int>(other)] != length) {
      throw ShapeError(fmt::format("einsum: '{}' of \"{}\" has lengths {} and {} in operand {}", label, text_, length,
                                   shape[static_cast<int>(other)], operand),
                       where_, "a diagonal needs axes of one length");
    }
    Axes order;
    Shape merged;
    std::string labels;
    for (std::size_t i = 0; i < x.labels.size(); ++i) {
      if (i != first && i != other) {
        order.push_back(static_cast<std::int64_t>(i));
        merged.push_back(shape[static_cast<int>(i)]);
        labels += x.labels[i];
      }
    }
    order.push_back(static_cast<std::int64_t>(first));
    order.push_back(static_cast<std::int64_t>(other));
    merged.push_back(length * length);
    const Tensor square = reshape(permute(x.tensor, order, where_), merged, where_);
    return {slice(square, -1, 0, length * length, length + 1, where_), labels + label};
  }

  static std::string ellipsis_labels(int count) {
    std::string labels;
    for (int i = count - 1; i >= 0; --i) {
      labels += static_cast<char>('0' + i);
    }
    return labels;
  }

  std::string result_labels(int ellipsis) const {
    std::string labels;
    if (has_output_) {
      for (const char c : output_) {
        c == '.' ? labels += ellipsis_labels(ellipsis) : labels += c;
      }
    } else {
      std::string letters;
      for (const std::string& input : inputs_) {
        letters += input;
      }
      std::sort(letters.begin(), letters.end());
      labels = ellipsis_labels(ellipsis);
      for (const char c : letters) {
        if (is_letter(c) && std::count(letters.begin(), letters.end(), c) == 1) {
          labels += c;
        }
      }
    }
    if (labels.size() > kMaxRank) {
      throw ShapeError(fmt::format("einsum: the result of \"{}\" has {} axes", text_, labels.size()), where_,
                       fmt::format("a tensor can have {} at most", kMaxRank));
    }
    return labels;
  }

  void check_lengths(const std::vector<Labelled>& operands) const {
    std::string seen;
    std::vector<std::int64_t> lengths;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      for (const char label : operands[i].labels) {
        const std::int64_t length = operands[i].length(label);
        const std::size_t place = seen.find(label);
        if (place == std::string::npos) {
          seen += label;
          lengths.push_back(length);
        } else if (lengths[place] == 1) {
          lengths[place] = length;
        } else if (length != 1 && length != lengths[place]) {
          const std::string axis = is_letter(label) ? fmt::format("'{}'", label) : "an axis of \"...\"";
          throw ShapeError(fmt::format("einsum: {} of \"{}\" has length {} in operand {} and {} before", axis, text_,
                                       length, i, lengths[place]),
                           where_, "equal letters need equal lengths, or 1");
        }
      }
    }
  }

  /// Sums over the labels that are not in `kept`.
  Labelled sum_missing(const Labelled& x, const std::string& kept) const {
    Axes axes;
    std::string labels;
    for (std::size_t i = 0; i < x.labels.size(); ++i) {
      contains(kept, x.labels[i]) ? labels.push_back(x.labels[i]) : axes.push_back(static_cast<std::int64_t>(i));
    }
    return axes.empty() ? x : Labelled{sum(x.tensor, axes, false, where_), labels};
  }

  /// Puts the axes in the order of `labels`, which contains all of them; axes that x lacks get length 1.
  Tensor arrange(const Labelled& x, const std::string& labels) const {
    Axes axes;
    Shape shape;
    bool moves = false;
    for (const char label : labels) {
      if (contains(x.labels, label)) {
        moves = moves || static_cast<std::int64_t>(x.labels.find(label)) != axes.rank();
        axes.push_back(static_cast<std::int64_t>(x.labels.find(label)));
        shape.push_back(x.length(label));
      } else {
        shape.push_back(1);
      }
    }
    const Tensor ordered = moves ? permute(x.tensor, axes, where_) : x.tensor;
    return ordered.shape() == shape ? ordered : reshape(ordered, shape, where_);
  }

  /// Expands (as a view) axes of length 1 that are longer in the other operand: for the axes that a product sums over.
  Tensor repeated(const Tensor& x, const std::string& labels, const Labelled& other, const std::string& summed) const {
    Shape shape = x.shape();
    for (int i = 0; i < shape.rank(); ++i) {
      const char label = labels[static_cast<std::size_t>(i)];
      if (contains(summed, label)) {
        shape[i] = shape[i] == 1 ? other.length(label) : shape[i];
      }
    }
    return shape == x.shape() ? x : expand(x, shape, where_);
  }

  /// The product of two operands, summed over the labels that are not in `kept`.
  Labelled contract(const Labelled& a, const Labelled& b, const std::string& kept) const {
    const Labelled left = sum_missing(a, kept + b.labels);
    const Labelled right = sum_missing(b, kept + a.labels);
    std::string batch;
    std::string summed;
    std::string rows;
    std::string columns;
    for (const char label : left.labels) {
      (!contains(right.labels, label) ? rows : contains(kept, label) ? batch : summed) += label;
    }
    for (const char label : right.labels) {
      if (!contains(left.labels, label)) {
        columns += label;
      }
    }
    if (summed.empty()) {
      const std::string labels = batch + rows + columns;
      return {mul(arrange(left, labels), arrange(right, labels), where_), labels};
    }
    // [batch, rows, summed] [batch, summed, columns]; each group becomes one axis, except the batch.
    const Tensor x = repeated(arrange(left, batch + rows + summed), batch + rows + summed, right, summed);
    const Tensor y = repeated(arrange(right, batch + summed + columns), batch + summed + columns, left, summed);
    const auto first = static_cast<int>(batch.size());
    const Tensor product =
        matmul(grouped(x, first, static_cast<int>(rows.size()), static_cast<int>(summed.size())),
               grouped(y, first, static_cast<int>(summed.size()), static_cast<int>(columns.size())), where_);
    Shape shape;
    for (int i = 0; i < first; ++i) {
      shape.push_back(product.shape()[i]);
    }
    for (const char label : rows) {
      shape.push_back(left.length(label));
    }
    for (const char label : columns) {
      shape.push_back(right.length(label));
    }
    return {shape == product.shape() ? product : reshape(product, shape, where_), batch + rows + columns};
  }

  /// Regroups the axes from `first` on into two: the first `count` of them, and the `rest` after those.
  Tensor grouped(const Tensor& x, int first, int count, int rest) const {
    Shape shape;
    for (int i = 0; i < first; ++i) {
      shape.push_back(x.shape()[i]);
    }
    const auto merged = [&](int begin, int n) {
      std::int64_t length = 1;
      for (int i = begin; i < begin + n; ++i) {
        length *= x.shape()[i];
      }
      return length;
    };
    shape.push_back(merged(first, count));
    shape.push_back(merged(first + count, rest));
    return shape == x.shape() ? x : reshape(x, shape, where_);
  }

  std::string_view text_;
  Location where_;
  std::vector<std::string> inputs_;
  std::string output_;
  bool has_output_ = false;
};

}  // namespace

Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands, Location where) {
  return Equation(equation, where).evaluate(operands);
}

}  // namespace diptych
