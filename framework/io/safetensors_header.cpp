// Parsed event by event: anything not allowed is refused where it occurs, and a hostile header can't make the parser
// build anything that a valid one couldn't contain. nlohmann's parser keeps no stack of its own, checks UTF-8, and
// reports numbers by kind.

#include "framework/io/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "framework/core/attributes.h"
#include "framework/core/lengths.h"

namespace diptych::io::detail {
namespace {

constexpr const char* kMetadata = "__metadata__";

struct TypeName {
  DType dtype;
  const char* name;
};
constexpr TypeName kTypeNames[] = {
    {DType::float64, "F64"},   {DType::int64, "I64"},  {DType::float32, "F32"},  {DType::int32, "I32"},
    {DType::bfloat16, "BF16"}, {DType::uint8, "U8"},   {DType::boolean, "BOOL"}, {DType::float16, "F16"},
    {DType::int8, "I8"},       {DType::uint16, "U16"}, {DType::int16, "I16"},    {DType::uint32, "U32"},
    {DType::uint64, "U64"},
};
static_assert(std::size(kTypeNames) == kDTypeCount);

const char* type_name(DType dtype) {
  return std::find_if(std::begin(kTypeNames), std::end(kTypeNames), [&](const TypeName& t) { return t.dtype == dtype; })
      ->name;
}

/// A name from the file for a message: short, and a single line whatever it contains.
std::string shown(const std::string& text) {
  constexpr std::size_t kLongest = 80;
  return quote(text.size() > kLongest ? text.substr(0, kLongest) + "..." : text);
}

/// Handles the events of the JSON parser. States: outside -> tensors -> (metadata | entry -> (shape | offsets)).
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderReader(std::uint64_t data_bytes, const std::string& origin) : data_bytes_(data_bytes), origin_(origin) {}

  Header finish() {
    check_coverage();
    return std::move(header_);
  }

  bool start_object(std::size_t /*elements*/) override {
    if (state_ == State::outside) {
      state_ = State::tensors;
    } else if (state_ == State::tensors) {
      state_ = key_ == kMetadata ? State::metadata : State::entry;
      entry_ = Entry{};
    } else {
      fail_value();
    }
    return true;
  }
  bool end_object() override {
    if (state_ == State::entry) {
      add_entry();
      state_ = State::tensors;
    } else {
      state_ = state_ == State::metadata ? State::tensors : State::outside;
    }
    return true;
  }
  bool key(std::string& name) override {
    if (state_ == State::tensors) {
      if (!names_.insert(name).second) {
        fail(fmt::format("{} appears twice", shown(name)));
      }
      key_ = name;
    } else {
      field_ = name;
    }
    return true;
  }
  bool start_array(std::size_t /*elements*/) override {
    if (state_ != State::entry) {
      fail_value();
    }
    if (field_ == "shape" && !entry_.shape) {
      entry_.shape.emplace();
      state_ = State::shape;
    } else if (field_ == "data_offsets" && !entry_.has_offsets) {
      entry_.has_offsets = true;
      state_ = State::offsets;
    } else {
      fail_value();
    }
    return true;
  }
  bool end_array() override {
    state_ = State::entry;
    return true;
  }
  bool string(std::string& text) override {
    if (state_ == State::metadata) {
      if (!header_.metadata.emplace(field_, text).second) {
        fail(fmt::format("metadata {} appears twice", shown(field_)));
      }
    } else if (state_ == State::entry && field_ == "dtype" && !entry_.dtype) {
      for (const TypeName& type : kTypeNames) {
        if (text == type.name) {
          entry_.dtype = type.dtype;
        }
      }
      if (!entry_.dtype) {
        fail_tensor(
            fmt::format("has the element type {}, which the engine doesn't have; convert it first", shown(text)));
      }
    } else {
      fail_value();
    }
    return true;
  }
  bool number_unsigned(std::uint64_t value) override {
    if (state_ == State::shape) {
      if (entry_.shape->rank() == kMaxRank) {
        fail_tensor(fmt::format("has more than {} axes; reshape it first", kMaxRank));
      }
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        fail_tensor("has an axis that no memory holds");
      }
      entry_.shape->push_back(static_cast<std::int64_t>(value));
    } else if (state_ == State::offsets && entry_.offset_count < 2) {
      entry_.offsets[entry_.offset_count++] = value;
    } else {
      fail_value();
    }
    return true;
  }
  bool null() override { fail_value(); }
  bool boolean(bool /*value*/) override { fail_value(); }
  bool number_integer(std::int64_t /*value*/) override { fail_value(); }
  bool number_float(double /*value*/, const std::string& /*text*/) override { fail_value(); }
  bool binary(nlohmann::json::binary_t& /*value*/) override { fail_value(); }
  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::json::exception& error) override {
    fail(fmt::format("the header is no JSON at byte {} ({})", position, error.id));
  }

 private:
  enum class State : std::uint8_t { outside, tensors, metadata, entry, shape, offsets };
  struct Entry {
    std::optional<DType> dtype;
    std::optional<Shape> shape;
    bool has_offsets = false;
    std::size_t offset_count = 0;
    std::uint64_t offsets[2] = {};
  };

  [[noreturn]] void fail(const std::string& what) const {
    throw FileError(fmt::format("{}: {}; the file is damaged or not safetensors: get it again", origin_, what));
  }
  [[noreturn]] void fail_tensor(const std::string& what) const {
    throw FileError(fmt::format("{}: tensor {} {}", origin_, shown(key_), what));
  }
  [[noreturn]] void fail_value() const {
    switch (state_) {
      case State::outside:
        fail("the header is not an object");
      case State::tensors:
        fail(fmt::format("the entry of {} is not an object", shown(key_)));
      case State::metadata:
        fail(fmt::format("metadata {} is not a text", shown(field_)));
      case State::entry:
        fail(fmt::format("tensor {}: field {} is unknown, double, or of a wrong type", shown(key_), shown(field_)));
      case State::shape:
        fail(fmt::format("tensor {}: the shape has something else than whole numbers from 0", shown(key_)));
      default:
        fail(fmt::format("tensor {}: data_offsets are not two whole numbers from 0", shown(key_)));
    }
  }

  void add_entry() {
    if (!entry_.dtype || !entry_.shape || entry_.offset_count != 2) {
      fail(fmt::format("tensor {} needs dtype, shape and two data_offsets", shown(key_)));
    }
    const TensorType type{*entry_.dtype, *entry_.shape};
    const auto needed = dense_bytes(type);
    if (!needed) {
      fail_tensor(fmt::format("is too large: {}, which no memory holds", describe_size(type)));
    }
    const std::uint64_t bytes = *needed;
    const auto [begin, end] = entry_.offsets;
    if (begin > end || end > data_bytes_) {
      fail(fmt::format("tensor {} has its elements at [{}, {}) of {} bytes", shown(key_), begin, end, data_bytes_));
    }
    if (end - begin != bytes) {
      fail(fmt::format("tensor {} is {} of {} bytes, its data_offsets hold {}", shown(key_), to_string(type), bytes,
                       end - begin));
    }
    header_.entries.push_back({key_, type, begin, end});
  }

  void check_coverage() {
    std::sort(header_.entries.begin(), header_.entries.end(), [](const HeaderEntry& a, const HeaderEntry& b) {
      return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
    });
    std::uint64_t reached = 0;
    for (const HeaderEntry& entry : header_.entries) {
      if (entry.begin != reached) {
        fail(fmt::format("tensor {} {} the elements before it", shown(entry.name),
                         entry.begin < reached ? "overlaps" : "leaves a hole after"));
      }
      reached = entry.end;
    }
    if (reached != data_bytes_) {
      fail(fmt::format("the elements end at byte {}, the file has {}", reached, data_bytes_));
    }
  }

  std::uint64_t data_bytes_;
  const std::string& origin_;
  State state_ = State::outside;
  std::string key_;    ///< of the header's object
  std::string field_;  ///< of the object inside it
  Entry entry_;
  std::set<std::string> names_;
  Header header_;
};

