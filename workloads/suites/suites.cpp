#include <algorithm>

#include <fmt/format.h>

#include "framework/core/attributes.h"
#include "framework/io/path_text.h"
#include "workloads/graph_text/workload.h"
#include "workloads/onnx/workload.h"
#include "workloads/workload.h"

namespace diptych::workloads {
namespace {

template <class Predicate>
std::vector<std::string> names_where(Predicate chosen) {
  std::vector<std::string> names;
  for (const Workload& workload : all_workloads()) {
    if (chosen(workload)) {
      names.push_back(workload.name);
    }
  }
  return names;
}

/// A program's own workloads are appended after the suites.
std::vector<Workload>& mutable_workloads() {
  static std::vector<Workload> all = [] {
    std::vector<Workload> list;
    for (const auto& suite :
         {mlp_suite, attention_suite, vit_suite, conv_suite, gpt_suite, loss_suite, reference_suite, micro_suite}) {
      std::vector<Workload> part = suite();
      std::move(part.begin(), part.end(), std::back_inserter(list));
    }
    return list;
  }();
  return all;
}

}  // namespace

const std::vector<Workload>& all_workloads() { return mutable_workloads(); }

void add_workload(Workload workload) {
  const std::size_t slash = workload.name.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == workload.name.size() || !workload.make) {
    throw Error(fmt::format("{} is no workload: its name has to be SUITE/NAME, and it needs a function that makes it",
                            quote(workload.name)));
  }
  if (find_workload(workload.name) != nullptr) {
    throw Error(fmt::format("there is a workload {} already", quote(workload.name)));
  }
  workload.suite = workload.name.substr(0, slash);
  mutable_workloads().push_back(std::move(workload));
}

bool is_file_name(std::string_view name) { return is_onnx_name(name) || is_graph_name(name); }

const Workload* find_workload(std::string_view name) {
  if (is_onnx_name(name)) {
    return &onnx_workload(io::text_of_path(name));
  }
  if (is_graph_name(name)) {
    return &graph_workload(io::text_of_path(name));
  }
  const auto& all = all_workloads();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Workload& w) { return w.name == name; });
  return found != all.end() ? &*found : nullptr;
}

std::vector<std::string> suite_names() {
  std::vector<std::string> names;
  for (const Workload& workload : all_workloads()) {
    if (std::find(names.begin(), names.end(), workload.suite) == names.end()) {
      names.push_back(workload.suite);
    }
  }
  return names;
}

std::vector<std::string> names_of_suite(std::string_view suite) {
  return names_where([&](const Workload& workload) { return suite == "all" || workload.suite == suite; });
}

std::vector<std::string> names_of_default_set() {
  return names_where([](const Workload& workload) { return workload.in_default_set; });
}

}  // namespace diptych::workloads
