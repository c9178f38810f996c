#pragma once

#include <filesystem>
#include <string>
#include <string_view>

/// Names of files are bytes, names in JSON and in reports are UTF-8: a byte that is no part of UTF-8 is written "\xff".
namespace diptych::io {

/// The path, or another text with paths in it, in UTF-8. UTF-8 stays as it is.
std::string text_of_path(std::string_view path);

/// The path that text_of_path() has written so; the text itself if there is no such file. Throws FileError if there are
/// files of both names.
std::filesystem::path path_of_text(const std::string& text);

}  // namespace diptych::io
