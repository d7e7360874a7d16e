// Streams and events as their users have them: handles that are never given out twice.
#include <chrono>

#include "core.h"

namespace gpu {
uint64_t Driver::create_stream(Device& device, bool blocking, int priority) {
    const uint64_t handle = 0x500000000000 + 16 * next_handle++;
    stream_handles[handle] = make_stream(device, blocking);
    stream_handles[handle]->priority = priority;
    counters.live_streams += 1;
    return handle;
}

// What is queued still runs.
Status Driver::destroy_stream(uint64_t handle) {
    if (stream_handles.erase(handle) == 0) return invalid_handle;
    counters.live_streams -= 1;
    return ok;
}

uint64_t Driver::create_event(Device& device, bool timed) {
    const uint64_t handle = 0x600000000000 + 16 * next_handle++;
    events[handle] = std::make_shared<Event>(Event{timed, &device});
    counters.live_events += 1;
    return handle;
}

Status Driver::destroy_event(uint64_t handle) {
    if (events.erase(handle) == 0) return invalid_handle;
    counters.live_events -= 1;
    return ok;
}

Status Driver::record_event(const std::shared_ptr<Stream>& stream, uint64_t handle) {
    const auto found = events.find(handle);
    if (found == events.end() || found->second->device != stream->device) return invalid_handle;
    const auto time = std::make_shared<double>(-1);
    enqueue(stream, [this, time] {
        const auto now = std::chrono::steady_clock::now().time_since_epoch();
        std::lock_guard lock(mutex);
        *time = std::chrono::duration<double, std::milli>(now).count();
        return ok;
    });
    found->second->recorded = true;
    found->second->mark = mark(*stream);
    found->second->time = time;
    return ok;
}

Status Driver::wait_event(Stream& stream, uint64_t handle) {
    const auto found = events.find(handle);
    if (found == events.end()) return invalid_handle;
    if (found->second->recorded) wait_for(stream, found->second->mark);
    return ok;
}

// Whether it is reached; it will be, as who asks may ask until it is.
Status Driver::query(Device& device, const Mark& mark) {
    Stream& stream = *streams[mark.stream];
    if (device.lost != ok) return device.lost;
    if (stream.done >= mark.seq) {
        merge(host, mark.clock);
        return ok;
    }
    want(stream, mark.seq);
    return not_ready;
}

Status Driver::elapsed(uint64_t start, uint64_t end, float& milliseconds) {
    const auto first = events.find(start), last = events.find(end);
    if (first == events.end() || last == events.end()) return invalid_handle;
    const Event &a = *first->second, &b = *last->second;
    if (!a.timed || !b.timed || !a.recorded || !b.recorded) return invalid_handle;
    if (*a.time < 0 || *b.time < 0) return not_ready;
    milliseconds = (float)(*b.time - *a.time);
    return ok;
}

Status Driver::call_host(Device& device, uint64_t handle, std::function<void()> function) {
    const auto queue = stream(device, handle);
    if (queue == nullptr) return invalid_handle;
    counters.host_functions += 1;
    enqueue(queue, [function = std::move(function)] {
        in_host_function = true;
        function();
        in_host_function = false;
        return ok;
    });
    return ok;
}
} // namespace gpu
