// The sections of a recipe and what their declarations are made of. For recipe_*_sections.cc and recipe_keys.cc only.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "paceline/core/recipe_keys.h"

namespace paceline {

std::vector<DeclaredSection> training_sections();  // recipe_training_sections.cc: what is computed
std::vector<DeclaredSection>
communication_sections();  // recipe_communication_sections.cc: over ranks, and what is kept

// Upper bounds keep products of counts inside 64 bits.
constexpr double kMostSamples = 1e12, kMostSteps = 1e12, kMostBatch = 1e9, kMostEpochs = 1e6, kMostThreads = 1024;

inline KeyRange at_least(double low) { return {.low = low}; }
inline KeyRange above(double low) { return {.low = low, .low_itself = false}; }
inline KeyRange from_to(double low, double high) { return {.low = low, .high = high}; }
inline KeyRange above_to(double low, double high) { return {.low = low, .high = high, .low_itself = false}; }
inline KeyRange from_below(double low, double high) { return {.low = low, .high = high, .high_itself = false}; }

inline KeyCondition with(std::string key, std::vector<std::string> words) {
  return {KeyCondition::Kind::one_of, std::move(key), std::move(words)};
}
inline KeyCondition except(std::string key, std::vector<std::string> words) {
  return {KeyCondition::Kind::none_of, std::move(key), std::move(words)};
}
inline KeyCondition with_positive(std::string key) { return {KeyCondition::Kind::positive, std::move(key), {}}; }
inline KeyCondition with_zero(std::string key) { return {KeyCondition::Kind::zero, std::move(key), {}}; }

}  // namespace paceline
