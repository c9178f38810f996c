#pragma once

#include <string>
#include <vector>

#include "workloads/arms/arm.h"

namespace diptych::cli {

/// The workloads that the arguments mean: names of workloads, suites, workloads without their size ("reference/rigid"),
/// or "all"; none for the default set. In the suites' order, each once.
/// Throws Error with the nearest name.
std::vector<std::string> resolve_workloads(const std::vector<std::string>& arguments);
/// "attention/sdpa-{64,128}, vit/b16": names with one stem and several sizes together, as a shell expands them.
std::string folded(const std::vector<std::string>& names);
/// One workload. Throws Error with the nearest name.
const workloads::Workload& resolve_workload(const std::string& name);
/// The arms in the arms' order; none for eager, replay and graph; "ladder" for every rung. Throws Error with the
/// nearest name.
std::vector<std::string> resolve_arms(const std::vector<std::string>& arguments);
const workloads::Arm& resolve_arm(const std::string& name);
/// Throws Error for arms of other frameworks, which `verb` can't take: "a gate".
void refuse_external_arms(const std::vector<std::string>& arms, const std::string& verb);

/// "mlp/digits" -> "mlp-digits": safe as a file name.
std::string file_name(const std::string& name);

/// Makes `<out>/<UTC time>-<name>/`, with a number if it exists. Throws FileError where it can't be written.
std::string make_output_folder(const std::string& out, const std::string& name);

}  // namespace diptych::cli
