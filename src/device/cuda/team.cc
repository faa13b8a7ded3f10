// Implements Team with the driver's multicast objects.
#include "device/cuda/team.h"

#include <algorithm>
#include <utility>

#include "device/cuda/current.h"
#include "device/cuda/mapping.h"
#include "rondo/error.h"

namespace rondo::device {

#if CUDA_VERSION >= 12010

namespace {

constexpr unsigned kSince = 12010;

struct MulticastDriver {
  decltype(&cuMulticastGetGranularity) granularity =
      entry<decltype(&cuMulticastGetGranularity)>("cuMulticastGetGranularity", kSince);
  decltype(&cuMulticastCreate) create =
      entry<decltype(&cuMulticastCreate)>("cuMulticastCreate", kSince);
  decltype(&cuMulticastAddDevice) add =
      entry<decltype(&cuMulticastAddDevice)>("cuMulticastAddDevice", kSince);
  decltype(&cuMulticastBindMem) bind =
      entry<decltype(&cuMulticastBindMem)>("cuMulticastBindMem", kSince);

  static const MulticastDriver& get() {
    static const MulticastDriver one;
    return one;
  }
};

CUmulticastObjectProp propertiesOf(int devices, std::size_t bytes) {
  CUmulticastObjectProp properties{};
  properties.numDevices = static_cast<unsigned>(devices);
  properties.size = bytes;
  properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return properties;
}

/// The granularity of sizes and addresses, the same on all ranks. It is also valid for ordinary
/// memory of the device.
std::size_t unitOf(int device, std::size_t bytes) {
  const CUmulticastObjectProp properties = propertiesOf(2, bytes);
  std::size_t unit = 0;
  must(MulticastDriver::get().granularity(&unit, &properties, CU_MULTICAST_GRANULARITY_MINIMUM),
       "cannot read the granularity of multicast memory");
  return std::max(unit, allocationUnit(device));
}

/// Memory is never unbound. It exists as long as it is mapped, by its own rank or another. The
/// ranks that open windows keep all of them until no rank uses the address of all windows any more.
class CudaTeam final : public Team {
 public:
  CudaTeam(std::shared_ptr<const Context> context, CUmemGenericAllocationHandle object,
           std::size_t unit, std::size_t bytes)
      : context_(std::move(context)),
        object_(std::make_unique<Allocation>(object)),
        unit_(unit),
        bytes_(bytes) {
    must(MulticastDriver::get().add(object, context_->device()),
         "the switch does not reach the device");
  }
  ~CudaTeam() override {
    onDevice(*context_, [this] { object_.reset(); });
  }

  base::UniqueFd exported() const override { return object_->exported(); }
  Windows open() override {
    const Current current(*context_);
    const int device = context_->device();
    const Allocation own = Allocation::make(device, bytes_);
    must(MulticastDriver::get().bind(object_->get(), 0, own.get(), 0, bytes_, 0),
         "cannot bind memory to the switch");
    return {own.mapOn(device, bytes_, unit_), object_->mapOn(device, bytes_, unit_)};
  }

 private:
  const std::shared_ptr<const Context> context_;
  std::unique_ptr<Allocation> object_;
  const std::size_t unit_, bytes_;
};

} // namespace

bool deviceMulticasts(int device) {
  int possible = 0;
  try {
    MulticastDriver::get();
    return MemoryDriver::get().attribute(&possible, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED,
                                         device) == CUDA_SUCCESS &&
           possible != 0;
  } catch (const Error&) {
    return false; // the driver does not have these functions
  }
}

std::unique_ptr<Team> makeTeamOn(std::shared_ptr<const Context> on, int devices,
                                 std::size_t bytes) {
  const Current current(*on);
  const std::size_t unit = unitOf(on->device(), bytes);
  const CUmulticastObjectProp properties = propertiesOf(devices, wholeUnits(bytes, unit));
  CUmemGenericAllocationHandle made = 0;
  must(MulticastDriver::get().create(&made, &properties), "cannot create a multicast object");
  return std::make_unique<CudaTeam>(std::move(on), made, unit, properties.size);
}

std::unique_ptr<Team> joinTeamOn(std::shared_ptr<const Context> on, int handle, std::size_t bytes) {
  const Current current(*on);
  const std::size_t unit = unitOf(on->device(), bytes);
  CUmemGenericAllocationHandle found = 0;
  must(MemoryDriver::get().imported(&found,
                                    reinterpret_cast<void*>(static_cast<std::intptr_t>(handle)),
                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
       "cannot import a peer's multicast object");
  return std::make_unique<CudaTeam>(std::move(on), found, unit, wholeUnits(bytes, unit));
}

#else

bool deviceMulticasts(int) { return false; }
std::unique_ptr<Team> makeTeamOn(std::shared_ptr<const Context>, int, std::size_t) {
  throw Error(ErrorCode::unsupported, "CUDA: this build's toolkit has no multicast objects");
}
std::unique_ptr<Team> joinTeamOn(std::shared_ptr<const Context> on, int, std::size_t bytes) {
  return makeTeamOn(std::move(on), 0, bytes);
}

#endif

} // namespace rondo::device
