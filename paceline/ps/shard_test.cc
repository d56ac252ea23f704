#include "paceline/ps/shard.h"

#include <gmock/gmock.h>

#include <memory>
#include <thread>

#include "paceline/core/error.h"
#include "paceline/core/test_folder.h"
#include "paceline/ps/test_server.h"

namespace paceline {
namespace {

using Kind = Decision::Kind;
using testing::HasSubstr;
using testing::ThrowsMessage;

const std::vector<NamedLength> kTensors = {
    {"conv", 50'000, true}, {"bias", 33, false}, {"empty", 0, true}, {"linear", 21'000, true}, {"gamma", 5, false}};

std::vector<float> first_weights(uint64_t begin, uint64_t count) { return test_push(99, 1, begin, count); }

// A model on several shards, each a file.
class Cluster {
 public:
  Cluster(const std::vector<NamedLength>& tensors, int shards, ServerUpdate update)
      : map_(tensors, shards), update_(std::move(update)) {
    for (int shard = 0; shard < shards; ++shard) shards_.push_back(open(shard));
  }

  std::unique_ptr<Shard> open(int shard) {
    return std::make_unique<Shard>(folder_.path() / std::to_string(shard), map_, shard, update_,
                                   first_weights(map_.first(shard), map_.count(shard)));
  }
  void reopen() {
    for (size_t i = 0; i < shards_.size(); ++i) {
      shards_[i].reset();
      shards_[i] = open(static_cast<int>(i));
    }
  }

  GradientNoise execute(const Command& command) {
    std::vector<SquaredNorms> whole;
    for (size_t i = 0; i < shards_.size() && has_push(command); ++i) {
      const std::vector<float> push =
          test_push(command.decision.worker, command.sequence, map_.first(static_cast<int>(i)), shards_[i]->count());
      std::ranges::copy(push, shards_[i]->stage(command.decision.worker, command.sequence).begin());
      shards_[i]->staged(command.decision.worker, command.sequence);
    }
    const bool steps = command.decision.kind == Kind::step || command.decision.kind == Kind::apply;
    if (update_.optimizer == "lars" && steps && shards_.size() > 1) {
      whole.resize(map_.tensors().size());
      for (const auto& shard : shards_) {
        const std::vector<SquaredNorms> part = shard->norms(command);
        for (size_t i = 0; i < whole.size(); ++i) {
          whole[i].weights += part[i].weights;
          whole[i].gradient += part[i].gradient;
        }
      }
    }
    GradientNoise noise;
    for (const auto& shard : shards_) {
      const ShardReport report = shard->execute(command, whole);
      EXPECT_EQ(report.index, command.index);
      noise = {report.noise.samples, report.noise.samples_squared, noise.mean_norm2 + report.noise.mean_norm2,
               noise.spread + report.noise.spread};
    }
    return noise;
  }

  std::vector<float> all(size_t state) {
    std::vector<float> values;
    for (const auto& shard : shards_) {
      const std::span<float> part = shard->states()[state].values;
      values.insert(values.end(), part.begin(), part.end());
    }
    return values;
  }
  template <class Read>
  std::vector<float> read(const Read& read) {
    std::vector<float> values;
    for (const auto& shard : shards_) {
      std::vector<float> part(shard->count());
      read(*shard, std::span(part));
      values.insert(values.end(), part.begin(), part.end());
    }
    return values;
  }
  Shard& operator[](size_t shard) { return *shards_[shard]; }
  const ShardMap& map() const { return map_; }

