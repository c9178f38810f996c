#pragma once

namespace CLI {
class App;
}

namespace diptych::cli {

/// Throws Error if any argument is not a verb, option or argument that is valid in its place. The message has the
/// nearest valid one, the verbs that have it, or where to look. CLI11 would only say that something was not expected.
void refuse_unknown(const CLI::App& program);

}  // namespace diptych::cli
