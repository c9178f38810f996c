#include <algorithm>

#include <fmt/format.h>

#include "framework/core/text.h"
#include "profiler/machine/doctor.h"

namespace diptych::profiler {

namespace {

struct Mark {
  const char* word;
  const char* colour;  ///< ANSI; blue and orange differ for colour-blind eyes too, and the word says the same
};

Mark mark(Finding::Level level) {
  switch (level) {
    case Finding::Level::good:
      return {"ok", "\x1b[34m"};
    case Finding::Level::note:
      return {"note", "\x1b[36m"};
    case Finding::Level::warning:
      return {"WARN", "\x1b[1;33m"};
  }
  return {"note", "\x1b[36m"};
}

std::string render_section(const Diagnosis& diagnosis, Finding::Section section, int topic_width, bool colour) {
  std::string text;
  for (const Finding& finding : diagnosis.findings) {
    if (finding.section != section) {
      continue;
    }
    const Mark level = mark(finding.level);
    text += fmt::format("  {}{:<4}{}  {:<{}}  {}\n", colour ? level.colour : "", level.word, colour ? "\x1b[0m" : "",
                        finding.topic, topic_width, shorten(printable(finding.message), 400));
    if (!finding.advice.empty()) {
      text += fmt::format("  {:4}  {:{}}  -> {}\n", "", "", topic_width, shorten(printable(finding.advice), 400));
    }
  }
  return text;
}

}  // namespace

std::string render(const Diagnosis& diagnosis, bool colour) {
  int topic_width = 0;
  for (const Finding& finding : diagnosis.findings) {
    topic_width = std::max(topic_width, display_width(finding.topic));
  }
  const auto warnings = std::count_if(diagnosis.findings.begin(), diagnosis.findings.end(),
                                      [](const Finding& finding) { return finding.level == Finding::Level::warning; });
  return "What this machine can measure\n" + render_section(diagnosis, Finding::Section::ability, topic_width, colour) +
         "\nWhat makes its measurements noisy\n" +
         render_section(diagnosis, Finding::Section::noise, topic_width, colour) +
         fmt::format("\n{}\n", warnings == 0 ? "Nothing stands in the way of a measurement."
                                             : fmt::format("{} warning{}: see the arrows above.", warnings,
                                                           warnings == 1 ? "" : "s"));
}

}  // namespace diptych::profiler
