// Runs CUDA and HIP kernels on the CPU, for tests: included in front of the unmodified text that the vendor's compiler
// gets, and compiled by g++ with -DSHIM_WARP=32 or 64.
//
// A block is one fiber per thread, all on one OS thread; blocks are shared among OS threads. A fiber runs until it
// waits: at __syncthreads() for the block, at a shuffle or a warp's barrier for its warp. A warp runs as far as it can before the next one
// does, the warps and the lanes in order or in orders shuffled with a seed: as far apart as a GPU may let them get, so
// that what a missing barrier leaves to chance does go wrong.
// Fibers that wait at different places, or for a thread that has ended, make the launch fail with a message.
#pragma once
#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "abi.h"

#define __global__
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __shared__ thread_local
#define __syncthreads() shim::wait(shim::Waits::block, __LINE__)
#define __syncwarp() shim::wait(shim::Waits::warp, __LINE__)
// A barrier alone keeps AMD's threads together; it takes a fence for them to see what the others have stored.
#define __builtin_amdgcn_wave_barrier() shim::wait(shim::me->fenced ? shim::Waits::warp : shim::Waits::shuffle, __LINE__)
#define __builtin_amdgcn_fence(order, scope) shim::fence()
#define __shfl_xor_sync(lanes, value, mask) shim::exchange(value, mask, __LINE__)
#define __shfl_xor(value, mask) shim::exchange(value, mask, __LINE__)
#define threadIdx (shim::me->index)
#define blockIdx (shim::block_index)
#define blockDim (shim::block_size)
#define gridDim (shim::grid_size)

// Saves the callee-saved registers on this stack, and goes on where another stack was left.
extern "C" void shim_switch(void** from, void* to);
asm(R"(
.text
shim_switch:
    pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
    ret
)");

#define SHIM_PLAIN __attribute__((no_sanitize("thread")))

namespace shim {
constexpr size_t max_shared = 256 << 10, guard = 64, stack_bytes = 64 << 10;
constexpr unsigned max_copies = 256; // of a thread at a time
enum class Waits { nothing, warp, shuffle, block, ended };
#ifdef SHIM_RACES
constexpr bool one_worker = true; // blocks run one after the other
#else
constexpr bool one_worker = false;
#endif
struct Index { unsigned x, y, z; };
struct Copy { // to shared memory, which goes on by itself
    void* to;
    const void* from;
    int size, bytes;
    unsigned group;
};
struct Fiber {
    Index index;
    unsigned number; // in the block
    void* stack_pointer;
    Waits waits;
    int line;           // where it waits
    bool fenced;        // since it last waited
    unsigned exchanges; // its shuffles so far: the parity picks the buffer, so that one may start before all have read
    Copy copies[max_copies]; // asked for, of which those from `made` on have not been made yet: a ring
    unsigned asked, made;
    unsigned groups; // of copies that it has ended
};
struct Launch {
    void (*kernel)(const void* const*);
    const ShimLaunch& given;
    Index grid, block;
    uint64_t blocks;
    std::atomic<uint64_t> next{0};
    std::mutex mutex;
    std::string error;
};
static thread_local Fiber* me;
static thread_local Index block_index, block_size, grid_size;
static thread_local Launch* launch;
static thread_local void* scheduler;
static thread_local uint64_t slots[2][1024];
static thread_local std::string fault; // what a thread of the block has done wrong
} // namespace shim

alignas(16) static thread_local unsigned char dyn_shared[shim::max_shared + shim::guard];

#ifdef SHIM_RACES
#include "races.h"
#endif

namespace shim {

SHIM_PLAIN __attribute__((noinline)) inline void wait(Waits what, int line) {
    me->waits = what;
    me->fenced = false;
    me->line = line;
    shim_switch(&me->stack_pointer, scheduler);
}

SHIM_PLAIN inline void fence() { me->fenced = true; }

template <class T> SHIM_PLAIN T exchange(T value, int mask, int line) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "vendors exchange words only");
    uint64_t* buffer = slots[me->exchanges++ % 2];
    std::memcpy(&buffer[me->number], &value, sizeof(T));
    wait(Waits::shuffle, line);
    std::memcpy(&value, &buffer[me->number ^ mask], sizeof(T));
    return value;
}

