#pragma once

#include <string>
#include <vector>

#include "workloads/arms/arm.h"

namespace diptych::cli {

/// The workloads that the arguments name: workloads, suites, workloads without their size ("reference/rigid"), or
/// "all"; none for the default set. In the suites' order, each once. Throws Error with the nearest name.
std::vector<std::string> resolve_workloads(const std::vector<std::string>& arguments);
/// "attention/sdpa-{64,128}, vit/b16": names that differ only in size are joined, in the notation that a shell expands.
std::string folded(const std::vector<std::string>& names);
/// One workload, or the only one of a suite. Throws Error with those of a suite that has several, or with the nearest
/// name; FileError for a file that isn't there or holds no model.
const workloads::Workload& resolve_workload(const std::string& name);
/// The arms in their usual order; no arguments: eager, replay and graph; "ladder": every rung for that many
/// threads. Throws Error with the
/// nearest name.
std::vector<std::string> resolve_arms(const std::vector<std::string>& arguments, int threads = 1);
/// One arm; "ladder" isn't one. Throws Error with the nearest name.
const workloads::Arm& resolve_arm(const std::string& name);
/// Throws Error if there are arms of other frameworks, which `verb` ("a gate") can't take.
void refuse_external_arms(const std::vector<std::string>& arms, const std::string& verb);

/// "mlp/digits" -> "mlp-digits": safe as a file name.
std::string file_name(const std::string& name);

/// Makes `<out>/<UTC time>-<name>/`, with a number if it exists. Throws FileError if it can't be written.
std::string make_output_folder(const std::string& out, const std::string& name);

}  // namespace diptych::cli
