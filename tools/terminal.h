// What standard output can show: whether it is a terminal, whether that takes UTF-8 and colours,
// and how wide it is.
#pragma once

namespace lowtide::tools {

struct Terminal {
  bool there = false;    // a pipe or a file is none
  bool utf8 = false;     // by LC_ALL, LC_CTYPE or LANG, the first that says something
  bool colours = false;  // NO_COLOR is not set, and TERM is not dumb
  int columns = 80;
};

Terminal standard_output();

}  // namespace lowtide::tools
