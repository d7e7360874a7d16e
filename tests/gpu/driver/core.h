// The software GPU's driver: devices, memory, streams and events behind the names of CUDA's and HIP's drivers.
//
// A stream is a queue that runs as late as what the host waits for allows. Every operation has a place in a partial
// order (vector clocks, one entry a stream), by which memory that is used before or after its time is seen even where
// this run came out right.
#pragma once
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "protocol.h"

namespace gpu {
// The numbers are CUresult's, and hipError_t has the same.
enum Status : int {
    ok = 0, invalid_value = 1, out_of_memory = 2, not_initialized = 3, no_device = 100, invalid_device = 101,
    invalid_image = 200, invalid_context = 201, invalid_handle = 400, not_found = 500, not_ready = 600,
    illegal_address = 700, out_of_resources = 701, launch_timeout = 702, launch_failed = 719, not_permitted = 800,
    not_supported = 801, unknown = 999,
};

// A recursive lock whose waits give it up altogether.
class Monitor {
public:
    void lock() {
        if (owner == std::this_thread::get_id()) {
            depth += 1;
            return;
        }
        mutex.lock();
        owner = std::this_thread::get_id(), depth = 1;
    }
    void unlock() {
        if (--depth != 0) return;
        owner = std::thread::id();
        mutex.unlock();
    }
    template <class P> void wait(std::condition_variable& changed, P until) {
        const int held = depth;
        owner = std::thread::id(), depth = 0;
        std::unique_lock inner(mutex, std::adopt_lock);
        changed.wait(inner, until);
        inner.release();
        owner = std::this_thread::get_id(), depth = held;
    }

private:
    std::mutex mutex;
    std::atomic<std::thread::id> owner{};
    int depth = 0;
};

// ---- order ---------------------------------------------------------------------------------------------------------

// For each stream, by its number, how many of its operations come before.
using Clock = std::vector<uint64_t>;
void merge(Clock& clock, const Clock& other);
// A place in a stream: just after its operation `seq`; and what comes before that.
struct Mark {
    int stream = -1;
    uint64_t seq = 0;
    Clock clock = {};
    bool before(const Clock& later) const { return stream < 0 || ((size_t)stream < later.size() && later[stream] >= seq); }
};

struct Op {
    uint64_t seq = 0;
    std::vector<Mark> after = {}; // without clocks
    std::function<Status()> run = {};
    bool always = false; // also when the context is lost: it keeps books
};

struct Device;
struct Stream {
    int number;
    Device* device;
    bool blocking; // waits for the default stream, and that for it
    int priority = 0;
    std::deque<Op> queue = {};
    uint64_t enqueued = 0, done = 0, wanted = 0;
    Clock clock = {};
};

struct Event {
    bool timed;
    Device* device;
    bool recorded = false;
    Mark mark = {};
    std::shared_ptr<double> time = {}; // milliseconds, when it has run
};

// ---- memory --------------------------------------------------------------------------------------------------------

enum class Kind { device, pool, pinned };
struct Allocation {
    uint64_t id, address, size; // asked for; `address + size` is at most 255 bytes before a page that is never there
    Kind kind;
    Device* device; // null for pinned memory
    Mark made;
    std::map<int, uint64_t> uses = {}; // the last of each stream
    bool there = false;               // allocated, in the order of its stream
    bool freed = false, gone = false; // asked to be, and done
    std::string describe() const;
};

// ---- devices -------------------------------------------------------------------------------------------------------

struct Module {
    Device* device;
    uint32_t number;
    bool unloaded = false;
};
struct Function {
    std::shared_ptr<Module> module;
    std::string name;
    uint64_t kernel;
    unsigned warp;
    std::vector<unsigned> sizes;
    std::vector<unsigned char> are_pointers;
    size_t dynamic_shared;
};

// The process that stands for a GPU.
class Remote {
public:
    ~Remote() { stop(); }
    void stop();
    bool alive() const { return socket >= 0; }
    bool start(const std::string& program, int heap_file, uint64_t base);
    void protect(uint64_t address, uint64_t size, bool reachable);
    // False where the process has ended or, after `seconds`, been ended.
    bool ask(Request& request, const void* data, size_t size, Reply& reply, double seconds);

private:
    int socket = -1, process = -1;
};

struct Limits {
    size_t shared_bytes, shared_opt_in; // a block's: without asking, and after it asked for more
    uint64_t arch; // that devices have unless tests say so: 0x90 for sm_90, 0x90a for gfx90a
};
const Limits& limits_of_this_library(); // each front has its own

struct Device {
    int index;
    int retained = 0;
    Status lost = ok; // the error that every call answers since a kernel failed
    std::mutex talking = {};
    Remote remote = {};
    std::shared_ptr<Stream> null = {};
    uint64_t used = 0, peak = 0, pool_threshold = 0;
    uint64_t generation = 0; // of its context
};

struct Options {
    int devices = 1;
    uint64_t arch = limits_of_this_library().arch;
    uint64_t memory = uint64_t(1) << 30;
    uint64_t seed = 1;
    double seconds = 60; // for one launch
    bool hidden = false; // whoever initialises the driver is told that there is no device
    bool eager = false;  // streams run at once, not when they must
    bool hollow = false; // launches are counted and not run: what the caller itself takes
    size_t depth = 512;  // of a queue
    bool set(const std::string& name, uint64_t value);
};

struct Counters {
    uint64_t launches, allocations, frees, bytes, peak_bytes, copies_in, copies_out, copies_within, copied_bytes,
        memsets, host_functions, synchronizations, modules, live_allocations, live_streams, live_events, live_modules,
        problems;
};

// A function of the driver: counts its calls, and lets them fail as tests ask.
struct Call {
    explicit Call(const char* name);
    // Why the call may not go on, or ok.
    Status enter(bool needs_init = true);
    const char* name;
    std::atomic<uint64_t> count{0};
};

struct Driver {
    Monitor mutex;
    std::condition_variable work, progress;
    Options options;
    Limits limits = limits_of_this_library();
    std::string program; // that is a GPU
    Counters counters = {};
    std::vector<std::string> problems;
    bool initialized = false;
    int heap_file = -1;
    uint64_t base = 0, alias = 0, next_address = 0, next_id = 1, next_handle = 1;
    std::mt19937_64 random;
    std::vector<std::unique_ptr<Device>> devices;
    std::vector<std::shared_ptr<Stream>> streams; // by number
    std::map<uint64_t, Allocation> allocations;   // by address, those freed too
    std::map<uint64_t, uint64_t> registered;      // host memory that is page-locked where it is: address, size
    std::map<uint64_t, std::shared_ptr<Stream>> stream_handles;
    std::map<uint64_t, std::shared_ptr<Event>> events;
    std::map<uint64_t, std::shared_ptr<Module>> modules;
    std::map<uint64_t, std::shared_ptr<Function>> functions;
    Clock host; // what the host has waited for

