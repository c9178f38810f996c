// What the fingerprint says of a build: sections and hashes of programs, the build record, packages.

#include <cstring>
#include <elf.h>

#include <gmock/gmock.h>

#include "profiler/machine/binary_identity.h"
#include "profiler/machine/build_record.h"
#include "profiler/machine/elf_file.h"
#include "profiler/machine/fingerprint.h"
#include "profiler/machine/packages.h"
#include "tests/profiler/fake_machine.h"

namespace diptych::profiler {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// FIPS 180-4, the standard's own example.
constexpr const char* sha256_of_abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

class Builds : public FakeMachine {
 protected:
  std::filesystem::path file(const std::string& bytes) {
    const std::filesystem::path path = root() / "program";
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
};

// As dpkg writes them: the root as "/.", folders too, no line for the package.
TEST_F(Builds, FindsThePackageOfEachFile) {
  write("var/lib/dpkg/info/libc6:amd64.list",
        "/.\n/lib\n/lib/x86_64-linux-gnu\n/lib/x86_64-linux-gnu/libc.so.6\n/lib/x86_64-linux-gnu/libm.so.6");
  write("var/lib/dpkg/info/libc6:i386.list", "/.\n/lib/i386-linux-gnu/libc.so.6");
  write("var/lib/dpkg/info/libfmt9:amd64.list",
        "/.\n/usr/lib/x86_64-linux-gnu/libfmt.so.9.1.0\n/usr/lib/x86_64-linux-gnu/libfmt.so.9");
  write("var/lib/dpkg/info/libgone.list", "/usr/lib/libgone.so.1");
  write("var/lib/dpkg/info/libfmt9:amd64.md5sums", "/usr/lib/libmd5.so");
  write("var/lib/dpkg/status",
        "Package: libc6\nStatus: install ok installed\nArchitecture: amd64\nVersion: 2.36-9+deb12u14\n"
        "Description: GNU C Library\n Version: 9 is only words\n\n"
        "Package: libc6\nStatus: install ok installed\nArchitecture: i386\nVersion: 2.36-7\n\n"
        "Package: libgone\nStatus: deinstall ok config-files\nArchitecture: amd64\nVersion: 1\n\n"
        "Package: libfmt9\nStatus: install ok installed\nArchitecture: amd64\nVersion: 9.1.0+ds1-2");
  const auto packages = packages_of(
      files(), {"/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libfmt.so.9.1.0",
                "/usr/lib/x86_64-linux-gnu/libfmt.so", "/usr/lib/libgone.so.1", "/usr/lib/i386-linux-gnu/libc.so.6",
                "/opt/own/libc.so.6", "", "/usr/lib/libmd5.so", "/lib/x86_64-linux-gnu/libm.so.6"});
  ASSERT_EQ(packages.size(), 9U);
  EXPECT_EQ(packages[0], (Package{"libc6", "2.36-9+deb12u14"})) << "listed as /lib, mapped as /usr/lib";
  EXPECT_EQ(packages[1], (Package{"libfmt9", "9.1.0+ds1-2"}));
  EXPECT_EQ(packages[2], std::nullopt) << "the start of a line isn't the line";
  EXPECT_EQ(packages[3], std::nullopt) << "removed, only its configuration is left";
  EXPECT_EQ(packages[4], (Package{"libc6", "2.36-7"})) << "of its own architecture";
  EXPECT_EQ(packages[5], std::nullopt);
  EXPECT_EQ(packages[6], std::nullopt) << "the vDSO has no file";
  EXPECT_EQ(packages[7], std::nullopt) << "not a list";
  EXPECT_EQ(packages[8], (Package{"libc6", "2.36-9+deb12u14"}));
}

TEST_F(Builds, AMachineWithoutDpkgGivesNullWithAReason) {
  EXPECT_FALSE(has_package_database(files()));
  EXPECT_THAT(packages_of(files(), {"/usr/lib/libc.so.6"}), ElementsAre(std::nullopt));
  const nlohmann::json build = build_fingerprint(files());
  EXPECT_TRUE(build.at("packages").is_null());
  EXPECT_THAT(build.at("reasons").at("packages").get<std::string>(), HasSubstr("no dpkg"));
  for (const auto& [field, value] : build.items()) {
    EXPECT_TRUE(!value.is_null() || build.at("reasons").contains(field)) << field;
  }
}

TEST_F(Builds, BrokenDatabasesGiveNoPackages) {
  for (const std::string status : {"", "\n\n\n", "Version: 1", "Package: libx", "Package libx\nVersion 1", ": \n: :\n",
                                   "Status: install ok installed\nPackage: libx"}) {
    write("var/lib/dpkg/status", status);
    write("var/lib/dpkg/info/libx.list", "/usr/lib/libx.so");
    EXPECT_THAT(packages_of(files(), {"/usr/lib/libx.so"}), ElementsAre(std::nullopt)) << status;
  }
}

TEST(BuildRecord, NamesRevisionAndPackages) {
  const std::string sha(40, 'a');
  const BuildRecord record =
      parse_build_record("git_sha=" + sha + "\ngit_dirty=true\ntool=g++-12 12.2.0-14\n" +
                         "package=nlohmann-json3-dev 3.11.2-2\n" + std::string(9, '\0') + "git_dirty=false");
  EXPECT_EQ(record.git_sha, sha);
  EXPECT_EQ(record.git_dirty, true) << "nothing behind the first zero byte counts";
  EXPECT_THAT(record.tools, ElementsAre(Package{"g++-12", "12.2.0-14"}));
  EXPECT_THAT(record.compiled_in, ElementsAre(Package{"nlohmann-json3-dev", "3.11.2-2"}));
}

TEST(BuildRecord, WithoutARevisionThereIsAReason) {
  EXPECT_EQ(parse_build_record("git_reason=built from an archive\n").git_reason, "built from an archive");
  for (const std::string text : {"", "=", "\n\n", "git_sha=", "git_sha=--upload-pack=x", "git_sha=ABCDEF", "git_sha",
                                 "package=\npackage=x\ntool", "git_dirty=maybe"}) {
    const BuildRecord record = parse_build_record(text);
    EXPECT_EQ(record.git_sha, std::nullopt) << text;
    EXPECT_EQ(record.git_dirty, std::nullopt) << text;
    EXPECT_FALSE(record.git_reason.empty()) << text;
    EXPECT_THAT(record.compiled_in, IsEmpty()) << text;
  }
}

TEST(BuildRecord, OtherProgramsHaveNone) {
  const BuildRecord record = read_build_record("/proc/self/exe");
  EXPECT_EQ(record.git_sha, std::nullopt);
  EXPECT_THAT(record.git_reason, HasSubstr("no build record"));
  EXPECT_EQ(sha256_of_code("/proc/self/exe"), std::nullopt);
}

/// An ELF file of a header, the bytes of three sections, their names, and the section headers.
std::string elf_file(const std::string& code, const std::string& record, const std::string& build_id) {
  const std::string names = std::string("\0.text\0.diptych_build\0.note.gnu.build-id\0.bss\0", 47);
  Elf64_Ehdr header{};
  std::memcpy(&header.e_ident[0], ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 6;
  header.e_shstrndx = 5;
  std::string bytes(sizeof(header), '\0');
  std::vector<Elf64_Shdr> sections(1);
  const auto add = [&](std::size_t name, const std::string& content) {
    Elf64_Shdr section{};
    section.sh_type = SHT_PROGBITS;
    section.sh_name = static_cast<Elf64_Word>(name);
    section.sh_offset = bytes.size();
    section.sh_size = content.size();
    sections.push_back(section);
    bytes += content;
  };
  add(22, build_id);
  add(1, code);
  add(7, record);
  Elf64_Shdr zeroed{};  // of any length: no bytes of the file
  zeroed.sh_type = SHT_NOBITS;
  zeroed.sh_name = 41;
  zeroed.sh_size = 1U << 30U;
  sections.push_back(zeroed);
  add(0, names);
  header.e_shoff = bytes.size();
  std::memcpy(bytes.data(), &header, sizeof(header));
  for (const Elf64_Shdr& section : sections) {
    bytes.append(reinterpret_cast<const char*>(&section), sizeof(section));
  }
  return bytes;
}

TEST_F(Builds, SectionsOfAProgram) {
  const auto program = file(elf_file("code", "git_reason=none\n", "0123"));
  std::vector<std::string> names;
  for (const ElfSection& section : elf_sections(program)) {
    names.push_back(section.name);
  }
  EXPECT_THAT(names, ElementsAre(".note.gnu.build-id", ".text", ".diptych_build", ""));
  EXPECT_EQ(read_section(program, ".text"), "code");
  EXPECT_EQ(read_section(program, ".bss"), std::nullopt);
  EXPECT_EQ(read_build_record(program).git_reason, "none");
}

// readelf -S is the witness: every program has its code in .text.
TEST_F(Builds, SectionsOfARealProgram) {
  EXPECT_FALSE(read_section("/proc/self/exe", ".interp").value_or("").empty());
  EXPECT_THAT(read_section("/proc/self/exe", ".comment").value_or(""), HasSubstr("GCC"));
}

TEST_F(Builds, BrokenProgramsHaveNoSections) {
  const std::string whole = elf_file("code", "record", "0123");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THAT(elf_sections(file(whole.substr(0, size))), IsEmpty()) << "cut off at " << size;
  }
  // Every byte of the two headers that matter, flipped: wrong sections are fine, reading past the file is not.
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string broken = whole;
    broken[at] = static_cast<char>(~broken[at]);
    for (const ElfSection& section : elf_sections(file(broken))) {
      EXPECT_LE(section.bytes.size, whole.size()) << at;
      EXPECT_LE(section.bytes.offset, whole.size() - section.bytes.size) << at;
    }
  }
  EXPECT_THAT(elf_sections("/nowhere"), IsEmpty());
  EXPECT_THAT(elf_sections("/"), IsEmpty());
}

TEST_F(Builds, HashesLeaveRangesOut) {
  if (!has_sha256()) {
    GTEST_SKIP() << "not built with OpenSSL";
  }
  EXPECT_EQ(sha256_of_file(file("abc")), sha256_of_abc);
  EXPECT_EQ(sha256_of_file(file("xxaxbcx"), {{0, 2}, {3, 1}, {6, 1}}), sha256_of_abc);
  EXPECT_EQ(sha256_of_file(file("axxbc"), {{1, 1}, {2, 1}}), sha256_of_abc) << "one behind the other";
  EXPECT_EQ(sha256_of_file(file("abcx"), {{3, 100}}), sha256_of_abc) << "past the end";
  EXPECT_EQ(sha256_of_file(file("abc"), {{1, 0}}), sha256_of_abc) << "an empty one";
}

TEST_F(Builds, TheRevisionIsNoPartOfTheCode) {
  if (!has_sha256()) {
    GTEST_SKIP() << "not built with OpenSSL";
  }
  const auto hash = [&](const char* code, const char* record, const char* build_id) {
    return sha256_of_code(file(elf_file(code, record, build_id)));
  };
  const auto one = hash("code", "git_sha=1", "0123");
  ASSERT_TRUE(one);
  EXPECT_EQ(one, hash("code", "git_sha=2", "4567"));
  EXPECT_NE(one, hash("cod3", "git_sha=1", "0123"));
  EXPECT_EQ(sha256_of_code(file("no program")), std::nullopt);
}

TEST_F(Builds, TheLoadedLibrariesHaveTheirPackages) {
  const nlohmann::json build = build_fingerprint(SystemFiles());
  if (!has_package_database(SystemFiles())) {
    GTEST_SKIP() << "no dpkg here";
  }
  std::vector<std::string> names;
  for (const nlohmann::json& package : build.at("packages")) {
    names.push_back(package.at("name"));
    EXPECT_FALSE(package.at("version").get<std::string>().empty());
    EXPECT_EQ(package.at("use"), "linked") << "tests carry no build record";
  }
  EXPECT_THAT(names, testing::IsSupersetOf({"libc6", "libstdc++6"}));
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
}

}  // namespace
}  // namespace diptych::profiler
