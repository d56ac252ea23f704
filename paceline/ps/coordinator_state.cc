// What a coordinator needs to go on after a restart, as JSON.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "paceline/core/error.h"
#include "paceline/ps/coordinator.h"

namespace paceline {
namespace {

nlohmann::json to_json(const Command& command) {
  const Decision& decision = command.decision;
  return {command.index,   command.sequence, static_cast<int>(decision.kind),
          decision.worker, decision.version, decision.samples,
          decision.rate,   decision.factor};
}

Command command_from(const nlohmann::json& saved) {
  return {.index = saved.at(0).get<uint64_t>(),
          .sequence = saved.at(1).get<uint64_t>(),
          .decision = {.kind = static_cast<Decision::Kind>(saved.at(2).get<int>()),
                       .worker = saved.at(3).get<int>(),
                       .version = saved.at(4).get<uint64_t>(),
                       .samples = saved.at(5).get<uint64_t>(),
                       .rate = saved.at(6).get<double>(),
                       .factor = saved.at(7).get<double>()}};
}

}  // namespace

std::string Coordinator::save() const {
  nlohmann::json state = {{"policy", policy_->save()}, {"counts", counts_.save()},
                          {"leases", leases_.save()},  {"issued", issued_},
                          {"latest_ns", latest_ns_},   {"workers", nlohmann::json::array()},
                          {"sequences", sequences_},   {"kept", nlohmann::json::array()}};
  for (const auto& [id, member] : members_)
    state["workers"].push_back({{"id", id},
                                {"incarnation", member.incarnation},
                                {"standing_by", member.standing_by},
                                {"computing", member.computing},
                                {"version", member.version}});
  for (const Command& command : kept_) state["kept"].push_back(to_json(command));
  return state.dump();
}

void Coordinator::load(const std::string& text) {
  try {
    const nlohmann::json state = nlohmann::json::parse(text);
    std::map<int, Member> members;
    for (const nlohmann::json& saved : state.at("workers"))
      members[saved.at("id").get<int>()] = {.incarnation = saved.at("incarnation").get<uint64_t>(),
                                            .standing_by = saved.at("standing_by").get<bool>(),
                                            .computing = saved.at("computing").get<bool>(),
                                            .version = saved.at("version").get<uint64_t>()};
    std::deque<Command> kept;
    for (const nlohmann::json& saved : state.at("kept")) kept.push_back(command_from(saved));
    const auto sequences = state.at("sequences").get<std::map<int, uint64_t>>();
    const auto issued = state.at("issued").get<uint64_t>();
    const auto latest_ns = state.at("latest_ns").get<int64_t>();
    policy_->load(state.at("policy").get<std::string>());
    counts_.load(state.at("counts").get<std::string>());
    leases_.load(state.at("leases").get<std::string>());
    members_ = std::move(members);
    kept_ = std::move(kept);
    sequences_ = sequences;
    issued_ = issued;
    latest_ns_ = latest_ns;
    executed_.assign(executed_.size(), issued_ - kept_.size());
    noise_.clear();
  } catch (const nlohmann::json::exception& error) {
    throw DataError(
        fmt::format("the saved state of the coordinator is damaged ({}): start from a checkpoint", error.what()));
  }
}

}  // namespace paceline
