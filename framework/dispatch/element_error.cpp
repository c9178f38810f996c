#include "framework/dispatch/element_error.h"

#include <utility>

#include <fmt/format.h>

#include "framework/core/text.h"

namespace diptych {

ElementError::ElementError(std::string what, std::string hint)
    : Error(""), what_(std::move(what)), hint_(std::move(hint)) {
  compose();
}

void ElementError::locate(Location where, std::string_view module) {
  if (!is_located_) {
    is_located_ = true;
    where_ = where;
    module_ = module;
    compose();
  }
}

void ElementError::add_module(std::string_view name) {
  if (name.empty()) {
    return;
  }
  module_ = module_.empty() ? std::string(name) : fmt::format("{}.{}", name, module_);
  compose();
}

void ElementError::compose() {
  std::string message = what_;
  if (!std::string_view(where_.file).empty()) {
    message += fmt::format(", at {}", to_string(where_));
  }
  if (!module_.empty()) {
    message += fmt::format(" in {}", printable(module_));
  }
  if (!hint_.empty()) {
    message += fmt::format("; {}", hint_);
  }
  static_cast<Error&>(*this) = Error(message);
}

}  // namespace diptych
