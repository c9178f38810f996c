#include "reports/views/fusion_views.h"

#include <algorithm>

#include <fmt/format.h>

namespace diptych::reports {

Arm fused_arm(const Cell& cell) {
  const Parts<Arm> arms = cell.arms();
  const auto found = std::find_if(arms.begin(), arms.end(), [](const Arm& arm) {
    const Parts<FusedEntry> fused = arm.fused();
    return fused.begin() != fused.end();
  });
  return found == arms.end() ? Arm() : *found;
}

std::string fused_verdict(const FusedEntry& kernel) {
  const std::vector<double> ratio = kernel.ratio();
  return fmt::format("{}{}",
                     kernel.is_loss()                     ? "loss"
                     : !ratio.empty() && ratio.back() < 1 ? "gain"
                                                          : "unclear",
                     kernel.is_vetoed() ? ", left out" : "");
}

std::string fusion_sentence(const Cell& cell, Glyphs glyphs) {
  double seconds = 0;
  double apart = 0;
  int kernels = 0;
  int losses = 0;
  int vetoed = 0;
  std::string worst;
  for (const FusedEntry kernel : fused_arm(cell).fused()) {
    ++kernels;
    seconds += kernel.seconds();
    apart += kernel.apart_seconds();
    vetoed += kernel.is_vetoed() ? 1 : 0;
    if (kernel.is_loss() && losses++ == 0 && kernel.ratio().size() == 3) {
      worst = fmt::format("; most, {} takes {:.2f} of it", kernel.ops(), kernel.ratio()[1]);
    }
  }
  if (kernels == 0) {
    return "";
  }
  return fmt::format("{} fused kernel{} {} {}, what {} replace{} {}; {}{}{}", kernels, kernels == 1 ? "" : "s",
                     kernels == 1 ? "takes" : "take", format_seconds(seconds, glyphs), kernels == 1 ? "it" : "they",
                     kernels == 1 ? "s" : "", format_seconds(apart, glyphs),
                     losses == 0 ? std::string("none loses") : fmt::format("{} lose{}", losses, losses == 1 ? "s" : ""),
                     worst, vetoed > 0 ? fmt::format(" ({} left out)", vetoed) : "");
}

std::string loss_sentence(const Cell& cell, Glyphs glyphs) {
  const Parts<FusedEntry> fused = fused_arm(cell).fused();
  const bool any = std::any_of(fused.begin(), fused.end(), [](const FusedEntry& kernel) { return kernel.is_loss(); });
  return any ? fusion_sentence(cell, glyphs) : "";
}

}  // namespace diptych::reports
