// arm_fault.cpp - reads what a person types after --fault: see control.h.
#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <vector>

#include "runtime/hostcuda/control.h"

namespace spillway::hostcuda {
namespace {

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t colon = std::min(text.find(':', at), text.size());
    parts.push_back(text.substr(at, colon - at));
    at = colon + 1;
  }
  return parts;
}

// The whole of `text` as a number from 0 to `most`.
template <class T>
T number(std::string_view text, T most) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(value >= T{} && value <= most))
    throw std::invalid_argument("'" + std::string(text) + "' is not a number from 0 to " + std::to_string(most));
  return value;
}

std::chrono::microseconds duration(std::string_view text) {
  constexpr std::int64_t kMost = 1'000'000;
  const std::string_view digits = text.substr(0, text.size() - std::min<std::size_t>(2, text.size()));
  if (text.ends_with("ms")) return std::chrono::milliseconds(number(digits, kMost));
  if (text.ends_with("us")) return std::chrono::microseconds(number(digits, kMost));
  throw std::invalid_argument("a delay ends with ms or us, as in 5ms");
}

void arm(const std::vector<std::string_view>& parts) {
  if (parts[0] == "link" && parts.size() == 2) {
    constexpr double kSlowest = 1e-6;  // a kilobyte a second; less would never end
    const double gbps = number(parts[1], 1e6);
    if (gbps != 0 && gbps < kSlowest) throw std::invalid_argument("a link of less than 0.000001 GB/s");
    return set_link_gbps(gbps);
  }
  if (parts[0] == "delay" && parts.size() == 3 && parts[1] == "host") return delay_host(duration(parts[2]));
  if (parts[0] == "delay" && parts.size() == 3) return delay_stream(number(parts[1], INT32_MAX), duration(parts[2]));
  if (!parts[0].starts_with("cu") || parts.size() < 2 || parts.size() > 3)
    throw std::invalid_argument(
        "write cudaMalloc:3, cudaMemcpyAsync:2:illegal-address, delay:STREAM:5ms, "
        "delay:host:100us or link:GB_PER_S");
  const auto k = number<std::uint64_t>(parts[1], INT64_MAX);
  if (parts.size() == 3) {
    if (parts[2] != "illegal-address") throw std::invalid_argument("the third part can only be illegal-address");
    return fail_call(parts[0], k, cudaErrorIllegalAddress, true);
  }
  const bool allocates = parts[0].starts_with("cudaMalloc") || parts[0] == "cuMemCreate";
  fail_call(parts[0], k, allocates ? cudaErrorMemoryAllocation : cudaErrorUnknown);
}

}  // namespace

void arm_fault(std::string_view text) {
  try {
    arm(split(text));
  } catch (const std::invalid_argument& e) {
    throw std::invalid_argument("fault '" + std::string(text) + "': " + e.what());
  }
}

}  // namespace spillway::hostcuda
