#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "reports/text/op_place.h"

/// What the pictures of a profile have in common, whether they are files or stand in a page.
namespace diptych::reports {

enum class PictureIn : std::uint8_t {
  file,  ///< with its style sheet, and a background
  page   ///< whose style sheet has the colours, too
};

/// A drawing with the colours of assets/profile.css, light and dark. It needs neither script nor network.
class ProfilePicture {
 public:
  explicit ProfilePicture(PictureIn place) : place_(place) {}

  double width() const;
  /// As files and pages write seconds.
  std::string seconds(double value) const;

  /// `anchor`: start, middle or end. All text is escaped here.
  void text(double x, double y, std::string_view content, std::string_view css, std::string_view anchor = "start");
  void line(double x1, double y1, double x2, double y2, std::string_view css);

  /// A rectangle with its figures as a tooltip, and with its name where there is room for one.
  struct Box {
    double x = 0, y = 0, width = 0, height = 0;
    std::string css, figures, name;
    OpPlace place = {};  ///< in a page
  };
  void box(const Box& box);

  void add(std::string_view markup) { out_ += markup; }

  /// `title` says what it shows.
  std::string finish(std::string_view title, double height) &&;

 private:
  PictureIn place_;
  std::string out_;
};

/// Of a character in these pictures.
inline constexpr double kPictureAdvance = 6.7;  // monospaced, at 11 px

/// A name of an arm, printable, as long as there is room for.
std::string arm_in_picture(const std::string& name);

/// The same op has the same colour in all pictures; which one says nothing.
std::string colour_of_op(const std::string& op);

}  // namespace diptych::reports
