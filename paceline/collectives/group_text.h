// Texts between the ranks of a group, for what is agreed on now and then: a plan, host names. Two operations each.
#pragma once

#include <string>
#include <vector>

#include "paceline/comm/group.h"

namespace paceline {

// Every rank gets the root's text.
std::string broadcast_text(Group& group, const std::string& text, int root);
// Every rank gets everyone's text, in rank order.
std::vector<std::string> gather_texts(Group& group, const std::string& text);

}  // namespace paceline
