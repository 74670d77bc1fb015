// Exists to build the precompiled header of the tests (tests/CMakeLists.txt).
#include "support/catch.h"
