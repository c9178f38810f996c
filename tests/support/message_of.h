#pragma once

#include <exception>
#include <string>

#include "framework/core/error.h"

namespace diptych::testing {

/// The message of a failing call, if it fails with an E.
template <class E = Error, class Fn>
std::string message_of(const Fn& fn) {
  try {
    fn();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another type of error: ") + error.what();
  }
  return "no error";
}

}  // namespace diptych::testing
