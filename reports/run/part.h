#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <nlohmann/json.hpp>

#include "reports/run/json_access.h"
#include "reports/run/verdicts.h"
#include "reports/statistics/statistics.h"

/// What the typed views of documents are made of: run.h for runs, gate/documents.h for comparisons, gates and
/// calibrations. They trust nothing: a member that is missing, null or of another type is an empty answer. Like
/// std::string_view they point at what they view: a temporary is fine as an argument, but the view of it must not be
/// kept.
namespace diptych::reports {

class Part {
 public:
  Part() = default;
  Part(const Json& json) : json_(&json) {}  // NOLINT(google-explicit-constructor): a view of its argument

  const Json& json() const { return *json_; }
  /// Whether the part exists and has members.
  explicit operator bool() const { return json_->is_object(); }

 protected:
  const Json& member(const char* key) const { return reports::member(*json_, key); }
  std::string text(const char* key) const { return reports::text(*json_, key); }
  std::optional<double> number(const char* key) const { return reports::number(*json_, key); }
  std::optional<Estimate> estimate(const char* key) const { return reports::estimate(member(key)); }
  bool is_true(const char* key) const { return member(key) == true; }
  std::optional<Verdict> named_verdict(const char* key) const { return verdict_from(text(key)); }
  /// The strings of an array; elements of other types are empty.
  std::vector<std::string> texts(const char* key) const;

 private:
  static const Json nothing_;

  const Json* json_ = &nothing_;
};

/// The elements of an array, each as a `T`.
template <class T>
class Parts {
 public:
  class Iterator {
   public:
    using value_type = T;
    using difference_type = std::ptrdiff_t;

    Iterator() = default;
    explicit Iterator(const Json::const_iterator& place) : place_(place) {}
    T operator*() const { return T(*place_); }
    Iterator& operator++() {
      ++place_;
      return *this;
    }
    Iterator operator++(int) {
      Iterator before = *this;
      ++place_;
      return before;
    }
    bool operator==(const Iterator& other) const { return place_ == other.place_; }

   private:
    Json::const_iterator place_;
  };

  explicit Parts(const Json& array) : array_(&array) {}

  Iterator begin() const { return Iterator(array_->begin()); }
  Iterator end() const { return Iterator(array_->end()); }
  std::size_t size() const { return array_->size(); }
  bool empty() const { return array_->empty(); }
  const Json& json() const { return *array_; }
  T operator[](std::size_t i) const { return T((*array_)[i]); }
  T front() const { return T(array_->front()); }
  T back() const { return T(array_->back()); }
  std::vector<T> all() const { return {begin(), end()}; }

 private:
  const Json* array_;
};

/// Finds the elements of an array by name. The index is made at the first look into a long array, and copies of the
/// view that holds it then share it: as the view, it must not be kept while the array changes.
class NameIndex {
 public:
  /// `key`: the member that is the name. Null if there is none; of equal names the first.
  const Json* first(const Json& array, const char* key, const std::string& name) const;
  /// In the order of the array.
  std::vector<const Json*> all(const Json& array, const char* key, const std::string& name) const;

 private:
  using Places = std::unordered_map<std::string, std::vector<const Json*>>;
  const Places& places(const Json& array, const char* key) const;

  mutable std::shared_ptr<const Places> places_;
};

}  // namespace diptych::reports
