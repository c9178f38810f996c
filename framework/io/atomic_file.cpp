#include "framework/io/atomic_file.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "framework/core/error.h"
#include "framework/core/text.h"

namespace diptych::io {
namespace {

/// A renamed file survives a power cut only if its folder has been synced too. If that isn't possible, the file is
/// still complete.
void sync_folder(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0) {
    fsync(descriptor);
    close(descriptor);
  }
}

std::string advice(int error, const std::string& elsewhere) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "free some space, or choose " + elsewhere;
    case EFBIG:
      return "the limit on file sizes is reached (ulimit -f); raise it, or choose " + elsewhere;
    case EACCES:
    case EPERM:
    case EROFS:
      return "make the folder writable, or choose " + elsewhere;
    case ENOENT:
      return "create the folder first";
    default:
      return "check the disk and the path";
  }
}

}  // namespace

AtomicFile::AtomicFile(const std::filesystem::path& path, std::string_view elsewhere)
    : path_(path), temporary_(path), elsewhere_(elsewhere) {
  static std::atomic<std::uint64_t> number{0};
  do {
    temporary_.replace_filename(fmt::format(".{}.{}-{}.part", path.filename().string(), getpid(), number++));
    descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) {
    fail("creating a temporary file beside it", errno);
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) {
    close(descriptor_);
    unlink(temporary_.c_str());
  }
}

void AtomicFile::fail(const char* step, int error) const {
  throw FileError(fmt::format("cannot write '{}': {}: {}; {}; nothing was changed", printable(path_.string()), step,
                              std::strerror(error), advice(error, elsewhere_)));
}

void AtomicFile::write(const void* bytes, std::size_t count) {
  const char* at = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t written = ::write(descriptor_, at, count);
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      fail("writing", written < 0 ? errno : ENOSPC);
    }
    at += written;
    count -= static_cast<std::size_t>(written);
  }
}

void AtomicFile::commit() {
  if (fsync(descriptor_) != 0) {
    fail("flushing to disk", errno);
  }
  // Network file systems report a full disk only here.
  if (close(std::exchange(descriptor_, -1)) != 0) {
    const int error = errno;
    unlink(temporary_.c_str());
    fail("closing", error);
  }
  if (rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    unlink(temporary_.c_str());
    fail("renaming into place", error);
  }
  sync_folder(path_);
}

InputFile::InputFile(const std::filesystem::path& path) : path_(path) {
  // Non-blocking: a pipe without a writer is refused below instead of being waited for.
  descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status {};
  if (descriptor_ < 0) {
    throw FileError(fmt::format("{}: can't be opened ({}); check the path", path.string(), std::strerror(errno)));
  }
  if (fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(descriptor_);
    throw FileError(fmt::format("{}: is not a file; check the path", path.string()));
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

InputFile::~InputFile() { close(descriptor_); }

void InputFile::read(std::uint64_t offset, void* to, std::uint64_t count) const {
  char* at = static_cast<char*>(to);
  while (count > 0) {
    const ssize_t got = pread(descriptor_, at, count, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {  // the file has shrunk since it was opened
      throw FileError(fmt::format("{}: can't be read to its end ({}); is another program changing it?", path_.string(),
                                  got < 0 ? std::strerror(errno) : "it became shorter"));
    }
    at += got;
    offset += static_cast<std::uint64_t>(got);
    count -= static_cast<std::uint64_t>(got);
  }
}

}  // namespace diptych::io
