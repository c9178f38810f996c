#pragma once

#include <string>
#include <string_view>

#include "framework/core/error.h"

namespace diptych {

/// Elements that a kernel can't take: an index outside of its axis, an integer divided by zero. The kernel doesn't know
/// where its op stands. Who runs it does, and says so: "<what>, at <file>:<line> in <module>; <hint>", with the same
/// words in both modes.
class ElementError : public Error {
 public:
  ElementError(std::string what, std::string hint);

  const std::string& problem() const { return what_; }  ///< without place and hint
  const std::string& hint() const { return hint_; }

  /// The line of the op, and in a graph its module ("net.0"). Only the first call counts: the innermost op is at fault.
  void locate(Location where, std::string_view module = {});
  /// An enclosing module, in eager from the inside out.
  void add_module(std::string_view name);

 private:
  void compose();

  std::string what_;
  std::string hint_;
  std::string module_;
  Location where_;
  bool is_located_ = false;
};

}  // namespace diptych
