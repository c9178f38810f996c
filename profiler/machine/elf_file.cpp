#include "profiler/machine/elf_file.h"

#include <bit>
#include <cstring>
#include <elf.h>
#include <fstream>

namespace diptych::profiler {

namespace {

constexpr std::uint64_t largest_table = std::uint64_t{1} << 20U;  // of section headers or names, in bytes
constexpr unsigned char own_byte_order = std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;

/// Reads pieces of a file at offsets that may be invalid.
class Pieces {
 public:
  explicit Pieces(const std::filesystem::path& path) : file_(path, std::ios::binary) {
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(path, error);
    size_ = error ? 0 : size;
  }
  [[nodiscard]] bool holds(ByteRange range) const {
    return range.offset <= size_ && range.size <= size_ - range.offset;
  }
  std::optional<std::string> read(ByteRange range) {
    if (!holds(range)) {
      return std::nullopt;
    }
    std::string bytes(range.size, '\0');
    file_.seekg(static_cast<std::streamoff>(range.offset));
    file_.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return file_ ? std::optional(std::move(bytes)) : std::nullopt;
  }

 private:
  std::ifstream file_;
  std::uint64_t size_ = 0;
};

std::optional<Elf64_Ehdr> read_header(Pieces& file) {
  const std::optional<std::string> bytes = file.read({0, sizeof(Elf64_Ehdr)});
  if (!bytes) {
    return std::nullopt;
  }
  Elf64_Ehdr header;
  std::memcpy(&header, bytes->data(), sizeof(header));
  const bool good = std::memcmp(static_cast<const unsigned char*>(header.e_ident), ELFMAG, SELFMAG) == 0 &&
                    header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_ident[EI_DATA] == own_byte_order &&
                    header.e_shentsize == sizeof(Elf64_Shdr) && header.e_shstrndx < header.e_shnum;
  return good ? std::optional(header) : std::nullopt;
}

}  // namespace

std::vector<ElfSection> elf_sections(const std::filesystem::path& path) {
  Pieces file(path);
  const std::optional<Elf64_Ehdr> header = read_header(file);
  if (!header) {
    return {};
  }
  const std::optional<std::string> table =
      file.read({header->e_shoff, std::uint64_t{header->e_shnum} * sizeof(Elf64_Shdr)});
  if (!table) {
    return {};
  }
  std::vector<Elf64_Shdr> headers(header->e_shnum);
  std::memcpy(headers.data(), table->data(), table->size());
  const Elf64_Shdr& names_header = headers[header->e_shstrndx];
  const std::optional<std::string> names =
      names_header.sh_size <= largest_table ? file.read({names_header.sh_offset, names_header.sh_size}) : std::nullopt;
  if (!names) {
    return {};
  }
  std::vector<ElfSection> sections;
  for (const Elf64_Shdr& section : headers) {
    const ByteRange bytes = {section.sh_offset, section.sh_size};
    if (section.sh_type == SHT_NULL || section.sh_type == SHT_NOBITS) {
      continue;
    }
    if (!file.holds(bytes) || section.sh_name >= names->size()) {
      return {};
    }
    // Names end with a zero byte, the last one at the end of the table.
    const std::string_view rest = std::string_view(*names).substr(section.sh_name);
    sections.push_back({std::string(rest.substr(0, rest.find('\0'))), bytes});
  }
  return sections;
}

std::optional<std::string> read_section(const std::filesystem::path& path, std::string_view name) {
  for (const ElfSection& section : elf_sections(path)) {
    if (section.name == name) {
      return section.bytes.size <= largest_table ? Pieces(path).read(section.bytes) : std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace diptych::profiler
