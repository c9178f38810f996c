#include "profiler/machine/packages.h"

#include <map>
#include <sstream>
#include <string_view>

namespace diptych::profiler {

namespace {

constexpr std::string_view lists_folder = "/var/lib/dpkg/info";
constexpr std::string_view status_file = "/var/lib/dpkg/status";

/// Since /lib became a link to /usr/lib, packages list their files under either path.
std::vector<std::string> spellings(const std::string& path) {
  constexpr std::string_view prefix = "/usr";
  if (path.starts_with("/usr/lib")) {
    return {path, path.substr(prefix.size())};
  }
  return path.starts_with("/lib") ? std::vector{path, std::string(prefix) + path} : std::vector{path};
}

bool has_line(std::string_view text, std::string_view line) {
  for (std::size_t at = text.find(line); at != std::string_view::npos; at = text.find(line, at + 1)) {
    const std::size_t end = at + line.size();
    if ((at == 0 || text[at - 1] == '\n') && (end == text.size() || text[end] == '\n')) {
      return true;
    }
  }
  return false;
}

/// "libc6:amd64" or "libc6" for each path that occurs in a list.
std::map<std::string, std::string> owners(const SystemFiles& files, std::vector<std::string> paths) {
  std::map<std::string, std::string> owner_of;
  for (const std::string& list : files.list(lists_folder)) {
    constexpr std::string_view ending = ".list";
    if (paths.empty() || !list.ends_with(ending)) {
      continue;
    }
    const std::optional<std::string> text = files.read(std::string(lists_folder) + "/" + list);
    // Nearly all lists contain no library at all.
    if (!text || text->find(".so") == std::string::npos) {
      continue;
    }
    std::erase_if(paths, [&](const std::string& path) {
      for (const std::string& spelling : spellings(path)) {
        if (has_line(*text, spelling)) {
          owner_of[path] = list.substr(0, list.size() - ending.size());
          return true;
        }
      }
      return false;
    });
  }
  return owner_of;
}

/// Versions of the installed packages by name, and by name:architecture.
std::map<std::string, std::string> installed_versions(const SystemFiles& files) {
  std::map<std::string, std::string> versions;
  std::istringstream lines(files.read(status_file).value_or("") + "\n\n");
  std::map<std::string, std::string> fields;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) {
      const std::size_t colon = line.find(": ");
      if (line.front() != ' ' && colon != std::string::npos) {  // not the continuation of a description
        fields[line.substr(0, colon)] = line.substr(colon + 2);
      }
      continue;
    }
    if (fields["Status"].ends_with(" installed") && !fields["Version"].empty()) {
      versions.try_emplace(fields["Package"], fields["Version"]);
      versions[fields["Package"] + ":" + fields["Architecture"]] = fields["Version"];
    }
    fields.clear();
  }
  return versions;
}

}  // namespace

bool has_package_database(const SystemFiles& files) { return files.read(status_file).has_value(); }

std::vector<std::optional<Package>> packages_of(const SystemFiles& files, const std::vector<std::string>& paths) {
  const std::map<std::string, std::string> owner_of = owners(files, paths);
  const std::map<std::string, std::string> versions = installed_versions(files);
  std::vector<std::optional<Package>> packages;
  for (const std::string& path : paths) {
    const auto owner = owner_of.find(path);
    const auto version = owner == owner_of.end() ? versions.end() : versions.find(owner->second);
    if (version == versions.end()) {
      packages.emplace_back(std::nullopt);
    } else {
      packages.push_back(Package{owner->second.substr(0, owner->second.find(':')), version->second});
    }
  }
  return packages;
}

}  // namespace diptych::profiler
