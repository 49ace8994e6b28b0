// slowness.h - time that a device would take and a host does not, or that a test wants a stream to lose: the link's
// speed and delayed streams. Streams' threads touch only atomics here, with relaxed order, so that waiting for a link
// orders no two streams.
#pragma once
#include <cstddef>

namespace spillway::hostcuda {

// Returns when a copy of `bytes`, begun now, would have crossed the link in that direction.
enum class Link { to_device, to_host };
void occupy_link(Link link, std::size_t bytes);
// Sleeps as delay_host asked.
void sleep_if_host_is_delayed();
// Sleeps as delay_stream asked of the stream with this number.
void sleep_if_delayed(int stream);
// No delay, no limit of the link.
void reset_slowness();

}  // namespace spillway::hostcuda
