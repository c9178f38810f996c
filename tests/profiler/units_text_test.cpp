#include "profiler/units_text.h"

#include <gtest/gtest.h>

namespace diptych::profiler {
namespace {

TEST(UnitsText, FormatsDurations) {
  EXPECT_EQ(format_duration(0), "0 ns");
  EXPECT_EQ(format_duration(7.25), "7.2 ns");
  EXPECT_EQ(format_duration(812), "812 ns");
  EXPECT_EQ(format_duration(1'240), "1.24 us");
  EXPECT_EQ(format_duration(999'999), "1.00 ms");
  EXPECT_EQ(format_duration(17'300'000), "17.3 ms");
  EXPECT_EQ(format_duration(-2.5e9), "-2.50 s");
  EXPECT_EQ(format_duration(3e12), "3000 s");
}

TEST(UnitsText, FormatsBytes) {
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(65536), "64.0 KiB");
  EXPECT_EQ(format_bytes(3.2 * 1024 * 1024 * 1024), "3.20 GiB");
}

}  // namespace
}  // namespace diptych::profiler
