// The layout that always works. Method: Sugiyama, Tagawa, Toda 1981, with longest-path layers.

#include <algorithm>
#include <numeric>

#include "reports/diagrams/layout.h"

namespace diptych::reports {
namespace {

constexpr double gap_between_nodes = 28;
constexpr double gap_between_layers = 52;

struct Links {
  std::vector<std::vector<std::size_t>> in, out;
};

Links links_of(const Layout& layout) {
  Links links;
  links.in.resize(layout.nodes.size());
  links.out.resize(layout.nodes.size());
  for (const PlacedEdge& edge : layout.edges) {
    links.out[edge.from].push_back(edge.to);
    links.in[edge.to].push_back(edge.from);
  }
  return links;
}

// Kahn's order; nodes on a cycle never become free and are taken in the given order.
std::vector<std::size_t> layers_of(const Links& links) {
  const std::size_t n = links.in.size();
  std::vector<std::size_t> layer(n, 0);
  std::vector<std::size_t> waiting(n);
  std::vector<bool> done(n, false);
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < n; ++i) {
    waiting[i] = links.in[i].size();
    if (waiting[i] == 0) {
      ready.push_back(i);
    }
  }
  std::size_t next_unfinished = 0;
  for (std::size_t taken = 0; taken < n;) {
    if (ready.empty()) {
      while (done[next_unfinished]) {
        ++next_unfinished;
      }
      ready.push_back(next_unfinished);
    }
    const std::size_t node = ready.back();
    ready.pop_back();
    if (done[node]) {
      continue;
    }
    done[node] = true;
    ++taken;
    for (const std::size_t user : links.out[node]) {
      if (!done[user]) {
        layer[user] = std::max(layer[user], layer[node] + 1);
        if (--waiting[user] == 0) {
          ready.push_back(user);
        }
      }
    }
  }
  return layer;
}

using Rows = std::vector<std::vector<std::size_t>>;

void order_rows(Rows& rows, const Links& links) {
  std::vector<double> place(links.in.size(), 0);
  std::vector<double> centre(links.in.size(), 0);
  const auto renumber = [&](const std::vector<std::size_t>& row) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      place[row[i]] = static_cast<double>(i) / static_cast<double>(row.size());
    }
  };
  for (const auto& row : rows) {
    renumber(row);
  }
  for (int sweep = 0; sweep < 4; ++sweep) {
    const auto& neighbours = sweep % 2 == 0 ? links.in : links.out;
    for (std::size_t k = 0; k < rows.size(); ++k) {
      auto& row = rows[sweep % 2 == 0 ? k : rows.size() - 1 - k];
      for (const std::size_t node : row) {
        centre[node] = place[node];
        if (!neighbours[node].empty()) {
          centre[node] = std::accumulate(neighbours[node].begin(), neighbours[node].end(), 0.0,
                                         [&](double sum, std::size_t other) { return sum + place[other]; }) /
                         static_cast<double>(neighbours[node].size());
        }
      }
      std::stable_sort(row.begin(), row.end(), [&](std::size_t a, std::size_t b) { return centre[a] < centre[b]; });
      renumber(row);
    }
  }
}

void route(Layout& layout, bool down) {
  for (PlacedEdge& edge : layout.edges) {
    const Box& a = layout.nodes[edge.from];
    const Box& b = layout.nodes[edge.to];
    if (down) {
      const Point start{a.x + a.width / 2, a.y + a.height};
      const Point end{b.x + b.width / 2, b.y};
      const double bend = 0.5 * gap_between_layers;
      edge.curve = {start, {start.x, start.y + bend}, {end.x, end.y - bend}, end};
    } else {
      const Point start{a.x + a.width, a.y + a.height / 2};
      const Point end{b.x, b.y + b.height / 2};
      const double bend = 0.5 * gap_between_layers;
      edge.curve = {start, {start.x + bend, start.y}, {end.x - bend, end.y}, end};
    }
  }
}

}  // namespace

Layout plain_layout(const Prepared& prepared) {
  Layout layout = prepared.layout;
  const bool down = prepared.direction == Direction::top_down;
  const Links links = links_of(layout);
  const std::vector<std::size_t> layer = layers_of(links);
  Rows rows(layer.empty() ? 0 : 1 + *std::max_element(layer.begin(), layer.end()));
  for (std::size_t i = 0; i < layer.size(); ++i) {
    rows[layer[i]].push_back(i);
  }
  order_rows(rows, links);
  const auto along = [&](std::size_t i) { return down ? layout.nodes[i].width : layout.nodes[i].height; };
  const auto across = [&](std::size_t i) { return down ? layout.nodes[i].height : layout.nodes[i].width; };
  std::vector<double> extents;
  for (const auto& row : rows) {
    double extent = -gap_between_nodes;
    for (const std::size_t i : row) {
      extent += along(i) + gap_between_nodes;
    }
    extents.push_back(extent);
  }
  const double widest = extents.empty() ? 0 : *std::max_element(extents.begin(), extents.end());
  double depth = 0;
  for (std::size_t k = 0; k < rows.size(); ++k) {
    double at = 0.5 * (widest - extents[k]);
    double thickest = 0;
    for (const std::size_t i : rows[k]) {
      (down ? layout.nodes[i].x : layout.nodes[i].y) = at;
      (down ? layout.nodes[i].y : layout.nodes[i].x) = depth;
      at += along(i) + gap_between_nodes;
      thickest = std::max(thickest, across(i));
    }
    depth += thickest + gap_between_layers;
  }
  depth = std::max(0.0, depth - gap_between_layers);
  layout.width = down ? widest : depth;
  layout.height = down ? depth : widest;
  route(layout, down);
  return layout;
}

}  // namespace diptych::reports
