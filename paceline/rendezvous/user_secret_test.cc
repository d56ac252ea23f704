#include "paceline/rendezvous/user_secret.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>

#include "paceline/core/error.h"
#include "paceline/core/test_folder.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

class UserSecretTest : public ::testing::Test {
 protected:
  std::filesystem::path file() const { return home_.path() / ".config" / "paceline" / "secret"; }
  Secret secret() const {
    return user_secret([this](const std::string& name) {
      return name == "HOME" ? std::optional(home_.path().string()) : std::nullopt;
    });
  }
  void write(const std::string& text, unsigned mode) const {
    std::filesystem::create_directories(file().parent_path());
    std::ofstream(file()) << text;
    std::filesystem::permissions(file(), static_cast<std::filesystem::perms>(mode));
  }
  std::string refusal() const {
    try {
      secret();
    } catch (const UsageError& error) {
      return error.what();
    }
    return "no error";
  }

 private:
  TestFolder home_;
};

TEST_F(UserSecretTest, IsDrawnOnceAndForItsUserAlone) {
  const std::string first = secret().reveal();
  EXPECT_EQ(first.size(), 64U);
  EXPECT_EQ(secret().reveal(), first);
  EXPECT_EQ(std::filesystem::status(file()).permissions(), static_cast<std::filesystem::perms>(0600));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(file().parent_path()), {}), 1) << "nothing else is left";
}

TEST_F(UserSecretTest, AnEmptyOneIsRefused) {
  for (const char* const text : {"", "\n", "\r\n"}) {
    write(text, 0600);
    EXPECT_THAT(refusal(), HasSubstr("secret is empty: anybody could guess it"));
  }
}

TEST_F(UserSecretTest, OneThatOthersMayReadOrWriteIsRefused) {
  for (const unsigned mode : {0644U, 0620U, 0602U, 0640U}) {
    write("known to many\n", mode);
    EXPECT_THAT(refusal(), HasSubstr(fmt::format("(mode {:o}): chmod 600", mode)));
  }
  write("known to one\n", 0400);
  EXPECT_EQ(secret().reveal(), "known to one");
}

TEST_F(UserSecretTest, NeedsAHome) {
  EXPECT_THROW(user_secret([](const std::string&) { return std::optional<std::string>(); }), UsageError);
}

}  // namespace
}  // namespace paceline
