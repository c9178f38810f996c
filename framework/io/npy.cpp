#include "framework/io/npy.h"

#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "framework/core/attributes.h"
#include "framework/core/lengths.h"
#include "framework/core/tensor_body.h"
#include "framework/io/atomic_file.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/view.h"

namespace diptych::io {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

constexpr std::array<std::pair<std::string_view, DType>, 13> kTypes{{{"<f4", DType::float32},
                                                                     {"<f2", DType::float16},
                                                                     {"|i1", DType::int8},
                                                                     {"<u2", DType::uint16},
                                                                     {"<i2", DType::int16},
                                                                     {"<u4", DType::uint32},
                                                                     {"<u8", DType::uint64},
                                                                     {"<f8", DType::float64},
                                                                     {"<i4", DType::int32},
                                                                     {"<i8", DType::int64},
                                                                     {"|u1", DType::uint8},
                                                                     {"|b1", DType::boolean},
                                                                     {"<?", DType::boolean}}};

std::optional<DType> dtype_of_descr(std::string_view descr) {
  for (const auto& [name, dtype] : kTypes) {
    if (name == descr) {
      return dtype;
    }
  }
  return std::nullopt;
}

/// The header is a Python dict with three known keys: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class Header {
 public:
  Header(std::string_view text, const std::string& origin) : text_(text), origin_(origin) {
    const std::string_view descr = after("'descr':");
    if (descr.size() < 2 || descr[0] != '\'' || descr.find('\'', 1) == std::string_view::npos) {
      fail("its element type is no simple one");
    }
    const std::string_view name = descr.substr(1, descr.find('\'', 1) - 1);
    const auto found = dtype_of_descr(name);
    if (!found) {
      fail(fmt::format("its elements are {}, which the engine doesn't have; save it as float32 or int64", quote(name)));
    }
    dtype = *found;
    const std::string_view order = after("'fortran_order':");
    by_column = order.starts_with("True");
    if (!by_column && !order.starts_with("False")) {
      fail("its order is neither True nor False");
    }
    read_shape(after("'shape':"));
  }

  DType dtype = DType::float32;
  bool by_column = false;
  Shape shape;

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw FileError(fmt::format("{}: {}", quote(origin_), what));
  }

  std::string_view after(std::string_view key) const {
    const std::size_t place = text_.find(key);
    if (place == std::string_view::npos) {
      fail(fmt::format("its header has no {}", key));
    }
    std::string_view rest = text_.substr(place + key.size());
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    return rest;
  }

  void read_shape(std::string_view list) {
    if (!list.starts_with('(')) {
      fail("its shape is no tuple");
    }
    list.remove_prefix(1);
    for (;;) {
      list.remove_prefix(std::min(list.find_first_not_of(" ,"), list.size()));
      if (list.starts_with(')')) {
        return;
      }
      std::int64_t length = 0;
      const auto [end, error] = std::from_chars(list.data(), list.data() + list.size(), length);
      if (error != std::errc() || shape.rank() == kMaxRank) {
        fail("its shape isn't one that the engine has");
      }
      shape.push_back(length);
      list.remove_prefix(static_cast<std::size_t>(end - list.data()));
    }
  }

  std::string_view text_;
  const std::string& origin_;
};

}  // namespace

Tensor load_npy(const std::filesystem::path& path) {
  const std::string origin = path.string();
  const InputFile file(path);
  const auto fail = [&](const std::string& what) { throw FileError(fmt::format("{}: {}", quote(origin), what)); };
  std::array<char, 12> start{};
  if (file.size() < start.size()) {
    fail("it is too short for a .npy file");
  }
  file.read(0, start.data(), start.size());
  if (std::string_view(start.data(), kMagic.size()) != kMagic) {
    fail("it is no .npy file");
  }
  const int version = static_cast<unsigned char>(start[6]);
  if (version < 1 || version > 3) {
    fail("it is of a version of .npy that isn't known");
  }
  std::uint32_t length = 0;
  const std::uint64_t length_bytes = version == 1 ? 2 : 4;
  std::memcpy(&length, start.data() + 8, length_bytes);
  const std::uint64_t begin = 8 + length_bytes;
  if (length > file.size() - begin) {
    fail("it is cut off");
  }
  std::string text(length, '\0');
  file.read(begin, text.data(), text.size());
  const Header header(text, origin);
  const TensorType type{header.dtype, header.shape};
  const auto needed = dense_bytes(type);
  const std::uint64_t bytes = file.size() - begin - length;
  if (needed != bytes) {
    fail(fmt::format("it has {} bytes of elements: {}", bytes, describe_size(type)));
  }
  Shape stored = header.shape;
  if (header.by_column) {
    for (int i = 0; i < stored.rank(); ++i) {
      stored[i] = header.shape[stored.rank() - 1 - i];
    }
  }
  Tensor tensor = Tensor::empty(header.dtype, stored);
  file.read(begin + length, tensor.body()->data, bytes);
  if (header.dtype == DType::boolean) {
    std::byte* const values = tensor.body()->bytes();
    for (std::uint64_t i = 0; i < bytes; ++i) {
      values[i] = values[i] == std::byte{0} ? std::byte{0} : std::byte{1};
    }
  }
  if (header.by_column && stored.rank() > 1) {
    Axes order;
    for (int i = stored.rank(); i-- > 0;) {
      order.push_back(i);
    }
    tensor = contiguous(permute(tensor, order));
  }
  return tensor;
}

void save_npy(const std::filesystem::path& path, const Tensor& tensor) {
  const Tensor dense = contiguous(tensor.dtype() == DType::bfloat16 ? cast(tensor, DType::float32) : tensor);
  std::string descr;
  for (const auto& [name, dtype] : kTypes) {
    if (dtype == dense.dtype() && descr.empty()) {
      descr = name;
    }
  }
  std::string lengths;
  for (const std::int64_t length : dense.shape()) {
    lengths += fmt::format("{},", length);
  }
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, lengths);
  constexpr std::size_t kStart = 10;  // magic, version, length
  header.append(63 - (kStart + header.size()) % 64, ' ');
  header += '\n';
  const auto length = static_cast<std::uint16_t>(header.size());
  AtomicFile file(path);
  file.write(kMagic.data(), kMagic.size());
  file.write("\x01\x00", 2);
  file.write(&length, sizeof length);
  file.write(header.data(), header.size());
  file.write(dense.body()->data, static_cast<std::size_t>(dense.numel()) * size_of(dense.dtype()));
  file.commit();
}

}  // namespace diptych::io
