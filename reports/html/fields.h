#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/html/table.h"
#include "reports/statistics/statistics.h"
#include "reports/views/explanation.h"

/// The building blocks of a cell's tables and figures.
namespace diptych::reports {

/// "12.3 µs [11.9, 12.8]" as the value and, in small print, its interval.
HtmlField split_interval(const std::string& formatted, std::optional<double> sort_value);
/// An estimate of seconds; "-" if there is none.
HtmlField time_field(const std::optional<Estimate>& seconds);
/// Seconds without an interval.
HtmlField plain_time_field(const std::optional<double>& seconds);
/// An estimate of a ratio.
HtmlField ratio_field(const std::optional<Estimate>& ratio);

/// Empty if the picture is empty.
std::string figure(const char* title, const char* note, const std::string& picture);
/// Commands to copy, a line each, with their reasons; the page's script copies one on a click. Empty if there is none.
std::string html_commands(const std::vector<Suggestion>& suggestions);
/// An entry of a legend: a square in the colour of a class of the style sheet, and what it stands for.
std::string legend_entry(const std::string& css, const std::string& meaning);
/// Rows of text as a table; the first is the header. `left`: columns of words. `places`: what the first rows after the
/// header stand for.
std::string html_rows(const TextRows& rows, std::vector<std::size_t> left, const std::vector<OpPlace>& places = {});
/// A collapsible section; `body` is HTML, the rest is escaped here.
std::string folded(const std::string& title, const std::string& note, const std::string& body, bool open = false);

}  // namespace diptych::reports
