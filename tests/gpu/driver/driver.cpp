// Contexts, modules and launches; and what tests ask of the driver beside what a driver does.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "core.h"

namespace gpu {
static std::atomic<bool> forked{false}; // a child of a process that has used the GPU cannot
static std::vector<Call*>& calls() {
    static std::vector<Call*> all;
    return all;
}
// Which call is to fail: the `countdown`th from now, of all or of a name.
static struct Fault {
    std::atomic<bool> armed{false};
    std::string name;
    uint64_t countdown;
    Status status;
} fault;
static std::atomic<uint64_t> calls_made{0};

// What a process is told of the driver that it finds: the GPU's program, and options as in "devices=2,arch=0x90".
static void read_environment(Driver& d) {
    const char* program = std::getenv("SOFTWARE_GPU_PROGRAM");
    if (program != nullptr) d.program = program;
    const char* text = std::getenv("SOFTWARE_GPU_OPTIONS");
    for (std::string rest = text == nullptr ? "" : text; !rest.empty();) {
        const size_t end = std::min(rest.find(','), rest.size()), equal = rest.find('=');
        d.options.set(rest.substr(0, equal), std::strtoull(rest.c_str() + equal + 1, nullptr, 0));
        rest.erase(0, end + 1);
    }
}

Driver& driver() {
    static auto* const one = [] {
        auto* made = new Driver; // for as long as the process lives: its worker does
        read_environment(*made);
        return made;
    }();
    return *one;
}

bool Options::set(const std::string& name, uint64_t value) {
    if (name == "devices") devices = (int)value;
    else if (name == "arch") arch = value;
    else if (name == "memory") memory = value;
    else if (name == "seed") seed = value;
    else if (name == "milliseconds") seconds = (double)value / 1000;
    else if (name == "hidden") hidden = value != 0;
    else if (name == "eager") eager = value != 0;
    else if (name == "hollow") hollow = value != 0;
    else if (name == "depth") depth = std::max<uint64_t>(value, 2);
    else return false;
    return true;
}

Call::Call(const char* name) : name(name) {
    std::lock_guard lock(driver().mutex);
    calls().push_back(this);
}

Status Call::enter(bool needs_init) {
    if (forked || (needs_init && !driver().initialized)) return not_initialized;
    if (in_host_function) return not_permitted;
    count.fetch_add(1, std::memory_order_relaxed);
    calls_made.fetch_add(1, std::memory_order_relaxed);
    if (!fault.armed.load(std::memory_order_relaxed)) return ok;
    std::lock_guard lock(driver().mutex);
    if (!fault.armed || (!fault.name.empty() && fault.name != name) || --fault.countdown != 0) return ok;
    fault.armed = false;
    return fault.status;
}

void Driver::problem(const std::string& text) {
    std::lock_guard lock(mutex);
    counters.problems += 1;
    if (problems.size() < 100 && std::find(problems.begin(), problems.end(), text) == problems.end())
        problems.push_back(text);
}

Status Driver::init() {
    std::lock_guard lock(mutex);
    if (forked) return not_initialized;
    if (options.devices == 0 || options.hidden) return no_device;
    if (initialized) return ok;
    if (!map_heap()) return unknown;
    random.seed(options.seed);
    for (int i = 0; i < options.devices; ++i) {
        devices.push_back(std::make_unique<Device>());
        devices.back()->index = i;
        devices.back()->null = make_stream(*devices.back(), true);
    }
    std::thread([this] { worker(); }).detach();
    pthread_atfork(nullptr, nullptr, [] { forked = true; });
    initialized = true;
    return ok;
}

Status Driver::retain(int index) {
    if (index < 0 || index >= (int)devices.size()) return invalid_device;
    Device& device = *devices[index];
    if (device.retained++ != 0 || device.remote.alive()) return ok;
    if (!device.remote.start(program, heap_file, base)) return unknown;
    restore(device);
    device.lost = ok;
    device.generation += 1;
    return ok;
}

void Driver::release(Device& device, bool reset) {
    if (device.retained == 0 || (!reset && --device.retained != 0)) return;
    finish(device);
    for (auto& [handle, module] : modules)
        if (module->device == &device && !module->unloaded) module->unloaded = true, counters.live_modules -= 1;
    for (auto one = stream_handles.begin(); one != stream_handles.end();)
        one = one->second->device == &device ? (counters.live_streams -= 1, stream_handles.erase(one)) : std::next(one);
    for (auto one = events.begin(); one != events.end();)
        one = one->second->device == &device ? (counters.live_events -= 1, events.erase(one)) : std::next(one);
    forget(device);
    device.remote.stop();
    device.lost = ok;
    if (reset && device.retained != 0) {
        device.retained = 0;
        retain(device.index);
    }
}

Status Driver::usable(int index, Device*& device) {
    if (index < 0 || index >= (int)devices.size()) return invalid_context;
    device = devices[index].get();
    return device->retained == 0 ? invalid_context : device->lost;
}

Status Driver::load(Device& device, const void* image, uint64_t& handle) {
    const auto* bytes = (const unsigned char*)image;
    if (std::memcmp(bytes, "\177ELF\2", 5) != 0) {
        problem("a module is loaded that is no shared object of the shim's");
        return invalid_image;
    }
    uint64_t table; // an ELF file ends with the table of its sections
    uint16_t entry, count;
    std::memcpy(&table, bytes + 0x28, 8), std::memcpy(&entry, bytes + 0x3a, 2), std::memcpy(&count, bytes + 0x3c, 2);
    const size_t size = table + (uint64_t)entry * count;
    const int file = memfd_create("module", MFD_CLOEXEC);
    for (size_t done = 0; file >= 0 && done < size;) {
        const ssize_t more = write(file, bytes + done, size - done);
        if (more <= 0) break;
        done += (size_t)more;
    }
    // The dynamic loader takes an equal path for the same library, and numbers of files come again: each path is
    // written in its own way.
    std::string path = "/proc/";
    for (uint64_t number = next_handle; number != 0; number >>= 1) path += number & 1 ? "./" : "/";
    path += std::to_string(getpid()) + "/fd/" + std::to_string(file);
    Request request = {};
    Reply reply = {};
    request.ask = Ask::load;
    bool there;
    {
        std::lock_guard talk(device.talking);
        there = device.remote.ask(request, path.c_str(), path.size() + 1, reply, options.seconds);
    }
    close(file);
    if (!there) return unknown;
    if (reply.said != Said::fine) {
        problem(std::string("a module cannot be loaded: ") + reply.text);
        return invalid_image;
    }
    handle = 0x300000000000 + 16 * next_handle++;
    modules[handle] = std::make_shared<Module>(Module{&device, (uint32_t)reply.value});
    counters.modules += 1, counters.live_modules += 1;
    return ok;
}

Status Driver::unload(uint64_t module) {
    const auto found = modules.find(module);
    if (found == modules.end() || found->second->unloaded) return invalid_handle;
    finish(*found->second->device);
    found->second->unloaded = true;
    counters.live_modules -= 1;
    return ok;
}

int Driver::active_blocks(unsigned threads, size_t shared) const {
    const uint64_t by_shared = shared == 0 ? 32 : (limits.shared_opt_in + 1024) / (shared + 1024);
    return (int)std::min<uint64_t>({32, 2048 / threads, by_shared});
}

Status Driver::find(uint64_t module, const char* name, uint64_t& handle) {
    const auto found = modules.find(module);
    if (found == modules.end() || found->second->unloaded) return invalid_handle;
    Device& device = *found->second->device;
    Request request = {};
    Reply reply = {};
    request.ask = Ask::find, request.module = found->second->number;
    {
        std::lock_guard talk(device.talking);
        if (!device.remote.ask(request, name, std::strlen(name) + 1, reply, options.seconds)) return unknown;
    }
    if (reply.said != Said::fine) return not_found;
    if (reply.warp != warp()) {
        problem("kernel " + std::string(name) + " is compiled for warps of " + std::to_string(reply.warp) + " threads");
        return invalid_image;
    }
    handle = 0x400000000000 + 16 * next_handle++;
    const unsigned n = reply.argument_count;
    const std::vector<unsigned> sizes(reply.sizes, reply.sizes + n);
    const std::vector<unsigned char> are_pointers(reply.are_pointers, reply.are_pointers + n);
    functions[handle] = std::make_shared<Function>(
        Function{found->second, name, reply.value, reply.warp, sizes, are_pointers, limits.shared_bytes});
    return ok;
}

// Where each argument lies, of those that lie one after the other as in a struct.
static std::vector<void*> unpack(void** extra, const std::vector<unsigned>& sizes) {
    char* buffer = nullptr;
    size_t bytes = 0, at = 0;
    for (; extra != nullptr && *extra != nullptr; extra += 2) {
        if (*extra == (void*)1) buffer = (char*)extra[1];
        if (*extra == (void*)2) bytes = *(size_t*)extra[1];
        if (*extra == (void*)3) break; // HIP's end
    }
    std::vector<void*> found;
    for (unsigned size : sizes) {
        const size_t unit = std::min<size_t>(size & -size, 8);
        at = (at + unit - 1) / unit * unit;
        if (buffer == nullptr || at + size > bytes) return {};
        found.push_back(buffer + at);
        at += size;
    }
    return found;
}

Status Driver::launch(Device& device, uint64_t handle, std::array<unsigned, 3> grid, std::array<unsigned, 3> block,
                      size_t shared, uint64_t stream_handle, void** params, void** extra) {
    const auto found = functions.find(handle);
    if (found == functions.end() || found->second->module->unloaded) return invalid_handle;
    const auto function = found->second;
    const auto queue = stream(device, stream_handle);
    if (queue == nullptr || function->module->device != &device) return invalid_handle;
    const uint64_t threads = uint64_t(block[0]) * block[1] * block[2];
    if (threads == 0 || threads > 1024 || block[2] > 64 || grid[0] == 0 || grid[1] == 0 || grid[2] == 0 ||
        grid[0] > 0x7fffffff || grid[1] > 65535 || grid[2] > 65535 || shared > function->dynamic_shared)
        return invalid_value;
    std::vector<void*> unpacked;
    if (params == nullptr && !function->sizes.empty()) {
        unpacked = unpack(extra, function->sizes);
        if (unpacked.size() != function->sizes.size()) return invalid_value;
        params = unpacked.data();
    }
    counters.launches += 1;
    if (options.hollow) return ok;

    auto request = std::make_shared<Request>();
    *request = {};
    request->ask = Ask::launch, request->kernel = function->kernel;
    std::copy(grid.begin(), grid.end(), request->grid);
    std::copy(block.begin(), block.end(), request->block);
    request->shared_bytes = shared, request->seed = options.seed == 0 ? 0 : random() | 1;
    request->argument_count = (uint32_t)function->sizes.size();
    auto data = std::make_shared<std::vector<char>>();
    auto used = std::make_shared<std::vector<uint64_t>>();
    for (size_t i = 0; i < function->sizes.size(); ++i) {
        request->sizes[i] = function->sizes[i];
        data->insert(data->end(), (char*)params[i], (char*)params[i] + function->sizes[i]);
        uint64_t value = 0;
        if (function->are_pointers[i]) std::memcpy(&value, params[i], sizeof value);
        Allocation* memory = in_heap(value) ? within(value) : nullptr;
        if (memory == nullptr) continue;
        use(*queue, *memory, ("kernel " + function->name).c_str());
        used->push_back(memory->address);
    }
    enqueue(queue, [this, function, request, data, used, &device] { return run(device, *function, *request, *data, *used); });
    return ok;
}

Status Driver::run(Device& device, const Function& function, Request& request, const std::vector<char>& data,
                   const std::vector<uint64_t>& used) {
    Reply reply = {};
    bool there;
    {
        std::lock_guard talk(device.talking);
        there = device.remote.ask(request, data.data(), data.size(), reply, options.seconds);
    }
    std::lock_guard lock(mutex);
    const std::string name = "kernel " + function.name;
    for (uint64_t address : used) look(allocations[address], name);
    if (there && reply.said == Said::fine) return ok;
    if (there) {
        problem(name + ", " + reply.text);
        return launch_failed;
    }
    if (reply.signal == SIGALRM) {
        problem(name + " does not end");
        return launch_timeout;
    }
    if (reply.signal != SIGSEGV && reply.signal != SIGBUS) {
        problem(name + " ended by signal " + std::to_string(reply.signal));
        return launch_failed;
    }
    problem(name + " reads or writes at " + describe(reply.value));
    return illegal_address;
}
} // namespace gpu

