#include "profiler/counters/system_calls.h"

#include <cerrno>
#include <ctime>
#include <filesystem>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <system_error>
#include <unistd.h>

#include <fmt/format.h>

namespace diptych::profiler {

namespace {

int open_event(perf_event_attr& attributes, int group) {
  const long file = syscall(SYS_perf_event_open, &attributes, 0, -1, group, PERF_FLAG_FD_CLOEXEC);
  return file >= 0 ? static_cast<int>(file) : -errno;
}

ssize_t read_file(int file, void* buffer, std::size_t size) {
  const ssize_t length = ::read(file, buffer, size);
  return length >= 0 ? length : -errno;
}

int control(int file, unsigned long request, void* argument) {
  return ::ioctl(file, request, argument) >= 0 ? 0 : -errno;
}

/// x86 calls them cpu, cpu_core, cpu_atom; arm64 armv8_pmuv3_0 and the like.
std::optional<bool> sysfs_lists_cpu_pmu() {
  std::error_code error;
  std::filesystem::directory_iterator devices("/sys/bus/event_source/devices", error);
  if (error) {
    return std::nullopt;
  }
  for (const auto& device : devices) {
    const std::string name = device.path().filename().string();
    if (name.starts_with("cpu") || name.starts_with("armv")) {
      return true;
    }
  }
  return false;
}

ThreadUsage read_thread_usage() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  timespec cpu{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
  return {static_cast<double>(cpu.tv_sec) * 1e9 + static_cast<double>(cpu.tv_nsec),
          static_cast<double>(usage.ru_minflt + usage.ru_majflt),
          static_cast<double>(usage.ru_nvcsw + usage.ru_nivcsw)};
}

}  // namespace

SystemCalls SystemCalls::real() {
  return {open_event, read_file, control, [](int file) { ::close(file); }, sysfs_lists_cpu_pmu, read_thread_usage};
}

std::string explain_open_error(int error_number) {
  switch (error_number) {
    case ENOENT:
      return "no PMU: this kernel offers no such hardware event, as in most virtual machines";
    case EACCES:
    case EPERM:
      return "no permission: set kernel.perf_event_paranoid to 2 or lower, or grant CAP_PERFMON; in a container, allow "
             "perf_event_open in the seccomp profile";
    case EOPNOTSUPP:
      return "not supported by this processor or hypervisor; ask the host for a virtual PMU";
    case ENODEV:
      return "no such device: the hypervisor passes no PMU on to this machine";
    case ENOSYS:
      return "this kernel is built without perf events";
    case EBUSY:
      return "the PMU is reserved by someone else; is another profiler or the NMI watchdog using it?";
    case EMFILE:
    case ENFILE:
      return "too many open files; raise the limit (ulimit -n)";
    case ENOSPC:
      return "no free hardware counter";
    case EINVAL:
      return "the PMU cannot count this event, or not together with the others of the group";
    case E2BIG:
      return "this kernel is older than the event's description";
    case ENOMEM:
      return "out of kernel memory";
    default:
      return fmt::format("perf_event_open failed: {} (errno {})", std::generic_category().message(error_number),
                         error_number);
  }
}

}  // namespace diptych::profiler
