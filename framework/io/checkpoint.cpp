#include "framework/io/checkpoint.h"

#include <charconv>
#include <unordered_map>

#include <fmt/format.h>

#include "framework/core/attributes.h"
#include "framework/core/context.h"

namespace diptych::io {
namespace {

constexpr const char* kFormat = "diptych.checkpoint";
constexpr const char* kVersion = "1";

struct NamedVariable {
  std::string name;
  Variable variable;
};

std::vector<NamedVariable> all_of(const Checkpoint& checkpoint) {
  std::vector<NamedVariable> all;
  const auto add = [&](const char* part, const Variables& variables) {
    for (const Variable& variable : variables) {
      all.push_back({fmt::format("{}.{}", part, variable.name()), variable});
    }
  };
  add("model", checkpoint.model);
  add("optimizer", checkpoint.optimizer);
  add("random", checkpoint.random);
  return all;
}

void refuse_capture(const char* function) {
  if (thread_context.tracer() != nullptr) {
    throw CaptureError(fmt::format("{}: inside a captured function; call it outside", function));
  }
}

std::string metadata_of(const TensorFile& file, const std::string& key, const std::string& origin) {
  const auto found = file.metadata.find(key);
  if (found == file.metadata.end()) {
    throw FileError(fmt::format(
        "{}: has no {} in its metadata: it is not a checkpoint; load_safetensors() reads plain files", origin, key));
  }
  return found->second;
}

std::int64_t step_of(const TensorFile& file, const std::string& origin) {
  const std::string text = metadata_of(file, "step", origin);
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (error != std::errc() || end != text.data() + text.size() || step < 0) {
    throw FileError(fmt::format("{}: step {} is no whole number from 0; the file is damaged", origin, quote(text)));
  }
  return step;
}

}  // namespace

void save_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint) {
  refuse_capture("save_checkpoint");
  TensorFile file;
  file.metadata = {{"format", kFormat}, {"version", kVersion}, {"step", std::to_string(checkpoint.step)}};
  for (const NamedVariable& entry : all_of(checkpoint)) {
    file.tensors.push_back({entry.name, entry.variable.value()});
  }
  save_safetensors(path, file);
}

std::int64_t load_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint) {
  return restore_checkpoint(load_safetensors(path), path.string(), checkpoint);
}

std::int64_t restore_checkpoint(const TensorFile& file, const std::string& origin, const Checkpoint& checkpoint) {
  refuse_capture("load_checkpoint");
  if (const std::string format = metadata_of(file, "format", origin); format != kFormat) {
    throw FileError(fmt::format("{}: its format is {}, not {}", origin, quote(format), kFormat));
  }
  if (const std::string version = metadata_of(file, "version", origin); version != kVersion) {
    throw FileError(fmt::format("{}: checkpoint version {}, this program reads {}; use the program that wrote it",
                                origin, quote(version), kVersion));
  }
  const std::int64_t step = step_of(file, origin);

  std::unordered_map<std::string_view, const Tensor*> saved;
  for (const NamedTensor& tensor : file.tensors) {
    saved.emplace(tensor.name, &tensor.tensor);
  }
  std::vector<std::pair<Variable, Tensor>> assignments;
  std::unordered_map<std::string, bool> wanted;
  for (const NamedVariable& entry : all_of(checkpoint)) {
    const auto found = saved.find(entry.name);
    if (!wanted.emplace(entry.name, true).second) {
      throw Error(fmt::format("load_checkpoint: two variables are named {}; rename one", quote(entry.name)));
    }
    if (found == saved.end()) {
      throw FileError(
          fmt::format("{}: tensor {} is missing; build the model and the optimizer as they were when it was saved",
                      origin, quote(entry.name)));
    }
    if (found->second->type() != entry.variable.type()) {
      throw FileError(
          fmt::format("{}: tensor {} is {}, the program has {}; build the model with the sizes and types that "
                      "it was saved with",
                      origin, quote(entry.name), to_string(found->second->type()), to_string(entry.variable.type())));
    }
    assignments.emplace_back(entry.variable, *found->second);
  }
  for (const NamedTensor& tensor : file.tensors) {
    if (!wanted.contains(tensor.name)) {
      throw FileError(
          fmt::format("{}: tensor {} is unexpected: the program has no variable for it; build the model and the "
                      "optimizer as they were when it was saved",
                      origin, quote(tensor.name)));
    }
  }
  for (auto& [variable, value] : assignments) {
    variable.assign(value);
  }
  return step;
}

}  // namespace diptych::io
