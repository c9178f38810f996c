#pragma once

#include <string>

/// Arms of other frameworks that come with the program (scripts/arms), found when they are asked for.
namespace diptych::workloads {

/// Adds torch-eager, torch-script, torch-compile and its two other backends, libtorch, ort, ort-basic and ort-off.
/// `program`: the path of this program, beside which those that are built lie. Scripts are looked for in $DIPTYCH_ARMS,
/// next to an installed program, and in the tree that it was built in.
void add_shipped_arms(const std::string& program);

}  // namespace diptych::workloads
