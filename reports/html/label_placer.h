#pragma once

#include <optional>
#include <vector>

namespace diptych::reports {

struct Place {
  double x = 0, y = 0;
};

struct TextBox {
  double x = 0, y = 0, width = 0, height = 0;  ///< top left corner and size
};

/// The box of a line of text whose left end is at (x, baseline).
TextBox text_box(double x, double baseline, double width, double font_size);
bool intersect(const TextBox& a, const TextBox& b);

/// Finds room for labels in a picture, so that no label covers another.
class LabelPlacer {
 public:
  explicit LabelPlacer(const TextBox& picture) : picture_(picture) {}

  /// Keeps labels out of the box.
  void block(const TextBox& box) { taken_.push_back(box); }
  /// How far `box` has to move to lie in the picture and cover nothing: up and down first, then sideways. The new place
  /// is then taken. Empty if there is no room.
  std::optional<Place> place(const TextBox& box);

 private:
  bool is_free(const TextBox& box) const;

  TextBox picture_;
  std::vector<TextBox> taken_;
};

}  // namespace diptych::reports
