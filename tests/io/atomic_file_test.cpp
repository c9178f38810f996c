// What an output may be: a file, nothing, a link, a device, a pipe, a descriptor; and what a killed program leaves.

#include "framework/io/atomic_file.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <functional>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "framework/io/leftovers.h"
#include "tests/io/folder.h"

namespace {
std::atomic<int> fsync_error_of_folders{0};
}  // namespace

/// The library's, unless a test wants folders to fail.
extern "C" int fsync(int descriptor) {
  struct stat status {};
  if (fsync_error_of_folders != 0 && fstat(descriptor, &status) == 0 && S_ISDIR(status.st_mode)) {
    errno = fsync_error_of_folders;
    return -1;
  }
  return static_cast<int>(syscall(SYS_fsync, descriptor));
}

namespace diptych::io {
namespace {

namespace fs = std::filesystem;
using diptych::testing::bytes_of;
using diptych::testing::Folder;
using diptych::testing::write_bytes;
using ::testing::AllOf;
using ::testing::HasSubstr;

void put(const fs::path& path, const std::string& text = "new") {
  AtomicFile file(path);
  file.write(text.data(), text.size());
  file.commit();
}

std::string refusal_of_place(const fs::path& path) {
  try {
    put(path);
  } catch (const FileError& error) {
    return error.what();
  }
  return "no error";
}

struct stat status_of(const fs::path& path) {
  struct stat status {};
  EXPECT_EQ(lstat(path.c_str(), &status), 0) << path;
  return status;
}

/// The end of a pipe that is read; a writer finds it open.
int reading_end(const fs::path& pipe) { return open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC); }

/// All that comes out of a pipe, if a writer comes.
std::string drained(int descriptor) {
  std::string text;
  pollfd wait_for{descriptor, POLLIN, 0};
  poll(&wait_for, 1, 10'000);
  fcntl(descriptor, F_SETFL, 0);
  char block[256];
  for (ssize_t got = 0; (got = read(descriptor, block, sizeof block)) > 0;) {
    text.append(block, static_cast<std::size_t>(got));
  }
  close(descriptor);
  return text;
}

TEST(OutputPlace, AFileOrNothingIsReplacedWhole) {
  const Folder folder;
  put(folder / "a", "old");
  EXPECT_EQ(bytes_of(folder / "a"), "old");
  const ino_t before = status_of(folder / "a").st_ino;
  {
    AtomicFile file(folder / "a");
    file.write("ne", 2);
    EXPECT_EQ(bytes_of(folder / "a"), "old");
  }
  EXPECT_EQ(bytes_of(folder / "a"), "old") << "not committed";
  EXPECT_EQ(folder.files(), 1U);
  put(folder / "a");
  EXPECT_EQ(bytes_of(folder / "a"), "new");
  EXPECT_NE(status_of(folder / "a").st_ino, before);
  EXPECT_EQ(folder.files(), 1U);
}

TEST(OutputPlace, PermissionsOfTheFileStay) {
  const Folder folder;
  for (const mode_t mode : {0600U, 0640U, 0444U}) {
    write_bytes(folder / "a", "old");
    chmod((folder / "a").c_str(), mode);
    put(folder / "a");
    EXPECT_EQ(bytes_of(folder / "a"), "new");
    EXPECT_EQ(status_of(folder / "a").st_mode & 0777U, mode);
    fs::remove(folder / "a");
  }
}

TEST(OutputPlace, LinksLeadToWhatIsReplaced) {
  const Folder folder;
  fs::create_directories(folder / "there");
  write_bytes(folder / "there/a", "old");
  fs::create_symlink("there/a", folder / "link");
  fs::create_symlink("../link", folder / "there/link");             // a link to a link, from another folder
  fs::create_symlink(folder / "there/new", folder / "to-nothing");  // absolute
  put(folder / "there/link");
  EXPECT_EQ(bytes_of(folder / "there/a"), "new");
  put(folder / "to-nothing");
  EXPECT_EQ(bytes_of(folder / "there/new"), "new");
  for (const char* link : {"link", "there/link", "to-nothing"}) {
    EXPECT_TRUE(fs::is_symlink(folder / link)) << link;
  }
  EXPECT_EQ(folder.files(), 3U);

  fs::create_symlink("none/a", folder / "to-no-folder");
  EXPECT_THAT(refusal_of_place(folder / "to-no-folder"), AllOf(HasSubstr("a link to"), HasSubstr("create the folder")));
  fs::create_symlink("circle", folder / "circle");
  EXPECT_THAT(refusal_of_place(folder / "circle"), HasSubstr("links lead in a circle"));
  EXPECT_TRUE(fs::is_symlink(folder / "circle"));
}

TEST(OutputPlace, APipeGetsIt) {
  const Folder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  fs::create_symlink("pipe", folder / "link");
  for (const char* name : {"pipe", "link"}) {
    std::string got;
    const int end = reading_end(folder / "pipe");
    std::thread reader([&] { got = drained(end); });
    const std::string large(300000, 'x');  // more than a pipe holds
    put(folder / name, large);
    reader.join();
    EXPECT_EQ(got, large);
    EXPECT_TRUE(S_ISFIFO(status_of(folder / "pipe").st_mode));
  }
  EXPECT_EQ(folder.files(), 2U);
}

TEST(OutputPlace, APipeWhoseReaderGoesIsAnError) {
  const Folder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  const int end = reading_end(folder / "pipe");
  AtomicFile file(folder / "pipe");
  close(end);
  std::string message = "no error";
  try {
    file.write("new", 3);
  } catch (const FileError& error) {
    message = error.what();
  }
  EXPECT_THAT(message, AllOf(HasSubstr("pipe'"), HasSubstr("what read it has ended")));
}

TEST(OutputPlace, ADeviceStaysOne) {
  const Folder folder;
  if (mknod((folder / "null").c_str(), S_IFCHR | 0666, makedev(1, 3)) != 0) {
    GTEST_SKIP() << "device nodes can't be made here: " << std::strerror(errno);
  }
  ASSERT_EQ(mknod((folder / "full").c_str(), S_IFCHR | 0666, makedev(1, 7)), 0);
  fs::create_symlink("null", folder / "link");
  if (const int descriptor = open((folder / "null").c_str(), O_WRONLY); descriptor >= 0) {
    close(descriptor);
  } else {
    GTEST_SKIP() << "device nodes can't be used here: " << std::strerror(errno);
  }
  put(folder / "null");
  put(folder / "link");
  EXPECT_TRUE(S_ISCHR(status_of(folder / "null").st_mode));
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_THAT(refusal_of_place(folder / "full"), AllOf(HasSubstr("full'"), HasSubstr("No space left")));
  EXPECT_TRUE(S_ISCHR(status_of(folder / "full").st_mode));
  EXPECT_EQ(folder.files(), 3U);
}

TEST(OutputPlace, ADescriptorOfThisProcessGetsItWhereItStands) {
  const Folder folder;
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  put(fmt::format("/dev/fd/{}", ends[1]), "through a pipe");
  put(fmt::format("/proc/{}/fd/{}", getpid(), ends[1]), ", twice");
  close(ends[1]);
  EXPECT_EQ(drained(ends[0]), "through a pipe, twice");

  const int file = open((folder / "a").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(write(file, "before ", 7), 7);
  put(fmt::format("/dev/fd/{}", file), "document");
  ASSERT_EQ(write(file, " after", 6), 6);  // as a shell's `{ ...; } >file` goes on writing
  EXPECT_EQ(bytes_of(folder / "a"), "before document after");
  fs::create_symlink(fmt::format("/dev/fd/{}", file), folder / "link");
  EXPECT_EQ(own_descriptor(folder / "link"), file);
  EXPECT_EQ(own_descriptor("/dev/stdout"), STDOUT_FILENO);
  EXPECT_EQ(own_descriptor(folder / "a"), std::nullopt);
  close(file);
  EXPECT_THAT(refusal_of_place(fmt::format("/dev/fd/{}", file)), HasSubstr("Bad file descriptor"));
}

TEST(OutputPlace, WhatCanNotBeWrittenIsLeftAlone) {
  const Folder folder;
  fs::create_directories(folder / "folder");
  EXPECT_THAT(refusal_of_place(folder / "folder"), HasSubstr("name a file in it"));
  const int socket_end = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = folder / "socket";
  ASSERT_LT(path.size(), sizeof address.sun_path);
  std::copy(path.begin(), path.end(), address.sun_path);
  ASSERT_EQ(bind(socket_end, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_THAT(refusal_of_place(folder / "socket"), AllOf(HasSubstr("socket'"), HasSubstr("nothing was changed")));
  EXPECT_TRUE(S_ISSOCK(status_of(folder / "socket").st_mode));
  close(socket_end);
}

TEST(OutputPlace, ANameMayBeAsLongAsTheFileSystemAllows) {
  const Folder folder;
  const std::string longest(255, 'x');
  put(folder / longest);
  EXPECT_EQ(bytes_of(folder / longest), "new");
}

TEST(OutputPlace, AFolderThatIsNotSyncedIsAnError) {
  const Folder folder;
  fsync_error_of_folders = EIO;
  const std::string message = refusal_of_place(folder / "a");
  fsync_error_of_folders = EINVAL;  // a file system without that
  EXPECT_EQ(refusal_of_place(folder / "a"), "no error");
  fsync_error_of_folders = 0;
  EXPECT_THAT(message, AllOf(HasSubstr("a' is written"), HasSubstr("Input/output error"), HasSubstr("power cut")));
  EXPECT_EQ(bytes_of(folder / "a"), "new");
  EXPECT_EQ(folder.files(), 1U);
}

/// Calls `body` in a process that ends in it or after it, and returns its number, which nobody has then.
pid_t ended_in(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  return child;
}

TEST(Leftovers, OfAKilledProcessGoWithTheNextOutput) {
  const Folder folder;
  const std::string longest(255, 'x');
  for (const std::string& name : {std::string("a"), longest}) {
    ended_in([&] {
      AtomicFile file(folder / name);
      file.write("half", 4);
      kill(getpid(), SIGKILL);
    });
    EXPECT_EQ(folder.files(), 1U) << "the child leaves one";
    put(folder / name);
    EXPECT_EQ(folder.files(), 1U);
    EXPECT_EQ(bytes_of(folder / name), "new");
    fs::remove(folder / name);
  }
}

TEST(Leftovers, AreOfTheSameOutputUnlessAllAreMeant) {
  const Folder folder;
  ended_in([&] {
    AtomicFile a(folder / "a");
    AtomicFile b(folder / "b");
    fs::create_symlink("x", temporary_beside(folder / "latest"));
    kill(getpid(), SIGKILL);
  });
  put(folder / "b");
  EXPECT_EQ(folder.files(), 3U);
  remove_leftovers(folder.path());
  EXPECT_EQ(folder.files(), 1U);
}

TEST(Leftovers, OfTheLivingAndOfOthersStay) {
  const Folder folder;
  const pid_t dead = ended_in([] {});
  const AtomicFile being_written(folder / "a");
  for (const std::string& name :
       {fmt::format(".a.{}-0.part", getppid()), std::string(".a.part"), std::string(".notes.12.part"),
        fmt::format("a.{}-0.part", dead), fmt::format(".a.{}-0.part.txt", dead), fmt::format(".a.{}-x.part", dead),
        fmt::format(".{}-0.part", dead), std::string(".a.0-0.part"), std::string(".a.-1-0.part"),
        std::string(".a.99999999999-0.part")}) {
    write_bytes(folder / name, "mine");
  }
  fs::create_directories(folder / fmt::format(".a.{}-1.part", dead));
  ASSERT_EQ(mkfifo((folder / fmt::format(".a.{}-2.part", dead)).c_str(), 0600), 0);
  // As of a process in another container, whose number nobody has here.
  write_bytes(folder / fmt::format(".a.{}-3.part", dead), "being written");
  const int elsewhere = open((folder / fmt::format(".a.{}-3.part", dead)).c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_TRUE(keep_from_removal(elsewhere));
  const std::size_t before = folder.files();
  remove_leftovers(folder.path());
  EXPECT_EQ(folder.files(), before);
  close(elsewhere);
  remove_leftovers(folder.path());
  EXPECT_EQ(folder.files(), before - 1) << "its writer has ended";
  remove_leftovers(folder / "none");  // is no error
}

}  // namespace
}  // namespace diptych::io
