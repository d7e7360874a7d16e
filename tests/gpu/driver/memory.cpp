// Device memory: one heap for all devices of a driver, whose addresses are never given out twice.
//
// An allocation ends (but for alignment) where a page begins that is never there, and starts in a page of its own. What
// is left of its pages is a red zone. The host can not reach the heap by the devices' addresses: it is mapped a second
// time, for copies. Only pinned memory is where the host can reach it too.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "core.h"

namespace gpu {
static constexpr uint64_t page = 4096, alignment = 256;
static constexpr unsigned char poison = 0xff, red = 0xcb; // NaN, -1, and a bool that is neither
static uint64_t up(uint64_t size, uint64_t unit) { return (size + unit - 1) / unit * unit; }
static uint64_t first_page(const Allocation& a) { return a.address / page * page; }
static uint64_t last_page(const Allocation& a) { return up(a.address + std::max<uint64_t>(a.size, 1), page); }

std::string Allocation::describe() const {
    static const char* const kinds[] = {"memory", "pool memory", "pinned memory"};
    return std::string(kinds[(int)kind]) + " #" + std::to_string(id) + " of " + std::to_string(size) + " bytes";
}

bool Driver::map_heap() {
    if (base != 0) return true;
    heap_file = memfd_create("software-gpu", MFD_CLOEXEC);
    if (heap_file < 0 || ftruncate(heap_file, (off_t)heap_bytes) != 0) return false;
    void* other = mmap(nullptr, heap_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, heap_file, 0);
    for (uint64_t at = uint64_t(16) << 40; other != MAP_FAILED && at < uint64_t(64) << 40; at += 2 * heap_bytes)
        if (mmap((void*)at, heap_bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, heap_file, 0) ==
            (void*)at) {
            base = at, alias = (uint64_t)other, next_address = base + page;
            return true;
        }
    return false;
}

static void appear(Driver& d, Allocation& a) {
    const uint64_t first = first_page(a), last = last_page(a);
    a.there = true;
    std::memset(d.reachable(first), red, a.address - first);
    std::memset(d.reachable(a.address), poison, a.size);
    std::memset(d.reachable(a.address + a.size), red, last - a.address - a.size);
    if (a.kind == Kind::pinned) mprotect((void*)first, last - first, PROT_READ | PROT_WRITE);
    for (auto& device : d.devices)
        if (a.device == nullptr || a.device == device.get()) device->remote.protect(first, last - first, true);
}

static void vanish(Driver& d, Allocation& a) {
    const uint64_t first = first_page(a), last = last_page(a);
    d.look(a, "");
    a.gone = true;
    if (a.kind == Kind::pinned) mprotect((void*)first, last - first, PROT_NONE);
    for (auto& device : d.devices)
        if (a.device == nullptr || a.device == device.get()) device->remote.protect(first, last - first, false);
    fallocate(d.heap_file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(first - d.base), (off_t)(last - first));
}

void Driver::restore(Device& device) {
    for (auto& [at, a] : allocations)
        if (a.there && !a.gone && (a.device == nullptr || a.device == &device))
            device.remote.protect(first_page(a), last_page(a) - first_page(a), true);
}

void Driver::forget(Device& device) {
    for (auto& [at, a] : allocations)
        if (a.device == &device && !a.gone) {
            if (!a.freed) counters.live_allocations -= 1, counters.bytes -= a.size;
            a.freed = true;
            vanish(*this, a);
        }
    device.used = 0;
}

Status Driver::allocate(Device* device, size_t size, Kind kind, Stream* stream, uint64_t& address) {
    if (size == 0) return invalid_value;
    const uint64_t span = up(size, alignment), pages = up(span, page);
    if (device != nullptr && (size > options.memory || device->used + size > options.memory)) return out_of_memory;
    if (next_address + pages + 2 * page > base + heap_bytes) return out_of_memory;
    address = next_address + pages - span;
    next_address += pages + page;
    Allocation& made = allocations[address] = {next_id++, address, size, kind, device, {}};
    if (device != nullptr) device->peak = std::max(device->peak, device->used += size);
    counters.allocations += 1, counters.live_allocations += 1;
    counters.peak_bytes = std::max(counters.peak_bytes, counters.bytes += size);
    if (stream == nullptr) {
        appear(*this, made);
        return ok;
    }
    const auto shared = streams[stream->number];
    enqueue(shared, [this, address] {
        std::lock_guard lock(mutex);
        if (!allocations[address].gone) appear(*this, allocations[address]);
        return ok;
    }, true);
    made.made = mark(*stream);
    return ok;
}

Status Driver::release(uint64_t address, Stream* stream, bool pinned) {
    const auto found = allocations.find(address);
    if (found == allocations.end()) {
        problem("free of " + describe(address) + ", which no allocation begins with");
        return invalid_value;
    }
    Allocation& memory = found->second;
    if (memory.freed) problem(memory.describe() + " is freed twice");
    if (memory.freed || pinned != (memory.kind == Kind::pinned)) return invalid_value;
    if (stream != nullptr && memory.kind == Kind::device) return invalid_value;
    const auto ordered = [&](const Clock& clock, const std::string& where) {
        if (!memory.made.before(clock))
            problem(memory.describe() + " is freed " + where + ", which does not wait for its allocation on stream " +
                    std::to_string(memory.made.stream));
        for (const auto& [user, seq] : memory.uses)
            if (!Mark{user, seq}.before(clock))
                problem(memory.describe() + " is freed " + where + " while stream " + std::to_string(user) +
                        " may still use it");
    };
    const uint64_t id = memory.id;
    if (stream != nullptr) {
        prepare(*stream);
        ordered(stream->clock, "on stream " + std::to_string(stream->number));
    } else if (memory.kind == Kind::device) {
        finish(*memory.device);
    } else {
        ordered(host, "by the host");
        for (auto& device : devices) finish(*device); // so that nothing worse follows
    }
    // While this waited others may have run.
    if (memory.freed || memory.id != id) return invalid_value;
    memory.freed = true;
    if (memory.device != nullptr) memory.device->used -= memory.size;
    counters.frees += 1, counters.live_allocations -= 1, counters.bytes -= memory.size;
    if (stream == nullptr) {
        vanish(*this, memory);
        return ok;
    }
    enqueue(streams[stream->number], [this, address] {
        std::lock_guard lock(mutex);
        if (!allocations[address].gone) vanish(*this, allocations[address]);
        return ok;
    }, true);
    return ok;
}

Allocation* Driver::within(uint64_t address) {
    auto after = allocations.upper_bound(address);
    if (after == allocations.begin()) return nullptr;
    Allocation& before = std::prev(after)->second;
    return address <= before.address + before.size ? &before : nullptr;
}

std::string Driver::describe(uint64_t address) {
    char number[32];
    std::snprintf(number, sizeof number, "0x%llx", (unsigned long long)address);
    if (!in_heap(address)) return std::string(number) + (address < page ? " (null)" : " (host memory)");
    const auto after = allocations.upper_bound(address);
    const Allocation* before = after == allocations.begin() ? nullptr : &std::prev(after)->second;
    if (before != nullptr && address < last_page(*before) + page) {
        const std::string freed = before->freed ? ", which is freed" : "", which = before->describe() + freed;
        if (address < before->address + before->size)
            return std::string(number) + " (byte " + std::to_string(address - before->address) + " of " + which + ")";
        return std::string(number) + " (" + std::to_string(address - before->address - before->size) +
               " bytes past the end of " + which + ")";
    }
    if (after != allocations.end() && address >= first_page(after->second) - page)
        return std::string(number) + " (" + std::to_string(after->second.address - address) + " bytes before " +
               after->second.describe() + ")";
    return std::string(number) + " (no allocation)";
}

bool Driver::use(Stream& stream, Allocation& memory, const char* what) {
    prepare(stream);
    if (memory.freed) problem(std::string(what) + " is given " + memory.describe() + ", which is freed");
    if (!memory.made.before(stream.clock))
        problem(std::string(what) + " on stream " + std::to_string(stream.number) + " is given " + memory.describe() +
                ", whose allocation on stream " + std::to_string(memory.made.stream) + " it does not wait for");
    memory.uses[stream.number] = stream.enqueued + 1;
    return !memory.freed;
}

void Driver::look(const Allocation& a, const std::string& after) {
    if (!a.there || a.gone) return;
    const uint64_t first = first_page(a), last = last_page(a), end = a.address + a.size;
    const auto check = [&](uint64_t from, uint64_t to) {
        auto* bytes = (unsigned char*)reachable(from);
        for (uint64_t i = 0; i < to - from; ++i)
            if (bytes[i] != red) {
                problem((after.empty() ? std::string("something") : after) + " wrote to " + describe(from + i));
                std::memset(bytes, red, to - from);
                return;
            }
    };
    check(first, a.address);
    check(end, last);
}

Status Driver::copy(Device& device, uint64_t to, uint64_t from, size_t size, uint64_t handle, bool waits) {
    const auto queue = stream(device, handle);
    if (queue == nullptr) return invalid_handle;
    if (size == 0) return ok;
    const uint64_t ends[] = {to, from};
    Allocation* memory[2];
    bool async = true; // with regard to the host
    for (int i = 0; i < 2; ++i) {
        memory[i] = in_heap(ends[i]) ? within(ends[i]) : nullptr;
        if (in_heap(ends[i])) {
            if (memory[i] == nullptr || memory[i]->freed || ends[i] + size > memory[i]->address + memory[i]->size) {
                problem("copy of " + std::to_string(size) + " bytes " + (i ? "from " : "to ") + describe(ends[i]));
                return invalid_value;
            }
        } else if (ends[i] == 0) {
            return invalid_value;
        } else {
            const auto after = registered.upper_bound(ends[i]);
            async = after != registered.begin() && ends[i] + size <= std::prev(after)->first + std::prev(after)->second;
        }
    }
    const bool in = memory[0] != nullptr && memory[0]->kind != Kind::pinned;
    const bool out = memory[1] != nullptr && memory[1]->kind != Kind::pinned;
    (in && out ? counters.copies_within : in ? counters.copies_in : counters.copies_out) += 1;
    counters.copied_bytes += size;
    for (Allocation* one : memory)
        if (one != nullptr) use(*queue, *one, "a copy");
    void* target = memory[0] != nullptr ? reachable(to) : (void*)to;
    void* source = memory[1] != nullptr ? reachable(from) : (void*)from;
    std::shared_ptr<std::vector<char>> staged; // host memory that is not page-locked is read before the call returns
    if (memory[1] == nullptr && !async) {
        staged = std::make_shared<std::vector<char>>((char*)source, (char*)source + size);
        source = staged->data();
    }
    const bool returns_late = memory[0] == nullptr && !async;
    enqueue(queue, [=] {
        std::memmove(target, source, size);
        (void)staged;
        return ok;
    });
    return waits || returns_late ? finish(*queue) : ok;
}

Status Driver::fill(Device& device, uint64_t to, uint64_t value, unsigned width, size_t count, uint64_t handle,
                    bool waits) {
    const auto queue = stream(device, handle);
    if (queue == nullptr) return invalid_handle;
    if (count == 0) return ok;
    Allocation* memory = in_heap(to) ? within(to) : nullptr;
    if (memory == nullptr || memory->freed || to % width != 0 || to + count * width > memory->address + memory->size)
        return invalid_value;
    counters.memsets += 1;
    use(*queue, *memory, "a fill");
    auto* target = (char*)reachable(to);
    enqueue(queue, [=] {
        for (size_t i = 0; i < count; ++i) std::memcpy(target + i * width, &value, width);
        return ok;
    });
    return waits ? finish(*queue) : ok;
}

std::string Driver::leaks() {
    std::string text;
    for (const auto& [at, memory] : allocations)
        if (!memory.freed) text += memory.describe() + "\n";
    return text;
}
} // namespace gpu
