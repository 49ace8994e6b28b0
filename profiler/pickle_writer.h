// pickle_writer.h - writes plain Python values as a pickle of protocol 4 (PEP 3154): what `pickle.load` reads back as
// dicts, lists, strings, numbers. Nothing in it is code.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace spillway::profiler {

// Values are written in order; a container's contents between its begin and end. A dict's are key, value, key, value.
class PickleWriter {
 public:
  PickleWriter();
  PickleWriter& begin_dict();
  PickleWriter& end_dict();
  PickleWriter& begin_list();
  PickleWriter& end_list();
  PickleWriter& text(std::string_view utf8);
  PickleWriter& integer(std::int64_t value);
  PickleWriter& address(std::uint64_t value);  // the whole 64 bits, never negative
  PickleWriter& boolean(bool value);
  // The pickle; once, when every container has ended.
  std::string finish();

  // key, value
  PickleWriter& item(std::string_view key, std::string_view value) { return text(key).text(value); }
  PickleWriter& item(std::string_view key, const char* value) { return text(key).text(value); }
  PickleWriter& item(std::string_view key, std::int64_t value) { return text(key).integer(value); }

 private:
  void little_endian(std::uint64_t value, int bytes);
  std::string out_;
};

}  // namespace spillway::profiler
