#include "reports/run/part.h"

namespace diptych::reports {

const Json Part::nothing_;

std::vector<std::string> Part::texts(const char* key) const {
  std::vector<std::string> texts;
  for (const Json& item : list(*json_, key)) {
    texts.push_back(item.is_string() ? item.get<std::string>() : std::string());
  }
  return texts;
}

}  // namespace diptych::reports
