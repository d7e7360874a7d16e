// The files that both drivers share, in one translation unit: their headers take longer than they do.
#include "driver.cpp"
#include "events.cpp"
#include "memory.cpp"
#include "remote.cpp"
#include "streams.cpp"
