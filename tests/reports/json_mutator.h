#pragma once

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
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
          static const std::vector<std::string> pieces = {"1e999", "\\ud800", "NaN",
                                                          "-inf",  "-5e-324", std::string(20'000, '[')};
          text.insert(at, pieces[below(pieces.size())]);
      }
    }
    return text;
  }

  /// Text that is still JSON, but with values anywhere replaced, removed or doubled.
  std::string damaged_document() {
    Json document = Json::parse(texts_[below(texts_.size())]);
    for (std::size_t i = 0; i <= below(3); ++i) {
      damage(document);
    }
    std::string text = document.dump(-1, ' ', true, Json::error_handler_t::replace);
    // Only now: to write a deep document takes more stack than there is.
    const std::string placeholder = fmt::format("\"{}\"", kDeep);
    for (std::size_t at = text.find(placeholder); at != std::string::npos; at = text.find(placeholder, at)) {
      const std::string deep = deep_value();
      text.replace(at, placeholder.size(), deep);
      at += deep.size();
    }
    return text;
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
      *at = strange_number(at->get<double>());
      return;
    }
    *at = strange_value();
  }

  double strange_number(double value) {
    const double infinity = std::numeric_limits<double>::infinity();
    const std::vector<double> numbers = {value * 1e300, value * 1e-300, -value,
                                         5e-324,        -5e-324,        1e-320,
                                         1.7e308,       -1.7e308,       std::nextafter(value, infinity)};
    const double number = numbers[below(numbers.size())];
    return std::isfinite(number) ? number : value;
  }

  /// Some that are read, and more levels than any stack holds.
  std::string deep_value() {
    const std::size_t levels = below(2) == 0 ? 20 + below(70) : 20'000;
    const std::vector<std::pair<std::string, std::string>> kinds = {
        {"[", "]"}, {R"({"a":)", "}"}, {R"({"name":"a","b":[)", "]}"}, {R"([1,)", "]"}};
    const auto& [open, close] = kinds[below(kinds.size())];
    std::string text;
    for (std::size_t i = 0; i < levels; ++i) {
      text += open;
    }
    text += "1";
    for (std::size_t i = 0; i < levels; ++i) {
      text += close;
    }
    return text;
  }

  Json strange_value() {
    const std::vector<Json> values = {nullptr,
                                      true,
                                      0,
                                      -1,
                                      1,
                                      0.5,
                                      2,
                                      1.7e308,
                                      -1.7e308,
                                      5e-324,
                                      -1e-3,
                                      kDeep,
                                      "NaN",
                                      "-Infinity",
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

  static constexpr const char* kDeep = "many levels stand here";

  std::vector<std::string> texts_;
  std::mt19937_64 random_{20261121};
};

/// DIPTYCH_LONG=1 tries twenty times as many; a short run (short_run.h) a quarter.
inline int fuzz_times(int usual) {
  return std::getenv("DIPTYCH_LONG") != nullptr ? 20 * usual : is_short_run() ? usual / 4 : usual;
}

}  // namespace diptych::testing
