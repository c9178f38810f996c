// Graphviz is not thread-safe, leaks, and has no time limit: it lays out in a child process with a CPU limit, and
// returns only numbers. The picture is drawn from these here, so no name ever passes through Graphviz's own SVG.

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <iterator>
#include <map>
#include <poll.h>
#include <signal.h>
#include <sstream>
#include <string_view>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>
#include <graphviz/gvc.h>

#include "framework/core/error.h"
#include "framework/core/pipe.h"
#include "reports/diagrams/layout.h"
#include "reports/text/svg.h"

namespace diptych::reports {
namespace {

constexpr double points_per_inch = 72;

struct Handles {
  std::vector<Agnode_t*> nodes;
  std::vector<Agedge_t*> edges;
  std::map<std::vector<std::string>, Agraph_t*> clusters;
};

void set(void* object, const char* name, const std::string& value) {
  std::string key = name;
  std::string copy = value;
  std::string empty;
  agsafeset(object, key.data(), copy.data(), empty.data());
}

/// Filler of the right size: only the room matters, because the text is drawn here. Without fonts, Graphviz takes an x
/// to be half as wide as the font size.
std::string blank(const std::string& text, double font_size) {
  return std::string(static_cast<std::size_t>(std::ceil(text_width(text, small_size) / (0.5 * font_size))), 'x');
}

Agraph_t* cluster_of(Agraph_t* root, const std::vector<std::string>& path, Handles& handles) {
  Agraph_t* parent = root;
  std::vector<std::string> prefix;
  for (const std::string& part : path) {
    prefix.push_back(part);
    Agraph_t*& cluster = handles.clusters[prefix];
    if (cluster == nullptr) {
      std::string name = fmt::format("cluster_{}", handles.clusters.size());
      cluster = agsubg(parent, name.data(), 1);
      set(cluster, "margin", "16");
      set(cluster, "label", blank(part, 12));
      set(cluster, "fontsize", "12");
    }
    parent = cluster;
  }
  return parent;
}

Agraph_t* build(const Prepared& prepared, Handles& handles) {
  std::string name = "diptych";
  Agraph_t* graph = agopen(name.data(), Agdirected, nullptr);
  set(graph, "rankdir", prepared.direction == Direction::top_down ? "TB" : "LR");
  set(graph, "nodesep", "0.32");
  const auto& edges = prepared.layout.edges;
  const bool has_labels = std::any_of(edges.begin(), edges.end(), [](const auto& edge) { return !edge.label.empty(); });
  set(graph, "ranksep", has_labels ? "0.42" : "0.33");
  set(graph, "newrank", "false");
  const std::vector<Box>& boxes = prepared.layout.nodes;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    std::string id = fmt::format("n{}", i);
    Agraph_t* home = cluster_of(graph, prepared.nodes[i].scope, handles);
    Agnode_t* node = agnode(home, id.data(), 1);
    set(node, "shape", "box");
    set(node, "fixedsize", "true");
    set(node, "label", "");
    set(node, "width", fmt::format("{:.4f}", boxes[i].width / points_per_inch));
    set(node, "height", fmt::format("{:.4f}", boxes[i].height / points_per_inch));
    handles.nodes.push_back(node);
  }
  for (const PlacedEdge& edge : prepared.layout.edges) {
    Agedge_t* made = agedge(graph, handles.nodes[edge.from], handles.nodes[edge.to], nullptr, 1);
    if (!edge.label.empty()) {
      set(made, "label", blank(edge.label, 10));
      set(made, "fontsize", "10");
    }
    handles.edges.push_back(made);
  }
  return graph;
}

std::string get(void* object, const char* name) {
  std::string key = name;
  const char* value = agget(object, key.data());
  return value == nullptr ? "" : value;
}

// One line per item, in the order of the indices; an attribute without a value gives an empty line.
std::string describe(Agraph_t* graph, const Handles& handles) {
  std::string out = get(graph, "bb") + "\n";
  for (Agnode_t* node : handles.nodes) {
    out += get(node, "pos") + "\n";
  }
  for (Agedge_t* edge : handles.edges) {
    out += get(edge, "pos") + "\n" + get(edge, "lp") + "\n";
  }
  for (const auto& [path, cluster] : handles.clusters) {
    out += get(cluster, "bb") + "\n";
  }
  return out;
}

double own_cpu_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// From now on; the kernel counts whole seconds.
void allow_cpu(int seconds) {
  rlimit cpu{};
  ::getrlimit(RLIMIT_CPU, &cpu);
  cpu.rlim_cur = std::min(cpu.rlim_max, static_cast<rlim_t>(std::ceil(own_cpu_seconds() + seconds)));
  ::setrlimit(RLIMIT_CPU, &cpu);
}

void send(const std::string& text, int pipe_end) {
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t n = ::write(pipe_end, text.data() + sent, text.size() - sent);
    if (n < 0 && errno != EINTR) {
      ::_exit(1);
    }
    sent += n > 0 ? static_cast<std::size_t>(n) : 0;
  }
}

