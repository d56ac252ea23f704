#include "paceline/rendezvous/secret.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "paceline/core/error.h"
#include "paceline/core/test_folder.h"

namespace paceline {
namespace {

Environment of(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

TEST(Secret, ComesFromItsVariable) {
  EXPECT_EQ(Secret::from_environment(of({{"PACELINE_SECRET", "s3"}, {"PACELINE_SECRET_FILE", "/no"}}))->reveal(), "s3");
  EXPECT_FALSE(Secret::from_environment(of({})).has_value());
}

TEST(Secret, ComesFromItsFileWithoutTheLineEnd) {
  const TestFolder folder;
  const std::string file = (folder.path() / "secret").string();
  std::ofstream(file) << "from a file\r\n";
  EXPECT_EQ(Secret::from_environment(of({{"PACELINE_SECRET_FILE", file}}))->reveal(), "from a file");
}

TEST(Secret, AnEmptyOneIsRefused) {
  const TestFolder folder;
  const std::string file = (folder.path() / "secret").string();
  std::ofstream(file) << "\n";
  try {
    Secret::from_environment(of({{"PACELINE_SECRET", ""}}));
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "PACELINE_SECRET is empty: anybody could guess it; unset it or give it a value");
  }
  EXPECT_THROW(Secret::from_environment(of({{"PACELINE_SECRET_FILE", file}})), UsageError);
  EXPECT_THROW(Secret::from_environment(of({{"PACELINE_SECRET_FILE", file + "-not-there"}})), FileError);
}

TEST(Secret, ARandomOneHas256BitsAndDiffersEachTime) {
  EXPECT_EQ(Secret::random().reveal().size(), 64U);
  EXPECT_NE(Secret::random().reveal(), Secret::random().reveal());
}

TEST(Secret, ProofsDependOnSecretPartsAndTheirBoundaries) {
  const Secret secret("one");
  EXPECT_EQ(secret.prove({"a", "b"}), Secret("one").prove({"a", "b"}));
  EXPECT_NE(secret.prove({"a", "b"}), Secret("two").prove({"a", "b"}));
  EXPECT_NE(secret.prove({"ab", "c"}), secret.prove({"a", "bc"}));
  EXPECT_NE(secret.prove({"ab"}), secret.prove({"ab", ""}));
  EXPECT_EQ(secret.prove({}).size(), 64U);
}

TEST(Secret, ProofsAreEqualOnlyByteForByte) {
  EXPECT_TRUE(equal_proofs("", ""));
  EXPECT_TRUE(equal_proofs("00ff", "00ff"));
  EXPECT_FALSE(equal_proofs("00ff", "00fe"));
  EXPECT_FALSE(equal_proofs("00ff", "00f"));
  EXPECT_FALSE(equal_proofs("", "0"));
}

}  // namespace
}  // namespace paceline
