// What the shared library shows; everything else of it stays hidden.
#pragma once

#define RONDO_API __attribute__((visibility("default")))