constexpr std::string_view kEnd = "end\n";  // of an answer, whose other lines are numbers

[[noreturn]] void child(std::span<const Prepared> pictures, int cpu_seconds, int pipe_end) {
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  for (const int signal_number : {SIGSEGV, SIGABRT, SIGXCPU, SIGTERM}) {
    ::signal(signal_number, SIG_DFL);
  }
  const int nowhere = ::open("/dev/null", O_RDWR);
  ::dup2(nowhere, STDOUT_FILENO);
  ::dup2(nowhere, STDERR_FILENO);
  allow_cpu(cpu_seconds);
  GVC_t* context = gvContext();
  for (const Prepared& prepared : pictures) {
    allow_cpu(cpu_seconds);
    Handles handles;
    Agraph_t* graph = build(prepared, handles);
    // Rendering as "dot" without a file only attaches the positions to the graph.
    const bool is_done = gvLayout(context, graph, "dot") == 0 && gvRender(context, graph, "dot", nullptr) == 0;
    send((is_done ? describe(graph, handles) : std::string()).append(kEnd), pipe_end);
    gvFreeLayout(context, graph);
    agclose(graph);
  }
  ::_exit(0);
}

/// Reads what a child says of one picture after the other.
class Answers {
 public:
  explicit Answers(int pipe_end) : pipe_end_(pipe_end) {}

  /// The next answer; nothing if the child closes the pipe, or that takes too long by the clock on the wall: a sleeping
  /// child uses no CPU.
  std::optional<std::string> next(int seconds) {
    using Clock = std::chrono::steady_clock;
    const auto deadline = Clock::now() + std::chrono::seconds(seconds);
    char buffer[65536];
    std::size_t searched = 0;
    while (true) {
      if (const std::size_t end = text_.find(kEnd, searched); end != std::string::npos) {
        std::string answer = text_.substr(0, end);
        text_.erase(0, end + kEnd.size());
        return answer;
      }
      searched = text_.size() - std::min(text_.size(), kEnd.size());
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
      pollfd waiting{pipe_end_, POLLIN, 0};
      if (left <= 0 || (::poll(&waiting, 1, static_cast<int>(left)) == 0)) {
        return std::nullopt;
      }
      const ssize_t n = ::read(pipe_end_, buffer, sizeof buffer);
      if (n == 0 || (n < 0 && errno != EINTR)) {
        return std::nullopt;
      }
      text_.append(buffer, n > 0 ? static_cast<std::size_t>(n) : 0);
    }
  }

 private:
  int pipe_end_;
  std::string text_;
};

std::vector<double> numbers(const std::string& line) {
  std::vector<double> values;
  std::string spaced = line.substr(line.starts_with("e,") ? 2 : 0);
  std::replace(spaced.begin(), spaced.end(), ',', ' ');
  std::istringstream in(spaced);
  for (double value = 0; in >> value;) {
    values.push_back(value);
  }
  return values;
}

