#include "paceline/serving/server_plan.h"

#include <gmock/gmock.h>

#include "paceline/models/model.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<Model> small_model() {
  return make_model(builtin_models(), "small_cnn", {.classes = 10, .channels = 1, .image_size = 28});
}

ServerPlan plan_of(const std::vector<std::string>& keys, int workers = 4, uint64_t data_size = 1000) {
  return server_plan(parse_recipe("", "r.toml", keys), *small_model(), data_size, workers);
}

std::string refusal(const std::vector<std::string>& keys) {
  try {
    plan_of(keys);
  } catch (const RecipeError& error) {
    return error.what();
  }
  return "";
}

TEST(ServerPlan, HasEveryParameterInItsOrder) {
  const ServerPlan plan = plan_of({"sync.policy=bsp", "sync.servers=3"});
  EXPECT_EQ(plan.map.shards(), 3);
  EXPECT_EQ(plan.map.total(), static_cast<uint64_t>(parameter_count(*small_model())));
  const auto named = small_model()->named_parameters();
  ASSERT_EQ(plan.map.tensors().size(), named.size());
  for (size_t i = 0; i < named.size(); ++i) {
    EXPECT_EQ(plan.map.tensors()[i].name, named[i].key());
    EXPECT_EQ(plan.map.tensors()[i].decayed, named[i].value().dim() > 1);
  }
}

TEST(ServerPlan, ThreePoliciesNeedNoServer) {
  for (const std::string policy : {"allreduce", "local_sgd", "stale_allreduce"})
    EXPECT_FALSE(needs_server(parse_recipe("", "r", {"sync.policy=" + policy}))) << policy;
  EXPECT_TRUE(needs_server(parse_recipe("", "r", {"sync.policy=bsp"})));
}

TEST(ServerPlan, ReadsAsManySamplesAsTrainingOverRanksWould) {
  const ServerPlan plan = plan_of({"sync.policy=bsp", "batch.global=128", "train.epochs=2"});
  EXPECT_EQ(plan.coordinator.plan.total_samples, 2000u);
  EXPECT_EQ(plan.coordinator.plan.global_batch.at(0), 128u);
  EXPECT_EQ(plan.coordinator.plan.workers, 4);
  EXPECT_EQ(plan_of({"sync.policy=bsp", "batch.global=128", "train.max_steps=3"}).coordinator.plan.total_samples, 384u);
  EXPECT_EQ(plan_of({"sync.policy=asp", "batch.local=16"}).coordinator.plan.global_batch.at(0), 64u);
}

TEST(ServerPlan, AsynchronousPoliciesHaveNoMomentum) {
  EXPECT_EQ(plan_of({"sync.policy=bsp"}).update.momentum, 0.9);
  EXPECT_EQ(plan_of({"sync.policy=asp"}).update.momentum, 0);
  EXPECT_EQ(plan_of({"sync.policy=ssp"}).update.momentum, 0);
  EXPECT_THAT(plan_remark(parse_recipe("", "r", {"sync.policy=asp"})), HasSubstr("momentum is 0"));
  EXPECT_EQ(plan_remark(parse_recipe("", "r", {"sync.policy=bsp"})), "");
}

TEST(ServerPlan, AdaptiveKHasProgressiveMomentum) {
  const ServerPlan ahead = plan_of({"sync.policy=adaptive_k"});
  EXPECT_EQ(ahead.update.optimizer, "progressive");
  EXPECT_TRUE(ahead.update.look_ahead);
  EXPECT_TRUE(ahead.update.noise);
  EXPECT_EQ(ahead.update.history, 0);
  EXPECT_EQ(ahead.coordinator.sync.merge, "additive");
  const ServerPlan behind = plan_of({"sync.policy=adaptive_k", "sync.look_ahead=false", "sync.rule=fixed"});
  EXPECT_FALSE(behind.update.look_ahead);
  EXPECT_FALSE(behind.update.noise);
  EXPECT_EQ(behind.update.history, 4);
  EXPECT_EQ(behind.coordinator.sync.merge, "mean");
}

TEST(ServerPlan, ElasticAveragingLeasesTheBatchesOfAnInterval) {
  const std::vector<std::string> keys = {"sync.policy=easgd", "batch.global=40", "sync.interval=5"};
  const ServerPlan plan = plan_of(keys);
  EXPECT_EQ(plan.coordinator.plan.global_batch.at(0), 200u);
  const std::vector<BatchRange> batches =
      local_batches(parse_recipe("", "r", keys), {.range = {.epoch = 3, .begin = 100, .end = 125}}, 4);
  EXPECT_EQ(batches, (std::vector<BatchRange>{{3, 100, 110}, {3, 110, 120}, {3, 120, 125}}));
}

TEST(ServerPlan, StepsTakeABatchAShareOrWhatComes) {
  const auto takes = [](const std::string& policy) {
    return step_takes(parse_recipe("", "r", {"sync.policy=" + policy}));
  };
  EXPECT_EQ(takes("bsp"), StepTakes::batch);
  for (const char* policy : {"asp", "ssp", "easgd"}) EXPECT_EQ(takes(policy), StepTakes::share) << policy;
  for (const char* policy : {"drop_worker", "k_sync", "adaptive_k"})
    EXPECT_EQ(takes(policy), StepTakes::varies) << policy;
  EXPECT_EQ(own_batch(parse_recipe("", "r", {"sync.policy=easgd", "batch.global=40"}), 4), 10u);
}

TEST(ServerPlan, RefusesWhatServersCannot) {
  EXPECT_EQ(refusal({"sync.policy=asp", "optimizer.name=adabound"}),
            "--set optimizer.name=adabound: optimizer.name: 'adabound' does not go (a server has sgd, adam, adamw, "
            "rmsprop, lars) with sync.policy = \"asp\"");
  EXPECT_THAT(refusal({"sync.policy=bsp", "comm.codec=topk"}), HasSubstr("use none, fp16, bf16 or int8"));
  EXPECT_THAT(refusal({"sync.policy=bsp", "optimizer.clip_norm=1"}), HasSubstr("optimizer.clip_norm: "));
  EXPECT_THAT(refusal({"sync.policy=bsp", "batch_norm.sync=true"}), HasSubstr("batch_norm.sync: "));
  EXPECT_THAT(refusal({"sync.policy=k_sync", "optimizer.name=adam"}), HasSubstr("sync.merge = \"drop\""));
  EXPECT_EQ(refusal({"sync.policy=k_sync", "optimizer.name=adam", "sync.merge=drop"}), "");
}

}  // namespace
}  // namespace paceline
