// What PyTorch asks of the kind of device "cuda" where it is built without: autograd has a thread for each device, which
// works on the streams of the forward pass and has them wait for each other by events.
// (c10/core/impl/DeviceGuardImplInterface.h, ATen/detail/CUDAHooksInterface.h, torch/csrc/autograd/engine.h)
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/autograd/engine.h>

#include <new>

namespace {

constexpr auto CUDA = c10::DeviceType::CUDA;

// The driver's functions, by the names that dyn.runtime.vendors has for them, and the device's handle.
struct Functions {
  int (*get_current)(void**);
  int (*set_current)(void*);
  int (*create_event)(void**, unsigned);
  int (*record_event)(void*, void*);
  int (*wait_event)(void*, void*, unsigned);
  int (*destroy_event)(void*);
  int (*synchronize)(void*);
  void* handle;
};

const Functions* driver; // null where no test has the device
thread_local int64_t current = 0; // stream

void* handle_of(const c10::Stream& stream) { return reinterpret_cast<void*>(stream.id()); }

c10::Stream stream_of(int64_t id) { return c10::Stream(c10::Stream::UNSAFE, c10::Device(CUDA, 0), id); }

// Calls of the driver are about the device, on whichever thread.
struct OnDevice {
  void* before = nullptr;
  OnDevice() {
    TORCH_CHECK(driver != nullptr, "there is no device now");
    driver->get_current(&before);
    driver->set_current(driver->handle);
  }
  ~OnDevice() { driver->set_current(before); }
};

void check(int status) { TORCH_CHECK(status == 0, "the driver answers ", status); }

struct Guard final : c10::impl::NoOpDeviceGuardImpl<CUDA> {
  c10::Device exchangeDevice(c10::Device) const override { return c10::Device(CUDA, 0); }
  c10::Device getDevice() const override { return c10::Device(CUDA, 0); }
  c10::Stream getStream(c10::Device) const noexcept override { return stream_of(current); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream_of(0); }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override {
    auto before = stream_of(current);
    current = stream.id();
    return before;
  }
  void record(void** event, const c10::Stream& stream, c10::DeviceIndex, c10::EventFlag) const override {
    OnDevice there;
    if (*event == nullptr) {
      check(driver->create_event(event, 2)); // without times
    }
    check(driver->record_event(*event, handle_of(stream)));
  }
  void block(void* event, const c10::Stream& stream) const override {
    OnDevice there;
    check(driver->wait_event(handle_of(stream), event, 0));
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    if (event != nullptr && driver != nullptr) {
      OnDevice there;
      driver->destroy_event(event);
    }
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    OnDevice there;
    check(driver->synchronize(handle_of(stream)));
  }
};

struct Hooks final : at::CUDAHooksInterface {
  bool isBuilt() const override { return driver != nullptr; }
  bool isAvailable() const override { return driver != nullptr; }
  bool hasPrimaryContext(c10::DeviceIndex number) const override { return driver != nullptr && number == 0; }
  c10::DeviceIndex deviceCount() const override { return driver != nullptr; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
};
static_assert(sizeof(Hooks) == sizeof(at::CUDAHooksInterface));

// An engine whose first backward pass came before there was a device has no thread for it.
struct Engine : torch::autograd::Engine {
  static bool has_threads(torch::autograd::Engine& engine) {
    return !(engine.*(&Engine::device_ready_queues_)).empty();
  }
  static void start(torch::autograd::Engine& engine) {
    engine.initialize_device_threads_pool();
    if (!has_threads(engine)) {
      (engine.*(&Engine::start_device_threads))();
    }
  }
};

} // namespace

extern "C" {

// Have PyTorch use a device, or none any more.
void use(const Functions* functions) {
  static const Guard guard;
  auto& place = c10::impl::device_guard_impl_registry[static_cast<size_t>(CUDA)];
  if (place.load() == nullptr) {
    place.store(&guard);
    // PyTorch has made its object for builds without already, perhaps: it becomes another one.
    new (const_cast<at::CUDAHooksInterface*>(&at::detail::getCUDAHooks())) Hooks;
    Engine::start(torch::autograd::Engine::get_default_engine());
  }
  static Functions kept;
  if (functions != nullptr) {
    kept = *functions;
  }
  driver = functions != nullptr ? &kept : nullptr;
}

int64_t current_stream() { return current; }

void set_current_stream(int64_t stream) { current = stream; }
}
