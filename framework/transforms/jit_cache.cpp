#include "framework/transforms/jit_cache.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "framework/core/attributes.h"
#include "framework/core/tensor_body.h"

namespace diptych::graph {
namespace {

/// "f32[2,3]", with the strides if they aren't dense.
std::string describe(const TensorType& type, const Strides& strides) {
  return is_contiguous(type.shape, strides) ? to_string(type)
                                            : fmt::format("{} strides {}", to_string(type), to_string(strides));
}

}  // namespace

std::shared_ptr<JitCache> make_jit_cache(std::size_t capacity, std::shared_ptr<CallLock> turns) {
  return std::make_shared<JitCache>(capacity, std::move(turns));
}

std::size_t hash_of(const void* owner, std::span<const Tensor> arguments) {
  std::size_t hash = std::hash<const void*>()(owner) + arguments.size();
  for (const Tensor& argument : arguments) {
    const TensorBody& body = *argument.body();
    for (const std::size_t part :
         {detail::hash_field(body.type.dtype), detail::hash_field(body.type.shape), detail::hash_field(body.strides)}) {
      hash = (hash ^ part) * 0x9E3779B97F4A7C15ULL;
    }
  }
  return hash;
}

void JitFunction::Entry::shorten(std::vector<GradientCompilation>& lines) {
  constexpr std::size_t kMost = 32;
  const auto is_used = [&](const GradientCompilation& line) {
    return std::any_of(cuts.begin(), cuts.end(), [&](const auto& cut) {
      return !cut.second.sets.empty() && &lines[cut.second.ledger_line] == &line;
    });
  };
  while (lines.size() > kMost + cuts.size()) {
    const auto oldest = std::find_if_not(lines.begin(), lines.end(), is_used);
    const auto next = std::find_if_not(oldest + 1, lines.end(), is_used);
    next->merged += oldest->merged + 1;
    next->seconds += oldest->seconds;
    next->calls += oldest->calls;
    const auto removed = static_cast<std::size_t>(oldest - lines.begin());
    lines.erase(oldest);
    for (auto& [wanted, cut] : cuts) {
      cut.ledger_line -= cut.ledger_line > removed ? 1 : 0;
    }
  }
}

std::string JitCache::cause_of(const State* owner, std::span<const Tensor> arguments) const {
  if (entries_.empty()) {
    return ledger.empty() ? "first call" : "the graph was dropped";
  }
  const Entry* const own = last_of(owner);
  const Entry& last = own != nullptr ? *own : entries_.front();
  if (arguments.size() != last.types.size()) {
    return fmt::format("{} arguments -> {}", last.types.size(), arguments.size());
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string before = describe(last.types[i], last.strides[i]);
    const std::string now = describe(arguments[i].type(), arguments[i].strides());
    if (before != now) {
      return fmt::format("argument {}: {} -> {}", i, before, now);
    }
  }
  if (own == nullptr) {
    return "lists of other lengths";
  }
  const std::string change = last.guards.describe_change();
  return change.empty() ? "strides of axes of length 1" : change;
}

JitFunction::Entry* JitCache::find(const State* owner, std::span<const Tensor> arguments) {
  const auto compared_with = [&](Entry& entry) {
    ++ledger[entry.ledger_line].comparisons;
    return entry.matches(owner, arguments);
  };
  if (entries_.empty()) {
    return nullptr;
  }
  if (compared_with(entries_.front())) {  // the most frequent case: the same signature again and again
    return &entries_.front();
  }
  const auto [begin, end] = by_signature_.equal_range(hash_of(owner, arguments));
  for (auto known = begin; known != end; ++known) {
    if (known->second != entries_.begin() && compared_with(*known->second)) {
      entries_.splice(entries_.begin(), entries_, known->second);
      return &entries_.front();
    }
  }
  return nullptr;
}

JitFunction::Entry& JitCache::add(Entry&& made, Compilation&& line) {
  Entries one;
  one.push_front(std::move(made));
  one.front().ledger_line = ledger.size();
  ledger.reserve(ledger.size() + 1);
  by_signature_.emplace(one.front().hash, one.begin());
  ledger.push_back(std::move(line));
  entries_.splice(entries_.begin(), one);
  while (entries_.size() > capacity_) {  // the entry about to run stays
    const auto last = std::prev(entries_.end());
    ledger[last->ledger_line].is_dropped = true;
    erase(last);
  }
  shorten_ledger();
  return entries_.front();
}

const JitFunction::Entry* JitCache::last_of(const State* owner) const {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.owner == owner; });
  return found == entries_.end() ? nullptr : &*found;
}

void JitCache::forget(const State* owner) noexcept {
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    entry = entry->owner == owner ? erase(entry) : std::next(entry);
  }
}

JitCache::Entries::iterator JitCache::erase(Entries::iterator entry) noexcept {
  const auto [begin, end] = by_signature_.equal_range(entry->hash);
  by_signature_.erase(std::find_if(begin, end, [&](const auto& known) { return known.second == entry; }));
  return entries_.erase(entry);
}

/// The first line stays, because it says what was measured of a function that is compiled once.
void JitCache::shorten_ledger() {
  while (ledger.size() > std::max(kLedgerLines, capacity_ + 2)) {
    const auto is_dropped = [](const Compilation& line) { return line.is_dropped; };
    const auto sum = std::find_if(ledger.begin() + 1, ledger.end(), is_dropped);
    const auto next = std::find_if(sum + 1, ledger.end(), is_dropped);
    if (sum->merged == 0) {
      sum->merged = 1;
      sum->arguments.clear();
      sum->passes.clear();
      sum->gradients.clear();
    }
    ++sum->merged;
    sum->capture_seconds += next->capture_seconds;
    sum->passes_seconds += next->passes_seconds;
    sum->lower_seconds += next->lower_seconds;
    sum->captured_nodes += next->captured_nodes;
    sum->nodes += next->nodes;
    sum->calls += next->calls;
    sum->comparisons += next->comparisons;
    const auto removed = static_cast<std::size_t>(next - ledger.begin());
    ledger.erase(next);
    for (Entry& entry : entries_) {
      entry.ledger_line -= entry.ledger_line > removed ? 1 : 0;
    }
  }
}

}  // namespace diptych::graph