    void problem(const std::string& text);

    // driver.cpp
    Status init();
    Status retain(int index);
    void release(Device& device, bool reset);
    // The device of a context that is usable; the error where it is not.
    Status usable(int index, Device*& device);
    Status load(Device& device, const void* image, uint64_t& handle);
    Status unload(uint64_t module);
    unsigned warp() const { return options.arch >> 8 == 9 ? 64 : 32; } // AMD's gfx9; sm_90 is 0x90
    int active_blocks(unsigned threads, size_t shared) const; // on a multiprocessor
    Status find(uint64_t module, const char* name, uint64_t& handle);
    Status launch(Device& device, uint64_t function, std::array<unsigned, 3> grid, std::array<unsigned, 3> block,
                  size_t shared, uint64_t stream, void** params, void** extra);

    // memory.cpp
    bool map_heap();
    Status allocate(Device* device, size_t size, Kind kind, Stream* stream, uint64_t& address);
    Status release(uint64_t address, Stream* stream, bool pinned);
    void restore(Device& device); // in a new process, what is allocated
    void forget(Device& device);  // what was allocated in a context that ends
    // The allocation in which an address lies, one past its end too, or null.
    Allocation* within(uint64_t address);
    void* reachable(uint64_t address) const { return (void*)(address - base + alias); }
    bool in_heap(uint64_t address) const { return base != 0 && address >= base && address < base + heap_bytes; }
    // Note that an operation of a stream, the next one, uses memory; false where it may not.
    bool use(Stream& stream, Allocation& memory, const char* what);
    void look(const Allocation& memory, const std::string& after);
    Status copy(Device& device, uint64_t to, uint64_t from, size_t size, uint64_t stream, bool waits);
    Status fill(Device& device, uint64_t to, uint64_t value, unsigned width, size_t count, uint64_t stream, bool waits);
    std::string leaks();
    std::string describe(uint64_t address);

    // streams.cpp
    std::shared_ptr<Stream> stream(Device& device, uint64_t handle);
    std::shared_ptr<Stream> make_stream(Device& device, bool blocking);
    uint64_t enqueue(const std::shared_ptr<Stream>& stream, std::function<Status()> run, bool always = false);
    void wait_for(Stream& stream, const Mark& mark); // what is enqueued next
    void want(Stream& stream, uint64_t seq);
    void prepare(Stream& stream); // for an operation: what its stream waits for by itself, and what the host has seen
    Status finish(Device& device, const Mark& mark); // the host waits
    Status finish(Stream& stream);
    Status finish(Device& device);
    Mark mark(const Stream& stream) const { return {stream.number, stream.enqueued, stream.clock}; }
    void worker();

    // events.cpp: streams and events as their users have them, by handles
    uint64_t create_stream(Device& device, bool blocking, int priority);
    Status destroy_stream(uint64_t handle);
    uint64_t create_event(Device& device, bool timed);
    Status destroy_event(uint64_t handle);
    Status record_event(const std::shared_ptr<Stream>& stream, uint64_t handle);
    Status wait_event(Stream& stream, uint64_t handle);
    Status query(Device& device, const Mark& mark);
    Status elapsed(uint64_t start, uint64_t end, float& milliseconds);
    Status call_host(Device& device, uint64_t stream, std::function<void()> function);

private:
    Status run(Device& device, const Function& function, Request& request, const std::vector<char>& data,
               const std::vector<uint64_t>& used);
    std::shared_ptr<Stream> pick();
    std::vector<std::vector<Mark>> pending_; // what the next operation of a stream waits for, by its number
};

Driver& driver();
extern thread_local bool in_host_function;
} // namespace gpu

#define GPU_EXPORT extern "C" __attribute__((visibility("default")))
