#include <gtest/gtest.h>

#include "reports/html/sha256.h"
#include "reports/text/format.h"
#include "reports/text/text.h"

namespace diptych::reports {
namespace {

using Time = std::optional<double>;

TEST(FormatSeconds, KeepsThreeDigitsInAReadableUnit) {
  EXPECT_EQ(format_seconds(Time(85e-9)), "85.0 ns");
  EXPECT_EQ(format_seconds(Time(1.234e-6)), "1.23 us");
  EXPECT_EQ(format_seconds(Time(12.34e-3)), "12.3 ms");
  EXPECT_EQ(format_seconds(Time(456.0)), "456 s");
  EXPECT_EQ(format_seconds(Time(-21e-6)), "-21.0 us");
  EXPECT_EQ(format_seconds(Time(1.5e-6), Glyphs::typographic), "1.50 µs");
}

TEST(FormatSeconds, RollsOverToTheNextUnit) {
  EXPECT_EQ(format_seconds(Time(999.4e-9)), "999 ns");
  EXPECT_EQ(format_seconds(Time(999.6e-9)), "1.00 us");
  EXPECT_EQ(format_seconds(Time(9.996e-6)), "10.0 us");
}

TEST(FormatSeconds, OfTheSmallestAndTheLargestDoubles) {
  EXPECT_EQ(format_seconds(5e-324), "0.000000000000 ns");
  EXPECT_EQ(format_ratio(5e-324), "0.000000000000x");
  EXPECT_FALSE(format_seconds(1.7e308).empty());
}

TEST(FormatSeconds, OfNothing) {
  EXPECT_EQ(format_seconds(Time()), "-");
  EXPECT_EQ(format_seconds(Time(0.0)), "0 s");
}

TEST(FormatSeconds, ShowsTheIntervalInTheEstimatesUnit) {
  EXPECT_EQ(format_seconds(Estimate{12.3e-6, 11.9e-6, 12.8e-6}), "12.3 us [11.9, 12.8]");
  EXPECT_EQ(format_seconds(Estimate{9.9e-4, 9.5e-4, 1.02e-3}), "990 us [950, 1020]");
  EXPECT_EQ(format_seconds(Estimate{12.3e-6}), "12.3 us");
}

TEST(FormatRatio, WithAndWithoutInterval) {
  EXPECT_EQ(format_ratio(Estimate{1.41, 1.35, 1.47}), "1.41x [1.35, 1.47]");
  EXPECT_EQ(format_ratio(Estimate{12.34, 11, 13}), "12.3x [11.0, 13.0]");
  EXPECT_EQ(format_ratio(0.9), "0.90x");
  EXPECT_EQ(format_ratio(0.0123), "0.0123x");
  EXPECT_EQ(format_ratio(1.5, Glyphs::typographic), "1.50×");
}

TEST(Format, PercentBytesCountsAndMetrics) {
  EXPECT_EQ(format_percent(0.66), "66 %");
  EXPECT_EQ(format_percent(0.013), "1.3 %");
  EXPECT_EQ(format_percent(0), "0 %");
  EXPECT_EQ(format_bytes(96), "96 B");
  EXPECT_EQ(format_bytes(263000), "257 KiB");
  EXPECT_EQ(format_bytes(1572864), "1.50 MiB");
  EXPECT_EQ(format_count(12345), "12,345");
  EXPECT_EQ(format_count(-1234567), "-1,234,567");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(2.5), "2.50");
  EXPECT_EQ(format_metric(0.969, "fraction"), "96.9 %");
  EXPECT_EQ(format_metric(12, "points"), "12 points");
}

TEST(Printable, ShowsWhatWouldActOnATerminal) {
  EXPECT_EQ(printable("plain"), "plain");
  EXPECT_EQ(printable("a\x1b[31mb\n"), "a\\x1b[31mb\\x0a");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(printable("\xE2\x80\xAE"
                      "abc"),
            "\\u202eabc");                    // right-to-left override
  EXPECT_EQ(printable("\xC2\x9B"), "\\x9b");  // the one-character CSI
  EXPECT_EQ(printable("µ日"), "µ日");
}

TEST(Printable, ReplacesBrokenUtf8) {
  for (const char* broken : {"\xFF", "\xC0\x80", "\xED\xA0\x80", "\xF5\x80\x80\x80", "\xE2\x82", "\x80"}) {
    EXPECT_EQ(printable(broken).substr(0, 3), "\xEF\xBF\xBD") << broken;
  }
}

TEST(Escape, LeavesNoMeaning) {
  EXPECT_EQ(escape_xml("<a b=\"c\" d='e'>&"), "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;");
  EXPECT_EQ(escape_markdown("a|b`c<d>*e*"), "a&#124;b&#96;c&lt;d&gt;\\*e\\*");
  EXPECT_EQ(escape_markdown("@user #1 http://x"), "&#64;user &#35;1 http&#58;//x");
}

TEST(DisplayWidth, CountsColumnsAndNotBytes) {
  EXPECT_EQ(display_width("abc"), 3);
  EXPECT_EQ(display_width("µs"), 2);
  EXPECT_EQ(display_width("日本"), 4);
  EXPECT_EQ(display_width("e\xCC\x81"), 1);
  EXPECT_EQ(shorten("日本語日本語", 7), "日本...");
  EXPECT_EQ(shorten("abc", 3), "abc");
  EXPECT_EQ(shorten("abcdef", 2), "..");
}

TEST(ShortenMiddle, KeepsBothEndsBetweenCodePoints) {
  EXPECT_EQ(shorten_middle("model.layer1.weight", 19), "model.layer1.weight");
  EXPECT_EQ(shorten_middle("model.layer1.weight", 13), "model...eight");
  EXPECT_EQ(shorten_middle("日本語日本語", 8), "日...語");
  EXPECT_EQ(shorten_middle("abcdef", 2), "..");
  EXPECT_EQ(shorten_middle("", 4), "");
  std::string marks = "e";
  for (int i = 0; i < 10'000; ++i) {
    marks += "\xCC\x81";  // no columns of their own
  }
  EXPECT_LE(shorten_middle(marks, 20).size(), 80U);
  EXPECT_LE(shorten_middle(std::string(10'000, '\x80'), 20).size(), 80U);
}

// FIPS 180-4 examples, in base64.
TEST(Sha256, AgreesWithTheStandard) {
  EXPECT_EQ(sha256_base64("abc"), "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
  EXPECT_EQ(sha256_base64(""), "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
  EXPECT_EQ(sha256_base64("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "JI1qYdIGOLjlwCaTDD5gOaM85Flk/yFn9uzt1BnbBsE=");
}

}  // namespace
}  // namespace diptych::reports
