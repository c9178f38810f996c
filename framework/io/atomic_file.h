#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace diptych::io {

/// The number of this process's own descriptor that `path` leads to, through links: 1 of "/dev/stdout", 63 of
/// "/dev/fd/63" (what a shell hands over for `>(command)`). Empty if it leads elsewhere.
std::optional<int> own_descriptor(const std::filesystem::path& path);

/// Writes all bytes, also where the other side is slow or signals interrupt it; 0, or the error (errno). A reader that
/// has gone is the error EPIPE, and no signal.
int write_all(int descriptor, std::string_view bytes);

/// An output of a program. A regular file, or nothing, is replaced whole or not at all: the output is written next to
/// it, synced, then moved; without commit(), for example after an exception, nothing is left behind. Links are
/// followed: what they lead to is replaced, not they. What is no file is written to and stays what it is: a device, a
/// pipe (which waits for its reader, as in a shell), and a descriptor of this process, whose place in a file counts.
/// Throws FileError, which says what to do.
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
  void create_temporary();
  void move_into_place();
  bool is_replaced() const { return !temporary_.empty(); }

  std::filesystem::path path_;       ///< as typed
  std::filesystem::path target_;     ///< where its links lead
  std::filesystem::path temporary_;  ///< empty: the target itself is written
  std::string elsewhere_;
  int descriptor_ = -1;
  std::optional<unsigned> mode_;  ///< of the file that is replaced: its permissions stay
  bool is_begun_ = false;         ///< whether something that can't be taken back was written
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
