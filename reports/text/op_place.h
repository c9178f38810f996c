#pragma once

#include <optional>
#include <string>

namespace diptych::reports {

/// What a row, a box or a node of a page stands for. The page's script marks all places of the op that a reader
/// chooses.
struct OpPlace {
  std::optional<std::string> op = {};     ///< none: a module
  std::optional<std::string> scope = {};  ///< "net.0"; empty: outside modules; none: of any module
};

/// ` data-op="matmul" data-scope="net.0"`, escaped, for a start tag; empty if it stands for nothing.
std::string op_attributes(const OpPlace& place);

}  // namespace diptych::reports
