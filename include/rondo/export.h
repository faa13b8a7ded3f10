// RONDO_API marks what the shared library exports; all other symbols are hidden.
#pragma once

#define RONDO_API __attribute__((visibility("default")))
