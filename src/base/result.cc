#include "base/result.h"

namespace lowtide {

int exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInternal:
      return 1;
    case ErrorCode::kUsage:
      return 2;
    case ErrorCode::kInfeasible:
      return 3;
    case ErrorCode::kInput:
      return 4;
    case ErrorCode::kLimit:
      return 5;
    case ErrorCode::kVerification:
      return 6;
  }
  return 1;
}

}  // namespace lowtide