// Copies to shared memory are made when they are waited for, or at once: a place may change as soon as a copy to it is
// asked for, and may not have changed before it has been awaited.
SHIM_PLAIN inline void make(const Copy& copy) {
    std::memset(copy.to, 0, copy.size);
    std::memcpy(copy.to, copy.from, copy.bytes);
}

SHIM_PLAIN inline void touch([[maybe_unused]] const Copy& copy, [[maybe_unused]] bool made) {
#ifdef SHIM_RACES
    access(copy.to, copy.size, true, false, __builtin_return_address(0));
    if (made && copy.bytes) access(copy.from, copy.bytes, false, false, __builtin_return_address(0));
#endif
}

template <int N> SHIM_PLAIN void copy_async(void* to, const void* from, int bytes) {
    static_assert(N == 4 || N == 8 || N == 16, "sizes of asynchronous copies");
    const Copy copy{to, from, N, bytes, me->groups};
    const uintptr_t place = (uintptr_t)to - (uintptr_t)dyn_shared;
    if (place >= max_shared || place % N != 0 || (bytes != 0 && (uintptr_t)from % N != 0) || bytes < 0 || bytes > N) {
        char text[128];
        std::snprintf(text, sizeof text, "an asynchronous copy of %d of %d bytes from %p to byte %zu of shared memory", bytes,
                      N, from, (size_t)place);
        fault = text;
        return;
    }
    touch(copy, false);
    if (launch->given.seed % 2 == 1 && (me->number + me->asked) % 2) make(copy), touch(copy, true);
    else if (me->asked - me->made == max_copies) fault = "a thread waits for none of " + std::to_string(max_copies) + " copies";
    else me->copies[me->asked++ % max_copies] = copy;
}

template <int N> SHIM_PLAIN void await_copies() {
    for (; me->made != me->asked && me->copies[me->made % max_copies].group + N < me->groups; ++me->made) {
        const Copy& copy = me->copies[me->made % max_copies];
        make(copy), touch(copy, true);
    }
}

SHIM_PLAIN inline void enter() {
    launch->kernel(launch->given.args);
    wait(Waits::ended, 0);
}

inline std::string describe(const Fiber& f) {
    const char* where = f.waits == Waits::ended ? "has ended" : f.waits == Waits::shuffle ? "is in a shuffle" : "waits";
    std::string text = "thread " + std::to_string(f.number) + " " + where;
    return f.waits == Waits::ended ? text : text + " at line " + std::to_string(f.line);
}

// All threads of a warp or of the block have come to a barrier, and go on.
inline void come_through([[maybe_unused]] Waits what, [[maybe_unused]] size_t warp) {
#ifdef SHIM_RACES
    if (what == Waits::warp) watch->syncs[warp] += 1;
    if (what == Waits::block) watch->barriers += 1;
#endif
}

// All fibers of [first, last) wait for one thing at one line: let them go on.
inline bool release(std::vector<Fiber>& fibers, size_t first, size_t last, Waits what) {
    for (size_t i = first; i < last; ++i)
        if (fibers[i].waits != what || fibers[i].line != fibers[first].line) return false;
    for (size_t i = first; i < last; ++i) fibers[i].waits = Waits::nothing;
    come_through(what, first / SHIM_WARP);
    return true;
}

inline Index unravel(uint64_t number, Index sizes) {
    return {unsigned(number % sizes.x), unsigned(number / sizes.x % sizes.y), unsigned(number / sizes.x / sizes.y)};
}

