// What kernel times depend on besides the kernel: the machine, how much of it is used, and which
// kernels they are. Times are only compared under equal identities.
//
// Tests: store_test.cc.
#pragma once

#include <string>

namespace lowtide::cost {

struct DeviceIdentity {
  std::string processor;  // vendor's name with family, model and stepping
  int cores = 0;          // that the machine has
  int threads = 0;        // that the kernels use
  std::string kernels;    // libraries, versions, instruction set
  bool operator==(const DeviceIdentity&) const = default;
};

// "Xeon (family 6, model 167, stepping 1), 2 cores, 2 threads, oneDNN 2.6.3".
std::string print(const DeviceIdentity& identity);

// The machine that this process runs on, as its operating system describes it.
DeviceIdentity this_machine(int threads, std::string kernels);

}  // namespace lowtide::cost
