// pickle_writer.cpp - see pickle_writer.h. Opcodes are those of Python's pickletools; no memo and no frames: both are
// optional, and a snapshot repeats little that is long.
#include "profiler/pickle_writer.h"

#include <limits>
#include <utility>

namespace spillway::profiler {

PickleWriter::PickleWriter() : out_("\x80\x04", 2) {}  // PROTO 4

PickleWriter& PickleWriter::begin_dict() {
  out_ += "}(";  // EMPTY_DICT MARK
  return *this;
}
PickleWriter& PickleWriter::end_dict() {
  out_ += 'u';  // SETITEMS: everything since the mark
  return *this;
}
PickleWriter& PickleWriter::begin_list() {
  out_ += "](";  // EMPTY_LIST MARK
  return *this;
}
PickleWriter& PickleWriter::end_list() {
  out_ += 'e';  // APPENDS
  return *this;
}

PickleWriter& PickleWriter::text(std::string_view utf8) {
  constexpr std::size_t kShort = 256;
  if (utf8.size() < kShort) {
    out_ += '\x8c';  // SHORT_BINUNICODE
    little_endian(utf8.size(), 1);
  } else {
    out_ += '\x8d';  // BINUNICODE8
    little_endian(utf8.size(), 8);
  }
  out_ += utf8;
  return *this;
}

PickleWriter& PickleWriter::integer(std::int64_t value) {
  if (value >= std::numeric_limits<std::int32_t>::min() && value <= std::numeric_limits<std::int32_t>::max()) {
    out_ += 'J';  // BININT
    little_endian(static_cast<std::uint64_t>(value), 4);
  } else {
    out_ += "\x8a\x08";  // LONG1 of 8 bytes, two's complement
    little_endian(static_cast<std::uint64_t>(value), 8);
  }
  return *this;
}

PickleWriter& PickleWriter::address(std::uint64_t value) {
  out_ += "\x8a\x09";  // LONG1 of 9 bytes: the sign has one of its own
  little_endian(value, 8);
  out_ += '\0';
  return *this;
}

PickleWriter& PickleWriter::boolean(bool value) {
  out_ += value ? '\x88' : '\x89';
  return *this;
}

std::string PickleWriter::finish() {
  out_ += '.';  // STOP
  return std::move(out_);
}

void PickleWriter::little_endian(std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out_ += static_cast<char>(value >> (8 * i) & 0xFF);
}

}  // namespace spillway::profiler
