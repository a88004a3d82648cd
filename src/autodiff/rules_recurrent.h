// Rules of the recurrent networks. Internal to this folder.
#pragma once

#include "autodiff/rule.h"

namespace lowtide::autodiff {

void add_recurrent_rules(RuleTable& table);

}  // namespace lowtide::autodiff
