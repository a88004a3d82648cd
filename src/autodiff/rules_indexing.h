// Rules of ops along one axis, and of ops that read or write at places given by data. Internal to
// this folder.
//
// Tests: rules_test.cc.
#pragma once

#include "autodiff/rule.h"

namespace lowtide::autodiff {

void add_indexing_rules(RuleTable& table);

}  // namespace lowtide::autodiff
