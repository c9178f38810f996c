#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

/// The arm's side of docs/arms.md for arms in C++, which are programs of their own, as scripts/arms/diptych_arm.py is
/// for those in Python: serve() answers requests; the caller says how to load a model.
namespace diptych::arms {

/// A tensor as a request describes it: raw elements in a file, row-major, little-endian.
struct Input {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string file;

  /// Throws if the file hasn't exactly these bytes.
  void read_into(void* data, std::size_t bytes) const;
};

/// What a node takes in a call, by the framework's own profiler.
struct NodeTime {
  std::string node;  ///< its name in the model, or one of the framework's making
  std::string op;
  double seconds = 0;  ///< of a call
  double runs = 1;     ///< in a call
};

struct Output {
  std::string dtype;
  std::vector<std::int64_t> shape;
  const void* data = nullptr;
  std::size_t bytes = 0;
  std::shared_ptr<const void> owner = {};  ///< of `data`, if the model isn't
};

/// A model with its inputs.
class Model {
 public:
  Model() = default;
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  /// What is timed: a call whose results are discarded.
  virtual void run() = 0;
  /// A call, and its results; they may lie where the next call writes.
  virtual std::vector<Output> results() = 0;
  /// Over so many calls, in the order in which nodes run. May write to `folder`. By default throws: there is none.
  virtual std::vector<NodeTime> profile(std::int64_t count, const std::string& folder);
};

struct Load {
  std::string model;  ///< the path of a file
  std::vector<Input> inputs;
  int threads = 1;
};

struct Loaded {
  std::unique_ptr<Model> model;
  double seconds = 0;  ///< that loading took, without reading the inputs
};

struct Framework {
  std::string name;  ///< with its version
  int threads = 1;
  std::function<Loaded(const Load&)> load;  ///< what it throws is the answer
};

double seconds_since(std::chrono::steady_clock::time_point start);

/// As many threads as the other arms have.
int wanted_threads();

/// Answers requests until the other side is done. What anything else writes to standard output goes to standard error,
/// because an answer is one line. The exit code of the program.
int serve(const Framework& framework);
/// For an arm that can't run here: answers every request with the reason.
int refuse(const std::string& why);

}  // namespace diptych::arms