// ---- what tests ask --------------------------------------------------------------------------------------------------

using namespace gpu;

// Give an option a value; what is there after the driver is initialised concerns what comes then.
GPU_EXPORT int software_gpu_set(const char* name, uint64_t value) {
    Driver& d = driver();
    std::lock_guard lock(d.mutex);
    const bool known = d.options.set(name, value);
    d.random.seed(d.options.seed);
    return known;
}

// Where the program is that stands for a GPU.
GPU_EXPORT void software_gpu_program(const char* path) { driver().program = path; }

// Let the `nth` call from now fail, of all or of those of a name; 0 takes it back.
GPU_EXPORT void software_gpu_fail(const char* name, uint64_t nth, int status) {
    std::lock_guard lock(driver().mutex);
    fault.name = name, fault.countdown = nth, fault.status = (Status)status;
    fault.armed = nth != 0;
}

// Calls so far: of all, or of a name.
GPU_EXPORT uint64_t software_gpu_calls(const char* name) {
    if (*name == 0) return calls_made;
    std::lock_guard lock(driver().mutex);
    uint64_t sum = 0;
    for (const Call* call : calls())
        if (std::strcmp(call->name, name) == 0) sum += call->count;
    return sum;
}

GPU_EXPORT void software_gpu_counters(Counters* counters) {
    std::lock_guard lock(driver().mutex);
    *counters = driver().counters;
}

static size_t give(const std::string& text, char* buffer, size_t size) {
    if (size != 0) std::snprintf(buffer, size, "%s", text.c_str());
    return text.size();
}

// The misuse that was found, a line each. What comes in `buffer` is forgotten.
GPU_EXPORT size_t software_gpu_problems(char* buffer, size_t size) {
    Driver& d = driver();
    std::lock_guard lock(d.mutex);
    for (const auto& [at, memory] : d.allocations)
        if (!memory.freed) d.look(memory, "");
    std::string text;
    for (const std::string& one : d.problems) text += one + "\n";
    if (text.size() < size) d.problems.clear();
    return give(text, buffer, size);
}

// Ends the processes that are its GPUs; nothing runs on them any more.
GPU_EXPORT void software_gpu_stop() {
    std::lock_guard lock(driver().mutex);
    for (auto& device : driver().devices) {
        std::lock_guard talk(device->talking);
        device->remote.stop();
    }
}

// What is allocated, a line each.
GPU_EXPORT size_t software_gpu_leaks(char* buffer, size_t size) {
    std::lock_guard lock(driver().mutex);
    return give(driver().leaks(), buffer, size);
}
