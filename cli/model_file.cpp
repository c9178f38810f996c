#include "cli/model_file.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/suggest.h"
#include "framework/core/error.h"
#include "reports/text/text.h"
#include "workloads/onnx/workload.h"
#include "workloads/workload.h"

namespace diptych::cli {
namespace {

namespace fs = std::filesystem;

/// How other programs' files become .onnx files; "{0}" is the file, "{1}" its name without the extension.
struct ForeignFile {
  std::string_view extension, is, how;
};
constexpr std::string_view kByTorch = R"(torch.onnx.export(model.eval(), (example,), "{1}.onnx"))";
constexpr std::array<ForeignFile, 12> kForeign = {
    {{".pt", "a file of PyTorch", kByTorch},
     {".pth", "a file of PyTorch", kByTorch},
     {".pt2", "a file of PyTorch", kByTorch},
     {".ckpt", "a checkpoint: weights without a program", kByTorch},
     {".safetensors", "a file of weights without a program", kByTorch},
     {".bin", "a file of weights without a program", kByTorch},
     {".keras", "a file of Keras", "python3 -m tf2onnx.convert --keras {0} --output {1}.onnx"},
     {".h5", "a file of Keras", "python3 -m tf2onnx.convert --keras {0} --output {1}.onnx"},
     {".tflite", "a file of TensorFlow Lite", "python3 -m tf2onnx.convert --tflite {0} --output {1}.onnx"},
     {".pb", "a file of TensorFlow, or a tensor", "python3 -m tf2onnx.convert --saved-model FOLDER --output {1}.onnx"},
     {".mindir", "a file of MindSpore", R"(mindspore.export(net, example, file_name="{1}", file_format="ONNX"))"},
     {".pkl", "a pickled Python object", kByTorch}}};

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

/// The path in a word such as "model.onnx:batch=8".
fs::path path_in(const std::string& word) {
  if (workloads::is_onnx_name(word)) {
    return workloads::parse_onnx_name(word).path;
  }
  return word.substr(0, word.find(':', std::min(word.find('.'), word.size())));
}

/// Letters behind a point: ".onxx", not ".5".
bool has_extension(const fs::path& path) {
  const std::string extension = path.extension().string();
  return extension.size() > 1 && extension.size() <= 16 &&
         std::isalpha(static_cast<unsigned char>(extension[1])) != 0 &&
         std::ranges::all_of(extension.substr(1), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

/// Files with models in a folder, sorted; of a very large one, a part.
std::vector<std::string> models_in(const fs::path& folder) {
  constexpr int kMostEntries = 10'000;
  std::vector<std::string> names;
  std::error_code problem;
  int seen = 0;
  for (fs::directory_iterator entry(folder.empty() ? fs::path(".") : folder, problem), end;
       !problem && entry != end && seen < kMostEntries; entry.increment(problem), ++seen) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (workloads::is_file_name(name) && entry->is_regular_file(ignored)) {
      names.push_back(name);
    }
  }
  std::ranges::sort(names);
  return names;
}

std::string path_text(const fs::path& path) { return fmt::format("'{}'", reports::printable(path.string())); }

/// "; did you mean 'resnet.onnx'?", or which models there are instead.
std::string nearest_model(const fs::path& missing) {
  constexpr std::size_t kMostNamed = 5;
  const fs::path folder = missing.parent_path();
  std::vector<std::string> models = models_in(folder);
  if (const std::string near = nearest(missing.filename().string(), models); !near.empty()) {
    return fmt::format("; did you mean {}?", path_text(folder / near));
  }
  std::erase_if(models, [](const std::string& name) { return !workloads::is_onnx_name(name); });
  if (models.empty()) {
    return "; say the path of an .onnx file, or a workload (`diptych list`)";
  }
  models.resize(std::min(models.size(), kMostNamed));
  for (std::string& name : models) {
    name = path_text(folder / name);
  }
  return fmt::format("; there is {}", fmt::join(models, ", "));
}

[[noreturn]] void refuse_foreign(const fs::path& path, const ForeignFile& kind, bool exists) {
  const fs::path exported = fs::path(path).replace_extension(".onnx");
  const std::string file = reports::printable(path.string());
  const std::string stem = reports::printable(path.stem().string());
  std::error_code ignored;
  throw FileError(fmt::format(
      "{} {} {}, and this program reads .onnx files: {}{}", path_text(path), exists ? "is" : "(no such file) would be",
      kind.is,
      fs::exists(exported, ignored)
          ? fmt::format("did you mean {}?", path_text(exported))
          : fmt::format("export it first, `{}`", fmt::format(fmt::runtime(kind.how), file, stem)),
      kind.how == kByTorch && !fs::exists(exported, ignored) ? ", in the program that makes the model" : ""));
}

}  // namespace

void check_model_file(const std::string& word) {
  const fs::path path = path_in(word);
  std::error_code ignored;
  const bool exists = fs::exists(path, ignored);
  const bool is_model = workloads::is_file_name(path.string());
  if (exists && is_model) {
    return;  // what it holds is checked by who reads it
  }
  if (!exists && !has_extension(path)) {
    return;
  }
  const std::string extension = lower(path.extension().string());
  const auto* const kind = std::ranges::find(kForeign, extension, &ForeignFile::extension);
  if (kind != kForeign.end()) {
    refuse_foreign(path, *kind, exists);
  }
  if (!exists) {
    throw FileError(fmt::format("cannot read {}: no such file{}", path_text(path), nearest_model(path)));
  }
  if (fs::is_directory(path, ignored)) {
    std::vector<std::string> models = models_in(path);
    std::erase_if(models, [](const std::string& name) { return !workloads::is_onnx_name(name); });
    throw FileError(fmt::format("{} is a folder; name {}", path_text(path),
                                models.empty() ? "a file with a model, or a workload (`diptych list`)"
                                               : "the model in it: " + path_text(path / models.front())));
  }
  throw FileError(fmt::format("{} is no model: say an .onnx file, or a graph that `diptych graph W` wrote as .txt",
                              path_text(path)));
}

}  // namespace diptych::cli
