#include "cli/verbs.h"
namespace diptych::cli {
int reproduce(const ReproduceOptions& /*options*/) { return kFailure; }
}  // namespace diptych::cli
