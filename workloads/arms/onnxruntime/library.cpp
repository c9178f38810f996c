#include "workloads/arms/onnxruntime/library.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <optional>
#include <vector>

#include <fmt/format.h>

namespace diptych::ort {
namespace {

namespace fs = std::filesystem;

#if defined(__aarch64__)
constexpr const char* kNodeArchitecture = "arm64";
#else
constexpr const char* kNodeArchitecture = "x64";
#endif
constexpr const char* kFileName = "libonnxruntime.so";  ///< with or without a version behind it
constexpr const char* kLoaderNames[] = {"libonnxruntime.so.1", "libonnxruntime.so"};
constexpr std::size_t kMostVersion = 40;   ///< bytes of what the library says
constexpr std::size_t kMostMessage = 300;  ///< the same

/// The files of a folder whose names begin so; of several versions the last one in the alphabet first.
std::vector<fs::path> files_of(const fs::path& folder, const std::string& beginning) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().filename().string().starts_with(beginning)) {
      found.push_back(entry->path());
    }
  }
  std::sort(found.rbegin(), found.rend());
  return found;
}

/// The library in an installed onnxruntime-node, which brings it for several systems.
std::optional<fs::path> in_package(const fs::path& package) {
  for (const fs::path& interface : files_of(package / "bin", "napi-v")) {
    for (const fs::path& library : files_of(interface / "linux" / kNodeArchitecture, kFileName)) {
      return library;
    }
  }
  return {};
}

/// Packages are looked for as Node.js does it: in node_modules here and above.
std::optional<fs::path> above(const fs::path& start) {
  std::error_code error;
  for (fs::path folder = fs::weakly_canonical(start, error); !error && !folder.empty(); folder = folder.parent_path()) {
    const fs::path modules = folder.filename() == "node_modules" ? folder : folder / "node_modules";
    if (const auto library = in_package(modules / "onnxruntime-node")) {
      return library;
    }
    if (folder == folder.root_path()) {
      break;
    }
  }
  return {};
}

/// The loader knows no library of this name.
class Absent : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

const char* variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

/// What $DIPTYCH_ONNXRUNTIME names: the library, or a folder with it as the releases have it.
std::string named(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    return path.string();
  }
  for (const fs::path& folder : {path, path / "lib"}) {
    if (const auto files = files_of(folder, kFileName); !files.empty()) {
      return files.front().string();
    }
  }
  throw std::runtime_error(fmt::format("no {} in $DIPTYCH_ONNXRUNTIME ({})", kFileName, path.string()));
}

}  // namespace

Library Library::find() {
  if (const char* const path = variable("DIPTYCH_ONNXRUNTIME")) {
    return Library(named(path));
  }
  const char* const modules = variable("DIPTYCH_NODE_MODULES");
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path current = fs::current_path(error);
  const std::optional<fs::path> candidates[] = {modules != nullptr ? above(modules) : std::nullopt, kLoaderNames[0],
                                                kLoaderNames[1], above(program), above(current)};
  std::string why;
  for (const std::optional<fs::path>& candidate : candidates) {
    try {
      if (candidate) {
        return Library(candidate->string());
      }
    } catch (const Absent&) {
    } catch (const std::exception& failure) {
      why = why.empty() ? failure.what() : why;
    }
  }
  if (why.empty()) {
    why = fmt::format(
        "ONNX Runtime isn't found: DIPTYCH_ONNXRUNTIME isn't set, no node_modules has onnxruntime-node at {}{} or {}, "
        "or "
        "above, and the loader knows no {} (LD_LIBRARY_PATH)",
        modules != nullptr ? fmt::format("{} (DIPTYCH_NODE_MODULES), ", modules) : "", program.string(),
        current.string(), kLoaderNames[0]);
  }
  throw std::runtime_error(why);
}

Library::Library(const std::string& path) {
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const reason = dlerror();
    const std::string text = reason != nullptr ? reason : "no reason is given";
    if (text.starts_with(path + ": cannot open shared object file")) {
      throw Absent(text);
    }
    throw std::runtime_error("ONNX Runtime can't be loaded: " + text);
  }
  auto* const entrance = reinterpret_cast<Entrance*>(dlsym(handle, kEntrance));
  const ApiBase* const base = entrance != nullptr ? entrance() : nullptr;
  if (base == nullptr || base->version == nullptr || base->table == nullptr) {
    throw std::runtime_error(fmt::format("{} isn't ONNX Runtime: it has no {}", path, kEntrance));
  }
  const char* const version = base->version();
  version_ = version != nullptr ? std::string(version, strnlen(version, kMostVersion)) : "";
  unsigned major = 0;
  unsigned minor = 0;
  if (std::sscanf(version_.c_str(), "%4u.%4u", &major, &minor) != 2) {
    throw std::runtime_error(fmt::format("{} says that its version is \"{}\", which is none", path, version_));
  }
  if (major != 1) {
    throw std::runtime_error(
        fmt::format("{} is ONNX Runtime {}; this program knows the interface of versions 1.x", path, version_));
  }
  table_ = minor >= kApiVersion ? base->table(kApiVersion) : nullptr;
  if (table_ == nullptr) {
    throw std::runtime_error(
        fmt::format("{} is ONNX Runtime {}, without the functions that came with 1.{}", path, version_, kApiVersion));
  }
}

void Library::fail(Status* status, const char* called) const {
  const char* const message = function(kGetErrorMessage)(status);
  std::string text = message != nullptr ? std::string(message, strnlen(message, kMostMessage)) : "";
  function(kReleaseStatus)(status);
  throw std::runtime_error(fmt::format("{}: {}", called, text.empty() ? "it failed without a message" : text));
}

}  // namespace diptych::ort
