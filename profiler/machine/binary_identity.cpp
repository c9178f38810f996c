#include "profiler/machine/binary_identity.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <elf.h>
#include <fstream>
#include <link.h>
#include <memory>
#include <span>

#include <fmt/format.h>

#include "profiler/machine/build_record.h"

#ifdef DIPTYCH_WITH_OPENSSL
#include <openssl/evp.h>
#endif

namespace diptych::profiler {

namespace {

std::string hexadecimal(std::span<const unsigned char> bytes) {
  std::string text;
  for (const unsigned char byte : bytes) {
    text += fmt::format("{:02x}", byte);
  }
  return text;
}

/// Notes: header, name and description, the last two padded to 4 bytes. [System V ABI, ch. 5]
std::optional<std::string> find_build_id(std::span<const unsigned char> notes) {
  const auto padded = [](std::size_t size) { return (size + 3U) & ~std::size_t{3}; };
  while (notes.size() >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) header;
    std::memcpy(&header, notes.data(), sizeof(header));
    const std::size_t description = sizeof(header) + padded(header.n_namesz);
    const std::size_t next = description + padded(header.n_descsz);
    if (next > notes.size()) {
      break;
    }
    if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == sizeof(ELF_NOTE_GNU) &&
        std::memcmp(notes.data() + sizeof(header), ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU)) == 0) {
      return hexadecimal(notes.subspan(description, header.n_descsz));
    }
    notes = notes.subspan(next);
  }
  return std::nullopt;
}

int add_object(dl_phdr_info* info, std::size_t, void* context) {
  auto& objects = *static_cast<std::vector<LoadedObject>*>(context);
  const std::filesystem::path path = info->dlpi_name;
  std::error_code error;
  const std::filesystem::path resolved = path.empty() ? path : std::filesystem::canonical(path, error);
  LoadedObject object{path.filename().string(), error ? "" : resolved.string(), std::nullopt};
  for (std::size_t i = 0; i < info->dlpi_phnum && !object.build_id; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type == PT_NOTE) {
      // The loader mapped the segment at this address.
      const auto* start = reinterpret_cast<const unsigned char*>(info->dlpi_addr + segment.p_vaddr);
      object.build_id = find_build_id({start, segment.p_memsz});
    }
  }
  objects.push_back(std::move(object));
  return 0;
}

}  // namespace

std::vector<LoadedObject> loaded_objects() {
  std::vector<LoadedObject> objects;
  dl_iterate_phdr(add_object, &objects);
  return objects;
}

#ifdef DIPTYCH_WITH_OPENSSL

bool has_sha256() noexcept { return true; }

std::optional<std::string> sha256_of_file(const std::filesystem::path& path, const std::vector<ByteRange>& without) {
  std::ifstream file(path, std::ios::binary);
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  if (!file || context == nullptr || EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) != 1) {
    return std::nullopt;
  }
  std::vector<char> buffer(std::size_t{1} << 20U);
  std::uint64_t offset = 0;
  auto gap = without.begin();
  while (file) {
    for (; gap != without.end() && gap->offset == offset; ++gap) {
      offset += gap->size;
      file.seekg(static_cast<std::streamoff>(offset));
    }
    const std::uint64_t most = gap == without.end() ? buffer.size() : gap->offset - offset;
    file.read(buffer.data(), static_cast<std::streamsize>(std::min<std::uint64_t>(buffer.size(), most)));
    offset += static_cast<std::uint64_t>(file.gcount());
    if (EVP_DigestUpdate(context.get(), buffer.data(), static_cast<std::size_t>(file.gcount())) != 1) {
      return std::nullopt;
    }
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  if (file.bad() || EVP_DigestFinal_ex(context.get(), digest.data(), &size) != 1) {
    return std::nullopt;
  }
  return hexadecimal({digest.data(), size});
}

#else

bool has_sha256() noexcept { return false; }
std::optional<std::string> sha256_of_file(const std::filesystem::path&, const std::vector<ByteRange>&) {
  return std::nullopt;
}

#endif

std::optional<std::string> sha256_of_code(const std::filesystem::path& program) {
  std::vector<ByteRange> without;
  bool has_record = false;
  for (const ElfSection& section : elf_sections(program)) {
    has_record = has_record || section.name == build_record_section;
    if (section.name == build_record_section || section.name == ".note.gnu.build-id") {
      without.push_back(section.bytes);
    }
  }
  std::sort(without.begin(), without.end(), [](const ByteRange& a, const ByteRange& b) { return a.offset < b.offset; });
  return has_record ? sha256_of_file(program, without) : std::nullopt;
}

}  // namespace diptych::profiler
