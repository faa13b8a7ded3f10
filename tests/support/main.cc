// main() of every test program, for Catch2 version 2 (version 3 brings its own).
#define CATCH_CONFIG_MAIN
#include "support/test.h"
