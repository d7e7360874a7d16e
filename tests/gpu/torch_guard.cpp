// What PyTorch asks of the kind of device "cuda" where it is built without: autograd wants to know of one device, and
// of its stream. (c10/core/impl/DeviceGuardImplInterface.h)
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace {

constexpr auto CUDA = c10::DeviceType::CUDA;

struct Guard final : c10::impl::NoOpDeviceGuardImpl<CUDA> {
  c10::Device exchangeDevice(c10::Device) const override { return c10::Device(CUDA, 0); }
  c10::Device getDevice() const override { return c10::Device(CUDA, 0); }
  c10::Stream getStream(c10::Device) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, c10::Device(CUDA, 0));
  }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override { return stream; }
};

} // namespace

extern "C" void install() {
  static const Guard guard;
  auto& place = c10::impl::device_guard_impl_registry[static_cast<size_t>(CUDA)];
  if (place.load() == nullptr) {
    place.store(&guard);
  }
}

