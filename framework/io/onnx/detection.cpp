// Results whose number depends on elements, which have to be known: NonMaxSuppression, Unique.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "framework/io/onnx/operators.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/indexing.h"
#include "framework/ops/view.h"

namespace diptych::onnx {
namespace {

/// A box by its corners.
struct Box {
  double top, left, bottom, right;

  double area() const { return (bottom - top) * (right - left); }
  double overlap(const Box& other) const {
    const double height = std::min(bottom, other.bottom) - std::max(top, other.top);
    const double width = std::min(right, other.right) - std::max(left, other.left);
    return height > 0 && width > 0 ? height * width : 0;
  }
  /// Intersection over union.
  double likeness(const Box& other) const {
    const double shared = overlap(other);
    const double all = area() + other.area() - shared;
    return all > 0 ? shared / all : 0;
  }
};

/// Four numbers: any two opposite corners (y, x, y, x), or the centre and size (x, y, width, height).
Box box_of(const double* numbers, bool by_centre) {
  if (by_centre) {
    return {numbers[1] - numbers[3] / 2, numbers[0] - numbers[2] / 2, numbers[1] + numbers[3] / 2,
            numbers[0] + numbers[2] / 2};
  }
  return {std::min(numbers[0], numbers[2]), std::min(numbers[1], numbers[3]), std::max(numbers[0], numbers[2]),
          std::max(numbers[1], numbers[3])};
}

/// The boxes of one class that stay: by falling score, none too much like one before.
std::vector<std::int64_t> chosen(const std::vector<Box>& boxes, std::span<const double> scores, std::int64_t most,
                                 double likeness_limit, double score_limit) {
  std::vector<std::int64_t> order;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (scores[i] > score_limit) {  // never NaN
      order.push_back(static_cast<std::int64_t>(i));
    }
  }
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
  });
  std::vector<std::int64_t> kept;
  for (const std::int64_t candidate : order) {
    if (static_cast<std::int64_t>(kept.size()) >= most) {
      break;
    }
    const Box& box = boxes[static_cast<std::size_t>(candidate)];
    const bool is_new = std::none_of(kept.begin(), kept.end(), [&](std::int64_t other) {
      return box.likeness(boxes[static_cast<std::size_t>(other)]) > likeness_limit;
    });
    if (is_new) {
      kept.push_back(candidate);
    }
  }
  return kept;
}

/// boxes[N, B, 4], scores[N, C, B], the most per class, limits of likeness and of scores -> [found, 3]: image, class,
/// box
Translation suppression(NodeView& node) {
  const bool by_centre = node.integer("center_point_box", 0) != 0;
  node.check_inputs(2, 5);
  return {[=](Inputs in, Outputs out, Location /*where*/) {
            const Tensor& boxes = in[0].tensor;
            const Tensor& scores = in[1].tensor;
            if (boxes.rank() != 3 || scores.rank() != 3 || boxes.shape()[2] != 4 ||
                boxes.shape()[0] != scores.shape()[0] || boxes.shape()[1] != scores.shape()[2]) {
              throw ShapeError(fmt::format("boxes {}, scores {}", to_string(boxes.type()), to_string(scores.type())));
            }
            const std::int64_t most = optional_input(in, 2).defined() ? host_integer(in[2].tensor) : 0;
            const double likeness_limit = optional_input(in, 3).defined() ? host_real(in[3].tensor) : 0;
            const double score_limit =
                optional_input(in, 4).defined() ? host_real(in[4].tensor) : -std::numeric_limits<double>::infinity();
            const std::vector<double> numbers = boxes.to_vector<double>();
            const std::vector<double> values = scores.to_vector<double>();
            const auto count = static_cast<std::size_t>(boxes.shape()[1]);
            std::vector<std::int64_t> found;
            for (std::int64_t image = 0; image < scores.shape()[0]; ++image) {
              std::vector<Box> own;
              for (std::size_t i = 0; i < count; ++i) {
                own.push_back(box_of(&numbers[(static_cast<std::size_t>(image) * count + i) * 4], by_centre));
              }
              for (std::int64_t kind = 0; kind < scores.shape()[1]; ++kind) {
                const auto first = static_cast<std::size_t>(image * scores.shape()[1] + kind) * count;
                for (const std::int64_t box :
                     chosen(own, std::span(values).subspan(first, count), most, likeness_limit, score_limit)) {
                  found.insert(found.end(), {image, kind, box});
                }
              }
            }
            out[0].tensor = Tensor::from(found, {static_cast<std::int64_t>(found.size() / 3), 3});
          },
          {0, 1, 2, 3, 4}};
}

