// safetensors_test.cpp - a weight file is somebody else's: what is right comes back byte for byte, and whatever is
// wrong, in one header, in a set of shards or after random damage, is refused in one line and never crashes.
#include "model/safetensors.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "test/model/weight_files.h"

namespace spillway::test {
namespace {

namespace fs = std::filesystem;
using model::Safetensors;
using model::StoredTensor;

struct Folder {
  TemporaryFolder folder;

  fs::path write(const std::string& name, const std::string& bytes) const {
    return write_file(folder.path() / name, bytes);
  }
  void refuses(const std::string& bytes, std::initializer_list<std::string_view> says) const {
    const fs::path file = write("bad.safetensors", bytes);
    check_refused([&] { Safetensors::open_file(file); }, says);
    check_refused([&] { Safetensors::open_file(file); }, {file.string()});
  }
};

std::string text_of(const StoredTensor& t) {
  return {reinterpret_cast<const char*>(t.data.data()), t.data.size()};
}

const std::vector<Entry> kThree = {{"a", "F32", std::string(24, 'a'), {2, 3}},
                                   {"b.weight", "BF16", std::string(8, 'b'), {4}},
                                   {"c", "I64", std::string(8, 'c'), {}}};

// What every reader relies on, whatever the file was: sizes agree, bytes can be read, no two tensors share one.
void check_consistent(const Safetensors& file) {
  std::vector<std::pair<const std::byte*, std::size_t>> spans;
  for (const auto& [name, t] : file.tensors()) {
    BOOST_REQUIRE(name == t.name);
    std::int64_t elements = 1;
    for (const std::int64_t n : t.shape) elements *= n;
    BOOST_REQUIRE(t.elements() == elements);
    BOOST_REQUIRE(static_cast<std::int64_t>(t.data.size()) == elements * model::dtype_bytes(t.dtype));
    std::uint64_t sum = 0;
    for (const std::byte b : t.data) sum += std::to_integer<unsigned>(b);
    BOOST_REQUIRE(sum <= 255 * t.data.size());
    if (!t.data.empty()) spans.emplace_back(t.data.data(), t.data.size());
  }
  std::sort(spans.begin(), spans.end());
  for (std::size_t i = 1; i < spans.size(); i++)
    BOOST_REQUIRE(spans[i - 1].first + spans[i - 1].second <= spans[i].first);
}

// Opens what may be damaged; whether it was refused.
bool opens_or_refuses(const fs::path& file) {
  const auto message = refusal([&] { check_consistent(Safetensors::open_file(file)); });
  if (message) BOOST_REQUIRE_MESSAGE(is_one_line(*message), *message);
  return message.has_value();
}

BOOST_FIXTURE_TEST_SUITE(safetensors, Folder)

BOOST_AUTO_TEST_CASE(a_file_gives_back_what_was_written) {
  const Safetensors file = Safetensors::open_file(write("three.safetensors", safetensors_file(kThree)));
  BOOST_TEST(file.tensors().size() == kThree.size());
  for (const Entry& e : kThree) {
    const StoredTensor& t = file.at(e.name);
    BOOST_TEST(model::to_string(t.dtype) == e.dtype);
    BOOST_TEST(t.shape == e.shape, boost::test_tools::per_element());
    BOOST_TEST(text_of(t) == e.data);
  }
  BOOST_TEST(file.at("a").elements() == 6);
  BOOST_TEST(file.at("c").elements() == 1);  // a shape of no dimensions is a scalar
  check_consistent(file);
}

BOOST_AUTO_TEST_CASE(tensors_without_elements_and_files_without_tensors_are_valid) {
  const std::vector<Entry> entries = {
      {"none", "F32", "", {0, 7}}, {"some", "U8", "x", {1}}, {"huge_but_none", "F64", "", {0, 1ll << 62}}};
  const Safetensors file = Safetensors::open_file(write("empty.safetensors", safetensors_file(entries)));
  BOOST_TEST(file.at("none").elements() == 0);
  BOOST_TEST(text_of(file.at("some")) == "x");
  BOOST_TEST(Safetensors::open_file(write("no.safetensors", with_length("{}", ""))).tensors().empty());
}

BOOST_AUTO_TEST_CASE(a_moved_reader_still_holds_its_file) {
  Safetensors first = Safetensors::open_file(write("three.safetensors", safetensors_file(kThree)));
  Safetensors second = std::move(first);
  fs::remove(folder.path() / "three.safetensors");  // what is mapped stays
  BOOST_TEST(text_of(second.at("b.weight")) == kThree[1].data);
}

BOOST_AUTO_TEST_CASE(an_absent_tensor_is_an_error_that_names_the_file) {
  const fs::path path = write("three.safetensors", safetensors_file(kThree));
  const Safetensors file = Safetensors::open_file(path);
  BOOST_TEST(file.find("d") == nullptr);
  check_refused([&] { file.at("d"); }, {path.string(), "d"});
}

BOOST_AUTO_TEST_CASE(what_is_no_readable_file_is_refused) {
  check_refused([&] { Safetensors::open_file(folder.path() / "absent"); }, {"absent", "No such file"});
  check_refused([&] { Safetensors::open_file(folder.path()); }, {folder.path().string(), "not a regular file"});
  refuses("", {"0 bytes"});
  refuses("1234567", {"7 bytes"});
}

BOOST_AUTO_TEST_CASE(a_header_that_breaks_a_rule_is_refused_by_that_rule) {
  const auto entry = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"w":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  const auto refuses_header = [&](const std::string& header, std::initializer_list<std::string_view> says) {
    refuses(with_length(header, std::string(8, 'x')), says);
  };
  refuses_header("[1, 2]", {"not a JSON object"});
  refuses_header("{\"w\":", {"not JSON"});
  refuses_header(R"({"w":3})", {"tensor w", "not an object"});
  refuses_header(R"({"w":{"shape":[2],"data_offsets":[0,8]}})", {"tensor w", "dtype"});
  refuses_header(R"({"w":{"dtype":"F32","data_offsets":[0,8]}})", {"tensor w", "shape"});
  refuses_header(R"({"w":{"dtype":"F32","shape":[2]}})", {"tensor w", "data_offsets"});
  refuses_header(entry("F33", "[2]", "[0,8]"), {"tensor w", "F33"});
  refuses_header(entry("F32", "2", "[0,8]"), {"tensor w", "shape"});
  refuses_header(entry("F32", "[-2]", "[0,8]"), {"tensor w", "shape"});
  refuses_header(entry("F32", "[2.0]", "[0,8]"), {"tensor w", "shape"});
  refuses_header(entry("F32", "[18446744073709551615]", "[0,8]"), {"tensor w", "shape"});
  refuses_header(entry("F32", "[4611686018427387904]", "[0,8]"), {"tensor w", "63 bits"});
  refuses_header(entry("F32", "[4294967296,4294967296]", "[0,8]"), {"tensor w", "63 bits"});  // 2^64 wraps to 0
  refuses_header(entry("F32", "[2]", "[0,8,16]"), {"tensor w", "data_offsets"});
  refuses_header(entry("F32", "[2]", "[-8,0]"), {"tensor w", "data_offsets"});
  refuses_header(entry("F32", "[2]", "[8,0]"), {"tensor w", "data_offsets"});
  refuses_header(entry("F32", "[2]", R"(["0","8"])"), {"tensor w", "data_offsets"});
  refuses_header(entry("F32", "[4]", "[0,16]"), {"tensor w", "byte 16 of 8", "truncated"});
  refuses_header(entry("F32", "[2]", "[9223372036854775800,9223372036854775807]"), {"tensor w", "truncated"});
  refuses_header(entry("F32", "[3]", "[0,8]"), {"tensor w", "12 bytes"});
  refuses_header(entry("F32", "[1]", "[0,4]"), {"last 4 bytes"});
  refuses_header(entry("F32", "[1]", "[4,8]"), {"4 bytes before tensor w"});
  const std::string half = R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  refuses_header(R"({"v":)" + half + R"(,"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", {"v and w overlap"});
  refuses_header(R"({"w":)" + half + R"(,"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", {"w", "twice"});
  refuses_header("{}", {"last 8 bytes"});
}

BOOST_AUTO_TEST_CASE(a_header_longer_than_the_file_or_than_100_mb_is_refused_unread) {
  for (const std::uint64_t length :
       {std::uint64_t{3}, std::uint64_t{1} << 32, std::uint64_t{1} << 63, ~std::uint64_t{0}})
    refuses(bytes_of(std::vector<std::uint64_t>{length}) + "{}", {std::to_string(length), "header"});
  const fs::path large = write("large.safetensors", bytes_of(std::vector<std::uint64_t>{100'000'001}) + "{}");
  fs::resize_file(large, 200'000'000);  // a hole: nothing is stored
  check_refused([&] { Safetensors::open_file(large); }, {"header of 100000001 bytes"});
}

BOOST_AUTO_TEST_CASE(a_name_with_control_characters_stays_in_one_line) {
  refuses(with_length(R"({"line\nbreak\u001b[31m":3})", ""), {R"(line\x0abreak\x1b[31m)"});
  const std::string longest(100'000, 'n');
  const fs::path file = write("long.safetensors", with_length("{\"" + longest + "\":3}", ""));
  BOOST_TEST(refusal([&] { Safetensors::open_file(file); })->size() < 400);
}

BOOST_AUTO_TEST_CASE(a_file_cut_anywhere_is_refused) {
  const std::string whole = safetensors_file(kThree);
  for (std::size_t size = 0; size < whole.size(); size++)
    BOOST_REQUIRE_MESSAGE(opens_or_refuses(write("cut.safetensors", whole.substr(0, size))), size << " bytes");
  BOOST_TEST(!opens_or_refuses(write("cut.safetensors", whole)));
  BOOST_TEST(opens_or_refuses(write("cut.safetensors", whole + "x")));
}

BOOST_AUTO_TEST_CASE(four_thousand_damaged_files_are_read_consistently_or_refused_in_one_line) {
  const std::string whole = safetensors_file(kThree);
  const std::vector<std::string> words = {"[",
                                          "]",
                                          "{",
                                          "}",
                                          ":",
                                          ",",
                                          "\"",
                                          "-1",
                                          "null",
                                          "1e9",
                                          "0.5",
                                          "true",
                                          "4294967296",
                                          "\\u0000",
                                          "a",
                                          "F16",
                                          "\n",
                                          "\xff",
                                          "0",
                                          "9223372036854775807",
                                          "18446744073709551616",
                                          std::string(1100, '['),
                                          R"("a":{},)"};
  std::mt19937 random(1);
  const auto below = [&](std::size_t n) { return random() % n; };
  int refused = 0, opened = 0;
  for (int round = 0; round < 4000; round++) {
    std::string bytes = whole;
    for (std::size_t damages = 1 + below(3); damages > 0; damages--) {
      const std::size_t at = below(bytes.size());
      switch (below(5)) {
        case 0:  // a bit turned over
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
          break;
        case 1:  // a word of JSON where none belongs; the length still right
          bytes.insert(std::max<std::size_t>(at, 8), words[below(words.size())]);
          if (below(2)) bytes.replace(0, 8, bytes_of(std::vector<std::uint64_t>{bytes.size() - 8 - 40}));
          break;
        case 2:  // a part missing
          bytes.erase(at, 1 + below(20));
          break;
        case 3:  // another length
          bytes[below(8)] = static_cast<char>(random());
          break;
        default:  // a part twice
          bytes.insert(at, bytes.substr(below(bytes.size()), below(60)));
      }
      if (bytes.size() < 9) bytes = whole;
    }
    (opens_or_refuses(write("damaged.safetensors", bytes)) ? refused : opened)++;
  }
  BOOST_TEST(refused > 2000);
  BOOST_TEST(opened > 50);  // damage to data, or to names, is nobody's to see
  BOOST_TEST_MESSAGE(refused << " refused, " << opened << " opened");
}

// ---- shards ---------------------------------------------------------------------------------------------------------

struct Shards : Folder {
  Shards() {
    write("model-1.safetensors", safetensors_file({kThree[0], kThree[1]}));
    write("model-2.safetensors", safetensors_file({kThree[2]}));
  }
  void index(const std::string& map) const { write("model.safetensors.index.json", R"({"weight_map":)" + map + "}"); }
  void refuses_index(std::initializer_list<std::string_view> says) const {
    check_refused([&] { Safetensors::open_folder(folder.path()); }, says);
  }
};

BOOST_FIXTURE_TEST_CASE(shards_are_found_through_their_index, Shards) {
  index(R"({"a":"model-1.safetensors","b.weight":"model-1.safetensors","c":"model-2.safetensors"})");
  const Safetensors all = Safetensors::open_folder(folder.path());
  BOOST_TEST(all.tensors().size() == 3);
  for (const Entry& e : kThree) BOOST_TEST(text_of(all.at(e.name)) == e.data);
  check_refused([&] { all.at("d"); }, {"model.safetensors.index.json", "d"});
}

BOOST_FIXTURE_TEST_CASE(one_whole_file_comes_before_an_index, Shards) {
  index(R"({"a":"model-1.safetensors"})");
  write("model.safetensors", safetensors_file({kThree[2]}));
  BOOST_TEST(Safetensors::open_folder(folder.path()).tensors().size() == 1);
}

BOOST_FIXTURE_TEST_CASE(a_missing_shard_is_named_with_what_it_should_hold, Shards) {
  index(R"({"a":"model-1.safetensors","c":"model-3.safetensors"})");
  refuses_index({"model.safetensors.index.json", "model-3.safetensors", "c"});
  index("{\"a\":\"" + std::string(300, 'n') + "\"}");  // longer than a file's name can be
  refuses_index({"model.safetensors.index.json", "nnn"});
}

BOOST_FIXTURE_TEST_CASE(a_tensor_absent_from_its_shard_is_named_with_both_files, Shards) {
  index(R"({"a":"model-1.safetensors","c":"model-1.safetensors"})");
  refuses_index({"model.safetensors.index.json", "model-1.safetensors", "lacks c"});
}

BOOST_FIXTURE_TEST_CASE(a_shard_outside_the_folder_is_never_opened, Shards) {
  for (const char* path : {"../model-1.safetensors", "/etc/passwd", "a/model-1.safetensors", "", ".", "..", ".hidden",
                           "model-1.safetensors\\u0000.txt"}) {
    index(std::string(R"({"a":")") + path + "\"}");
    refuses_index({"model.safetensors.index.json", "not a file name beside the index"});
  }
}

BOOST_FIXTURE_TEST_CASE(an_index_that_is_none_is_refused, Shards) {
  for (const char* map : {"3", "[]", "null"}) {
    index(map);
    refuses_index({"model.safetensors.index.json", "weight_map"});
  }
  index(R"({"a":3})");
  refuses_index({"weight_map", "a is not a string"});
  write("model.safetensors.index.json", "[]");
  refuses_index({"weight_map"});
  write("model.safetensors.index.json", "not JSON");
  refuses_index({"model.safetensors.index.json", "not JSON"});
}

BOOST_AUTO_TEST_CASE(a_folder_without_weights_says_what_it_lacks) {
  check_refused([&] { Safetensors::open_folder(folder.path()); },
                {folder.path().string(), "model.safetensors", "model.safetensors.index.json"});
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace spillway::test
