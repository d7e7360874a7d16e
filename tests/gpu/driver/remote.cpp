// Starts the process that stands for a GPU, and talks to it.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "core.h"

extern char** environ;

namespace gpu {
bool Remote::start(const std::string& program, int heap_file, uint64_t base) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return false;
    const int heap = fcntl(heap_file, F_DUPFD_CLOEXEC, 10), other = fcntl(ends[1], F_DUPFD_CLOEXEC, 10);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, heap, 3);
    posix_spawn_file_actions_adddup2(&actions, other, 4);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    char at[32];
    std::snprintf(at, sizeof at, "%llx", (unsigned long long)base);
    char* arguments[] = {(char*)program.c_str(), at, nullptr};
    const int failed = posix_spawn(&process, program.c_str(), &actions, &attributes, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(heap), close(other), close(ends[1]);
    socket = ends[0];
    if (failed) stop();
    return !failed;
}

void Remote::stop() {
    if (socket >= 0) close(socket);
    if (process > 0) {
        kill(process, SIGKILL);
        waitpid(process, nullptr, 0);
    }
    socket = process = -1;
}

void Remote::protect(uint64_t address, uint64_t size, bool reachable) {
    Request request = {};
    request.ask = Ask::protect;
    request.address = address, request.size = size, request.reachable = reachable;
    if (alive()) (void)!send(socket, &request, sizeof request, MSG_NOSIGNAL);
}

bool Remote::ask(Request& request, const void* data, size_t size, Reply& reply, double seconds) {
    std::vector<char> packet(sizeof request + size);
    std::memcpy(packet.data(), &request, sizeof request);
    if (size != 0) std::memcpy(packet.data() + sizeof request, data, size);
    reply.said = Said::fault;
    reply.signal = 0;
    if (!alive()) return false;
    pollfd waiting{socket, POLLIN, 0};
    const bool sent = send(socket, packet.data(), packet.size(), MSG_NOSIGNAL) == (ssize_t)packet.size();
    const bool answered = sent && poll(&waiting, 1, int(seconds * 1000)) == 1;
    if (sent && !answered) reply.signal = SIGALRM;
    if (answered && recv(socket, &reply, sizeof reply, 0) == sizeof reply && reply.said != Said::fault) return true;
    stop();
    return false;
}
} // namespace gpu
