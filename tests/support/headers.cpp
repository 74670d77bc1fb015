// Has the precompiled header of the tests built (tests/CMakeLists.txt).
#include "support/catch.h"