// "e,x,y x,y x,y ...": the end point comes first; the curve stops at the arrow's foot.
std::vector<Point> curve_of(const std::string& line, double height) {
  const bool has_end = line.starts_with("e,");
  const std::vector<double> values = numbers(line);
  std::vector<Point> points;
  for (std::size_t i = has_end ? 2 : 0; i + 1 < values.size(); i += 2) {
    points.push_back({values[i], height - values[i + 1]});
  }
  if (has_end && points.size() >= 4) {
    points.back() = {values[0], height - values[1]};
  }
  return points;
}

std::optional<Layout> read_layout(const Prepared& prepared, const std::string& answer) {
  std::istringstream lines(answer);
  std::string line;
  const auto next = [&]() -> const std::string& {
    std::getline(lines, line);
    return line;
  };
  Layout layout = prepared.layout;
  const std::vector<double> bounds = numbers(next());
  if (bounds.size() != 4) {
    return std::nullopt;
  }
  layout.width = bounds[2];
  layout.height = bounds[3];
  for (Box& box : layout.nodes) {
    const std::vector<double> at = numbers(next());
    if (at.size() < 2) {
      return std::nullopt;
    }
    box.x = at[0] - box.width / 2;
    box.y = layout.height - at[1] - box.height / 2;
  }
  for (PlacedEdge& edge : layout.edges) {
    edge.curve = curve_of(next(), layout.height);
    const std::vector<double> at = numbers(next());
    if (at.size() == 2) {
      edge.label_at = Point{at[0], layout.height - at[1]};
    }
  }
  // The same order as in the child: that of a map keyed by path.
  std::map<std::vector<std::string>, bool> paths;
  for (const DiagramNode& node : prepared.nodes) {
    for (std::size_t depth = 1; depth <= node.scope.size(); ++depth) {
      paths[{node.scope.begin(), node.scope.begin() + static_cast<std::ptrdiff_t>(depth)}] = true;
    }
  }
  for (const auto& [path, unused] : paths) {
    const std::vector<double> box = numbers(next());
    if (box.size() == 4) {
      layout.clusters.push_back({path, {box[0], layout.height - box[3], box[2] - box[0], box[3] - box[1]}});
    }
  }
  return layout;
}

/// Those that one child has laid out before it failed.
std::vector<std::optional<Layout>> laid_out(std::span<const Prepared> pictures, int cpu_seconds,
                                            const std::function<void()>& one_is_done) {
  std::vector<std::optional<Layout>> layouts;
  std::optional<Pipe> pipe;
  try {
    pipe.emplace();
  } catch (const Error&) {
    return layouts;  // the plain layout needs no Graphviz
  }
  const pid_t pid = ::fork();
  if (pid == 0) {
    Pipe::shut(pipe->read_end);
    child(pictures, cpu_seconds, pipe->write_end);
  }
  Pipe::shut(pipe->write_end);
  if (pid > 0) {
    Answers answers(pipe->read_end);
    while (layouts.size() < pictures.size()) {
      const auto answer = answers.next(2 * cpu_seconds);
      if (!answer) {
        break;
      }
      layouts.push_back(read_layout(pictures[layouts.size()], *answer));
      one_is_done();
    }
    ::kill(pid, SIGKILL);
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  return layouts;
}

}  // namespace

std::vector<std::optional<Layout>> graphviz_layouts(std::span<const Prepared> pictures, int cpu_seconds,
                                                    const std::function<void(std::size_t done)>& done) {
  constexpr std::size_t kMostOfAChild = 256;  // Graphviz leaks
  std::vector<std::optional<Layout>> layouts;
  const auto tell = [&](std::size_t count) {
    if (done) {
      done(count);
    }
  };
  while (layouts.size() < pictures.size() && cpu_seconds > 0) {
    const std::size_t first = layouts.size();
    const auto batch = pictures.subspan(first, std::min(kMostOfAChild, pictures.size() - first));
    std::size_t ready = first;
    auto of_batch = laid_out(batch, cpu_seconds, [&] { tell(++ready); });
    if (of_batch.size() < batch.size()) {
      of_batch.emplace_back();  // the one that it failed at
    }
    std::move(of_batch.begin(), of_batch.end(), std::back_inserter(layouts));
  }
  layouts.resize(pictures.size());
  return layouts;
}

}  // namespace diptych::reports
