#pragma once

#include <string>

namespace diptych::reports {

/// docs/ops.md: the reference of all ops, generated from the registry alone.
std::string ops_page();

}  // namespace diptych::reports
