#include "framework/io/safetensors.h"

#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "framework/core/attributes.h"
#include "framework/core/context.h"
#include "framework/core/tensor_body.h"
#include "framework/io/atomic_file.h"
#include "framework/io/naming.h"
#include "framework/io/safetensors_header.h"
#include "framework/ops/elementwise.h"

namespace diptych::io {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are written as they lie in memory");

constexpr std::uint64_t kLengthBytes = 8;

/// A bool byte other than 0 or 1 would be undefined behaviour from here on.
void check_bools(const Tensor& tensor, const std::string& name, const std::string& origin) {
  const std::byte* bytes = tensor.body()->bytes();
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    if (std::to_integer<int>(bytes[i]) > 1) {
      throw FileError(fmt::format("{}: tensor {}: element {} is no BOOL; the file is damaged: get it again", origin,
                                  quote(name), i));
    }
  }
}

/// `read(offset, to, bytes)` reads bytes that are known to exist.
template <class Read>
TensorFile read_tensors(std::uint64_t file_bytes, const std::string& origin, const Read& read) {
  std::uint64_t length = 0;
  if (file_bytes < kLengthBytes) {
    throw FileError(fmt::format("{}: {} bytes are too few for a safetensors file; get it again", origin, file_bytes));
  }
  read(0, &length, kLengthBytes);
  if (length > kMaxHeaderBytes || length > file_bytes - kLengthBytes) {
    throw FileError(
        fmt::format("{}: a header of {} bytes doesn't fit a file of {} (and the limit of {}); the file is cut "
                    "off, or not safetensors: get it again",
                    origin, length, file_bytes, kMaxHeaderBytes));
  }
  std::string json(length, '\0');
  read(kLengthBytes, json.data(), length);
  detail::Header header = detail::parse_header(json, file_bytes - kLengthBytes - length, origin);

  TensorFile file{{}, std::move(header.metadata)};
  for (detail::HeaderEntry& entry : header.entries) {
    Tensor tensor = Tensor::empty(entry.type.dtype, entry.type.shape);
    read(kLengthBytes + length + entry.begin, tensor.body()->data, entry.end - entry.begin);
    if (entry.type.dtype == DType::boolean) {
      check_bools(tensor, entry.name, origin);
    }
    file.tensors.push_back({std::move(entry.name), std::move(tensor)});
  }
  return file;
}

}  // namespace

const Tensor* TensorFile::find(std::string_view name) const {
  for (const NamedTensor& tensor : tensors) {
    if (tensor.name == name) {
      return &tensor.tensor;
    }
  }
  return nullptr;
}

void save_safetensors(const std::filesystem::path& path, const TensorFile& file) {
  for (const NamedTensor& tensor : file.tensors) {
    if (tensor.tensor.is_traced()) {
      throw CaptureError(
          fmt::format("safetensors: tensor {} has no elements while a graph is captured; save it outside of "
                      "the captured function",
                      quote(tensor.name)));
    }
  }
  std::vector<const NamedTensor*> order;
  const std::string header = naming(path, [&] { return detail::print_header(file, order); });
  AtomicFile out(path);
  const std::uint64_t length = header.size();
  out.write(&length, sizeof length);
  out.write(header.data(), header.size());
  for (const NamedTensor* tensor : order) {
    const NoGrad no_tape;
    const Tensor dense = contiguous(tensor->tensor);
    visit(dense.dtype(),
          [&]<class T>() { out.write(dense.data<T>(), static_cast<std::size_t>(dense.numel()) * sizeof(T)); });
  }
  out.commit();
}

TensorFile load_safetensors(const std::filesystem::path& path) {
  const InputFile file(path);
  return read_tensors(file.size(), path.string(),
                      [&](std::uint64_t offset, void* to, std::uint64_t bytes) { file.read(offset, to, bytes); });
}

TensorFile parse_safetensors(std::string_view bytes, const std::string& origin) {
  return read_tensors(bytes.size(), origin, [&](std::uint64_t offset, void* to, std::uint64_t count) {
    if (count != 0) {
      std::memcpy(to, bytes.data() + offset, count);
    }
  });
}

}  // namespace diptych::io
