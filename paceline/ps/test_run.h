// For tests: a run of a parameter server on a toy problem whose numbers are exact enough to be compared bit by bit.
//
// Gradients are multiples of 1/64 that depend on the parameters and on the samples, not on who computes them: the mean
// of two of them is exact, so the order in which they arrive cannot be seen in it.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "paceline/core/error.h"
#include "paceline/core/test_folder.h"
#include "paceline/ps/observer.h"
#include "paceline/ps/server.h"
#include "paceline/ps/test_server.h"
#include "paceline/ps/worker.h"

namespace paceline {

inline void expect_same_bits(const std::vector<float>& left, const std::vector<float>& right) {
  ASSERT_EQ(left.size(), right.size());
  EXPECT_EQ(std::memcmp(left.data(), right.data(), left.size() * sizeof(float)), 0);
}

struct ToyRun {
  std::string policy = "bsp";
  int shards = 1;
  int workers = 2;
  uint64_t elements = 40'000;
  uint64_t steps = 12;
  uint64_t share_samples = 4;
  std::string codec = "none";
  int64_t lease_ns = 10'000'000'000;
  std::filesystem::path folder;
  double rate = 0.05;
  ServerUpdate update;

  uint64_t single_tensors = 0;  // of one element each, beside two large ones

  ShardMap map() const {
    std::vector<NamedLength> tensors = {{"w", elements - 1000 - single_tensors, true}, {"b", 1000, false}};
    for (uint64_t i = 0; i < single_tensors; ++i) tensors.push_back({"s" + std::to_string(i), 1, true});
    return {tensors, shards};
  }
  uint64_t samples() const { return steps * share_samples * static_cast<uint64_t>(workers); }

  std::vector<float> initial() const {
    std::vector<float> values(elements);
    for (uint64_t i = 0; i < elements; ++i) values[i] = test_value(99, 0, i);
    return values;
  }

  ServerOptions server(int shard, const std::string& coordinator = "") const {
    ServerOptions options = {.shard = shard, .map = map(), .update = update, .coordinator_address = coordinator};
    options.coordinator.policy = policy;
    options.coordinator.sync.workers = workers;
    options.coordinator.plan = {.data_size = samples() / 2,
                                .total_samples = samples(),
                                .global_batch = share_samples * static_cast<uint64_t>(workers),
                                .workers = workers};
    options.coordinator.lease_ns = lease_ns;
    options.run = "toy";
    options.codec = codec;
    options.state_folder = folder / ("server-" + std::to_string(shard));
    options.segment_elements = 5'000;
    return options;
  }
  std::vector<float> initial(int shard) const {
    const std::vector<float> all = initial();
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(map().first(shard));
    return {first, first + static_cast<std::ptrdiff_t>(map().count(shard))};
  }
  WorkerOptions worker(int id, std::vector<std::string> servers) const {
    return {.servers = std::move(servers),
            .map = map(),
            .worker = id,
            .run = "toy",
            .codec = codec,
            .patience_ms = 20'000,
            .heartbeat_ms = 50,
            .segment_elements = 7'000};
  }

  void gradient(const SampleLease& lease, std::span<const float> parameters, std::span<float> into) const {
    const uint64_t number = lease.number * 7919;
    for (uint64_t i = 0; i < elements; ++i) {
      const auto chance = static_cast<float>((number + i * 31) % 17) - 8.0f;
      into[i] = (std::nearbyint(16 * std::clamp(parameters[i], -8.0f, 8.0f)) + chance) / 64;
    }
  }
};

// All servers of a run, each with a thread that waits for its end.
class ToyServers {
 public:
  explicit ToyServers(const ToyRun& run) {
    for (int shard = 0; shard < run.shards; ++shard) {
      servers_.push_back(
          std::make_unique<ParameterServer>(run.server(shard, shard == 0 ? "" : addresses_[0]), run.initial(shard)));
      addresses_.push_back(servers_.back()->address());
      threads_.emplace_back([this, server = servers_.back().get()](std::stop_token) {
        try {
          server->wait(stop_.get_token());
        } catch (const std::exception& failure) {
          ADD_FAILURE() << "a server failed: " << failure.what();
        }
      });
    }
  }
  ~ToyServers() {
    stop_.request_stop();
    threads_.clear();
  }
  void wait() { threads_.clear(); }  // until the run is over
  const std::vector<std::string>& addresses() const { return addresses_; }
  ParameterServer& server(int shard) { return *servers_[static_cast<size_t>(shard)]; }

