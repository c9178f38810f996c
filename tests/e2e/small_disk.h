#pragma once

#include <cerrno>
#include <cstring>
#include <string>
#include <sys/mount.h>

#include "framework/core/temporary_folder.h"

namespace diptych::testing {

/// A file system of `size` bytes; `mounted` is false where that needs rights that the test lacks.
struct SmallDisk {
  explicit SmallDisk(std::size_t size) {
    mounted = mount("tmpfs", folder.path().c_str(), "tmpfs", 0, ("size=" + std::to_string(size)).c_str()) == 0;
    reason = std::strerror(errno);
  }
  ~SmallDisk() {
    if (mounted) {
      umount2(folder.path().c_str(), MNT_DETACH);
    }
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  TemporaryFolder folder;
  bool mounted = false;
  std::string reason;
};

}  // namespace diptych::testing
