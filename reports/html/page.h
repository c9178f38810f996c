#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace diptych::reports {

/// What all pages have in common: one file, no network, readable without JavaScript, light and dark; a policy that
/// allows the page's own styles and script and nothing else. Names as they are in the run: they are escaped here.
struct Page {
  std::string name;           ///< of what it shows; the title
  std::string beside = {};    ///< the name: when it was made
  std::string headline = {};  ///< one sentence
  std::vector<std::string> sentences = {};
  std::string body = {};  ///< HTML
  std::string footer = {};
  std::string data_id = {};  ///< of the element that holds the document
};

std::string render_page(const Page& page, const nlohmann::json& document);

/// JSON for a script element: nothing in it can end the element.
std::string embedded_json(const nlohmann::json& document);

}  // namespace diptych::reports
