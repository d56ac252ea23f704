// A profile for people: the time of every algorithm at every size, and what the plan makes of it.
#pragma once

#include <string>

#include "paceline/collectives/plan.h"
#include "paceline/collectives/profile.h"

namespace paceline {

std::string to_table(const Profile& profile, const Plan& plan);
std::string noise_text(const Profile& profile);  // a warning; empty where it is not noisy

}  // namespace paceline
