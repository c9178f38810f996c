#include "framework/core/text.h"

#include <gtest/gtest.h>

namespace diptych {
namespace {

TEST(AlignedLines, AlignsByCharactersNotBytes) {
  const std::vector<Align> columns = {Align::left, Align::right};
  EXPECT_EQ(aligned_lines({{"née", "1"}, {"abc", "1000"}}, columns),
            (std::vector<std::string>{"née     1", "abc  1000"}));
}

TEST(AlignedLines, HasNoTrailingSpacesAndNoColumnsWithoutCells) {
  EXPECT_EQ(aligned_lines({{"a", "long", ""}, {"bc"}, {}}), (std::vector<std::string>{"a   long", "bc", ""}));
  EXPECT_TRUE(aligned_lines({}).empty());
}

TEST(ColumnWidths, AreThoseOfTheWidestCellsInTheTerminal) {
  EXPECT_EQ(column_widths({{"ab"}, {"a", "日本"}, {"e\u0301"}}), (std::vector<int>{2, 4}));
}

}  // namespace
}  // namespace diptych
