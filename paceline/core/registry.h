// Things known by name: models, data sets, optimizers. A registry is a value that a program owns and may add its own
// to; there is no global one.
#pragma once

#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "paceline/core/error.h"
#include "paceline/core/nearest.h"

namespace paceline {

template <class T>
class Registry {
 public:
  // `noun` is what messages call an entry: "model".
  explicit Registry(std::string noun) : noun_(std::move(noun)) {}

  void add(const std::string& name, T entry) {
    if (!entries_.emplace(name, std::move(entry)).second)
      throw UsageError(fmt::format("there are two {}s named '{}'", noun_, name));
  }

  bool contains(const std::string& name) const { return entries_.contains(name); }

  // Throws UsageError with the known names and the nearest one.
  const T& at(const std::string& name) const {
    const auto found = entries_.find(name);
    if (found == entries_.end()) throw UsageError(unknown(name));
    return found->second;
  }

  // The text of that error, for callers that know where the name was written.
  std::string unknown(const std::string& name) const {
    return fmt::format("there is no {} '{}'{} (known: {})", noun_, name, did_you_mean(name, names()),
                       fmt::join(names(), ", "));
  }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [name, entry] : entries_) names.push_back(name);
    return names;
  }

 private:
  std::string noun_;
  std::map<std::string, T> entries_;
};

}  // namespace paceline
