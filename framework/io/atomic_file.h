#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace diptych::io {

/// A file that appears under its name only once it is complete: it is written next to it, synced, then moved. Without
/// commit(), for example after an exception, nothing is left behind. Throws FileError, which
/// says what to do.
class AtomicFile {
 public:
  /// `elsewhere`: how the user can name another place, for the message.
  explicit AtomicFile(const std::filesystem::path& path, std::string_view elsewhere = "another folder");
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* bytes, std::size_t count);
  void commit();

 private:
  [[noreturn]] void fail(const char* step, int error) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  std::string elsewhere_;
  int descriptor_ = -1;
};

/// A regular file with random access. Throws FileError.
class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  std::uint64_t size() const { return size_; }
  void read(std::uint64_t offset, void* to, std::uint64_t count) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace diptych::io
