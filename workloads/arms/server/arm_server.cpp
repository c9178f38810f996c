#include "workloads/arms/server/arm_server.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <sys/resource.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

namespace diptych::arms {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

template <typename Body>
std::int64_t timed(std::int64_t count, const Body& body) {
  const auto start = Clock::now();
  for (std::int64_t i = 0; i < count; ++i) {
    body();
  }
  return std::chrono::nanoseconds(Clock::now() - start).count();
}

/// What a timed block costs without calls.
std::int64_t overhead() {
  std::int64_t least = timed(1, [] {});
  for (int i = 0; i < 100; ++i) {
    least = std::min(least, timed(1, [] {}));
  }
  return least;
}

json written(const Output& output, const std::string& folder, std::size_t index) {
  const std::string name = "output_" + std::to_string(index) + ".bin";
  std::ofstream file(std::filesystem::path(folder) / name, std::ios::binary);
  file.write(static_cast<const char*>(output.data), static_cast<std::streamsize>(output.bytes));
  if (!file.flush()) {
    throw std::runtime_error("cannot write " + name);
  }
  return {{"dtype", output.dtype}, {"shape", output.shape}, {"file", name}};
}

class Server {
 public:
  explicit Server(const Framework& framework) : framework_(framework) {}

  json answer(const json& request) {
    const std::string what = request.at("do");
    if (what == "describe") {
      return {{"protocol", 1},
              {"framework", framework_.name},
              {"threads", framework_.threads},
              {"overhead_nanoseconds", overhead()}};
    }
    if (what == "load") {
      return load(request);
    }
    if (what == "memory") {
      rusage usage{};
      getrusage(RUSAGE_SELF, &usage);
      return {{"peak_bytes", usage.ru_maxrss * 1024}};
    }
    if (model_ == nullptr) {
      throw std::runtime_error("no model is loaded");
    }
    if (what == "check") {
      json outputs = json::array();
      for (const Output& output : model_->results()) {
        outputs.push_back(written(output, request.at("folder"), outputs.size()));
      }
      return {{"outputs", outputs}};
    }
    if (what == "warm_up" || what == "run") {
      return {{"nanoseconds", std::max(timed(request.at("count"), [this] { model_->run(); }), std::int64_t{1})}};
    }
    if (what == "profile") {
      json nodes = json::array();
      for (const NodeTime& node : model_->profile(request.at("count"), request.at("folder"))) {
        nodes.push_back({{"node", node.node}, {"op", node.op}, {"seconds", node.seconds}, {"runs", node.runs}});
      }
      return {{"nodes", nodes}};
    }
    throw std::runtime_error("unknown request " + what);
  }

 private:
  json load(const json& request) {
    Load wanted{.model = request.at("model"), .threads = request.at("threads")};
    for (const json& described : request.at("inputs")) {
      wanted.inputs.push_back({described.at("dtype"), described.at("shape"), described.at("file")});
    }
    model_.reset();  // two at once would show in the memory
    Loaded loaded = framework_.load(wanted);
    model_ = std::move(loaded.model);
    return {{"load_seconds", loaded.seconds}, {"compile_seconds", 0}};
  }

  const Framework& framework_;
  std::unique_ptr<Model> model_;
};

/// Answers with what `answer` returns, or throws, until the other side is done.
template <typename Answer>
int talk(const Answer& answer) {
  const int answers = dup(STDOUT_FILENO);
  std::FILE* const out = answers < 0 ? nullptr : fdopen(answers, "w");
  if (out == nullptr || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
    return EXIT_FAILURE;
  }
  for (std::string line; std::getline(std::cin, line);) {
    json reply;
    try {
      const json request = json::parse(line);
      if (request.at("do") == "exit") {
        break;
      }
      reply = answer(request);
    } catch (const std::exception& error) {  // reported to the other side, which ends only this arm
      reply = {{"error", error.what()}};
    }
    const std::string text = reply.dump(-1, ' ', true, json::error_handler_t::replace) + "\n";
    if (std::fwrite(text.data(), 1, text.size(), out) != text.size() || std::fflush(out) != 0) {
      return EXIT_FAILURE;  // nobody listens
    }
  }
  return EXIT_SUCCESS;
}

}  // namespace

void Input::read_into(void* data, std::size_t bytes) const {
  std::error_code error;
  std::ifstream stream(file, std::ios::binary);
  if (std::filesystem::file_size(file, error) != bytes ||
      !stream.read(static_cast<char*>(data), static_cast<std::streamsize>(bytes))) {
    throw std::runtime_error("an input's file hasn't the " + std::to_string(bytes) + " bytes of its shape");
  }
}

std::vector<NodeTime> Model::profile(std::int64_t /*count*/, const std::string& /*folder*/) {
  throw std::runtime_error("this arm has no profile of its nodes");
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

int wanted_threads() {
  const char* const threads = std::getenv("OMP_NUM_THREADS");
  return threads != nullptr ? std::max(std::atoi(threads), 1) : 1;
}

int serve(const Framework& framework) {
  Server server(framework);
  return talk([&](const json& request) { return server.answer(request); });
}

int refuse(const std::string& why) {
  return talk([&](const json&) { return json{{"error", why}}; });
}

}  // namespace diptych::arms
