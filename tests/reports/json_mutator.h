#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/short_run.h"

/// JSON documents, damaged at random.
namespace diptych::testing {

inline std::string read_whole(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class JsonMutator {
  using Json = nlohmann::json;

 public:
  explicit JsonMutator(std::vector<std::string> texts) : texts_(std::move(texts)) {}

  /// Bytes flipped, cut, doubled: mostly no longer JSON.
  std::string damaged_text() {
    std::string text = texts_[below(texts_.size())];
    for (std::size_t i = 0; i <= below(3) && !text.empty(); ++i) {
      const std::size_t at = below(text.size());
      switch (below(5)) {
        case 0:
          text[at] = static_cast<char>(below(256));
          break;
        case 1:
          text.resize(at);
          break;
        case 2:
          text.erase(at, 1 + below(30));
          break;
        case 3:
          text.insert(at, text.substr(below(text.size()), 1 + below(60)));
          break;
        default:
          text.insert(at, below(2) == 0 ? "1e999" : "\\ud800");
      }
    }
    return text;
  }

  /// Still JSON, but values anywhere replaced, removed or doubled.
  Json damaged_document() {
    Json document = Json::parse(texts_[below(texts_.size())]);
    for (std::size_t i = 0; i <= below(3); ++i) {
      damage(document);
    }
    return document;
  }

 private:
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }

  void damage(Json& document) {
    Json* at = &document;
    while (at->is_structured() && !at->empty() && (at == &document || below(7) != 0)) {
      auto next = at->begin();
      std::advance(next, static_cast<std::ptrdiff_t>(below(at->size())));
      if (below(40) == 0) {
        at->erase(next);
        return;
      }
      if (at->is_array() && below(20) == 0) {
        at->push_back(Json(*next));
        return;
      }
      at = &*next;
    }
    if (at->is_number() && below(2) == 0) {
      const double factor = below(2) == 0 ? 1e300 : 1e-300;
      *at = at->get<double>() * factor;  // still a number of the same sign
      return;
    }
    *at = strange_value();
  }

  Json strange_value() {
    const std::vector<Json> values = {nullptr,
                                      true,
                                      0,
                                      -1,
                                      1,
                                      0.5,
                                      2,
                                      1e308,
                                      5e-324,
                                      std::numeric_limits<std::uint64_t>::max(),
                                      std::numeric_limits<std::int64_t>::min(),
                                      "",
                                      "eager",
                                      "graph",
                                      "quick",
                                      "</script><b>",
                                      std::string("a\0b", 3),
                                      std::string(5000, '|'),
                                      Json::array(),
                                      Json::object(),
                                      Json::array({nullptr}),
                                      Json{{"name", "eager"}}};
    return values[below(values.size())];
  }

  std::vector<std::string> texts_;
  std::mt19937_64 random_{20261121};
};

/// DIPTYCH_LONG=1 tries twenty times as many; a short run (short_run.h) a quarter.
inline int fuzz_times(int usual) {
  return std::getenv("DIPTYCH_LONG") != nullptr ? 20 * usual : is_short_run() ? usual / 4 : usual;
}

}  // namespace diptych::testing
