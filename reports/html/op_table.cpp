#include "reports/html/op_table.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "reports/html/fields.h"
#include "reports/html/table.h"
#include "reports/text/format.h"
#include "reports/text/text.h"
#include "reports/views/profile_picture.h"
#include "reports/views/profile_views.h"

namespace diptych::reports {
namespace {

HtmlField seconds_field(const ArmOfRow& arm) {
  HtmlField field = plain_time_field(arm.seconds);
  if (arm.seconds && arm.is_estimate) {
    field.text = "~" + field.text;
  }
  return field;
}

class OpTable {
 public:
  explicit OpTable(const AlignedProfile& profile)
      : profile_(profile),
        has_parts_(std::any_of(profile.rows.begin(), profile.rows.end(),
                               [](const AlignedRow& row) { return row.parts.has_value(); })),
        table_(header(), {header().size() - 1}) {
    table_.sortable().filterable("ops");
    for (std::size_t i = 0; i < std::min(kMostRows, profile.rows.size()); ++i) {
      add(profile.rows[i]);
    }
  }

  std::string finish() const {
    constexpr std::size_t kFewRows = 15;
    const std::size_t all = profile_.rows.size();
    const std::string shown = all > kMostRows ? fmt::format("the first {} of {} rows", kMostRows, all)
                                              : fmt::format("{} rows", format_count(static_cast<double>(all)));
    return folded("Op by op",
                  fmt::format("{}; what changed most first; ~: an estimate, a kernel of several ops divided by what "
                              "they cost alone",
                              shown),
                  table_.finish(), all <= kFewRows);
  }

 private:
  static constexpr std::size_t kMostRows = 200;  ///< further ones change next to nothing

  std::size_t last() const { return profile_.arms.size() - 1; }

  std::vector<std::string> header() const {
    std::vector<std::string> header = {std::string(profile_groupings()[static_cast<std::size_t>(profile_.by)]), "ops"};
    for (std::size_t arm = 0; arm < profile_.arms.size(); ++arm) {
      header.push_back(arm_in_picture(profile_.arms[arm]));
      for (const OpPartColumn& part : op_part_columns()) {
        if (arm == 0 && has_parts_) {
          header.emplace_back(part.name);
        }
      }
    }
    header.insert(header.end(), {"saves", "share", fmt::format("in {}", arm_in_picture(profile_.arms.back()))});
    return header;
  }

  void add(const AlignedRow& row) {
    constexpr int kNameColumns = 60;
    const auto ops = static_cast<double>(row.ops);
    std::vector<HtmlField> fields = {{shorten_middle(printable(row.name), kNameColumns)},
                                     {row.ops > 0 ? format_count(ops) : "", "", ops}};
    for (std::size_t arm = 0; arm < row.arms.size(); ++arm) {
      fields.push_back(seconds_field(row.arms[arm]));
      for (const OpPartColumn& part : op_part_columns()) {
        if (arm == 0 && has_parts_) {
          fields.push_back(row.parts ? plain_time_field((*row.parts).*part.seconds) : HtmlField{""});
        }
      }
    }
    const auto share = share_of_gap(profile_, row, last());
    fields.push_back(plain_time_field(profile_.saved(row, last())));
    fields.push_back({share ? format_percent(*share) : "-", "", share});
    fields.push_back({fates_text(profile_, row, last()), "", {}, "wrap"});
    table_.row(std::move(fields), place_of(profile_, row));
  }

  const AlignedProfile& profile_;
  bool has_parts_;
  HtmlTable table_;
};

}  // namespace

std::string html_op_table(const AlignedProfile& profile) { return OpTable(profile).finish(); }

}  // namespace diptych::reports
