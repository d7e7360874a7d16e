// What the driver and the GPU's process say to each other, over a socket that keeps packets apart.
#pragma once
#include <cstddef>
#include <cstdint>

namespace gpu {
constexpr uint64_t heap_bytes = uint64_t(1) << 37, packet_bytes = 64 << 10;
constexpr unsigned max_arguments = 256;
enum class Ask : uint32_t { protect, load, find, launch };
enum class Said : uint32_t { fine, refused, wrong, fault }; // `wrong`: the launch misbehaved; `fault`: the process is gone
struct Request {
    Ask ask;
    uint32_t argument_count;
    uint64_t address, size;   // protect: what, and whether it may be touched
    uint32_t reachable;
    uint32_t module;          // load, find
    uint64_t kernel;          // launch
    uint32_t grid[3], block[3];
    uint64_t shared_bytes, seed;
    uint32_t sizes[max_arguments];
    // Then a path or a name, or the arguments one after the other.
};
struct Reply {
    Said said;
    uint64_t value; // load: the module; find: the kernel; fault: the address
    uint32_t signal, argument_count, warp;
    uint32_t sizes[max_arguments];
    unsigned char are_pointers[max_arguments];
    char text[1024];
};
} // namespace gpu
