#include "paceline/sync/policy.h"

#include <gmock/gmock.h>

#include <limits>

#include "paceline/sync/test_history.h"

namespace paceline {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using enum Decision::Kind;

TEST(Decision, IsToldInWords) {
  EXPECT_EQ(to_text(gradient(accumulate, 3, 12, 8)), "accumulate of worker 3's gradient of version 12, 8 samples");
  EXPECT_EQ(to_text(apply_of(3, 13, 8, 0.5)), "apply of worker 3's gradient, 8 samples, rate 0.5: version 13");
  EXPECT_EQ(to_text(gradient(merge, 3, 12, 8, 0.81)), "merge of worker 3's gradient of version 12, factor 0.81");
  EXPECT_EQ(to_text(gradient(merge_mean, 3, 12, 8, 0.9)),
            "merge_mean of worker 3's gradient of version 12, factor 0.9");
  EXPECT_EQ(to_text(gradient(drop, 3, 12, 8)), "drop of worker 3's gradient of version 12");
  EXPECT_EQ(to_text(gradient(exchange, 3, 0, 8, 0.25)), "exchange with worker 3, factor 0.25");
  EXPECT_EQ(to_text(step_to(13, 32, 0.5)), "step of 32 samples, rate 0.5: version 13");
  EXPECT_EQ(to_text(release_of(3, 13)), "release of worker 3 with version 13");
  EXPECT_EQ(name_of(merge_mean), "merge_mean");
}

TEST(BuiltinPolicies, AreKnownByTheirNames) {
  const auto policies = builtin_policies();
  EXPECT_THAT(policies.names(), ElementsAre("adaptive_k", "asp", "bsp", "drop_worker", "easgd", "k_sync", "ssp"));
  for (const std::string& name : policies.names()) EXPECT_EQ(policies.at(name)({})->name(), name);
}

TEST(CheckSettings, NamesWhatCannotBeMeant) {
  const auto told = [](const SyncSettings& settings) -> std::string {
    try {
      check_settings(settings);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(told({}), "");
  EXPECT_EQ(told({.workers = 0}), "the synchronisation's workers is 0: it must be at least 1");
  EXPECT_THAT(told({.momentum = 1}), HasSubstr("momentum is 1: it must be in [0, 1)"));
  EXPECT_THAT(told({.momentum = std::numeric_limits<double>::quiet_NaN()}), HasSubstr("momentum is nan"));
  EXPECT_THAT(told({.staleness = -1}), HasSubstr("staleness is -1"));
  EXPECT_THAT(told({.penalty = "square"}), HasSubstr("penalty is square: it must be none, linear or exponential"));
  EXPECT_THAT(told({.penalty_decay = -1}), HasSubstr("penalty_decay is -1"));
  EXPECT_THAT(told({.drop_share = 1}), HasSubstr("drop_share is 1"));
  EXPECT_THAT(told({.k = -1}), HasSubstr("k is -1"));
  EXPECT_THAT(told({.merge = "sum"}), HasSubstr("merge is sum: it must be additive, mean, drop or zhang"));
  EXPECT_THAT(told({.history = -1}), HasSubstr("history is -1"));
  EXPECT_THAT(told({.elasticity = 0}), HasSubstr("elasticity is 0"));
  EXPECT_THAT(told({.rule = "best"}), HasSubstr("rule is best: it must be time, variance or fixed"));
  EXPECT_THAT(told({.k_min = -1}), HasSubstr("k_min is -1"));
  EXPECT_THAT(told({.k_min = 4, .k_max = 3}), HasSubstr("k_max is 3: it must be k_min or more"));
  EXPECT_THAT(told({.theta2 = 0}), HasSubstr("theta2 is 0"));
}

class EveryPolicy : public testing::TestWithParam<std::string> {
 protected:
  // Of events that cannot be. The policy is as before, and goes on.
  void refuses(const SyncEvent& event, const std::string& because) {
    const std::string before = policy_->save();
    try {
      policy_->on(event);
      ADD_FAILURE() << "taken, though " << because;
    } catch (const PeerError& error) {
      EXPECT_THAT(error.what(), HasSubstr(because));
    }
    EXPECT_EQ(policy_->save(), before);
  }

  std::unique_ptr<Policy> policy_ = builtin_policies().at(GetParam())({.workers = 1});
};

TEST_P(EveryPolicy, RefusesWhatCannotBe) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  refuses(push(0, 0), "worker 0 pushed a gradient, but is not there: it has to join first");
  refuses(leave(0), "worker 0 leaves, but is not there");
  refuses(join(-1), "worker -1 wants to join: workers are numbered from 0");
  policy_->on(join(0));
  refuses(join(0), "worker 0 joins, but a worker of that number is there already");
  refuses(push(0, 1), "worker 0 pushed a gradient of version 1, but was given version 0");
  refuses(push(0, 0, 0), "worker 0 pushed a gradient of no samples");
  refuses(push(0, 0, std::numeric_limits<uint64_t>::max()), "samples, which cannot be");
  refuses(push(0, 0, 8, nan), "worker 0 wants a learning rate of nan");
  refuses(noise(1, {.samples = 8, .samples_squared = 64}), "noise of version 1's gradients");
  refuses(noise(0, {}), "of no samples");
  const std::vector<Decision> answer = policy_->on(push(0, 0));
  EXPECT_THAT(answer, testing::Contains(release_of(0, policy_->version())));
}

TEST_P(EveryPolicy, RefusesAStateThatIsNotItsOwn) {
  EXPECT_THROW(policy_->load("{"), DataError);
  EXPECT_THROW(policy_->load("{}"), DataError);
  const std::string other = GetParam() == "bsp" ? "ssp" : "bsp";
  try {
    policy_->load(builtin_policies().at(other)({})->save());
    ADD_FAILURE() << "taken";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("is of synchronisation '" + other + "', this is '" + GetParam() + "'"));
  }
}

TEST_P(EveryPolicy, RefusesSettingsThatCannotBe) {
  EXPECT_THROW(builtin_policies().at(GetParam())({.workers = 0}), UsageError);
}

class WaitingPolicy : public EveryPolicy {};

TEST_P(WaitingPolicy, RefusesASecondPushOfAWaitingWorker) {
  policy_ = builtin_policies().at(GetParam())({.workers = 4, .staleness = 0, .drop_share = 0, .k_min = 2});
  policy_->on(join(0));
  policy_->on(join(1));
  policy_->on(push(0, 0));
  EXPECT_THAT(policy_->waiting(), ElementsAre(0));
  refuses(push(0, 0), "its last push has not been answered");
}

INSTANTIATE_TEST_SUITE_P(AllWhereWorkersWait, WaitingPolicy,
                         testing::Values("bsp", "ssp", "drop_worker", "k_sync", "adaptive_k"),
                         [](const auto& named) { return named.param; });
INSTANTIATE_TEST_SUITE_P(All, EveryPolicy, testing::ValuesIn(builtin_policies().names()),
                         [](const auto& named) { return named.param; });

}  // namespace
}  // namespace paceline
