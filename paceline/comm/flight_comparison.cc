#include "paceline/comm/flight_comparison.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "paceline/comm/rank_list.h"
#include "paceline/core/error.h"

namespace paceline {
namespace {

using State = FlightRecord::State;

constexpr size_t kLastOperations = 20;    // of a file that is read alone
constexpr uint64_t kOperationsAfter = 3;  // tables for a group
constexpr size_t kMostRows = 8;           // more ranks that did the same are one row

std::string time_of_day(int64_t wall_ns) {
  return fmt::format("{:%H:%M:%S}.{:06}", fmt::gmtime(static_cast<std::time_t>(wall_ns / 1'000'000'000)),
                     wall_ns % 1'000'000'000 / 1000);
}

std::string date_of(int64_t wall_ns) {
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(static_cast<std::time_t>(wall_ns / 1'000'000'000)));
}

std::string duration(int64_t ns) {
  const auto value = static_cast<double>(ns);
  if (ns < 1'000'000) return fmt::format("{:.1f} us", value * 1e-3);
  if (ns < 1'000'000'000) return fmt::format("{:.1f} ms", value * 1e-6);
  return fmt::format("{:.1f} s", value * 1e-9);
}

std::string ending_of(const FlightRecord& record) {
  switch (record.state) {
    case State::done:
      if (!record.timed()) return "finished";
      return fmt::format("finished after {}", duration(record.end_ns - record.begin_ns));
    case State::failed:
      return fmt::format("failed after {}", duration(record.end_ns - record.begin_ns));
    case State::under_way:
      break;
  }
  return fmt::format("under way since {}", time_of_day(record.begin_ns));
}

// ---- one file ----

std::string last_operations(const FlightLog& log) {
  const size_t shown = std::min(log.records.size(), kLastOperations);
  if (shown == 0) return "no operations were recorded\n";
  const FlightRecord* first = &log.records[log.records.size() - shown];
  std::string text =
      fmt::format("the last {} of {} recorded operations, {}:\n", shown, log.records.size(), date_of(first->begin_ns));
  size_t widest = 0;
  for (const FlightRecord* record = first; record != first + shown; ++record)
    widest = std::max(widest, to_text(record->operation).size());
  for (const FlightRecord* record = first; record != first + shown; ++record)
    text += fmt::format("  {}  {}  {:<{}}  {}\n", time_of_day(record->begin_ns), log.groups[record->group],
                        to_text(record->operation), widest, ending_of(*record));
  return text;
}

// ---- several ----

void require_one_run(const std::vector<FlightLog>& logs) {
  for (size_t index = 1; index < logs.size(); ++index) {
    const FlightLog& before = logs[index - 1];
    const FlightLog& log = logs[index];
    if (log.rank == before.rank)
      throw UsageError(fmt::format("there are two files of rank {}; give one file for each rank of one run", log.rank));
    if (log.size != before.size || log.generation != before.generation)
      throw UsageError(
          fmt::format("the files are of different runs: rank {} was one of {} in generation {}, rank {} "
                      "one of {} in generation {}",
                      before.rank, before.size, before.generation, log.rank, log.size, log.generation));
  }
}

std::string header(const std::vector<FlightLog>& logs) {
  const FlightLog& first = logs.front();
  std::string text =
      fmt::format("flight records of {} of {} ranks, generation {}\n\n", logs.size(), first.size, first.generation);
  for (const FlightLog& log : logs)
    text += fmt::format("rank {} on {}, engine {}\n    {}\n", log.rank, log.host, log.engine,
                        log.failure.empty() ? "no failure" : log.failure);
  std::set<int> missing;
  for (int rank = 0; rank < first.size; ++rank) missing.insert(missing.end(), rank);
  for (const FlightLog& log : logs) missing.erase(log.rank);
  if (!missing.empty())
    text += fmt::format("no file of {}: killed, or the file is on another host\n",
                        rank_list({missing.begin(), missing.end()}));
  const bool one_host = std::ranges::all_of(logs, [&](const FlightLog& log) { return log.host == first.host; });
  return text + (one_host ? "times are UTC\n" : "times are UTC, by each host's own clock\n");
}

// What one rank did in one group.
struct Track {
  int rank = 0;
  std::map<uint64_t, const FlightRecord*> records;  // by sequence number
  uint64_t finished = 0;                            // the last one that was
  uint64_t begun = 0;

  Track(const FlightLog& log, const std::string& group) : rank(log.rank) {
    for (const FlightRecord& record : log.records) {
      const uint64_t sequence = record.operation.sequence;
      if (sequence == 0 || log.groups[record.group] != group) continue;  // 0: a message
      records[sequence] = &record;
      begun = std::max(begun, sequence);
      if (record.state == State::done) finished = std::max(finished, sequence);
    }
  }
  const FlightRecord* at(uint64_t sequence) const {
    const auto found = records.find(sequence);
    return found == records.end() ? nullptr : found->second;
  }
};

// A line of a table: some ranks that did the same.
struct Row {
  std::vector<int> ranks;
  std::string begins;  // after the first rank's
  std::string did;
};

class GroupReport {
 public:
  GroupReport(const std::vector<FlightLog>& logs, std::string group) : group_(std::move(group)) {
    for (const FlightLog& log : logs)
      if (std::ranges::find(log.groups, group_) != log.groups.end()) tracks_.emplace_back(log, group_);
    all_finished_ = std::ranges::min_element(tracks_, {}, &Track::finished)->finished;
    last_ = std::ranges::max_element(tracks_, {}, &Track::begun)->begun;
    first_differing_ = find_first_differing();
  }

  std::string text() const {
    const uint64_t good = std::min(all_finished_, first_differing_ - 1);
    std::string text = fmt::format("\ngroup '{}', {}\n", group_, rank_list(ranks()));
    text += good == 0 ? "  no operation was finished by all\n" : fmt::format("  all finished  {}\n", describe(good));
    if (good == last_) return text + "  and began no other\n";
    const uint64_t end = std::min(last_, good + kOperationsAfter);
    for (uint64_t sequence = good + 1; sequence <= end; ++sequence) text += table(sequence);
    if (end < last_) text += fmt::format("  and so on until #{}\n", last_);
    return text;
  }

 private:
  std::vector<int> ranks() const {
    std::vector<int> ranks;
    for (const Track& track : tracks_) ranks.push_back(track.rank);
    return ranks;
  }

  // The operation that most ranks called: who called another one is named.
  const FlightRecord* usual(uint64_t sequence) const {
    std::map<uint64_t, int> callers;
    const FlightRecord* most = nullptr;
    for (const Track& track : tracks_)
      if (const FlightRecord* record = track.at(sequence)) ++callers[code_of(record->operation)];
    for (const Track& track : tracks_)
      if (const FlightRecord* record = track.at(sequence))
        if (most == nullptr || callers[code_of(record->operation)] > callers[code_of(most->operation)]) most = record;
    return most;
  }

  uint64_t find_first_differing() const {
    for (uint64_t sequence : known_sequences()) {
      const FlightRecord* expected = usual(sequence);
      for (const Track& track : tracks_)
        if (const FlightRecord* record = track.at(sequence); record && record->operation != expected->operation)
          return sequence;
    }
    return last_ + 1;
  }

  std::set<uint64_t> known_sequences() const {
    std::set<uint64_t> sequences;
    for (const Track& track : tracks_)
      for (const auto& [sequence, record] : track.records) sequences.insert(sequence);
    return sequences;
  }

  std::string describe(uint64_t sequence) const {
    const FlightRecord* record = usual(sequence);
    return record == nullptr ? fmt::format("#{}", sequence) : to_text(record->operation);
  }

  int64_t first_begin_ns(uint64_t sequence) const {
    int64_t first = 0;
    for (const Track& track : tracks_)
      if (const FlightRecord* record = track.at(sequence))
        first = first == 0 ? record->begin_ns : std::min(first, record->begin_ns);
    return first;
  }

  std::string table(uint64_t sequence) const {
    const FlightRecord* expected = usual(sequence);
    if (expected == nullptr) return fmt::format("  #{} is no longer in any file\n", sequence);
    std::string text = fmt::format("  then          {}, from {} on\n", to_text(expected->operation),
                                   time_of_day(first_begin_ns(sequence)));
    const std::vector<Row> rows = rows_of(sequence, expected->operation);
    size_t widest = 0;
    for (const Row& row : rows) widest = std::max(widest, rank_list(row.ranks).size());
    for (const Row& row : rows)
      text += fmt::format("    {:<{}}  {:>10}  {}\n", rank_list(row.ranks), widest, row.begins, row.did);
    return text;
  }

  std::vector<Row> rows_of(uint64_t sequence, const Operation& expected) const;
  Row row_of(const Track& track, uint64_t sequence, const std::string& did) const;
  Row folded_row(const std::vector<const Track*>& tracks, uint64_t sequence, const std::string& did) const;
  std::string deed(const Track& track, uint64_t sequence, const Operation& expected) const;

  std::string group_;
  std::vector<Track> tracks_;
  uint64_t all_finished_ = 0;
  uint64_t last_ = 0;
  uint64_t first_differing_ = 0;
};

// Without times, so that ranks which did the same can be told together.
std::string GroupReport::deed(const Track& track, uint64_t sequence, const Operation& expected) const {
  const FlightRecord* record = track.at(sequence);
  if (record == nullptr) {
    if (track.begun > sequence) return "no longer in its file";
    const FlightRecord* last = track.at(track.begun);
    return last == nullptr ? "NOT BEGUN, nor anything before it"
                           : fmt::format("NOT BEGUN after {}", to_text(last->operation));
  }
  constexpr std::string_view kStates[] = {"under way", "finished", "failed"};
  std::string text(kStates[static_cast<size_t>(record->state)]);
  if (record->operation != expected) text += fmt::format(", but DIFFERENT: {}", to_text(record->operation));
  return text;
}

Row GroupReport::row_of(const Track& track, uint64_t sequence, const std::string& did) const {
  const FlightRecord* record = track.at(sequence);
  if (record == nullptr) return {{track.rank}, "", did};
  Row row{{track.rank}, fmt::format("+{}", duration(record->begin_ns - first_begin_ns(sequence))), did};
  if (record->timed()) row.did += ", after " + duration(record->end_ns - record->begin_ns);
  return row;
}

Row GroupReport::folded_row(const std::vector<const Track*>& tracks, uint64_t sequence, const std::string& did) const {
  Row row{{}, "", did};
  int64_t latest_ns = 0;
  for (const Track* track : tracks) {
    row.ranks.push_back(track->rank);
    if (const FlightRecord* record = track->at(sequence)) latest_ns = std::max(latest_ns, record->begin_ns);
  }
  if (latest_ns > 0) row.begins = "<= " + duration(latest_ns - first_begin_ns(sequence));
  return row;
}

std::vector<Row> GroupReport::rows_of(uint64_t sequence, const Operation& expected) const {
  std::map<std::string, std::vector<const Track*>> alike;
  for (const Track& track : tracks_) alike[deed(track, sequence, expected)].push_back(&track);
  std::vector<Row> rows;
  for (const auto& [did, tracks] : alike) {
    if (tracks.size() > kMostRows)
      rows.push_back(folded_row(tracks, sequence, did));
    else
      for (const Track* track : tracks) rows.push_back(row_of(*track, sequence, did));
  }
  std::ranges::sort(rows, {}, [](const Row& row) { return row.ranks.front(); });
  return rows;
}

std::vector<std::string> group_names(const std::vector<FlightLog>& logs) {
  std::vector<std::string> names;
  for (const FlightLog& log : logs)
    for (const std::string& name : log.groups)
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  return names;
}

}  // namespace

std::string compare_flight_logs(std::vector<FlightLog> logs) {
  if (logs.empty()) throw UsageError("there is no flight record to read");
  std::ranges::sort(logs, {}, &FlightLog::rank);
  require_one_run(logs);
  std::string text = header(logs);
  if (logs.size() == 1) return text + "\n" + last_operations(logs.front());
  for (const std::string& name : group_names(logs)) text += GroupReport(logs, name).text();
  return text;
}

}  // namespace paceline