inline std::string run_block(std::vector<Fiber>& fibers, char* stacks, uint64_t& random) {
    std::vector<unsigned> order(fibers.size()), warps;
    for (unsigned i = 0; i < fibers.size(); ++i) {
        void** top = (void**)(((uintptr_t)(stacks + (i + 1) * stack_bytes) & ~uintptr_t(15)) - 8);
        *--top = (void*)enter; // the address that the first switch returns to, below it six registers
        fibers[i] = {unravel(i, block_size), i, top - 6, Waits::nothing, 0, false, 0, {}, 0, 0, 0};
        order[i] = i;
        if (i % SHIM_WARP == 0) warps.push_back(i);
    }
    auto shuffle = [&](auto first, auto last) {
        for (; launch->given.seed != 0 && last - first > 1; --last) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            std::iter_swap(last - 1, first + random % (last - first));
        }
    };
    for (;;) {
        shuffle(warps.begin(), warps.end());
        for (unsigned first : warps) {
            const unsigned last = std::min<size_t>(first + SHIM_WARP, fibers.size());
            do {
                shuffle(order.begin() + first, order.begin() + last);
                for (unsigned i = first; i < last; ++i)
                    if ((me = &fibers[order[i]])->waits == Waits::nothing) shim_switch(&scheduler, me->stack_pointer);
            } while (release(fibers, first, last, Waits::shuffle) || release(fibers, first, last, Waits::warp));
        }
        if (release(fibers, 0, fibers.size(), Waits::ended)) return "";
        if (release(fibers, 0, fibers.size(), Waits::block)) continue;
        for (const Fiber& f : fibers)
            if (f.waits != fibers[0].waits || f.line != fibers[0].line)
                return "divergent barrier: " + describe(fibers[0]) + ", " + describe(f);
        return "divergent shuffle";
    }
}
inline void work(Launch& all) {
    launch = &all;
    grid_size = all.grid, block_size = all.block;
    const size_t threads = size_t(all.block.x) * all.block.y * all.block.z, shared = all.given.shared_bytes;
    std::vector<Fiber> fibers(threads);
    std::unique_ptr<char[]> stacks(new char[threads * stack_bytes]);
#ifdef SHIM_RACES
    Watch seen;
    seen.stacks = stacks.get(), seen.stacks_end = stacks.get() + threads * stack_bytes;
    watch = &seen;
#endif
    for (uint64_t b; (b = all.next++) < all.blocks;) {
        block_index = unravel(b, all.grid);
        uint64_t random = all.given.seed * 0x9e3779b97f4a7c15u + b + 1;
        std::memset(dyn_shared, 0xcd, shared + guard); // NaN-like garbage: nothing is zero by luck
#ifdef SHIM_RACES
        seen.block = b + 1, seen.barriers = 0;
        seen.syncs.assign((threads + SHIM_WARP - 1) / SHIM_WARP, 0);
#endif
        fault.clear();
        std::string error = run_block(fibers, stacks.get(), random);
        if (error.empty()) error = fault;
#ifdef SHIM_RACES
        if (error.empty()) error = seen.error;
#endif
        for (size_t i = 0; i < guard; ++i)
            if (error.empty() && dyn_shared[shared + i] != 0xcd)
                error = "shared memory is written past its " + std::to_string(shared) + " bytes";
        if (error.empty()) continue;
        std::lock_guard<std::mutex> lock(all.mutex);
        all.error = "block " + std::to_string(b) + ": " + error;
        all.next = all.blocks;
    }
#ifdef SHIM_RACES
    watch = nullptr;
#endif
}

inline void run(void (*kernel)(const void* const*), const ShimLaunch& given) {
    const unsigned *g = given.grid, *b = given.block;
    Launch all{kernel, given, {g[0], g[1], g[2]}, {b[0], b[1], b[2]}, uint64_t(g[0]) * g[1] * g[2]};
    std::thread other;
    if (all.blocks >= 8 && !one_worker) other = std::thread([&] { work(all); });
    work(all);
    if (other.joinable()) other.join();
    std::snprintf(given.error, given.error_size, "%s", all.error.c_str());
}

