// Changes of regions all over the training steps of networks, made incrementally and from nothing:
//
//   - the schedule view of 20 ops that run again: followed, and made of the whole graph
//   - the order: the one that the changed problem inherits from the best one before it, scheduled
//     anew between waists (order/waist.h), and all ops ordered anew (order/order.h)
//
// The second is MAGIS's incremental against full scheduling (section 7.3: ten random networks that
// resemble NASNet, ten transformations each), for two kinds of change: a region runs again, which
// is inherited with each new op right before its first reader; and what 20 ops in a row make is
// twice as large, as where a region is cut into half as many parts. Incremental: index and profile
// of the inherited order, and what is scheduled anew. Both are timed alone, without the edit.
#pragma once

#include <string>
#include <vector>

namespace lowtide::bench {

// Files of networks and, behind "--json", where all numbers go. The exit code.
int measure_networks(const std::vector<std::string>& arguments);

}  // namespace lowtide::bench
