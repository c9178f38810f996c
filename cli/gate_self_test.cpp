#include "cli/verbs.h"
namespace diptych::cli {
int gate_self_test(const GateVerbOptions&) { return kFailure; }
}  // namespace diptych::cli
