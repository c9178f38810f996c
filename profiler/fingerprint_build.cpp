#include <string>
#include <system_error>

#include <fmt/format.h>

#include "profiler/binary_identity.h"
#include "profiler/fingerprint.h"
#include "profiler/json_section.h"

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

/// What the build system passed on; nullopt where it didn't.
std::optional<std::string> git_sha() {
#ifdef DIPTYCH_GIT_SHA
  return DIPTYCH_GIT_SHA;
#else
  return std::nullopt;
#endif
}

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

/// Once per process: the binary doesn't change under us.
const std::optional<std::string>& own_sha256() {
  static const std::optional<std::string> hash = []() -> std::optional<std::string> {
    const char* self = "/proc/self/exe";
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(self, error);
    return error || size > largest_hashed_bytes ? std::nullopt : sha256_of_file(self);
  }();
  return hash;
}

}  // namespace

nlohmann::json build_fingerprint() {
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
  const std::optional<std::string> sha = git_sha();
  section.set_or_null("git_sha", sha, "not passed by the build system");
  section.set_or_null("git_dirty", sha ? std::optional(sha->ends_with("-dirty")) : std::nullopt,
                      "not passed by the build system");

  nlohmann::json libraries = nlohmann::json::array();
  bool program = true;  // comes first
  for (const LoadedObject& object : loaded_objects()) {
    if (std::exchange(program, false)) {
      section.set_or_null("build_id", object.build_id, "the linker wrote none (-Wl,--build-id)");
      continue;
    }
    nlohmann::json entry = {{"name", object.name}, {"build_id", nullptr}};
    if (object.build_id) {
      entry["build_id"] = *object.build_id;
    }
    libraries.push_back(std::move(entry));
  }
  section.set("shared_libraries", std::move(libraries));
  section.set_or_null("sha256", own_sha256(),
                      has_sha256() ? "the binary is unreadable or over 256 MiB" : "not built with OpenSSL");
  return std::move(section).take();
}

}  // namespace diptych::profiler
