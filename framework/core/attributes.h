#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "framework/core/dims.h"
#include "framework/core/dtype.h"

namespace diptych {

/// A string with static storage; equal strings give equal pointers.
const char* intern(std::string_view text);

/// Text with static storage; equal texts have equal pointers. For names in attributes, which must have no destructor.
class InternedText {
 public:
  constexpr InternedText() = default;
  explicit InternedText(std::string_view text) : text_(intern(text)) {}
  const char* c_str() const { return text_; }
  friend bool operator==(InternedText a, InternedText b) { return std::string_view(a.text_) == b.text_; }

 private:
  const char* text_ = "";
};

/// A literal in quotes, with escapes, consisting only of printable characters; unquote() restores every byte.
std::string quote(std::string_view text);
/// False if `literal` is not a valid literal.
bool unquote(std::string_view literal, std::string& text);

/// The attributes of an op are a small struct without a destructor that describes itself:
///   struct ReduceAttributes {
///     Axes axes;
///     bool keepdims;
///     static constexpr auto fields() {
///       return std::tuple(field("axes", &ReduceAttributes::axes), field("keepdims", &ReduceAttributes::keepdims));
///     }
///   };
/// Field types: bool, int64, double, DType, Dims, InternedText. Printing, parsing, hashing and comparing are derived
/// from the fields.
template <class Owner, class Value>
struct Field {
  const char* name;
  Value Owner::*member;
};

template <class Owner, class Value>
constexpr Field<Owner, Value> field(const char* name, Value Owner::*member) {
  return {name, member};
}

/// Type-erased operations on attributes of one type.
struct AttributeType {
  std::size_t size;
  /// "axes=[0,1], keepdims=false"; doubles are printed so that they read back bit for bit.
  std::string (*print)(const void* value);
  /// Sets the field `name` from `text`; false if there is no such field or the text doesn't parse.
  bool (*parse_field)(void* value, std::string_view name, std::string_view text);
  bool (*equal)(const void* a, const void* b);
  std::size_t (*hash)(const void* value);
  void (*construct)(void* value);
  void (*copy)(void* to, const void* from);
};

namespace detail {
std::string print_field(bool value);
std::string print_field(std::int64_t value);
std::string print_field(double value);
std::string print_field(DType value);
std::string print_field(const Dims& value);
std::string print_field(InternedText value);
bool parse_field(std::string_view text, bool& value);
bool parse_field(std::string_view text, std::int64_t& value);
bool parse_field(std::string_view text, double& value);
bool parse_field(std::string_view text, DType& value);
bool parse_field(std::string_view text, Dims& value);
bool parse_field(std::string_view text, InternedText& value);
/// Compares bits, not values: 0 and -0 are different constants, and a NaN equals itself.
bool equal_field(double a, double b);
template <class T>
bool equal_field(const T& a, const T& b) {
  return a == b;
}
std::size_t hash_field(std::int64_t value);
std::size_t hash_field(double value);
std::size_t hash_field(const Dims& value);
std::size_t hash_field(InternedText value);
inline std::size_t hash_field(bool value) { return hash_field(static_cast<std::int64_t>(value)); }
inline std::size_t hash_field(DType value) { return hash_field(static_cast<std::int64_t>(value)); }

template <class A>
struct AttributeOperations {
  static std::string print(const void* value) {
    const A& attributes = *static_cast<const A*>(value);
    std::string text;
    std::apply(
        [&](auto... fields) {
          ((text +=
            (text.empty() ? "" : ", ") + std::string(fields.name) + "=" + print_field(attributes.*(fields.member))),
           ...);
        },
        A::fields());
    return text;
  }
  static bool parse(void* value, std::string_view name, std::string_view text) {
    A& attributes = *static_cast<A*>(value);
    bool found = false;
    std::apply(
        [&](auto... fields) {
          ((name == fields.name ? (found = parse_field(text, attributes.*(fields.member))) : false), ...);
        },
        A::fields());
    return found;
  }
  static bool equal(const void* a, const void* b) {
    const A& x = *static_cast<const A*>(a);
    const A& y = *static_cast<const A*>(b);
    return std::apply([&](auto... fields) { return (equal_field(x.*(fields.member), y.*(fields.member)) && ...); },
                      A::fields());
  }
  static std::size_t hash(const void* value) {
    const A& attributes = *static_cast<const A*>(value);
    std::size_t result = 0;
    std::apply(
        [&](auto... fields) {
          ((result = result * 0x9E3779B97F4A7C15ULL + hash_field(attributes.*(fields.member))), ...);
        },
        A::fields());
    return result;
  }
  static void construct(void* value) { ::new (value) A(); }
  static void copy(void* to, const void* from) { ::new (to) A(*static_cast<const A*>(from)); }
};
}  // namespace detail

template <class A>
inline constexpr AttributeType attribute_type{sizeof(A),
                                              detail::AttributeOperations<A>::print,
                                              detail::AttributeOperations<A>::parse,
                                              detail::AttributeOperations<A>::equal,
                                              detail::AttributeOperations<A>::hash,
                                              detail::AttributeOperations<A>::construct,
                                              detail::AttributeOperations<A>::copy};

/// Attributes of any type, kept inline.
class AttributeValue {
 public:
  static constexpr std::size_t kCapacity = 176;

  AttributeValue() = default;
  /// `type` may be null: no attributes.
  AttributeValue(const AttributeType* type, const void* value) : type_(type) {
    if (type_ != nullptr) {
      value != nullptr ? type_->copy(bytes_, value) : type_->construct(bytes_);
    }
  }
  AttributeValue(const AttributeValue& other) : AttributeValue(other.type_, other.get()) {}
  AttributeValue& operator=(const AttributeValue& other) {
    type_ = other.type_;
    if (type_ != nullptr) {
      type_->copy(bytes_, other.bytes_);
    }
    return *this;
  }
  ~AttributeValue() = default;

  const AttributeType* type() const { return type_; }
  const void* get() const { return type_ != nullptr ? bytes_ : nullptr; }
  void* get() { return type_ != nullptr ? bytes_ : nullptr; }
  template <class A>
  const A& as() const {
    static_assert(sizeof(A) <= kCapacity && std::is_trivially_destructible_v<A>);
    return *static_cast<const A*>(get());
  }
  std::string print() const { return type_ != nullptr ? type_->print(bytes_) : std::string(); }
  std::size_t hash() const { return type_ != nullptr ? type_->hash(bytes_) : 0; }
  friend bool operator==(const AttributeValue& a, const AttributeValue& b) {
    return a.type_ == b.type_ && (a.type_ == nullptr || a.type_->equal(a.bytes_, b.bytes_));
  }

 private:
  const AttributeType* type_ = nullptr;
  alignas(8) std::byte bytes_[kCapacity];
};

}  // namespace diptych
