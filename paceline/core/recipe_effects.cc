#include "paceline/core/recipe_effects.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace paceline {
namespace {

using Refused = KeyWithoutEffect::Refused;

bool is_one_of(const std::string& word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}
bool policy(const Recipe& recipe, std::initializer_list<std::string_view> policies) {
  return is_one_of(recipe.sync.policy, policies);
}

bool served(const Recipe& r) { return !policy(r, {"allreduce", "local_sgd", "stale_allreduce"}); }
bool in_step_on_a_server(const Recipe& r) { return served(r) && !policy(r, {"easgd"}); }
bool elastic(const Recipe& r) { return policy(r, {"easgd"}); }
bool local_sgd(const Recipe& r) { return policy(r, {"local_sgd"}); }
bool stale(const Recipe& r) { return policy(r, {"stale_allreduce"}); }
bool asynchronous(const Recipe& r) { return policy(r, {"asp", "ssp"}); }
bool rounds(const Recipe& r) { return policy(r, {"k_sync", "adaptive_k"}); }
bool rounds_without_progressive_momentum(const Recipe& r) { return rounds(r) && r.optimizer.name != "sgd"; }
bool rule_chooses_k(const Recipe& r) { return policy(r, {"adaptive_k"}) && r.sync.rule != "fixed"; }
bool k_is_fixed(const Recipe& r) { return policy(r, {"adaptive_k"}) && r.sync.rule == "fixed"; }
bool merges_no_means(const Recipe& r) {
  const bool means = r.sync.merge == "mean" || (r.sync.merge == "auto" && !r.sync.look_ahead);
  return rounds(r) && !means;
}
bool packs_for_a_server(const Recipe& r) { return served(r) && r.comm.codec != "none"; }

// Models of this library; nothing is known here of one that a program adds.
bool without_dropout(const Recipe& r) {
  return is_one_of(r.model.name, {"resnet18", "resnet34", "resnet50", "resnet101", "resnet20", "resnet32", "resnet56",
                                  "resnet18_32px", "mobilenet_v1", "small_cnn"});
}
bool without_residual_blocks(const Recipe& r) {
  return is_one_of(r.model.name, {"vgg16", "vgg16_bn", "mobilenet_v1", "alexnet", "alexnet_bn", "small_cnn"});
}
bool without_batch_norm(const Recipe& r) { return is_one_of(r.model.name, {"vgg16", "alexnet"}); }

constexpr std::string_view kServed = "on a parameter server";
constexpr std::string_view kLocal = "with sync.policy = \"local_sgd\"";
constexpr std::string_view kStale = "with sync.policy = \"stale_allreduce\"";
constexpr std::string_view kElastic = "with sync.policy = \"easgd\"";
constexpr std::string_view kAsynchronous = "with sync.policy = \"asp\" or \"ssp\"";
constexpr std::string_view kRounds = "with sync.policy = \"k_sync\" or \"adaptive_k\"";
constexpr std::string_view kNoBatchNorm = "in a model without batch normalisation";

constexpr KeyWithoutEffect kTable[] = {
    {"model.zero_gamma", without_residual_blocks, "in a model without residual blocks", "model.name",
     "the ResNets have some", Refused::unless_off},
    {"model.dropout", without_dropout, "in a model without dropout", "model.name",
     "vgg16, vgg16_bn, alexnet and alexnet_bn have some", Refused::unless_off},
    {"data.prefetch_batches", served, kServed, "sync.policy", "a worker reads the samples of a step when it gets them",
     Refused::when_given},
    {"batch.milestones", elastic, kElastic, "sync.policy",
     "an exchange is of so many samples from the first to the last"},
    {"batch.fill", served, kServed, "sync.policy", "all workers share every batch"},
    {"train.graph", served, kServed, "sync.policy", "workers record no CUDA graph"},
    {"precision.loss_scaling", served, kServed, "sync.policy",
     "there is no loss scaling; use train.precision = \"bf16\" or \"f32\""},
    {"precision.loss_scaling", local_sgd, kLocal, "sync.policy",
     "every rank would have a scale of its own; use train.precision = \"bf16\" or \"f32\""},
    {"precision.loss_scaling", stale, kStale, "sync.policy",
     "a scale would have changed before its gradients are applied; use train.precision = \"bf16\" or \"f32\""},
    {"optimizer.nesterov", asynchronous, kAsynchronous, "sync.policy", "the server's momentum is 0"},
    {"optimizer.nesterov", rounds, kRounds, "sync.policy",
     "the momentum is progressive, and sync.look_ahead is its Nesterov step"},
    {"optimizer.clip_norm", served, kServed, "sync.policy", "gradients are not clipped"},
    {"optimizer.momentum_correction", in_step_on_a_server, "on a parameter server other than that of \"easgd\"",
     "sync.policy", "the server's LARS keeps no rate of the step before"},
    {"optimizer.average", served, kServed, "sync.policy", "weights are not averaged"},
    {"schedule.momentum", served, kServed, "sync.policy", "the momentum is constant"},
    {"batch_norm.statistics", without_batch_norm, kNoBatchNorm, "model.name", "vgg16_bn and alexnet_bn have some"},
    {"batch_norm.statistics", served, kServed, "sync.policy",
     "workers keep moving averages, and the evaluation uses their mean"},
    {"batch_norm.sync", without_batch_norm, kNoBatchNorm, "model.name", "vgg16_bn and alexnet_bn have some"},
    {"batch_norm.sync", served, kServed, "sync.policy", "workers do not wait for each other's statistics"},
    {"batch_norm.sync", local_sgd, kLocal, "sync.policy", "ranks do not wait for each other's statistics"},
    {"batch_norm.sync", stale, kStale, "sync.policy", "ranks do not wait for each other's statistics"},
    {"batch_norm.recompute_batches", without_batch_norm, kNoBatchNorm, "model.name",
     "vgg16_bn and alexnet_bn have some"},
    {"batch_norm.recompute_batches", served, kServed, "sync.policy", "the evaluation uses what workers have seen"},
    {"comm.engine", served, kServed, "sync.policy", "workers and servers talk through gRPC"},
    {"comm.algorithm", served, kServed, "sync.policy", "servers add gradients up, without an all-reduce"},
    {"comm.bucket_bytes", served, kServed, "sync.policy", "large gradients leave alone, small ones after backward"},
    {"comm.bucket_bytes", local_sgd, kLocal, "sync.policy", "replicas are averaged in one piece"},
    {"comm.bucket_bytes", stale, kStale, "sync.policy", "the gradients of a step are summed in one piece"},
    {"comm.overlap", local_sgd, kLocal, "sync.policy", "replicas are averaged between two steps", Refused::when_given},
    {"comm.overlap", elastic, kElastic, "sync.policy", "parameters are exchanged between two steps",
     Refused::when_given},
    {"comm.overlap", packs_for_a_server, "on a parameter server with a codec", "comm.codec",
     "packed gradients leave after backward", Refused::when_given},
    {"comm.codec", local_sgd, kLocal, "sync.policy", "parameters travel, which a codec would change; use \"none\""},
    {"comm.codec", stale, kStale, "sync.policy", "gradients travel as they are; use \"none\""},
    {"comm.codec", elastic, kElastic, "sync.policy", "parameters travel, which a codec would change; use \"none\""},
    {"comm.block", served, kServed, "sync.policy", "256 elements share a scale", Refused::when_given},
    {"comm.error_feedback", served, kServed, "sync.policy",
     "what a codec leaves out is lost; \"fp16\" and \"bf16\" lose the least", Refused::when_given},
    {"sync.k", rule_chooses_k, "with sync.policy = \"adaptive_k\" and a sync.rule other than \"fixed\"", "sync.rule",
     "the rule chooses k; bound it with sync.k_min and sync.k_max, or set sync.rule = \"fixed\""},
    {"sync.k_min", k_is_fixed, "with sync.rule = \"fixed\"", "sync.rule", "k is sync.k"},
    {"sync.k_max", k_is_fixed, "with sync.rule = \"fixed\"", "sync.rule", "k is sync.k"},
    {"sync.history", rounds_without_progressive_momentum, "with another optimizer than \"sgd\"", "optimizer.name",
     "late gradients are dropped", Refused::when_given},
    {"sync.history", merges_no_means, "without sync.merge = \"mean\"", "sync.merge",
     "only \"mean\" keeps the means of steps (\"auto\" is \"mean\" with sync.look_ahead = false)", Refused::when_given},
    {"sync.look_ahead", rounds_without_progressive_momentum, "with another optimizer than \"sgd\"", "optimizer.name",
     "only the momentum of \"sgd\" tells where parameters will be", Refused::when_given},
};

bool has_its_default(const DeclaredKey& key, const Recipe& recipe) {
  return key.member.get(recipe) == key.default_value();
}

bool is_off(const DeclaredKey& key, const Recipe& recipe) {
  const std::string value = print_value(key, key.member.get(recipe));
  return value == "0" || value == "false";
}

}  // namespace

