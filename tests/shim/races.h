// Finds races of a kernel's threads: part of shim.h where SHIM_RACES is defined, for text that g++ compiles with
// -fsanitize=thread and links without its library. The functions that such code calls at each load and store are here.
//
// They know which thread of which block runs, and how many barriers its block and its warp have come through. Two
// accesses to a byte race if one writes and neither comes before the other: in one block, a barrier of the block or,
// for threads of a warp, one of the warp (not a shuffle, which orders nothing) comes between; in two blocks, nothing
// does. (Happens-before as in FastTrack, Flanagan and Freund, PLDI 2009: it does not depend on the order of this run.)
#pragma once
#include <memory>
#include <unordered_map>

namespace shim {
// What is known of a byte. Threads count from 1, so that 0 is nobody.
struct Byte {
    uint64_t block = 0;                             // that came last, from 1
    uint32_t writer = 0, write_barriers = 0, write_syncs = 0, write_place = 0;
    uint32_t reader = 0, read_barriers = 0, read_syncs = 0, read_place = 0;
    uint32_t others_syncs = 0;                      // of reads by other threads of that reader's warp, plus 1
    bool many_warps = false;                        // have read since that barrier
    bool other_blocks_read = false, other_blocks_wrote = false, atomic = false;
};
constexpr size_t page_of_bytes = 1 << 12;

// What one launch has done. Its blocks run one after the other.
struct Watch {
    std::unordered_map<uintptr_t, std::unique_ptr<Byte[]>> pages;
    uintptr_t last = ~uintptr_t(0);
    Byte* bytes = nullptr;
    uint64_t block = 0;
    uint32_t barriers = 0;       // of this block
    std::vector<uint32_t> syncs; // of each of its warps
    const char *stacks = nullptr, *stacks_end = nullptr;
    std::string error;

    SHIM_PLAIN Byte& at(uintptr_t address) {
        if (address / page_of_bytes != last) {
            auto& page = pages[last = address / page_of_bytes];
            if (page == nullptr) page.reset(new Byte[page_of_bytes]);
            bytes = page.get();
        }
        return bytes[address % page_of_bytes];
    }
};
static thread_local Watch* watch;
extern "C" const char __ehdr_start __attribute__((visibility("hidden"))); // where the linker puts the library

SHIM_PLAIN inline void race(uintptr_t address, const char* doing, const char* did, uint32_t thread, uint32_t other_place,
                            uint64_t other_block, uint32_t place) {
    const uintptr_t shared = (uintptr_t)dyn_shared;
    const bool is_shared = address - shared < max_shared;
    char text[256], where[64], who[64];
    if (is_shared) std::snprintf(where, sizeof where, "byte %zu of shared memory", address - shared);
    else std::snprintf(where, sizeof where, "0x%zx", address);
    if (other_block) std::snprintf(who, sizeof who, "another block");
    else std::snprintf(who, sizeof who, "thread %u", thread - 1);
    std::snprintf(text, sizeof text, "race: thread %u %s %s, which %s %s (+0x%x, +0x%x)", me->number, doing, where, who, did,
                  place, other_place);
    if (watch->error.empty()) watch->error = text;
}

SHIM_PLAIN inline void note(Byte& b, uintptr_t address, bool writes, bool atomic, uint32_t place) {
    Watch& w = *watch;
    const uint32_t thread = me->number + 1, warp = me->number / SHIM_WARP, syncs = w.syncs[warp];
    const bool is_shared = address - (uintptr_t)dyn_shared < max_shared;
    if (b.block != w.block) { // everything that is known is another block's
        const bool read = b.reader != 0 || b.other_blocks_read, wrote = b.writer != 0 || b.other_blocks_wrote;
        const uint32_t read_place = b.read_place, write_place = b.write_place;
        const bool was_atomic = b.atomic;
        b = Byte();
        b.block = w.block;
        if (!is_shared) {
            b.other_blocks_read = read, b.other_blocks_wrote = wrote, b.atomic = was_atomic;
            b.read_place = read_place, b.write_place = write_place;
        }
    }
    const bool both_atomic = atomic && b.atomic;
    if (b.other_blocks_wrote && !both_atomic)
        race(address, writes ? "writes" : "reads", "has written", 0, b.write_place, 1, place);
    if (b.other_blocks_read && writes && !both_atomic) race(address, "writes", "has read", 0, b.read_place, 1, place);
    const auto before = [&](uint32_t other, uint32_t barriers, uint32_t at) SHIM_PLAIN {
        return other == 0 || other == thread || barriers < w.barriers || ((other - 1) / SHIM_WARP == warp && at < syncs);
    };
    if (!before(b.writer, b.write_barriers, b.write_syncs) && !both_atomic)
        race(address, writes ? "writes" : "reads", "has written", b.writer, b.write_place, 0, place);
    if (b.reader != 0 && b.read_barriers < w.barriers) b.reader = b.others_syncs = b.many_warps = 0;
    if (writes) {
        if (!both_atomic && b.reader != 0 &&
            (b.many_warps || !before(b.reader, b.read_barriers, b.read_syncs) || b.others_syncs > syncs))
            race(address, "writes", "has read", b.reader, b.read_place, 0, place);
        b.writer = thread, b.write_barriers = w.barriers, b.write_syncs = syncs, b.write_place = place;
    }
    if (!writes || atomic) {
        if (b.reader != 0 && b.reader != thread) {
            if ((b.reader - 1) / SHIM_WARP != warp) b.many_warps = true;
            else b.others_syncs = std::max(b.others_syncs, b.read_syncs + 1);
        }
        b.reader = thread, b.read_barriers = w.barriers, b.read_syncs = syncs, b.read_place = place;
    }
    b.atomic = atomic;
}

// `caller` is where the kernel's text does it: an offset in the library, for addr2line.
SHIM_PLAIN inline void access(const void* p, size_t size, bool writes, bool atomic, const void* caller) {
    static thread_local bool inside; // what is below is instrumented in part
    const char* frame = (const char*)__builtin_frame_address(0);
    if (inside || watch == nullptr || frame < watch->stacks || frame >= watch->stacks_end) return; // the scheduler, not a thread
    if ((const char*)p >= watch->stacks && (const char*)p < watch->stacks_end) return;   // a thread's own
    const auto place = (uint32_t)((uintptr_t)caller - (uintptr_t)&__ehdr_start - 1);
    inside = true;
    for (size_t i = 0; i < size; ++i) note(watch->at((uintptr_t)p + i), (uintptr_t)p + i, writes, atomic, place);
    inside = false;
}
} // namespace shim

