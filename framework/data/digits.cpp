#include <charconv>
#include <cstdlib>
#include <memory>

#include <fmt/format.h>
#include <zlib.h>

#include "framework/core/installed_files.h"
#include "framework/data/dataset.h"

namespace diptych::data {
namespace {

std::string read_gzip(const std::filesystem::path& path) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (file == nullptr) {
    throw FileError(
        fmt::format("{}: can't be opened; set DIPTYCH_DATA to the folder with digits.csv.gz", path.string()));
  }
  std::string text;
  char chunk[1 << 16];
  for (;;) {
    const int got = gzread(file.get(), chunk, sizeof chunk);
    int error = Z_OK;
    gzerror(file.get(), &error);  // truncation is only detected here
    if (got < 0 || error != Z_OK) {
      throw FileError(fmt::format("{}: is damaged; get it again from the repository", path.string()));
    }
    if (got == 0) {
      return text;
    }
    text.append(chunk, static_cast<std::size_t>(got));
  }
}

}  // namespace

Dataset load_digits(const std::filesystem::path& path) {
  constexpr int kPixels = 64;
  const std::string text = read_gzip(path);
  std::vector<float> pixels;
  std::vector<std::int64_t> labels;
  const char* at = text.data();
  const char* end = at + text.size();
  int column = 0;
  while (at < end) {
    int value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    const bool last_column = column == kPixels;
    const bool good = error == std::errc() && value >= 0 && value <= (last_column ? 9 : 16) &&
                      (next == end ? last_column : *next == (last_column ? '\n' : ','));
    if (!good) {
      throw FileError(fmt::format("{}: row {}, column {}: expected 64 pixels of 0 to 16 and a label of 0 to 9",
                                  path.string(), labels.size() + 1, column + 1));
    }
    if (last_column) {
      labels.push_back(value);
      column = 0;
    } else {
      pixels.push_back(static_cast<float>(value) / 16.0F);
      ++column;
    }
    at = next == end ? end : next + 1;
  }
  if (labels.empty() || column != 0) {
    throw FileError(fmt::format("{}: the last row is cut off; get the file again", path.string()));
  }
  const auto count = static_cast<std::int64_t>(labels.size());
  return {Tensor::from(pixels, {count, kPixels}), Tensor::from(labels, {count})};
}

std::filesystem::path digits_path() {
  namespace fs = std::filesystem;
  std::vector<fs::path> folders;
  if (const char* chosen = std::getenv("DIPTYCH_DATA")) {
    folders.emplace_back(chosen);
  } else {
    for (const fs::path& share : share_folders()) {
      folders.push_back(share.parent_path().parent_path() / "framework/data");  // the source tree around a build folder
      folders.push_back(share / "data");                                        // an installed tree
    }
  }
  for (const fs::path& folder : folders) {
    if (fs::exists(folder / "digits.csv.gz")) {
      return folder / "digits.csv.gz";
    }
  }
  throw FileError("digits.csv.gz was not found; set DIPTYCH_DATA to the folder that has it");
}

}  // namespace diptych::data
