#pragma once

#include <filesystem>

namespace diptych::cli {

/// For as long as it lives, no other process has the lock of that folder: of two that measure into one run, each would
/// write its own figures over the other's. It ends with the process, however that ends, and leaves nothing behind.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// Whether another process has it. Where folders can't be locked (some network file systems), nobody has.
  bool is_taken() const { return is_taken_; }

 private:
  int descriptor_;
  bool is_taken_;
};

}  // namespace diptych::cli