 private:
  std::stop_source stop_;
  std::vector<std::string> addresses_;
  std::vector<std::unique_ptr<ParameterServer>> servers_;
  std::vector<std::jthread> threads_;
};

// How often each sample was used, by whoever says so.
class UsedSamples {
 public:
  void add(const BatchRange& range) {
    const std::lock_guard lock(mutex_);
    for (uint64_t at = range.begin; at < range.end; ++at) ++used_[{range.epoch, at}];
  }
  void expect_once(uint64_t samples) const {
    EXPECT_EQ(used_.size(), samples);
    for (const auto& [sample, times] : used_) EXPECT_EQ(times, 1) << sample.first << " " << sample.second;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<uint64_t, uint64_t>, int> used_;
};

using BeforePush =
    std::function<void(ServerWorker& worker, const Assignment& assignment, std::span<const float> gradient)>;

// Trains until the run is over, then leaves; the costs.
inline ServerWorker::Costs work(const ToyRun& run, const WorkerOptions& options, UsedSamples* used = nullptr,
                                const BeforePush& before = nullptr, const std::function<void()>& after = nullptr) {
  ServerWorker worker(options);
  std::vector<float> parameters(run.elements), gradient(run.elements);
  auto assignment = worker.join(parameters);
  while (assignment) {
    run.gradient(assignment->lease, parameters, gradient);
    if (before) before(worker, *assignment, gradient);
    const BatchRange range = assignment->lease.range;
    std::span<float> pushed = run.policy == "easgd" ? std::span<float>(parameters) : std::span<float>(gradient);
    if (run.policy == "easgd") {
      for (uint64_t i = 0; i < run.elements; ++i) parameters[i] -= 0.05f * gradient[i];
    }
    assignment = worker.push(pushed, range.size(), run.rate, parameters);
    if (used != nullptr) used->add(range);
  }
  if (after) after();
  worker.leave();
  return worker.costs();
}

// A whole run with all of its workers as threads; the weights at its end.
inline std::vector<float> train(const ToyRun& run, UsedSamples* used = nullptr, const BeforePush& before = nullptr) {
  ToyServers servers(run);
  ServerObserver observer(run.worker(0, servers.addresses()));
  observer.observe({.weights = true});
  std::vector<std::thread> workers;
  for (int id = 0; id < run.workers; ++id) {
    workers.emplace_back([&, id] {
      try {
        work(run, run.worker(id, servers.addresses()), used, before);
      } catch (const std::exception& failure) {
        ADD_FAILURE() << "worker " << id << " failed: " << failure.what();
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  const ServerSnapshot end = observer.observe({.weights = true});
  EXPECT_TRUE(end.over);
  EXPECT_EQ(end.used_samples, run.samples());
  return end.states.at("weights");
}

// The same steps without any server: the weights.
inline std::vector<float> train_plainly(const ToyRun& run) {
  std::vector<float> weights = run.initial(), momentum(run.elements), gradient(run.elements), mean(run.elements);
  for (uint64_t step = 0; step < run.steps; ++step) {
    std::ranges::fill(mean, 0.0f);
    for (int share = 0; share < run.workers; ++share) {
      run.gradient({.number = step * static_cast<uint64_t>(run.workers) + static_cast<uint64_t>(share)}, weights,
                   gradient);
      for (uint64_t i = 0; i < run.elements; ++i) mean[i] += gradient[i] / static_cast<float>(run.workers);
    }
    for (uint64_t i = 0; i < run.elements; ++i) {
      momentum[i] = static_cast<float>(run.update.momentum) * momentum[i] + mean[i];
      weights[i] -= static_cast<float>(run.rate) * momentum[i];
    }
  }
  return weights;
}

}  // namespace paceline
