#include "profiler/text_table.h"

#include <gtest/gtest.h>

namespace diptych::profiler {
namespace {

TEST(TextTable, AlignsByCharactersNotBytes) {
  TextTable table({Align::left, Align::right});
  table.add({"née", "1"});
  table.add({"abc", "1000"});
  EXPECT_EQ(table.render(), "née     1\nabc  1000\n");
}

TEST(TextTable, FormatsDurations) {
  EXPECT_EQ(format_duration(0), "0 ns");
  EXPECT_EQ(format_duration(7.25), "7.2 ns");
  EXPECT_EQ(format_duration(812), "812 ns");
  EXPECT_EQ(format_duration(1'240), "1.24 us");
  EXPECT_EQ(format_duration(999'999), "1.00 ms");
  EXPECT_EQ(format_duration(17'300'000), "17.3 ms");
  EXPECT_EQ(format_duration(-2.5e9), "-2.50 s");
  EXPECT_EQ(format_duration(3e12), "3000 s");
}

TEST(TextTable, FormatsBytes) {
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(65536), "64.0 KiB");
  EXPECT_EQ(format_bytes(3.2 * 1024 * 1024 * 1024), "3.20 GiB");
}

}  // namespace
}  // namespace diptych::profiler
