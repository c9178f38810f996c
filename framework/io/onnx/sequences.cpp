// Sequences along an axis: reversed up to their own length, and counted by n-grams.

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "framework/io/onnx/operators.h"
#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/indexing.h"
#include "framework/ops/normalise_indices.h"
#include "framework/ops/reduction.h"
#include "framework/ops/shape.h"
#include "framework/ops/view.h"

namespace diptych::onnx {
namespace {

using List = std::vector<std::int64_t>;

constexpr std::int64_t kMostColumns = std::int64_t{1} << 24;

/// Element t of a sequence of n comes from n - 1 - t; from n on it stays.
Translation reverse_sequence(NodeView& node) {
  const std::int64_t batch = node.integer("batch_axis", 1);
  const std::int64_t time = node.integer("time_axis", 0);
  if (batch + time != 1 || batch * time != 0) {
    node.malformed("its batch_axis and time_axis aren't 0 and 1");
  }
  return binary(node, [=](const Tensor& x, const Tensor& lengths, Location location) {
    const auto time_axis = static_cast<int>(time);
    const auto batch_axis = static_cast<int>(batch);
    if (x.rank() < 2 || lengths.shape() != Shape{x.shape()[batch_axis]}) {
      throw ShapeError(fmt::format("lengths {} for {}", to_string(lengths.type()), to_string(x.type())));
    }
    const auto along = [&](const Tensor& t, int axis) {
      Shape shape = Shape::filled(x.rank(), 1);
      shape[axis] = t.numel();
      return reshape(cast(t, DType::int64, location), shape, location);
    };
    const Tensor steps = along(arange(static_cast<double>(x.shape()[time_axis]), DType::int64, location), time_axis);
    const Tensor length = along(normalise_indices(lengths, {x.shape()[time_axis] + 1}, false, location), batch_axis);
    const Tensor mirrored = sub(sub(length, scalar_like(length, 1, location), location), steps, location);
    const Tensor index = where(less(steps, length, location), mirrored, steps, location);
    return gather(x, time_axis, contiguous(expand(index, x.shape(), location), location), location);
  });
}

/// The n-grams of one length, in the order of the pool.
struct Grams {
  std::int64_t length = 1;
  List elements;  ///< [count, length]
  std::int64_t count() const { return static_cast<std::int64_t>(elements.size()) / length; }
};

/// `starts`: where the n-grams of each length begin in the pool.
std::vector<Grams> grams_of(NodeView& node, const List& pool, const List& starts) {
  std::vector<Grams> result;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::int64_t first = starts[i];
    const std::int64_t end = i + 1 < starts.size() ? starts[i + 1] : static_cast<std::int64_t>(pool.size());
    const auto length = static_cast<std::int64_t>(i) + 1;
    if (first < 0 || end < first || end > static_cast<std::int64_t>(pool.size()) || (end - first) % length != 0) {
      node.malformed("its ngram_counts don't fit its pool");
    }
    result.push_back({length, List(pool.begin() + first, pool.begin() + end)});
  }
  return result;
}

/// How often each of the n-grams occurs in rows x[N, C] with `distance` from one element to the next: f32[N, count].
Tensor occurrences(const Tensor& x, const Grams& grams, std::int64_t distance, Location where) {
  const std::int64_t rows = x.shape()[0];
  const std::int64_t places = x.shape()[1] - (grams.length - 1) * distance;
  if (places < 1) {
    return full({rows, grams.count()}, 0, DType::float32, where);
  }
  checked_shape(List{rows, places, grams.count()}, DType::int64);
  const Tensor pool = Tensor::from(grams.elements, {grams.count(), grams.length});
  Tensor found;
  for (std::int64_t i = 0; i < grams.length; ++i) {
    const Tensor element = unsqueeze(slice(x, 1, i * distance, i * distance + places, 1, where), 2, where);
    const Tensor is_same = equal(element, select(pool, 1, i, where), where);
    found = found.defined() ? logical_and(found, is_same, where) : is_same;
  }
  return sum(cast(found, DType::float32, where), {1}, false, where);
}

/// Counts of n-grams, times their weights (TFIDF), or the weights of those that occur (IDF).
Translation count_grams(NodeView& node) {
  const std::string mode = node.text("mode", "");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") {
    node.malformed("its mode isn't one of ONNX's");
  }
  const std::int64_t least = node.integer("min_gram_length", 1);
  const std::int64_t most = node.integer("max_gram_length", 1);
  const std::int64_t skips = node.integer("max_skip_count", 0);
  const List columns = node.integers("ngram_indexes").value_or(List());
  const List pool = node.integers("pool_int64s").value_or(List());
  const std::vector<double> weights = node.reals("weights").value_or(std::vector<double>());
  if (node.has("pool_strings")) {
    node.refuse("the engine has no string tensors");
  }
  const std::vector<Grams> grams = grams_of(node, pool, node.integers("ngram_counts").value_or(List()));
  constexpr std::int64_t kMostSkips = 1000;
  const std::int64_t count = std::accumulate(grams.begin(), grams.end(), std::int64_t{0},
                                             [](std::int64_t n, const Grams& each) { return n + each.count(); });
  if (least < 1 || most < least || skips < 0 || skips > kMostSkips ||
      static_cast<std::int64_t>(columns.size()) != count || (!weights.empty() && weights.size() != columns.size())) {
    node.malformed("its lengths, skips, indexes or weights don't fit its pool");
  }
  const std::int64_t width = columns.empty() ? 0 : *std::max_element(columns.begin(), columns.end()) + 1;
  if (width > kMostColumns || std::any_of(columns.begin(), columns.end(), [](std::int64_t c) { return c < 0; })) {
    node.malformed("its ngram_indexes are out of range");
  }
  List source(static_cast<std::size_t>(width), count);  // by default a column of zeros behind the counts
  for (std::size_t i = 0; i < columns.size(); ++i) {
    source[static_cast<std::size_t>(columns[i])] = static_cast<std::int64_t>(i);
  }
  return unary(node, [=](const Tensor& given, Location location) {
    if (given.rank() < 1 || given.rank() > 2 || !is_integral(given.dtype())) {
      throw ShapeError(fmt::format("{} is no row, or rows, of integers", to_string(given.type())));
    }
    const Tensor x = cast(given.rank() == 1 ? unsqueeze(given, 0, location) : given, DType::int64, location);
    std::vector<Tensor> parts;
    for (const Grams& each : grams) {
      Tensor total = full({x.shape()[0], each.count()}, 0, DType::float32, location);
      if (each.length >= least && each.length <= most) {
        // Single elements have nothing between them to skip.
        for (std::int64_t skipped = 0; skipped <= (each.length == 1 ? 0 : skips); ++skipped) {
          total = add(total, occurrences(x, each, skipped + 1, location), location);
        }
      }
      parts.push_back(total);
    }
    parts.push_back(full({x.shape()[0], 1}, 0, DType::float32, location));
    Tensor counts = concat(parts, 1, location);
    if (mode != "TF") {
      std::vector<double> factors = weights.empty() ? std::vector<double>(columns.size(), 1) : weights;
      factors.push_back(0);
      const Tensor factor =
          cast(Tensor::from(factors, {static_cast<std::int64_t>(factors.size())}), DType::float32, location);
      const Tensor zero = scalar_like(counts, 0, location);
      counts = mode == "IDF" ? where(greater(counts, zero, location), factor, zero, location)
                             : mul(counts, factor, location);
    }
    const Tensor y = index_select(counts, 1, integers(source), location);
    return given.rank() == 1 ? squeeze(y, 0, location) : y;
  });
}

}  // namespace

void add_sequences(std::vector<Operator>& all) {
  all.push_back({"ReverseSequence", 10, kNewestOpset, reverse_sequence});
  all.push_back({"TfIdfVectorizer", 9, kNewestOpset, count_grams, "integers"});
}

}  // namespace diptych::onnx
