#include "paceline/collectives/profile_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "paceline/collectives/size_table.h"

namespace paceline {
namespace {

std::string table_of(const Profile& profile, const Plan& plan, DType dtype) {
  std::set<uint64_t> sizes;
  std::vector<std::string> algorithms;
  for (const ProfileRow& row : profile.rows) {
    if (row.dtype != dtype) continue;
    sizes.insert(row.bytes);
    if (std::ranges::find(algorithms, row.algorithm) == algorithms.end()) algorithms.push_back(row.algorithm);
  }
  SizeTable table({sizes.begin(), sizes.end()});
  for (const std::string& algorithm : algorithms) {
    std::vector<SizeTable::Cell> cells;
    for (const uint64_t bytes : sizes) {
      const auto row = std::ranges::find_if(profile.rows, [&](const ProfileRow& each) {
        return each.dtype == dtype && each.bytes == bytes && each.algorithm == algorithm;
      });
      const bool chosen = plan.algorithm(dtype, bytes) == algorithm;
      cells.push_back({row == profile.rows.end() ? "-" : microseconds_text(row->seconds * 1e6), chosen});
    }
    table.add(algorithm, std::move(cells));
  }
  return table.str();
}

}  // namespace

std::string noise_text(const Profile& profile) {
  if (!profile.noisy()) return "";
  return fmt::format(
      "\nNoisy: two measurements of the same differ {:.1f} times in the median, so something else kept the machine "
      "busy.\n"
      "Measure again with 'paceline profile --force' when it is quiet.\n",
      profile.disagreement);
}

std::string to_table(const Profile& profile, const Plan& plan) {
  const Fingerprint& measured = profile.fingerprint;
  std::string text = fmt::format("All-reduce over {} ranks ({}), engine {}, {}\n", measured.ranks, measured.layout,
                                 measured.engine, fmt::join(measured.hosts, "; "));
  for (const auto& [dtype, steps] : plan.steps)
    if (std::ranges::find(profile.rows, dtype, &ProfileRow::dtype) != profile.rows.end())
      text += fmt::format("\n{}: microseconds, * is chosen\n{}", name_of(dtype), table_of(profile, plan, dtype));
  return text + "\nThe plan:\n" + describe(plan) + noise_text(profile);
}

}  // namespace paceline
