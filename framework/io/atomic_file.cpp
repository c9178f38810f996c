#include "framework/io/atomic_file.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "framework/core/error.h"
#include "framework/core/pipe.h"
#include "framework/core/text.h"
#include "framework/io/leftovers.h"

namespace diptych::io {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

/// What a path leads to.
struct Place {
  fs::path path;               ///< behind all links
  int own_descriptor = -1;     ///< of this process, where it is one
  bool is_descriptor = false;  ///< of some process: its link in /proc shows a path, and may stand for none
};

/// Follows the links by hand, because the link to a descriptor leads to what is open, not to the path that it shows.
Place follow(fs::path path) {
  constexpr int kMostLinks = 40;  // as in the kernel, which then says what is wrong
  for (int links = 0; links < kMostLinks; ++links) {
    std::error_code error;
    if (const fs::path folder = fs::canonical(folder_of(path), error);
        !error && folder.filename() == "fd" && folder.native().starts_with("/proc/")) {
      const std::string name = path.filename().native();
      const std::string own = fs::canonical("/proc/self", error).native() + "/";
      int number = -1;
      const auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), number);
      const bool is_number = problem == std::errc() && end == name.data() + name.size() && number >= 0;
      return {path, is_number && folder.native().starts_with(own) ? number : -1, is_number};
    }
    const fs::path target = fs::read_symlink(path, error);
    if (error) {
      break;  // no link
    }
    path = target.is_absolute() ? target : folder_of(path) / target;
  }
  return {path};
}

/// A renamed file survives a power cut only if its folder has been synced too. 0, or the error (errno).
int sync_folder(const fs::path& path) {
  const int descriptor = open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) {
    return errno == EACCES ? 0 : errno;  // a folder that may be written, but not read, can't be synced
  }
  const int error = fsync(descriptor) == 0 ? 0 : errno;
  close(descriptor);
  const bool has_no_sync = error == EINVAL || error == EBADF || error == ENOSYS || error == EOPNOTSUPP;
  return has_no_sync ? 0 : error;  // some file systems have none for folders
}

std::string advice(int error, bool is_replaced, const std::string& elsewhere) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "free some space, or choose " + elsewhere;
    case EFBIG:
      return "the limit on file sizes is reached (ulimit -f); raise it, or choose " + elsewhere;
    case EACCES:
    case EPERM:
    case EROFS:
      return (is_replaced ? "make the folder writable, or choose " : "get the right to write to it, or choose ") +
             elsewhere;
    case ENOENT:
      return "create the folder first";
    case ENXIO:
      return "nothing takes what is written there; name a file, a pipe or a device";
    case EISDIR:
      return "name a file in it";
    case ELOOP:
      return "its links lead in a circle; mend them";
    case EBUSY:
      return "something is mounted there; choose " + elsewhere;
    case EPIPE:
      return "what read it has ended";
    case EBADF:
      return "open that descriptor for writing, or name a file";
    default:
      return "check the disk and the path";
  }
}

}  // namespace

std::optional<int> own_descriptor(const std::filesystem::path& path) {
  const int number = follow(path).own_descriptor;
  return number < 0 ? std::nullopt : std::optional(number);
}

int write_all(int descriptor, std::string_view bytes) {
  const NoPipeSignal reader_may_have_gone;
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (written < 0 && errno == EAGAIN) {  // another process has made the pipe or the terminal non-blocking
      pollfd wait_for{descriptor, POLLOUT, 0};
      poll(&wait_for, 1, -1);
    } else if (written == 0 || errno != EINTR) {
      return written < 0 ? errno : ENOSPC;
    }
  }
  return 0;
}

AtomicFile::AtomicFile(const std::filesystem::path& path, std::string_view elsewhere)
    : path_(path), elsewhere_(elsewhere) {
  const Place place = follow(path);
  target_ = place.path;
  if (place.own_descriptor >= 0) {
    descriptor_ = fcntl(place.own_descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (descriptor_ < 0) {
      fail("opening it", errno);
    }
    return;
  }
  struct stat status {};
  const bool exists = stat(target_.c_str(), &status) == 0;
  if (!exists && errno == ELOOP) {
    fail("opening it", ELOOP);
  }
  if (exists && S_ISDIR(status.st_mode)) {
    fail("opening it", EISDIR);
  }
  if (exists && (place.is_descriptor || !S_ISREG(status.st_mode))) {
    while ((descriptor_ = open(target_.c_str(), O_WRONLY | O_TRUNC | O_NOCTTY | O_CLOEXEC)) < 0) {
      if (errno != EINTR) {
        fail("opening it", errno);
      }
    }
    return;
  }
  if (exists) {
    mode_ = status.st_mode & 0777U;
  }
  remove_leftovers(target_.parent_path(), target_.filename().native());
  create_temporary();
}

void AtomicFile::create_temporary() {
  const mode_t mode = mode_ ? *mode_ | S_IWUSR : 0666;
  for (;;) {
    temporary_ = temporary_beside(target_);
    descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (descriptor_ < 0 && errno != EEXIST) {
      fail("creating a temporary file beside it", errno);
    }
    if (descriptor_ >= 0 && keep_from_removal(descriptor_)) {
      return;
    }
    if (descriptor_ >= 0) {
      close(descriptor_);
    }
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) {
    close(descriptor_);
    if (is_replaced()) {
      unlink(temporary_.c_str());
    }
  }
}

void AtomicFile::fail(const char* step, int error) const {
  const std::string link = target_ == path_ ? "" : fmt::format(", a link to '{}'", printable(target_.string()));
  throw FileError(fmt::format("cannot write '{}'{}: {}: {}; {}; {}", printable(path_.string()), link, step,
                              std::strerror(error), advice(error, is_replaced(), elsewhere_),
                              is_begun_ ? "a part of it may have arrived" : "nothing was changed"));
}

void AtomicFile::write(const void* bytes, std::size_t count) {
  is_begun_ = is_begun_ || (!is_replaced() && count > 0);
  if (const int error = write_all(descriptor_, {static_cast<const char*>(bytes), count}); error != 0) {
    fail("writing", error);
  }
}

void AtomicFile::commit() {
  if (is_replaced()) {
    move_into_place();
    return;
  }
  // Network file systems report a full disk only here.
  if (close(std::exchange(descriptor_, -1)) != 0) {
    fail("closing", errno);
  }
}

void AtomicFile::move_into_place() {
  if (mode_ && fchmod(descriptor_, *mode_) != 0) {
    fail("keeping its permissions", errno);
  }
  if (fsync(descriptor_) != 0) {
    fail("flushing to disk", errno);
  }
  // A second descriptor holds the lock until the file has its name.
  const int locked = fcntl(descriptor_, F_DUPFD_CLOEXEC, 0);
  const char* step = "closing";
  int error = close(std::exchange(descriptor_, -1)) == 0 ? 0 : errno;
  if (error == 0 && rename(temporary_.c_str(), target_.c_str()) != 0) {
    step = "renaming into place";
    error = errno;
  }
  if (error != 0) {
    unlink(temporary_.c_str());
  }
  close(locked);
  if (error != 0) {
    fail(step, error);
  }
  if (const int unsynced = sync_folder(target_); unsynced != 0) {
    throw FileError(fmt::format("'{}' is written, but its folder can't be synced: {}; a power cut may lose it: {}",
                                printable(path_.string()), std::strerror(unsynced),
                                advice(unsynced, true, elsewhere_)));
  }
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
