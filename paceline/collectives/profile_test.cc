#include "paceline/collectives/profile.h"

#include <gmock/gmock.h>

#include "paceline/collectives/profile_table.h"
#include "paceline/core/error.h"
#include "paceline/core/file.h"
#include "paceline/core/test_folder.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

Profile example() {
  return {{"0.1.0", "shm", 4, "4x1", "2x2", {"node1, AMD EPYC, 2 cores"}},
          {{"ring", DType::f32, 1 << 10, 2e-6},
           {"ring", DType::f32, 1 << 14, 8e-6},
           {"direct", DType::f32, 1 << 10, 1e-6},
           {"ring", DType::f16, 1 << 12, 3e-6}}};
}

double as_bytes(double bytes) { return bytes; }  // a model: time grows as the bytes do

std::optional<double> seconds(const std::string& algorithm, DType dtype, uint64_t bytes) {
  return measured_seconds(example(), algorithm, dtype, bytes, as_bytes);
}

TEST(Profile, BetweenMeasuredSizesItInterpolatesInTheLogarithms) {
  EXPECT_EQ(seconds("ring", DType::f32, 1 << 10), 2e-6);
  EXPECT_EQ(seconds("ring", DType::f32, 1 << 14), 8e-6);
  EXPECT_NEAR(*seconds("ring", DType::f32, 1 << 12), 4e-6, 1e-18);  // half way: the geometric mean
  EXPECT_NEAR(*seconds("ring", DType::f32, 1 << 11), 2e-6 * std::sqrt(2), 1e-18);
}

TEST(Profile, BeyondThemItScalesAsTheModelDoes) {
  EXPECT_NEAR(*seconds("ring", DType::f32, 1 << 9), 1e-6, 1e-18);
  EXPECT_NEAR(*seconds("ring", DType::f32, 1 << 20), 8e-6 * 64, 1e-15);
  EXPECT_TRUE(within_measured_sizes(example(), DType::f32, 1 << 14));
  EXPECT_FALSE(within_measured_sizes(example(), DType::f32, (1 << 14) + 1));
  EXPECT_FALSE(within_measured_sizes(example(), DType::f32, (1 << 10) - 1));
  EXPECT_FALSE(within_measured_sizes({}, DType::f32, 1 << 10));
}

TEST(Profile, WhereOthersWereMeasuredAndAnAlgorithmWasNotItSaysNothing) {
  EXPECT_EQ(seconds("direct", DType::f32, 1 << 10), 1e-6);
  EXPECT_EQ(seconds("direct", DType::f32, 1 << 12), std::nullopt);
  EXPECT_EQ(seconds("direct", DType::f32, 1 << 20), std::nullopt);
  EXPECT_EQ(seconds("torus2d", DType::f32, 1 << 10), std::nullopt);
  EXPECT_EQ(measured_seconds({}, "ring", DType::f32, 1 << 10, as_bytes), std::nullopt);
}

TEST(Profile, ATypeThatWasNotMeasuredHasTheTimesOfF32) {
  EXPECT_EQ(seconds("ring", DType::f16, 1 << 12), 3e-6);
  EXPECT_EQ(seconds("ring", DType::i64, 1 << 14), 8e-6);
}

TEST(Profile, FitsOnlyTheSameVersionEngineRanksLayoutGridAndHosts) {
  const Fingerprint same = example().fingerprint;
  EXPECT_EQ(same, example().fingerprint);
  const auto with = [&](const auto& change) {
    Fingerprint other = same;
    change(other);
    return other;
  };
  EXPECT_NE(same, with([](Fingerprint& other) { other.version = "0.1.1"; }));
  EXPECT_NE(same, with([](Fingerprint& other) { other.engine = "gloo"; }));
  EXPECT_NE(same, with([](Fingerprint& other) { other.ranks = 2; }));
  EXPECT_NE(same, with([](Fingerprint& other) { other.layout = "2x2"; }));
  EXPECT_NE(same, with([](Fingerprint& other) { other.grid = "4x1"; }));
  EXPECT_NE(same, with([](Fingerprint& other) { other.hosts = {"node2, AMD EPYC, 2 cores"}; }));
}

TEST(Profile, ComesBackFromItsTextAsItWas) { EXPECT_EQ(parse_profile(print_profile(example())), example()); }

