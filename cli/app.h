#pragma once

/// The whole command line: parses arguments, calls a verb, prints errors.
namespace diptych::cli {

/// Returns the process's exit code; throws nothing. A program that has added its own workloads (workloads/workload.h)
/// gets all verbs for them too: docs/own-workloads.md.
int run_app(int argc, char** argv);

}  // namespace diptych::cli
