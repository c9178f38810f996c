#pragma once

#include "cli/verbs.h"

namespace diptych::cli {

/// `report` of a folder that holds run folders: index.html, or history.json.
int report_history(const ReportOptions& options);

}  // namespace diptych::cli
