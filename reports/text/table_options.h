#pragma once

namespace diptych::reports {

struct TableOptions {
  bool colour = false;  ///< ANSI colours: orange and blue, never red and green
  int width = 140;      ///< columns of the terminal
};

}  // namespace diptych::reports
