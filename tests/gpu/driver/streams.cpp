// Streams: queues that run when somebody waits for what is in them.
#include <algorithm>
#include <thread>

#include "core.h"

namespace gpu {
thread_local bool in_host_function = false;

void merge(Clock& clock, const Clock& other) {
    if (clock.size() < other.size()) clock.resize(other.size());
    for (size_t i = 0; i < other.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

std::shared_ptr<Stream> Driver::make_stream(Device& device, bool blocking) {
    auto made = std::make_shared<Stream>(Stream{(int)streams.size(), &device, blocking});
    streams.push_back(made);
    pending_.emplace_back();
    return made;
}

std::shared_ptr<Stream> Driver::stream(Device& device, uint64_t handle) {
    if (handle <= 1) return device.null;
    if (handle == 2) { // this thread's
        static thread_local std::map<std::pair<Device*, uint64_t>, std::shared_ptr<Stream>> own;
        auto& found = own[{&device, device.generation}];
        return found != nullptr ? found : found = make_stream(device, true);
    }
    const auto found = stream_handles.find(handle);
    return found != stream_handles.end() && found->second->device == &device ? found->second : nullptr;
}

void Driver::wait_for(Stream& stream, const Mark& mark) {
    if (mark.stream == stream.number || mark.before(stream.clock)) return;
    pending_[stream.number].push_back({mark.stream, mark.seq});
    merge(stream.clock, mark.clock);
    if (stream.clock.size() <= (size_t)mark.stream) stream.clock.resize(mark.stream + 1);
    stream.clock[mark.stream] = std::max(stream.clock[mark.stream], mark.seq);
}

void Driver::prepare(Stream& stream) {
    Device& device = *stream.device;
    if (&stream == device.null.get()) {
        for (const auto& other : streams)
            if (other->device == &device && other->blocking && other->enqueued != 0) wait_for(stream, mark(*other));
    } else if (stream.blocking && device.null->enqueued != 0) {
        wait_for(stream, mark(*device.null));
    }
    merge(stream.clock, host);
}

uint64_t Driver::enqueue(const std::shared_ptr<Stream>& stream, std::function<Status()> run, bool always) {
    std::lock_guard lock(mutex);
    prepare(*stream);
    Op op{++stream->enqueued, std::move(pending_[stream->number]), std::move(run), always};
    pending_[stream->number].clear();
    if (stream->clock.size() <= (size_t)stream->number) stream->clock.resize(stream->number + 1);
    const uint64_t seq = stream->clock[stream->number] = op.seq;
    stream->queue.push_back(std::move(op));
    if (options.eager) want(*stream, seq);
    if (stream->queue.size() > options.depth) {
        const uint64_t half = seq - options.depth / 2;
        want(*stream, half);
        mutex.wait(progress, [&] { return stream->done >= half; });
    }
    return seq;
}

void Driver::want(Stream& stream, uint64_t seq) {
    if (seq <= stream.wanted) return;
    stream.wanted = seq;
    work.notify_all();
}

Status Driver::finish(Device& device, const Mark& mark) {
    std::lock_guard lock(mutex);
    Stream& stream = *streams[mark.stream];
    want(stream, mark.seq);
    mutex.wait(progress, [&] { return stream.done >= mark.seq; });
    merge(host, mark.clock);
    return device.lost;
}

Status Driver::finish(Stream& stream) {
    std::lock_guard lock(mutex);
    Device& device = *stream.device;
    counters.synchronizations += 1;
    if (&stream == device.null.get())
        for (size_t i = 0; i < streams.size(); ++i)
            if (streams[i]->device == &device && streams[i]->blocking) finish(device, mark(*streams[i]));
    return finish(device, mark(stream));
}

Status Driver::finish(Device& device) {
    std::lock_guard lock(mutex);
    counters.synchronizations += 1;
    for (size_t i = 0; i < streams.size(); ++i)
        if (streams[i]->device == &device) finish(device, mark(*streams[i]));
    return device.lost;
}

// The next operation to run among those that are wanted, or that what is wanted waits for: any that may.
std::shared_ptr<Stream> Driver::pick() {
    for (bool more = true; more;) {
        more = false;
        for (const auto& stream : streams) {
            if (stream->done >= stream->wanted || stream->queue.empty()) continue;
            for (const Mark& other : stream->queue.front().after)
                if (streams[other.stream]->wanted < other.seq) streams[other.stream]->wanted = other.seq, more = true;
        }
    }
    std::vector<std::shared_ptr<Stream>> ready;
    for (const auto& stream : streams) {
        if (stream->done >= stream->wanted || stream->queue.empty()) continue;
        const auto& after = stream->queue.front().after;
        if (std::all_of(after.begin(), after.end(), [&](const Mark& m) { return streams[m.stream]->done >= m.seq; }))
            ready.push_back(stream);
    }
    return ready.empty() ? nullptr : ready[random() % ready.size()];
}

void Driver::worker() {
    std::lock_guard lock(mutex);
    for (;;) {
        std::shared_ptr<Stream> stream;
        mutex.wait(work, [&] { return (stream = pick()) != nullptr; });
        const Op op = std::move(stream->queue.front());
        stream->queue.pop_front();
        if (stream->device->lost == ok || op.always) {
            mutex.unlock();
            const Status status = op.run();
            mutex.lock();
            if (stream->device->lost == ok) stream->device->lost = status;
        }
        stream->done = op.seq;
        progress.notify_all();
    }
}
} // namespace gpu
