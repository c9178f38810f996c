#pragma once

#include <string>
#include <string_view>

namespace diptych::reports {

/// The path of a file, relative to a page, as the value of `href`: percent-encoded [RFC 3986], so that nothing in a
/// name is a scheme, a query, a fragment or markup.
std::string relative_link(std::string_view path);

}  // namespace diptych::reports
