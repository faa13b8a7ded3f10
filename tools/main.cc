// The command `rondo`.
#include "tools/command.h"

int main(int argc, char** argv) { return rondo::tools::runCommand(argc, argv); }
