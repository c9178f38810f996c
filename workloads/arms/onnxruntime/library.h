#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "workloads/arms/onnxruntime/ort_abi.h"

namespace diptych::ort {

/// Owned by us, released by a function of the library.
template <class T>
using Owned = std::unique_ptr<T, void (*)(T*)>;

/// ONNX Runtime as a shared library, found and opened at run time. It is never closed: its threads may outlive a
/// session.
class Library {
 public:
  /// The first usable one of
  ///   1. $DIPTYCH_ONNXRUNTIME, the library or a folder with it; if it is set, nothing else is looked at
  ///   2. npm's package onnxruntime-node where $DIPTYCH_NODE_MODULES points, as Node.js would find it from there
  ///   3. libonnxruntime.so as the loader finds it: LD_LIBRARY_PATH, then the system's folders
  ///   4. npm's package in the folder of this program, the current one, and those above them.
  /// Throws runtime_error with where it looked; for libraries that can't be used, why the first of them can't.
  static Library find();

  const std::string& version() const { return version_; }

  /// Throws if the table has none.
  template <class Signature>
  Signature* function(const Entry<Signature>& entry) const {
    if (table_[entry.index] == nullptr) {
      throw std::runtime_error("ONNX Runtime " + version_ + " lacks " + entry.name);
    }
    return reinterpret_cast<Signature*>(table_[entry.index]);
  }

  /// Calls a function that returns a status. Throws runtime_error with the library's message.
  template <class... Parameters>
  void call(const Entry<Status*(Parameters...)>& entry, std::type_identity_t<Parameters>... arguments) const {
    check(function(entry)(arguments...), entry.name);
  }
  void check(Status* status, const char* called) const {
    if (status != nullptr) {
      fail(status, called);
    }
  }

  /// Calls a function whose last parameter receives a new object.
  template <class T, class... Parameters, class... Arguments>
  Owned<T> create(const Entry<Status*(Parameters...)>& entry, const Entry<void(T*)>& release,
                  Arguments&&... arguments) const {
    Owned<T> object(nullptr, function(release));
    T* created = nullptr;
    call(entry, std::forward<Arguments>(arguments)..., &created);
    object.reset(created);
    if (created == nullptr) {
      throw std::runtime_error(std::string(entry.name) + " of ONNX Runtime gives nothing");
    }
    return object;
  }

 private:
  /// Throws if the library at `path`, which may be a name for the loader, can't be used.
  explicit Library(const std::string& path);
  [[noreturn]] void fail(Status* status, const char* called) const;

  std::string version_;
  const AnyFunction* table_ = nullptr;
};

}  // namespace diptych::ort