 private:
  TestFolder folder_;
  ShardMap map_;
  ServerUpdate update_;
  std::vector<std::unique_ptr<Shard>> shards_;
};

ServerUpdate update_of(const std::string& name) {
  ServerUpdate update = {.optimizer = name, .weight_decay = 5e-3, .noise = true, .history = 3, .most_workers = 3};
  if (name == "plain sgd") update.optimizer = "sgd", update.momentum = 0;
  if (name == "nesterov") update.optimizer = "sgd", update.nesterov = true;
  if (name == "plain rmsprop") update.optimizer = "rmsprop", update.momentum = 0;
  if (name == "progressive") update.look_ahead = true;
  return update;
}

class ShardTest : public testing::TestWithParam<std::string> {};

TEST_P(ShardTest, DoesWhatPlainLoopsDo) {
  const ServerUpdate update = update_of(GetParam());
  Cluster cluster(kTensors, 1, update);
  PlainServer plain(kTensors, update, first_weights(0, cluster.map().total()));
  for (const Command& command : random_commands(7, 40, update)) {
    const GradientNoise noise = cluster.execute(command);
    plain.execute(command);
    if (command.decision.kind == Kind::accumulate) {
      EXPECT_EQ(noise.samples, plain.samples);
      EXPECT_EQ(noise.samples_squared, plain.samples_squared);
      EXPECT_NEAR(noise.mean_norm2, plain.mean_norm2, 1e-10 * plain.mean_norm2);
      EXPECT_NEAR(noise.spread, plain.spread, 1e-10 * plain.spread);
    } else {
      EXPECT_EQ(noise.mean_norm2, 0);
    }
    ASSERT_EQ(cluster.all(0), plain.weights) << "command " << command.index;
    for (size_t i = 0; i < plain.states.size(); ++i) {
      ASSERT_EQ(cluster.all(1 + i), plain.states[i]) << "command " << command.index;
    }
    const auto given = cluster.read([](const Shard& shard, std::span<float> into) { shard.read(0, into); });
    EXPECT_EQ(given, update.look_ahead ? plain.ahead() : plain.weights);
    if (command.decision.kind == Kind::exchange) {
      const int worker = command.decision.worker;
      EXPECT_EQ(cluster.read([&](const Shard& shard, std::span<float> into) { shard.read_exchanged(worker, 0, into); }),
                plain.exchanged.at(worker));
    }
  }
}

TEST_P(ShardTest, SeveralShardsAndThreadsAndRestartsGiveTheSameBits) {
  const ServerUpdate update = update_of(GetParam());
  ServerUpdate threaded = update;
  threaded.threads = 3;
  Cluster one(kTensors, 1, update), three(kTensors, 3, update), threads(kTensors, 1, threaded);
  const bool same_bits = update.optimizer != "lars";  // whose norms are summed in another order
  for (const Command& command : random_commands(8, 30, update)) {
    if (command.index % 7 == 0) three.reopen();
    const GradientNoise noise = one.execute(command), shared = three.execute(command);
    EXPECT_EQ(threads.execute(command).spread, noise.spread);
    EXPECT_NEAR(shared.mean_norm2, noise.mean_norm2, 1e-12 * noise.mean_norm2);
    EXPECT_NEAR(shared.spread, noise.spread, 1e-12 * noise.spread);
  }
  for (size_t state = 0; state < 1 + state_names(update).size(); ++state) {
    const std::vector<float> expected = one.all(state), shared = three.all(state);
    EXPECT_EQ(threads.all(state), expected);
    if (same_bits) {
      EXPECT_EQ(shared, expected);
    } else {
      for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(shared[i], expected[i], 1e-6);
    }
  }
  EXPECT_EQ(three[1].version(), one[0].version());
  EXPECT_EQ(three[2].executed(), 30u);
}

INSTANTIATE_TEST_SUITE_P(Updates, ShardTest,
                         testing::Values("sgd", "plain sgd", "nesterov", "progressive", "adam", "adamw", "rmsprop",
                                         "plain rmsprop", "lars"),
                         [](const auto& name) {
                           std::string text = name.param;
                           std::ranges::replace(text, ' ', '_');
                           return text;
                         });

TEST(Shard, AnEmptyShardCountsCommandsToo) {
  Cluster cluster({{"w", 10, true}}, 2, {.noise = true});
  EXPECT_EQ(cluster[1].count(), 0u);
  cluster.execute({1, 1, {.kind = Kind::accumulate, .worker = 0, .samples = 4}});
  EXPECT_EQ(cluster[1].last_report().noise.samples, 4);
  cluster.execute({2, 0, {.kind = Kind::step, .version = 1, .rate = 0.1}});
  cluster.reopen();
  EXPECT_EQ(cluster[1].version(), 1u);
}

TEST(Shard, ThreadsOfALargeShardGiveTheSameBits) {
  const std::vector<NamedLength> tensors = {{"w", 300'001, true}};
  Cluster one(tensors, 1, {.noise = true}), four(tensors, 1, {.noise = true, .threads = 4});
  for (const Command& command : random_commands(9, 12, {.history = 0})) {
    const GradientNoise noise = one.execute(command), same = four.execute(command);
    EXPECT_EQ(noise.mean_norm2, same.mean_norm2);
    EXPECT_EQ(noise.spread, same.spread);
  }
  EXPECT_EQ(one.all(0), four.all(0));
  EXPECT_EQ(one.all(1), four.all(1));
}

TEST(Shard, WhatCannotBeCarriedOutChangesNothing) {
  Cluster cluster(kTensors, 1, {.momentum = 0, .history = 1});
  Shard& shard = cluster[0];
  std::ranges::fill(shard.stage(0, 1), 1.0f);
  const auto refused = [&](const Command& command) { EXPECT_THROW(shard.execute(command), InternalError); };
  refused({1, 1, {.kind = Kind::accumulate, .worker = 0, .samples = 4}});  // not all of it is there
  shard.staged(0, 1);
  refused({2, 1, {.kind = Kind::accumulate, .worker = 0, .samples = 4}});
  refused({1, 2, {.kind = Kind::accumulate, .worker = 0, .samples = 4}});
  refused({1, 1, {.kind = Kind::accumulate, .worker = 1, .samples = 4}});
  refused({1, 1, {.kind = Kind::accumulate, .worker = 0}});
  refused({1, 1, {.kind = Kind::apply, .worker = 0, .version = 2, .rate = 0.1}});
  refused({1, 1, {.kind = Kind::merge, .worker = 0, .factor = 0.1}});  // no momentum
  refused({1, 0, {.kind = Kind::step, .version = 1, .rate = 0.1}});    // of nothing
  EXPECT_EQ(shard.executed(), 0u);
  EXPECT_EQ(cluster.all(0), first_weights(0, shard.count()));
  EXPECT_NO_THROW(shard.execute({1, 1, {.kind = Kind::accumulate, .worker = 0, .samples = 4}}));

  Cluster other(kTensors, 1, {.history = 1});
  std::ranges::fill(other[0].stage(0, 1), 1.0f);
  other[0].staged(0, 1);
  EXPECT_THROW(other[0].execute({1, 1, {.kind = Kind::merge_mean, .worker = 0, .version = 5, .samples = 1}}),
               InternalError);  // a version that is not kept
}

TEST(Shard, CommandsWithoutTheirGradientsChangeNoParameters) {
  for (const char* optimizer : {"sgd", "lars", "adam"}) {
    Cluster cluster(kTensors, 1, {.optimizer = optimizer, .history = 1});
    Shard& shard = cluster[0];
    std::ranges::fill(shard.stage(0, 1), 1.0f);  // not all of it came
    uint64_t index = 0;
    const auto left_out = [&](uint64_t sequence, const Decision& decision) {
      const Command command = {++index, sequence, decision};
      ASSERT_FALSE(shard.has_gradients(command)) << optimizer << index;
      EXPECT_EQ(shard.leave_out(command).index, index);
    };
    left_out(1, {.kind = Kind::accumulate, .worker = 0, .samples = 4});
    left_out(1, {.kind = Kind::exchange, .worker = 7, .factor = 0.5});
    left_out(1, {.kind = Kind::merge, .worker = 0, .factor = 0.5});
    left_out(0, {.kind = Kind::step, .version = 1, .rate = 0.1});
    left_out(2, {.kind = Kind::apply, .worker = 0, .version = 2, .rate = 0.1});
    cluster.reopen();
    EXPECT_EQ(cluster[0].executed(), 5u);
    EXPECT_EQ(cluster[0].version(), 2u);
    EXPECT_EQ(cluster.all(0), first_weights(0, cluster[0].count()));
    EXPECT_THROW(cluster[0].stage(0, 1), PeerError);  // it is done with, and cannot come late
    Cluster other(kTensors, 1, {.optimizer = optimizer, .history = 1});
    for (Cluster* each : {&cluster, &other}) {
      const bool late = each == &cluster;
      each->execute({late ? 6u : 1u, 9, {.kind = Kind::accumulate, .worker = 0, .samples = 4}});
      each->execute({late ? 7u : 2u, 0, {.kind = Kind::step, .version = late ? 3u : 1u, .rate = 0.1}});
    }
    EXPECT_EQ(cluster.all(0), other.all(0)) << optimizer;  // what comes next is as if nothing had been left out
  }
}

TEST(Shard, LarsOfACutTensorWantsTheWholeNorms) {
  Cluster cluster(kTensors, 2, {.optimizer = "lars"});
  cluster.execute({1, 1, {.kind = Kind::accumulate, .worker = 0, .samples = 4}});
  EXPECT_THROW(cluster[0].execute({2, 0, {.kind = Kind::step, .version = 1, .rate = 0.1}}), InternalError);
}

TEST(Shard, RestoresWhatACheckpointHas) {
  const ServerUpdate update = update_of("adam");
  Cluster cluster(kTensors, 1, update), restored(kTensors, 1, update);
  const std::vector<Command> commands = random_commands(11, 20, update);
  for (const Command& command : commands) cluster.execute(command);
  restored.execute({1, 1, {.kind = Kind::apply, .worker = 2, .version = 1, .rate = 0.5}});
  for (size_t state = 0; state < 3; ++state) {
    std::ranges::copy(cluster.all(state), restored[0].states()[state].values.begin());
  }
  restored[0].restore(cluster[0].counters());
  EXPECT_EQ(restored[0].counters(), cluster[0].counters());
  const uint64_t version = cluster[0].version();
  for (Cluster* each : {&cluster, &restored}) {
    each->execute({21, 1000, {.kind = Kind::apply, .worker = 0, .version = version + 1, .rate = 0.01}});
    each->reopen();
  }
  for (size_t state = 0; state < 3; ++state) EXPECT_EQ(restored.all(state), cluster.all(state));
}

TEST(ServerUpdate, WhatCannotBeIsRefused) {
  EXPECT_THAT([] { check_update({.optimizer = "sdg"}); }, ThrowsMessage<RecipeError>(HasSubstr("did you mean 'sgd'")));
  EXPECT_THROW(check_update({.momentum = 1}), RecipeError);
  EXPECT_THROW(check_update({.momentum = std::nan("")}), RecipeError);
  EXPECT_THROW(check_update({.look_ahead = true}), RecipeError);
  EXPECT_THROW(check_update({.history = kMostHistory + 1}), RecipeError);
  EXPECT_THROW(check_update({.most_workers = 0}), RecipeError);
  EXPECT_NO_THROW(check_update({.optimizer = "progressive", .look_ahead = true, .history = kMostHistory}));
}

}  // namespace
}  // namespace paceline