std::string escaped(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw Error(fmt::format("safetensors: the name or text {} is not UTF-8; rename it", quote(text)));
  }
}

}  // namespace

Header parse_header(std::string_view json, std::uint64_t data_bytes, const std::string& origin) {
  if (json.empty() || json.front() != '{') {
    throw FileError(fmt::format("{}: the header doesn't begin with '{{': this is no safetensors file", origin));
  }
  if (json.find('\0') != std::string_view::npos) {  // nlohmann's parser would take it for the end
    throw FileError(fmt::format("{}: the header has a zero byte; the file is damaged: get it again", origin));
  }
  HeaderReader reader(data_bytes, origin);
  nlohmann::json::sax_parse(json, &reader);
  return reader.finish();
}

std::string print_header(const TensorFile& file, std::vector<const NamedTensor*>& order) {
  for (const NamedTensor& tensor : file.tensors) {
    if (tensor.name == kMetadata) {
      throw Error("safetensors: a tensor can't be named __metadata__; rename it");
    }
    order.push_back(&tensor);
  }
  // The largest elements come first, so that each tensor is aligned to the size of its elements.
  std::sort(order.begin(), order.end(), [](const NamedTensor* a, const NamedTensor* b) {
    const std::size_t a_size = size_of(a->tensor.dtype());
    const std::size_t b_size = size_of(b->tensor.dtype());
    return a_size != b_size ? a_size > b_size : a->name < b->name;
  });
  std::string header = "{";
  if (!file.metadata.empty()) {
    header += fmt::format("\"{}\":{{", kMetadata);
    for (const auto& [key, text] : file.metadata) {
      header += fmt::format("{}{}:{}", header.back() == '{' ? "" : ",", escaped(key), escaped(text));
    }
    header += '}';
  }
  std::set<std::string_view> names;
  std::uint64_t offset = 0;
  for (const NamedTensor* tensor : order) {
    if (!names.insert(tensor->name).second) {
      throw Error(fmt::format("safetensors: two tensors are named {}; rename one", quote(tensor->name)));
    }
    const std::uint64_t bytes = static_cast<std::uint64_t>(tensor->tensor.numel()) * size_of(tensor->tensor.dtype());
    header += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":{},\"data_offsets\":[{},{}]}}",
                          header.size() == 1 ? "" : ",", escaped(tensor->name), type_name(tensor->tensor.dtype()),
                          to_string(tensor->tensor.shape()), offset, offset + bytes);
    offset += bytes;
  }
  header += '}';
  header.append((8 - header.size() % 8) % 8, ' ');
  if (header.size() > kMaxHeaderBytes) {
    throw Error(
        fmt::format("safetensors: a header of {} bytes is over the format's limit of {}; save fewer tensors in a file",
                    header.size(), kMaxHeaderBytes));
  }
  return header;
}

}  // namespace diptych::io::detail