/// The different rows of a table: where each occurs first, which of them each row is, and how often each occurs.
struct Different {
  std::vector<std::int64_t> first, inverse, counts;
};

template <class T>
Different different(const std::vector<T>& table, std::int64_t rows, bool sorted) {
  const std::size_t columns = rows > 0 ? table.size() / static_cast<std::size_t>(rows) : 0;
  const auto row = [&](std::int64_t i) {
    return std::span(table).subspan(static_cast<std::size_t>(i) * columns, columns);
  };
  std::vector<std::int64_t> order(static_cast<std::size_t>(rows));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return std::lexicographical_compare(row(a).begin(), row(a).end(), row(b).begin(), row(b).end());
  });
  Different result;
  result.inverse.resize(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || !std::equal(row(order[i]).begin(), row(order[i]).end(), row(order[i - 1]).begin())) {
      result.first.push_back(order[i]);  // the sort is stable
      result.counts.push_back(0);
    }
    ++result.counts.back();
    result.inverse[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(result.first.size()) - 1;
  }
  if (!sorted) {  // in the order of their first occurrence
    std::vector<std::int64_t> by_place(result.first.size());
    std::iota(by_place.begin(), by_place.end(), 0);
    std::sort(by_place.begin(), by_place.end(), [&](std::int64_t a, std::int64_t b) {
      return result.first[static_cast<std::size_t>(a)] < result.first[static_cast<std::size_t>(b)];
    });
    Different turned = result;
    std::vector<std::int64_t> new_place(by_place.size());
    for (std::size_t i = 0; i < by_place.size(); ++i) {
      const auto old = static_cast<std::size_t>(by_place[i]);
      turned.first[i] = result.first[old];
      turned.counts[i] = result.counts[old];
      new_place[old] = static_cast<std::int64_t>(i);
    }
    for (std::int64_t& place : turned.inverse) {
      place = new_place[static_cast<std::size_t>(place)];
    }
    return turned;
  }
  return result;
}

Translation unique(NodeView& node) {
  const bool sorted = node.integer("sorted", 1) != 0;
  const bool has_axis = node.has("axis");
  const std::int64_t axis = node.integer("axis", 0);
  node.check_inputs(1, 1);
  return {[=](Inputs in, Outputs out, Location where) {
            const Tensor x = has_axis ? in[0].tensor : reshape(in[0].tensor, {in[0].tensor.numel()}, where);
            const int place = axis_of(axis, x.rank());
            const std::int64_t rows = x.shape()[place];
            const Tensor table = contiguous(transpose(x, 0, place, where), where);
            const Different found = is_integral(x.dtype()) ? different(table.to_vector<std::int64_t>(), rows, sorted)
                                                           : different(table.to_vector<double>(), rows, sorted);
            out[0].tensor = index_select(x, place, integers(found.first), where);
            const std::vector<std::int64_t>* others[] = {&found.first, &found.inverse, &found.counts};
            for (std::size_t i = 1; i < std::min<std::size_t>(out.size(), 4); ++i) {
              out[i].tensor = integers(*others[i - 1]);
            }
          },
          {0}};
}

}  // namespace

void add_detection(std::vector<Operator>& all) {
  all.push_back({"NonMaxSuppression", 10, kNewestOpset, suppression, "of known boxes and scores"});
  all.push_back({"Unique", 11, kNewestOpset, unique, "of a known tensor"});
}

}  // namespace diptych::onnx
