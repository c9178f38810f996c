#include "framework/core/attributes.h"

#include <cmath>

#include <gtest/gtest.h>

#include "framework/ops/creation_ops.h"

namespace diptych {
namespace {

std::string printed(double value) {
  const ops::FullAttributes attributes{{}, DType::float64, value};
  return attribute_type<ops::FullAttributes>.print(&attributes);
}

TEST(Attributes, PrintAndParseKeepEveryBit) {
  for (const double value : {0.1, -0.0, 1e-310, 1.0 / 3, 1e300, std::numeric_limits<double>::infinity(), 0.0}) {
    const std::string text = printed(value);
    ops::FullAttributes parsed;
    ASSERT_TRUE(attribute_type<ops::FullAttributes>.parse_field(&parsed, "value", text.substr(text.rfind('=') + 1)))
        << text;
    EXPECT_EQ(std::bit_cast<std::uint64_t>(parsed.value), std::bit_cast<std::uint64_t>(value)) << text;
  }
}

TEST(Attributes, TellZerosApart) {
  const ops::FullAttributes plus{{2}, DType::float32, 0.0};
  const ops::FullAttributes minus{{2}, DType::float32, -0.0};
  const AttributeType* type = &attribute_type<ops::FullAttributes>;
  EXPECT_FALSE(AttributeValue(type, &plus) == AttributeValue(type, &minus));
  EXPECT_NE(AttributeValue(type, &plus).hash(), AttributeValue(type, &minus).hash());
  EXPECT_TRUE(AttributeValue(type, &plus) == AttributeValue(type, &plus));
}

TEST(Attributes, RefuseWhatDoesNotParse) {
  ops::FullAttributes attributes;
  const AttributeType& type = attribute_type<ops::FullAttributes>;
  EXPECT_FALSE(type.parse_field(&attributes, "no_such_field", "1"));
  for (const char* text :
       {"", "[1,", "[1,,2]", "[,1]", "[1,]", "1", "[1,2,3,4,5,6,7,8,9]", "[x]", "[99999999999999999999]"}) {
    EXPECT_FALSE(type.parse_field(&attributes, "shape", text)) << text;
  }
  EXPECT_FALSE(type.parse_field(&attributes, "value", "0.1x"));
  EXPECT_FALSE(type.parse_field(&attributes, "dtype", "f8"));
  EXPECT_TRUE(type.parse_field(&attributes, "shape", "[]"));
}

}  // namespace
}  // namespace diptych
