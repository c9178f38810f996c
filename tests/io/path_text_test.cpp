// Names of files are bytes; what is written of them is UTF-8, and leads back to the file.

#include "framework/io/path_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/io/naming.h"
#include "tests/io/folder.h"

namespace diptych::io {
namespace {

using diptych::testing::Folder;
using diptych::testing::write_bytes;

TEST(PathText, Utf8StaysAndOtherBytesAreEscaped) {
  for (const std::string text : {"", "model.onnx", "\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80", "\xEF\xBF\xBD", "a\\xff"}) {
    EXPECT_EQ(text_of_path(text), text);
  }
  EXPECT_EQ(text_of_path("m\xFF.onnx"), "m\\xff.onnx");
  EXPECT_EQ(text_of_path("\xC3"), "\\xc3");                    // cut off
  EXPECT_EQ(text_of_path("\xC3\xA4\xA4"), "\xC3\xA4\\xa4");    // one too many
  EXPECT_EQ(text_of_path("\xED\xA0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(text_of_path("\xC0\xAF/x"), "\\xc0\\xaf/x");       // overlong
}

TEST(PathText, LeadsBackToTheFileThatIsThere) {
  const Folder folder;
  const std::string bytes = folder.path().string() + "/m\xFF\xC3";
  const std::string text = text_of_path(bytes);
  EXPECT_EQ(path_of_text(text), text) << "no such file";
  write_bytes(bytes, "x");
  EXPECT_EQ(path_of_text(text), bytes);
  EXPECT_EQ(path_of_text(bytes), bytes);
  write_bytes(text, "another");
  EXPECT_THROW(path_of_text(text), FileError);
  std::filesystem::remove(bytes);
  EXPECT_EQ(path_of_text(text), text) << "a file of that very name";
  for (const char* no_escape : {"\\x", "\\xg0", "\\xf", "plain"}) {
    EXPECT_EQ(path_of_text(no_escape), no_escape);
  }
}

std::string message_of(const std::string& what) {
  try {
    naming("folder/a.json", [&] { throw ShapeError(what); });
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Naming, PutsTheFileInFrontUnlessItStandsThere) {
  EXPECT_EQ(message_of("shapes differ"), "'folder/a.json': shapes differ");
  EXPECT_EQ(message_of("\"folder/a.json\": shapes differ"), "\"folder/a.json\": shapes differ");
  EXPECT_EQ(message_of("folder/a.json: shapes differ"), "folder/a.json: shapes differ");
  EXPECT_EQ(message_of("as in folder/a.json"), "'folder/a.json': as in folder/a.json");
  EXPECT_EQ(naming("a", [] { return 3; }), 3);
  EXPECT_THROW(naming("a", [] { throw InternalError("ours"); }), InternalError);
}

}  // namespace
}  // namespace diptych::io
