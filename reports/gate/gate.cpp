#include "reports/gate/gate.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include <fmt/format.h>

#include "reports/gate/compare.h"
#include "reports/run/verdicts.h"
#include "reports/text/text.h"

namespace diptych::reports {
namespace {

const GateMute* mute_of(const ComparisonRow& row, const GateConfig& config) {
  return config.mute_of(row.subject(), row.metric(), row.tier());
}

std::string role_of(const ComparisonRow& row, const GateConfig& config, const GateSetup& setup) {
  if (mute_of(row, config) != nullptr) {
    return "muted";
  }
  return row.is_time() && !setup.time_decides ? "advisory" : "deciding";
}

class Judge {
 public:
  Judge(const Json& screen, const Json& confirm, const GateConfig& config, const GateSetup& setup)
      : screen_(screen), measured_again_(!confirm.is_null()), config_(config), setup_(setup) {
    for (const ComparisonRow row : ComparisonDocument(confirm).rows()) {
      confirmations_.try_emplace(row.key(), row);
    }
  }

  Json run() {
    for (const ComparisonRow row : screen_.rows()) {
      rows_.push_back(judge_row(row));
    }
    judge_vanished();
    decide();
    return document();
  }

 private:
  Json judge_row(const ComparisonRow& screened) {
    Json row = screened.json();
    row["role"] = role_of(screened, config_, setup_);
    row["screened"] = row["verdict"];
    row["confirmed"] = nullptr;
    if (const GateMute* mute = mute_of(screened, config_)) {
      used_.insert(mute);
      row["mute"] = {{"until", mute->until}, {"reason", mute->reason}, {"line", mute->line}};
    }
    deciding_ += ComparisonRow(row).decides() ? 1 : 0;
    if (!needs_confirmation(screened, config_, setup_) || !measured_again_) {
      return row;
    }
    ++flagged_;
    const auto found = confirmations_.find(screened.key());
    if (found == confirmations_.end()) {
      set_verdict(row, Verdict::invalid, "not-measured", "it was worse, and could not be measured a second time");
      return row;
    }
    const ComparisonRow& again = found->second;
    row["confirmed"] = again.verdict_name();
    row["confirmation"] = again.json();
    // Both measurements must find it, so the blunter one says what the gate can detect.
    if (const auto blunter = again.detectable(); blunter > screened.detectable()) {
      row["detectable"] = *blunter;
    }
    const std::optional<Verdict> second = again.verdict();
    if (second == Verdict::regressed) {
      ++confirmed_;
    } else if (is_unusable(second) || second == Verdict::method_changed) {
      set_verdict(row, *second, again.reason(), "worse at first, then: " + again.detail());
    } else {
      set_verdict(row, Verdict::inconclusive, "not-confirmed",
                  "worse at first, not so in fresh processes: " + again.detail());
    }
    return row;
  }

  void judge_vanished() {
    for (const Json& name : screen_.vanished().json()) {
      const GateMute* mute = nullptr;
      for (const GateMute& candidate : config_.mutes) {
        if (candidate.metric == "vanished" && glob_matches(candidate.cell, name.get<std::string>())) {
          mute = &candidate;
        }
      }
      if (mute == nullptr) {
        vanished_.push_back(name);
      } else {
        used_.insert(mute);
        expected_vanished_.push_back(name);
      }
    }
  }

  std::vector<std::string> deciding(Verdict verdict) const {
    std::vector<std::string> names;
    for (const ComparisonRow row : Parts<ComparisonRow>(rows_)) {
      if (row.decides() && row.verdict() == verdict) {
        names.push_back(row.subject() + " " + row.metric());
      }
    }
    return names;
  }

  void set(std::string_view verdict, int code, std::string reason) {
    verdict_ = verdict;
    code_ = code;
    reason_ = std::move(reason);
  }

  static std::string some(const std::vector<std::string>& names) {
    std::string out;
    for (std::size_t i = 0; i < std::min<std::size_t>(names.size(), 3); ++i) {
      out += (i > 0 ? ", " : "") + names[i];
    }
    return names.size() > 3 ? fmt::format("{} and {} more", out, names.size() - 3) : out;
  }