#define SHIM_HOOK extern "C" __attribute__((no_sanitize("thread"), visibility("hidden")))
#define SHIM_SIZED(n)                                                                                             \
    SHIM_HOOK void __tsan_read##n(void* p) { shim::access(p, n, false, false, __builtin_return_address(0)); }     \
    SHIM_HOOK void __tsan_write##n(void* p) { shim::access(p, n, true, false, __builtin_return_address(0)); }     \
    SHIM_HOOK void __tsan_unaligned_read##n(void* p) { shim::access(p, n, false, false, __builtin_return_address(0)); } \
    SHIM_HOOK void __tsan_unaligned_write##n(void* p) { shim::access(p, n, true, false, __builtin_return_address(0)); }
SHIM_SIZED(1) SHIM_SIZED(2) SHIM_SIZED(4) SHIM_SIZED(8) SHIM_SIZED(16)
SHIM_HOOK void __tsan_read_range(void* p, size_t n) { shim::access(p, n, false, false, __builtin_return_address(0)); }
SHIM_HOOK void __tsan_write_range(void* p, size_t n) { shim::access(p, n, true, false, __builtin_return_address(0)); }
SHIM_HOOK void __tsan_init() {}
SHIM_HOOK void __tsan_func_entry(void*) {}
SHIM_HOOK void __tsan_func_exit() {}
SHIM_HOOK void __tsan_vptr_update(void**, void*) {}

// Atomics race with what is none. The blocks of a launch run one after the other here, so plain ones do.
#define SHIM_ATOMIC(bits, type)                                                                                   \
    SHIM_HOOK type __tsan_atomic##bits##_load(const volatile type* p, int) {                                      \
        shim::access((void*)p, sizeof *p, false, true, __builtin_return_address(0));                              \
        return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                              \
    }                                                                                                             \
    SHIM_HOOK void __tsan_atomic##bits##_store(volatile type* p, type v, int) {                                   \
        shim::access((void*)p, sizeof *p, true, true, __builtin_return_address(0));                               \
        __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                                                 \
    }                                                                                                             \
    SHIM_HOOK type __tsan_atomic##bits##_exchange(volatile type* p, type v, int) {                                \
        shim::access((void*)p, sizeof *p, true, true, __builtin_return_address(0));                               \
        return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);                                                       \
    }                                                                                                             \
    SHIM_HOOK type __tsan_atomic##bits##_compare_exchange_val(volatile type* p, type e, type v, int, int) {       \
        shim::access((void*)p, sizeof *p, true, true, __builtin_return_address(0));                               \
        __atomic_compare_exchange_n(p, &e, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                         \
        return e;                                                                                                 \
    }                                                                                                             \
    SHIM_FETCH(bits, type, add) SHIM_FETCH(bits, type, sub) SHIM_FETCH(bits, type, and)                           \
    SHIM_FETCH(bits, type, or) SHIM_FETCH(bits, type, xor) SHIM_FETCH(bits, type, nand)                           \
    SHIM_EXCHANGE(bits, type, strong) SHIM_EXCHANGE(bits, type, weak)
#define SHIM_FETCH(bits, type, op)                                                                                \
    SHIM_HOOK type __tsan_atomic##bits##_fetch_##op(volatile type* p, type v, int) {                              \
        shim::access((void*)p, sizeof *p, true, true, __builtin_return_address(0));                               \
        return __atomic_fetch_##op(p, v, __ATOMIC_SEQ_CST);                                                       \
    }
#define SHIM_EXCHANGE(bits, type, how)                                                                            \
    SHIM_HOOK bool __tsan_atomic##bits##_compare_exchange_##how(volatile type* p, type* e, type v, int, int) {    \
        shim::access((void*)p, sizeof *p, true, true, __builtin_return_address(0));                               \
        return __atomic_compare_exchange_n(p, e, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                   \
    }
SHIM_ATOMIC(8, uint8_t) SHIM_ATOMIC(16, uint16_t) SHIM_ATOMIC(32, uint32_t) SHIM_ATOMIC(64, uint64_t)
SHIM_HOOK void __tsan_atomic_thread_fence(int) {}
SHIM_HOOK void __tsan_atomic_signal_fence(int) {}
