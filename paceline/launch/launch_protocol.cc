#include "paceline/launch/launch_protocol.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "paceline/core/version.h"

namespace paceline {
namespace {

using Json = nlohmann::json;

std::string as_line(const Json& message) { return message.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

// A word of a command is bytes, JSON's texts are UTF-8: other words travel as numbers, and arrive unchanged.
Json word_json(const std::string& word) {
  try {
    Json text = word;
    text.dump();
    return text;
  } catch (const Json::exception&) {
    return std::vector<uint8_t>(word.begin(), word.end());
  }
}

std::string word_from(const Json& json) {
  if (json.is_string()) return json;
  const auto bytes = json.get<std::vector<uint8_t>>();
  return {bytes.begin(), bytes.end()};
}

Json words_json(const std::vector<std::string>& words) {
  Json list = Json::array();
  for (const std::string& word : words) list.push_back(word_json(word));
  return list;
}

std::vector<std::string> words_from(const Json& list) {
  std::vector<std::string> words;
  for (const Json& word : list) words.push_back(word_from(word));
  return words;
}

AgentReport report_from(const Json& message) {
  using Kind = AgentReport::Kind;
  if (message.contains("hello")) return {.kind = Kind::hello, .text = message.at("hello")};
  if (message.contains("error"))
    return {.kind = Kind::error, .text = message.at("error"), .code = static_cast<ExitCode>(message.at("code"))};
  if (message.contains("ended"))
    return {.kind = Kind::ended,
            .rank = message.at("ended"),
            .ending = {.code = message.at("code"), .signal = message.at("signal")}};
  const bool output = message.contains("output");
  return {.kind = Kind::line,
          .rank = message.at(output ? "output" : "errors"),
          .stream = output ? Stream::output : Stream::errors,
          .text = message.at("line")};
}

}  // namespace

std::string job_line(const JobOrder& job) {
  Json ranks = Json::array();
  for (const RankOrder& order : job.ranks)
    ranks.push_back({{"rank", order.rank}, {"environment", words_json(order.environment)}});
  return as_line(
      {{"command", words_json(job.command)}, {"folder", word_json(job.folder)}, {"ranks", ranks}, {"more", job.more}});
}

std::string signal_line(int signal) { return as_line({{"signal", signal}}); }

std::string end_line() { return as_line({{"end", true}}); }

AgentOrder read_order(std::string_view line) try {
  const Json message = Json::parse(line);
  if (message.contains("signal")) return {.signal = message.at("signal")};
  if (message.contains("end")) return {.end = true};
  JobOrder job = {.command = words_from(message.at("command")),
                  .folder = word_from(message.at("folder")),
                  .more = message.at("more")};
  for (const Json& order : message.at("ranks"))
    job.ranks.push_back({.rank = order.at("rank"), .environment = words_from(order.at("environment"))});
  return {.job = std::move(job)};
} catch (const Json::exception&) {  // its text may quote the line, and so the secret
  throw PeerError("standard input holds no orders of a launcher; 'launch --agent' is not to be called by hand");
}

std::string hello_line() { return as_line({{"hello", kVersion}}); }

std::string output_line(int rank, Stream stream, std::string_view line) {
  return as_line({{stream == Stream::output ? "output" : "errors", rank}, {"line", line}});
}

std::string ended_line(int rank, const Ending& ending) {
  return as_line({{"ended", rank}, {"code", ending.code}, {"signal", ending.signal}});
}

std::string error_line(const Error& error) {
  return as_line({{"error", error.what()}, {"code", static_cast<int>(error.exit_code())}});
}

std::optional<AgentReport> read_report(std::string_view line) try {
  return report_from(Json::parse(line));
} catch (const Json::exception&) {
  return std::nullopt;
}

}  // namespace paceline
