#pragma once

#include <string>

/// Where the tree and its build lie: in no unit's flags, so that what was compiled serves clones in other folders too.
namespace diptych::testing::places {

extern const char* const source_folder;
extern const char* const build_folder;

inline std::string source() { return source_folder; }
inline std::string build() { return build_folder; }
/// The `diptych` binary.
inline std::string program() { return build() + "/diptych"; }
inline std::string digits() { return source() + "/framework/data/digits.csv.gz"; }

}  // namespace diptych::testing::places