  void decide() {
    if (const auto worse = deciding(Verdict::regressed); !worse.empty()) {
      return set(name_of(Verdict::regressed), gate_regressed, "worse: " + some(worse));
    }
    if (setup_.unchanged) {
      return set("PASS", gate_pass, setup_.unchanged_note);
    }
    if (rows_.empty()) {
      return set("CANNOT TELL", gate_cannot_tell, "nothing was compared: base and head have no cell in common");
    }
    if (!vanished_.empty()) {
      return set("CANNOT TELL", gate_cannot_tell,
                 fmt::format("vanished from head: {}; if that is meant, mute it with metric = \"vanished\"",
                             some(NameList(vanished_).all())));
    }
    if (deciding_ == 0) {
      return set("CANNOT TELL", gate_cannot_tell, "no row decides: all are muted or advisory");
    }
    for (const Verdict verdict : {Verdict::invalid, Verdict::contaminated, Verdict::method_changed}) {
      if (const auto broken = deciding(verdict); !broken.empty()) {
        return set("CANNOT TELL", gate_cannot_tell, fmt::format("{}: {}", name_of(verdict), some(broken)));
      }
    }
    set("PASS", gate_pass, fmt::format("no regression in {} deciding rows", deciding_));
  }

  Json document() const {
    Json mutes = Json::array();
    std::vector<std::string> notes = screen_.notes().all();
    for (const GateMute& mute : config_.mutes) {
      const bool used = used_.contains(&mute);
      mutes.push_back({{"cell", mute.cell},
                       {"metric", mute.metric},
                       {"until", mute.until},
                       {"reason", mute.reason},
                       {"line", mute.line},
                       {"used", used}});
      if (!used) {
        notes.push_back(
            fmt::format("{}:{}: the mute of '{}' matches nothing; remove it?", config_.file, mute.line, mute.cell));
      }
    }
    return {{"schema", gate_schema_id},
            {"verdict", verdict_},
            {"exit_code", code_},
            {"reason", reason_},
            {"base", setup_.base},
            {"head", setup_.head},
            {"today", setup_.today},
            {"config", config_.file.empty() ? Json() : Json(config_.file)},
            {"unchanged", setup_.unchanged},
            {"design", screen_.design()},
            {"alpha", config_.alpha},
            {"time", {{"decides", setup_.time_decides}, {"note", setup_.time_note}}},
            {"stages",
             {{"screened", rows_.size()},
              {"flagged", flagged_},
              {"confirmed", confirmed_},
              {"measured_again", measured_again_}}},
            {"rows", rows_},
            {"advisory", screen_.advisory().json()},
            {"new", screen_.new_cells().json()},
            {"vanished", vanished_},
            {"vanished_as_expected", expected_vanished_},
            {"mutes", std::move(mutes)},
            {"machine", screen_.machine().json()},
            {"environment", screen_.environment().json()},
            {"notes", notes},
            {"summary", summarise_rows(rows_)}};
  }

  ComparisonDocument screen_;
  std::map<std::tuple<std::string, std::string, std::string>, ComparisonRow> confirmations_;
  bool measured_again_;
  const GateConfig& config_;
  const GateSetup& setup_;
  Json rows_ = Json::array();
  Json vanished_ = Json::array();
  Json expected_vanished_ = Json::array();
  std::set<const GateMute*> used_;
  int deciding_ = 0, flagged_ = 0, confirmed_ = 0;
  std::string verdict_, reason_;
  int code_ = gate_cannot_tell;
};

}  // namespace

bool needs_confirmation(const ComparisonRow& row, const GateConfig& config, const GateSetup& setup) {
  return row.verdict() == Verdict::regressed && role_of(row, config, setup) == "deciding";
}

Json judge_gate(const Json& screen, const Json& confirm, const GateConfig& config, const GateSetup& setup) {
  return Judge(screen, confirm, config, setup).run();
}

}  // namespace diptych::reports
