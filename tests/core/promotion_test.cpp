// The promotion rule: its algebra, and that the table in docs/numerics.md is the rule.

#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "tests/support/places.h"

namespace diptych {
namespace {

std::vector<DType> all_types() {
  std::vector<DType> types;
  for (int i = 0; i < kDTypeCount; ++i) {
    types.push_back(static_cast<DType>(i));
  }
  return types;
}

TEST(Promotion, IsCommutativeAssociativeAndIdempotent) {
  for (const DType a : all_types()) {
    EXPECT_EQ(promote(a, a), a);
    for (const DType b : all_types()) {
      EXPECT_EQ(promote(a, b), promote(b, a));
      for (const DType c : all_types()) {
        EXPECT_EQ(promote(promote(a, b), c), promote(a, promote(b, c)));
      }
    }
  }
}

TEST(Promotion, NeverLosesTheKindOfNumber) {
  for (const DType a : all_types()) {
    for (const DType b : all_types()) {
      EXPECT_EQ(is_floating(promote(a, b)), is_floating(a) || is_floating(b));
      EXPECT_EQ(promote(a, b) == DType::boolean, a == DType::boolean && b == DType::boolean);
    }
  }
}

/// The names between backquotes in a line of a Markdown table.
std::vector<DType> types_in(const std::string& line) {
  std::vector<DType> types;
  for (std::size_t from = line.find('`'); from != std::string::npos; from = line.find('`', from)) {
    const std::size_t to = line.find('`', from + 1);
    const auto type = parse_dtype(line.substr(from + 1, to - from - 1));
    EXPECT_TRUE(type.has_value()) << line;
    types.push_back(type.value_or(DType::boolean));
    from = to + 1;
  }
  return types;
}

TEST(Promotion, TheDocumentedTableIsTheRule) {
  std::ifstream page(testing::places::source() + "/docs/numerics.md");
  ASSERT_TRUE(page);
  std::vector<DType> columns;
  int rows = 0;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("| | `bool`")) {
      columns = types_in(line);
    } else if (line.starts_with("| **`") && !columns.empty()) {
      const std::vector<DType> cells = types_in(line);
      ASSERT_EQ(cells.size(), columns.size() + 1) << line;
      for (std::size_t i = 0; i < columns.size(); ++i) {
        EXPECT_EQ(cells[i + 1], promote(cells[0], columns[i])) << line;
        if (cells[0] != DType::boolean || columns[i] != DType::boolean) {
          EXPECT_EQ(mul(ones({2}, cells[0]), ones({2}, columns[i])).dtype(), cells[i + 1]);
        }
        EXPECT_EQ(where(ones({2}, DType::boolean), ones({2}, cells[0]), ones({2}, columns[i])).dtype(), cells[i + 1]);
      }
      ++rows;
    }
  }
  EXPECT_EQ(columns, all_types());
  EXPECT_EQ(rows, kDTypeCount);
}

TEST(Promotion, NumbersTakeTheTensorsType) {
  for (const DType type : all_types()) {
    const Tensor x = ones({2}, type);
    const DType whole = type == DType::boolean ? DType::int64 : type;
    const DType fraction = is_floating(type) ? type : DType::float32;
    EXPECT_EQ((x + 1).dtype(), whole) << name_of(type);
    EXPECT_EQ((1 - x).dtype(), whole) << name_of(type);
    EXPECT_EQ((x * 2.0).dtype(), whole) << name_of(type);
    EXPECT_EQ((x * 0.5).dtype(), fraction) << name_of(type);
    EXPECT_EQ((x / 2).dtype(), fraction) << name_of(type);
    EXPECT_EQ(pow(x, 3).dtype(), whole) << name_of(type);
    EXPECT_EQ(pow(x, 2).dtype(), whole) << name_of(type);
    EXPECT_EQ(pow(x, 0.5).dtype(), fraction) << name_of(type);
  }
}

}  // namespace
}  // namespace diptych
