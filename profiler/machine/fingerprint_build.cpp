#include <filesystem>
#include <map>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "profiler/machine/binary_identity.h"
#include "profiler/machine/build_record.h"
#include "profiler/machine/fingerprint.h"
#include "profiler/machine/json_section.h"
#include "profiler/machine/packages.h"

namespace diptych::profiler {

namespace {

constexpr std::uintmax_t largest_hashed_bytes = std::uintmax_t{256} << 20U;

std::string compiler() {
#if defined(__clang__)
  return fmt::format("clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#elif defined(__GNUC__)
  return fmt::format("gcc {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#else
  return "unknown";
#endif
}

/// The flags passed on by the build system; nullopt if it passed none.
std::optional<std::string> build_flags() {
#ifdef DIPTYCH_BUILD_FLAGS
  return DIPTYCH_BUILD_FLAGS;
#else
  return std::nullopt;
#endif
}

std::optional<std::string> build_type() {
#ifdef DIPTYCH_BUILD_TYPE
  return DIPTYCH_BUILD_TYPE;
#else
  return std::nullopt;
#endif
}

std::optional<std::string> version() {
#ifdef DIPTYCH_VERSION
  return DIPTYCH_VERSION;
#else
  return std::nullopt;
#endif
}

std::string baseline_isa() {
#if defined(__AVX512F__)
  return "avx512f";
#elif defined(__AVX2__)
  return "avx2";
#elif defined(__x86_64__)
  return "x86-64";
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "unknown";
#endif
}

std::string sanitizers() {
  std::string names;
#if defined(__SANITIZE_ADDRESS__)
  names += "address ";
#endif
#if defined(__SANITIZE_THREAD__)
  names += "thread ";
#endif
  return names.empty() ? "none" : names.substr(0, names.size() - 1);
}

/// Information that takes a while to find, looked up once per process, because neither the program nor the packages
/// change while it runs.
struct Identity {
  std::optional<std::string> file_sha256, code_sha256;
  BuildRecord record;
};

const Identity& own_identity() {
  static const Identity identity = [] {
    const char* self = "/proc/self/exe";
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(self, error);
    Identity own;
    if (!error && size <= largest_hashed_bytes) {
      own.file_sha256 = sha256_of_file(self);
      own.code_sha256 = sha256_of_code(self);
    }
    own.record = read_build_record(self);
    return own;
  }();
  return identity;
}

std::string no_hash_reason() {
  return has_sha256() ? "the binary is unreadable or over 256 MiB" : "not built with OpenSSL";
}

nlohmann::json entry(const Package& package, const char* use) {
  return {{"name", package.name}, {"version", package.version}, {"use", use}};
}

/// Sets the shared libraries in "shared_libraries", and the packages of these and of the compiled-in libraries, by
/// name.
void set_libraries(JsonSection& section, const SystemFiles& files, const std::vector<LoadedObject>& objects,
                   const BuildRecord& record) {
  std::vector<std::string> paths;
  paths.reserve(objects.size());
  for (const LoadedObject& object : objects) {
    paths.push_back(object.path);
  }
  const std::vector<std::optional<Package>> owners = packages_of(files, paths);
  nlohmann::json libraries = nlohmann::json::array();
  std::map<std::string, nlohmann::json> packages;
  for (const Package& tool : record.tools) {
    packages[tool.name] = entry(tool, "tool");
  }
  for (const Package& package : record.compiled_in) {
    packages[package.name] = entry(package, "compiled-in");
  }
  for (std::size_t i = 1; i < objects.size(); ++i) {  // after the program
    const auto or_null = [](const auto& value) { return value ? nlohmann::json(*value) : nlohmann::json(nullptr); };
    const std::optional<std::string> owner = owners[i] ? std::optional(owners[i]->name) : std::nullopt;
    libraries.push_back(
        {{"name", objects[i].name}, {"build_id", or_null(objects[i].build_id)}, {"package", or_null(owner)}});
    if (owner) {
      packages[*owner] = entry(*owners[i], "linked");
    }
  }
  section.set("shared_libraries", std::move(libraries));
  nlohmann::json list = nlohmann::json::array();
  for (auto& [name, package] : packages) {
    list.push_back(std::move(package));
  }
  section.set_or_null("packages", has_package_database(files) ? std::optional(std::move(list)) : std::nullopt,
                      "no dpkg database on this machine: packages and their versions are unknown");
}

}  // namespace

nlohmann::json build_fingerprint(const SystemFiles& files) {
  JsonSection section;
  section.set("compiler", compiler());
  section.set("cplusplus", __cplusplus);
  section.set_or_null("version", version(), "not passed by the build system");
  section.set_or_null("build_type", build_type(), "not passed by the build system");
  section.set_or_null("flags", build_flags(), "not passed by the build system");
#ifdef NDEBUG
  section.set("assertions", false);
#else
  section.set("assertions", true);
#endif
#ifdef __OPTIMIZE__
  section.set("optimised", true);
#else
  section.set("optimised", false);
#endif
  section.set("baseline_isa", baseline_isa());
  section.set("sanitizers", sanitizers());
  const Identity& own = own_identity();
  section.set_or_null("git_sha", own.record.git_sha, own.record.git_reason);
  section.set_or_null("git_dirty", own.record.git_dirty, own.record.git_reason);
  const std::vector<LoadedObject> objects = loaded_objects();
  section.set_or_null("build_id", objects.empty() ? std::nullopt : objects.front().build_id,
                      "the linker wrote none (-Wl,--build-id)");
  section.set_or_null("sha256", own.file_sha256, no_hash_reason());
  section.set_or_null("code_sha256", own.code_sha256,
                      own.file_sha256 ? "the program carries no build record" : no_hash_reason());
  set_libraries(section, files, objects, own.record);
  return std::move(section).take();
}

}  // namespace diptych::profiler