TEST(Profile, KeepsWhetherTheMachineWasBusy) {
  Profile noisy = example();
  EXPECT_FALSE(noisy.noisy());
  noisy.disagreement = 2.5;
  EXPECT_TRUE(parse_profile(print_profile(noisy)).noisy());
  EXPECT_EQ(parse_profile(print_profile(noisy)), noisy);
  EXPECT_THAT(noise_text(noisy), HasSubstr("differ 2.5 times in the median"));
  EXPECT_EQ(noise_text(example()), "");
}

TEST(Profile, ADamagedTextIsADataError) {
  const std::string whole = print_profile(example());
  const auto damaged = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    return text.replace(text.find(from), from.size(), to);
  };
  EXPECT_THROW(parse_profile(""), DataError);
  EXPECT_THROW(parse_profile(whole.substr(0, whole.size() / 2)), DataError);
  EXPECT_THROW(parse_profile("[]"), DataError);
  EXPECT_THROW(parse_profile(damaged("paceline profile", "another file")), DataError);
  EXPECT_THROW(parse_profile(damaged("\"engine\"", "\"motor\"")), DataError);
  EXPECT_THROW(parse_profile(damaged("2e-06", "-1")), DataError);
  EXPECT_THROW(parse_profile(damaged("2e-06", "\"soon\"")), DataError);
  EXPECT_THROW(parse_profile(damaged("1024", "0")), DataError);
  EXPECT_THROW(parse_profile(damaged("f32", "f33")), DataError);
}

class ProfileFileTest : public ::testing::Test {
 protected:
  std::optional<Profile> load(bool fits = true) {
    return load_profile(
        file_, [fits](const Fingerprint&) { return fits; }, [this](const std::string& text) { warnings_ += text; });
  }
  TestFolder folder_;
  std::filesystem::path file_ = folder_.path() / "cache" / profile_name("shm", "4x1");
  std::string warnings_;
};

TEST_F(ProfileFileTest, IsFoundWhereItWasStoredIfItFits) {
  EXPECT_EQ(file_.filename(), "profile-shm-4x1.json");
  EXPECT_EQ(load(), std::nullopt);
  store_profile(file_, example());
  EXPECT_EQ(load(), example());
  EXPECT_EQ(load(false), std::nullopt);
  EXPECT_EQ(warnings_, "");
}

TEST_F(ProfileFileTest, ADamagedOneIsIgnoredWithAWarningThatNamesIt) {
  store_profile(file_, example());
  replace_file(file_, "{\"format\":");
  EXPECT_EQ(load(), std::nullopt);
  EXPECT_THAT(warnings_, HasSubstr(file_.string()));
  EXPECT_THAT(warnings_, HasSubstr("paceline profile --force"));
}

TEST(ProfileFolder, IsTheOneThatWasSetElseInTheCacheOfTheUser) {
  const auto folder = [](std::map<std::string, std::string> variables) {
    return profile_folder([variables](const std::string& name) -> std::optional<std::string> {
      const auto found = variables.find(name);
      return found == variables.end() ? std::nullopt : std::optional(found->second);
    });
  };
  EXPECT_EQ(folder({{"PACELINE_PROFILE_DIR", "/p"}, {"HOME", "/home/u"}}), "/p");
  EXPECT_EQ(folder({{"PACELINE_PROFILE_DIR", ""}, {"HOME", "/home/u"}}), "/home/u/.cache/paceline");
  EXPECT_EQ(folder({}), std::nullopt);
}

TEST(Layout, IsRanksTimesHostsWhereHostsAreAlikeAndInOrder) {
  EXPECT_EQ(layout_text(Topology::one_host(4)), "4x1");
  EXPECT_EQ(layout_text(Topology({"a", "a", "b", "b"})), "2x2");
  const std::string turns = layout_text(Topology({"a", "b", "a", "b"}));
  const std::string lopsided = layout_text(Topology({"a", "a", "a", "b"}));
  EXPECT_THAT(turns, ::testing::StartsWith("4on2-"));
  EXPECT_THAT(lopsided, ::testing::StartsWith("4on2-"));
  EXPECT_NE(turns, lopsided);
  EXPECT_EQ(turns, layout_text(Topology({"c", "d", "c", "d"})));
}

}  // namespace
}  // namespace paceline