template <class T> inline T loaded(const void* from) {
    T value;
    std::memcpy(&value, from, sizeof(T));
    return value;
}

// What a kernel's type says of its arguments.
template <class K> struct Arguments;
template <class... A> struct Arguments<void (*)(A...)> {
    static constexpr unsigned count = sizeof...(A);
    static constexpr unsigned sizes[] = {sizeof(A)..., 0};
    static constexpr unsigned char are_pointers[] = {std::is_pointer_v<A>..., 0};
    static void call(void (*kernel)(A...), const void* const* args) { call(kernel, args, std::index_sequence_for<A...>()); }
    template <size_t... I> static void call(void (*kernel)(A...), const void* const* args, std::index_sequence<I...>) {
        kernel(loaded<A>(args[I])...);
    }
};

// float16 in software, as the processor converts it.
struct half {
    unsigned short bits;
    half() = default;
    explicit half(float x) : bits(_cvtss_sh(x, 0)) {}
    explicit operator float() const { return _cvtsh_ss(bits); }
};
} // namespace shim

#define SHIM_EXPORT(symbol)                                                                                       \
    namespace {                                                                                                   \
    using Arguments_##symbol = shim::Arguments<decltype(&symbol)>;                                                \
    void shim_run_##symbol(const ShimLaunch* given) {                                                             \
        shim::run([](const void* const* args) { Arguments_##symbol::call(symbol, args); }, *given);               \
    }                                                                                                             \
    }                                                                                                             \
    extern "C" const ShimKernel shim_kernel_##symbol;                                                             \
    const ShimKernel shim_kernel_##symbol = {shim_run_##symbol, Arguments_##symbol::count, SHIM_WARP,             \
                                             Arguments_##symbol::sizes, Arguments_##symbol::are_pointers};

// Generated text has these for the vendor's compiler, unless they are defined.
#define DYN_COPY_ASYNC
template <int N> inline void dyn_copy_async(void* to, const void* from, int bytes) { shim::copy_async<N>(to, from, bytes); }
#define DYN_COMMIT_COPIES
SHIM_PLAIN inline void dyn_commit_copies() { shim::me->groups += 1; }
#define DYN_AWAIT_COPIES
template <int N> inline void dyn_await_copies() { shim::await_copies<N>(); }

// The built-in functions that generated text calls beside <cmath>'s.
using std::signbit;
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }
inline double erfinv(double x) {  // Newton's method, from a start that is right to three digits
    if (!(std::fabs(x) < 1)) return std::fabs(x) == 1 ? x * INFINITY : NAN;
    if (x == 0 || std::fabs(x) < 1e-150) return x * 0.88622692545275801365;
    const double l = std::log1p(-x * x), t = 4.3307467508 + l / 2;
    double y = std::copysign(std::sqrt(std::sqrt(t * t - l / 0.147) - t), x);
    for (int i = 0; i < 4; ++i) {
        const double tail = (1 - std::fabs(x)) - std::erfc(std::fabs(y));  // exact where erf is next to 1
        const double miss = std::fabs(x) < 0.5 ? std::erf(y) - x : x < 0 ? -tail : tail;
        y -= miss * 0.88622692545275801365 * std::exp(y * y);
    }
    return y;
}
inline float erfinvf(float x) { return (float)erfinv((double)x); }
inline int __float_as_int(float x) { int bits; std::memcpy(&bits, &x, 4); return bits; }
inline float __int_as_float(int bits) { float x; std::memcpy(&x, &bits, 4); return x; }
inline double __longlong_as_double(long long bits) { double x; std::memcpy(&x, &bits, 8); return x; }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned)x); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
#define __half shim::half
inline shim::half __ushort_as_half(unsigned short bits) { shim::half h; h.bits = bits; return h; }
inline unsigned short __half_as_ushort(shim::half h) { return h.bits; }
inline float __half2float(shim::half h) { return (float)h; }
inline shim::half __float2half_rn(float x) { return shim::half(x); }
#define _Float16 shim::half