std::span<const KeyWithoutEffect> keys_without_effect() { return kTable; }

const KeyWithoutEffect* refused_by_mode(const DeclaredKey& key, const Recipe& recipe) {
  const std::string name = key.full_name();
  for (const KeyWithoutEffect& entry : kTable) {
    if (entry.key != name || !entry.in(recipe)) continue;
    const bool given = recipe.written.contains(name);
    if (entry.refused == Refused::when_given && given) return &entry;
    if (entry.refused == Refused::unless_off && given && !is_off(key, recipe)) return &entry;
    if (entry.refused == Refused::other_than_default && !has_its_default(key, recipe)) return &entry;
  }
  return nullptr;
}

bool may_be_given(const DeclaredKey& key, const Recipe& recipe) {
  const std::string name = key.full_name();
  return key.applies.holds(recipe) && std::ranges::none_of(kTable, [&](const KeyWithoutEffect& entry) {
           if (entry.key != name || !entry.in(recipe)) return false;
           return entry.refused == Refused::when_given ||
                  (entry.refused == Refused::unless_off && !is_off(key, recipe));
         });
}

std::string no_effect_text(std::string_view key) {
  std::string text;
  for (const KeyWithoutEffect& entry : kTable) {
    if (entry.key == key) fmt::format_to(std::back_inserter(text), "{}{}", text.empty() ? "" : " or ", entry.where);
  }
  return text;
}

void require_values_of_mode(const Recipe& recipe) {
  for (const DeclaredSection& section : declared_sections()) {
    for (const DeclaredKey& key : section.keys) {
      const KeyWithoutEffect* const entry = refused_by_mode(key, recipe);
      if (entry == nullptr || !key.applies.holds(recipe)) continue;
      recipe.refuse(key.full_name(), fmt::format("has no effect {}: {}", entry->where, entry->reason));
    }
  }
}

}  // namespace paceline
