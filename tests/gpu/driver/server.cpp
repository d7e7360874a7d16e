// The GPU: a process of its own, which has the device's memory mapped and runs kernels that shim.h compiled.
//
// Host memory is not there, device memory that is not allocated is there and may not be touched, and a kernel that
// touches either ends this process: the driver reports the address, as a GPU's context is lost.
// Arguments: where the heap is to be mapped. Descriptor 3 is the heap, 4 the socket.
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "../../shim/abi.h"
#include "protocol.h"

using namespace gpu;

static constexpr int heap_file = 3, driver = 4;
static bool launching;

static void die_of(int signal, siginfo_t* info, void*) {
    static Reply reply;
    reply.said = Said::fault;
    reply.signal = (uint32_t)signal;
    reply.value = (uint64_t)info->si_addr;
    if (launching) (void)!send(driver, &reply, sizeof reply, MSG_NOSIGNAL);
    _exit(1);
}

static void load(Reply& reply, std::vector<void*>& modules, const char* path) {
    void* module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (module == nullptr) {
        reply.said = Said::refused;
        std::snprintf(reply.text, sizeof reply.text, "%s", dlerror());
        return;
    }
    modules.push_back(module);
    reply.value = modules.size() - 1;
}

static void find(Reply& reply, void* module, const char* name) {
    const auto* kernel = (const ShimKernel*)dlsym(module, (std::string("shim_kernel_") + name).c_str());
    if (kernel == nullptr || kernel->arguments > max_arguments) {
        reply.said = Said::refused;
        return;
    }
    reply.value = (uint64_t)kernel;
    reply.argument_count = kernel->arguments;
    reply.warp = kernel->warp;
    std::memcpy(reply.sizes, kernel->sizes, kernel->arguments * sizeof *kernel->sizes);
    std::memcpy(reply.are_pointers, kernel->are_pointers, kernel->arguments);
}

static void launch(Reply& reply, const Request& request, const char* data) {
    const void* args[max_arguments];
    std::vector<std::vector<uint64_t>> values; // aligned as any argument may want to be
    for (unsigned i = 0; i < request.argument_count; data += request.sizes[i++]) {
        values.emplace_back(request.sizes[i] / 8 + 2);
        std::memcpy(values.back().data(), data, request.sizes[i]);
        args[i] = values.back().data();
    }
    const uint32_t *g = request.grid, *b = request.block;
    const ShimLaunch given{{g[0], g[1], g[2]}, {b[0], b[1], b[2]}, request.shared_bytes, request.seed, args,
                           reply.text, sizeof reply.text};
    launching = true;
    ((const ShimKernel*)request.kernel)->run(&given);
    launching = false;
    if (reply.text[0] != 0) reply.said = Said::wrong;
}

int main(int, char** arguments) {
    std::thread([] { // ends with the host's process, in the midst of a kernel too
        pollfd host{driver, 0, 0};
        while (poll(&host, 1, -1) < 1 || (host.revents & (POLLHUP | POLLERR)) == 0) {}
        _exit(0);
    }).detach();
    const rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
    void* base = (void*)std::strtoull(arguments[1], nullptr, 16);
    if (mmap(base, heap_bytes, PROT_NONE, MAP_SHARED | MAP_FIXED_NOREPLACE | MAP_NORESERVE, heap_file, 0) != base)
        return 1;
    struct sigaction action = {};
    action.sa_sigaction = die_of;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}) sigaction(signal, &action, nullptr);
    alignas(16) static char stack[64 << 10];
    const stack_t other{stack, 0, sizeof stack};
    sigaltstack(&other, nullptr);

    std::vector<void*> modules;
    alignas(16) static char packet[packet_bytes + 1];
    static Reply reply;
    for (ssize_t size; (size = recv(driver, packet, packet_bytes, 0)) >= (ssize_t)sizeof(Request);) {
        packet[size] = 0;
        const auto& request = *(const Request*)packet;
        const char* data = packet + sizeof request;
        reply.said = Said::fine;
        reply.text[0] = 0;
        switch (request.ask) {
        case Ask::protect:
            mprotect((void*)request.address, request.size, request.reachable ? PROT_READ | PROT_WRITE : PROT_NONE);
            continue;
        case Ask::load: load(reply, modules, data); break;
        case Ask::find: find(reply, modules[request.module], data); break;
        case Ask::launch: launch(reply, request, data); break;
        }
        if (send(driver, &reply, sizeof reply, MSG_NOSIGNAL) < 0) return 0;
    }
    return 0;
}
