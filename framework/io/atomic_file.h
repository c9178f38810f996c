#pragma once

#include <cstdint>
#include <filesystem>

namespace diptych::io {

/// A file that appears under its name only when it is complete: written beside it, synced, then moved there. Without
/// commit(), for example because of an exception, nothing is left. Throws FileError.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* bytes, std::size_t count);
  void commit();

 private:
  [[noreturn]] void fail(const char* action) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

/// A regular file, read at any place. Throws FileError.
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
