#pragma once

#include <string>
#include <string_view>

namespace diptych::reports {

/// SHA-256 (FIPS 180-4) in base64: the form in which a content security policy names an allowed script or style.
std::string sha256_base64(std::string_view data);

}  // namespace diptych::reports
