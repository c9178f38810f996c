// What is suggested for a wrong name: near enough, or nothing.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/text/suggest.h"

namespace diptych::reports {
namespace {

using Names = std::vector<std::string>;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Suggest, OneLetterInThreeAtMost) {
  EXPECT_EQ(nearest("--json", Names{"--pin", "--seed"}), "");
  EXPECT_EQ(nearest("--batch", Names{"--gate"}), "");
  EXPECT_EQ(nearest("--jsn", Names{"--pin", "--json"}), "--json");
  EXPECT_EQ(nearest("rnu", Names{"list", "run"}), "run");  // two swapped neighbours are one mistake
  EXPECT_EQ(nearest("graf", Names{"eager", "graph"}), "graph");
  EXPECT_EQ(nearest("compaer", Names{"compare", "reproduce"}), "compare");
  EXPECT_EQ(nearest("foo", Names{"doctor", "report"}), "");
  EXPECT_EQ(nearest("", Names{"run"}), "");
  EXPECT_EQ(nearest(std::string(1'000'000, 'x'), Names{"run"}), "");
}

TEST(Suggest, APrefixMayBeMissing) {
  EXPECT_EQ(nearest("digits", Names{"vit/tiny", "mlp/digits"}), "mlp/digits");
  EXPECT_EQ(nearest("digts", Names{"vit/tiny", "mlp/digits"}), "mlp/digits");
}

TEST(Suggest, WhatWasTypedIsNoWayOut) {
  EXPECT_EQ(nearest("ladder", Names{"ladder", "eager"}), "");
  EXPECT_THAT(unknown("arm", "ladder", Names{"ladder", "eager"}), Not(HasSubstr("did you mean")));
}

}  // namespace
}  // namespace diptych::reports
