#include <fmt/format.h>

#include "framework/core/tensor_body.h"
#include "framework/graph/capture.h"

namespace diptych::graph {

void Capture::update(const char* name, const Tensor& x, const Tensor& /*value*/, Location where) {
  throw CaptureError(fmt::format("{}: {} can't be updated in place yet", name, to_string(x.type())), where, "");
}

}  // namespace diptych::graph
