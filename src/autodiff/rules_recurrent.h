// Rules of the recurrent networks. Internal to this folder.
//
// Tests: recurrent_test.cc.
#pragma once

#include "autodiff/rule.h"

namespace lowtide::autodiff {

void add_recurrent_rules(RuleTable& table);

}  // namespace lowtide::autodiff
