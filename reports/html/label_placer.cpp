#include "reports/html/label_placer.h"

#include <algorithm>

namespace diptych::reports {

TextBox text_box(double x, double baseline, double width, double font_size) {
  return {x, baseline - 0.93 * font_size, width, 1.17 * font_size};  // the largest ascent and descent of common fonts
}

bool intersect(const TextBox& a, const TextBox& b) {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

bool LabelPlacer::is_free(const TextBox& box) const {
  const bool inside = box.x >= picture_.x && box.y >= picture_.y && box.x + box.width <= picture_.x + picture_.width &&
                      box.y + box.height <= picture_.y + picture_.height;
  return inside &&
         std::none_of(taken_.begin(), taken_.end(), [&](const TextBox& other) { return intersect(box, other); });
}

std::optional<Place> LabelPlacer::place(const TextBox& box) {
  constexpr double kStep = 2;
  constexpr double kMostAside = 240;
  for (double aside = 0; aside <= kMostAside; aside += 16) {
    for (double away = 0; away <= picture_.height; away += kStep) {
      for (const double side : {1.0, -1.0}) {
        for (const double way : {-1.0, 1.0}) {
          const TextBox moved{box.x + side * aside, box.y + way * away, box.width, box.height};
          if (is_free(moved)) {
            taken_.push_back(moved);
            return Place{side * aside, way * away};
          }
        }
      }
    }
  }
  return std::nullopt;
}

}  // namespace diptych::reports
