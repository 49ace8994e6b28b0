// tokens_test.cpp - where tokens come from: the same ones for the same seed, never one of the evaluation's among those
// trained on, never one outside the vocabulary; and a file that cannot give them says so in one line.
#include "data/tokens.h"

#include <algorithm>
#include <map>
#include <random>

#include "test/bad_input.h"

namespace spillway::test {
namespace {

using data::TokenBatch;
using Ids = std::vector<std::int32_t>;

struct Files {
  TemporaryFolder folder;

  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    return write_file(folder.path() / name, bytes);
  }
};

std::string random_bytes(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::string bytes(n, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

// Little-endian, `width` bytes an id.
std::string encoded(const std::vector<std::uint32_t>& ids, int width) {
  std::string bytes;
  for (const std::uint32_t id : ids)
    for (int i = 0; i < width; i++) bytes += static_cast<char>(id >> (8 * i));
  return bytes;
}

void check_shape(const TokenBatch& b, std::int64_t batch, std::int64_t seq) {
  BOOST_TEST(b.batch == batch);
  BOOST_TEST(b.seq == seq);
  BOOST_TEST(b.ids.size() == static_cast<std::size_t>(batch * seq));
}

// Where a row of the batch stands in the file; -1 when nowhere.
std::int64_t place_of(const TokenBatch& b, std::int64_t row, const Ids& file) {
  const auto first = b.ids.begin() + row * b.seq;
  const auto found = std::search(file.begin(), file.end(), first, first + b.seq);
  return found == file.end() ? -1 : found - file.begin();
}

Ids ids_of(const std::string& bytes) {
  Ids ids;
  for (const char c : bytes) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

BOOST_FIXTURE_TEST_SUITE(tokens, Files)

// ---- random ---------------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(random_tokens_are_one_workload_and_a_second_batch_of_the_same_generator) {
  const auto source = data::random_tokens(1000, 42);
  const TokenBatch batch = source->next(3, 17), evaluation = source->evaluation(3, 17);
  check_shape(batch, 3, 17);
  std::mt19937_64 generator(42);  // its numbers are the standard's
  for (const TokenBatch* b : {&batch, &evaluation})
    for (const std::int32_t id : b->ids) BOOST_REQUIRE(id == static_cast<std::int32_t>(generator() % 1000));
  BOOST_TEST((source->next(3, 17).ids == batch.ids));
  BOOST_TEST((source->evaluation(3, 17).ids == evaluation.ids));
  BOOST_TEST((data::random_tokens(1000, 43)->next(3, 17).ids != batch.ids));
  BOOST_TEST(source->description().find("seed 42") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(random_tokens_are_uniform_over_the_vocabulary) {
  std::map<std::int32_t, double> count;
  for (const std::int32_t id : data::random_tokens(50, 7)->next(100, 500).ids) count[id]++;
  BOOST_TEST(count.size() == 50);
  BOOST_TEST(count.begin()->first == 0);
  BOOST_TEST(count.rbegin()->first == 49);
  double chi_squared = 0;
  for (const auto& [id, n] : count) chi_squared += (n - 1000) * (n - 1000) / 1000;
  BOOST_TEST(chi_squared < 95);  // 49 degrees of freedom: one seed in ten thousand would be above
  BOOST_TEST(data::random_tokens(1, 7)->next(1, 5).ids == Ids(5, 0), boost::test_tools::per_element());
}

// ---- text -----------------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_byte_is_a_token) {
  const std::string bytes = random_bytes(1000, 1);
  const auto source = data::text_tokens(write("t.bin", bytes), 256, 1);
  const TokenBatch b = source->next(4, 20);
  check_shape(b, 4, 20);
  for (std::int64_t row = 0; row < 4; row++) BOOST_TEST(place_of(b, row, ids_of(bytes)) >= 0);
  BOOST_TEST(std::any_of(b.ids.begin(), b.ids.end(), [](std::int32_t id) { return id > 127; }));
}

BOOST_AUTO_TEST_CASE(the_last_tenth_is_for_evaluation_and_only_for_that) {
  const auto source = data::text_tokens(write("t.txt", std::string(900, 'a') + std::string(100, 'b')), 256, 3);
  for (int i = 0; i < 200; i++) {
    const TokenBatch b = source->next(3, 50);
    BOOST_REQUIRE((b.ids == Ids(150, 'a')));
  }
  for (const std::int64_t seq : {1, 50, 99, 100}) {
    const TokenBatch b = source->evaluation(3, seq);
    check_shape(b, 3, seq);
    BOOST_REQUIRE((b.ids == Ids(static_cast<std::size_t>(3 * seq), 'b')));
  }
}

BOOST_AUTO_TEST_CASE(training_windows_reach_every_place_before_the_last_tenth) {
  std::string bytes;
  for (int i = 0; i < 200; i++) bytes += static_cast<char>(i);
  const auto source = data::text_tokens(write("t.bin", bytes), 256, 3);
  std::map<std::int64_t, int> begins;
  for (int i = 0; i < 4000; i++) begins[source->next(1, 20).ids[0]]++;
  BOOST_TEST(begins.begin()->first == 0);
  BOOST_TEST(begins.rbegin()->first == 160);  // the last window ends where the last tenth begins
  BOOST_TEST(begins.size() == 161);
}

BOOST_AUTO_TEST_CASE(the_evaluation_batch_spreads_over_its_tenth_and_is_always_the_same) {
  std::string bytes;
  for (int i = 0; i < 250; i++) bytes += static_cast<char>(i);
  const auto source = data::text_tokens(write("t.bin", bytes), 256, 3);
  const TokenBatch evaluation = source->evaluation(3, 5);
  BOOST_TEST(evaluation.ids[0] == 225);
  BOOST_TEST(evaluation.ids[5] == 235);
  BOOST_TEST(evaluation.ids[14] == 249);  // to the last byte
  source->next(2, 5);
  BOOST_TEST((source->evaluation(3, 5).ids == evaluation.ids));
}

BOOST_AUTO_TEST_CASE(a_seed_gives_the_same_windows_again) {
  const auto path = write("t.bin", random_bytes(5000, 2));
  const auto walk = [&](std::uint64_t seed) {
    const auto source = data::text_tokens(path, 256, seed);
    std::vector<Ids> batches;
    for (int i = 0; i < 5; i++) batches.push_back(source->next(2, 30).ids);
    return batches;
  };
  const auto first = walk(1);
  BOOST_TEST((walk(1) == first));
  BOOST_TEST((walk(2) != first));
  BOOST_TEST((first[0] != first[1]));
}

BOOST_AUTO_TEST_CASE(text_needs_ten_times_seq_bytes_and_says_so) {
  const auto just = data::text_tokens(write("just.txt", std::string(640, 'a')), 256, 1);
  BOOST_CHECK_NO_THROW(just->next(2, 64));
  BOOST_CHECK_NO_THROW(just->evaluation(2, 64));
  const auto below = data::text_tokens(write("below.txt", std::string(639, 'a')), 256, 1);
  check_refused([&] { below->evaluation(2, 64); }, {"below.txt", "63 bytes", "seq 64", "640"});
  check_refused([&] { below->next(2, 600); }, {"below.txt", "576 bytes", "seq 600", "6000"});
}

// ---- ids ------------------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(ids_are_read_in_their_width) {
  std::vector<std::uint32_t> values;
  for (std::uint32_t i = 0; i < 100; i++) values.push_back(i * 601);
  for (const auto& [name, width] : {std::pair{"w.u16", 2}, {"w.u32", 4}}) {
    const auto source = data::id_tokens(write(name, encoded(values, width)), 60'000, 5);
    const Ids all(values.begin(), values.end());
    const TokenBatch b = source->next(5, 9);
    for (std::int64_t row = 0; row < 5; row++) {
      BOOST_TEST(place_of(b, row, all) >= 0);
      BOOST_TEST(place_of(b, row, all) <= 81);
    }
    BOOST_TEST(source->evaluation(1, 10).ids == Ids(all.end() - 10, all.end()), boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(an_id_outside_the_vocabulary_is_named_with_its_position) {
  const auto refuses = [&](const std::string& name, std::uint32_t bad, int width) {
    std::vector<std::uint32_t> values(50, 99);
    BOOST_CHECK_NO_THROW(data::id_tokens(write(name, encoded(values, width)), 100, 1));
    values[37] = bad;
    check_refused([&] { data::id_tokens(write(name, encoded(values, width)), 100, 1); },
                  {name, "id " + std::to_string(bad), "position 37", "100"});
  };
  refuses("w.u16", 100, 2);
  refuses("w.u16", 65535, 2);
  refuses("w.u32", 100, 4);
  refuses("w.u32", 0x80000000u, 4);  // negative, were it signed
  refuses("w.u32", 0xffffffffu, 4);
}

BOOST_AUTO_TEST_CASE(a_file_of_part_of_an_id_is_refused) {
  check_refused([&] { data::id_tokens(write("w.u16", "abc"), 1 << 16, 1); }, {"w.u16", "3 bytes", "2-byte"});
  check_refused([&] { data::id_tokens(write("w.u32", "abcdef"), 1 << 20, 1); }, {"w.u32", "6 bytes", "4-byte"});
}

// ---- any ------------------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_file_s_ending_says_what_it_holds) {
  const std::string bytes = encoded(std::vector<std::uint32_t>(40, 7), 4);
  const auto says = [&](const std::string& name) {
    return data::open_tokens(write(name, bytes), 256, 1)->description();
  };
  BOOST_TEST(says("w.u32").starts_with("40 ids of "));
  BOOST_TEST(says("w.u16").starts_with("80 ids of "));
  BOOST_TEST(says("w.txt").starts_with("160 bytes of "));
  BOOST_TEST(says("w").starts_with("160 bytes of "));
  BOOST_TEST(data::open_tokens("", 256, 1)->description().starts_with("uniform random"));
}

BOOST_AUTO_TEST_CASE(a_file_that_cannot_be_read_is_refused_by_name) {
  for (const char* name : {"absent.txt", "absent.u16", "absent.u32"})
    check_refused([&] { data::open_tokens(folder.path() / name, 256, 1); }, {name, "cannot be read"});
  for (const char* name : {"empty.txt", "empty.u16", "empty.u32"})
    check_refused([&] { data::open_tokens(write(name, ""), 256, 1); }, {name, "is empty"});
  check_refused([&] { data::open_tokens(folder.path(), 256, 1); }, {folder.path().string(), "is a folder"});
  check_refused([&] { data::open_tokens(std::string(300, 'n'), 256, 1); }, {"nnn cannot be read"});
}

BOOST_AUTO_TEST_CASE(text_needs_a_vocabulary_of_256) {
  const auto path = write("t.txt", "some text");
  check_refused([&] { data::text_tokens(path, 255, 1); }, {"t.txt", "256", "255"});
  BOOST_CHECK_NO_THROW(data::text_tokens(path, 256, 1));
}

BOOST_AUTO_TEST_CASE(a_batch_that_is_none_or_overflows_is_refused) {
  const auto random = data::random_tokens(256, 1);
  const auto text = data::text_tokens(write("t.txt", std::string(1000, 'a')), 256, 1);
  for (data::TokenSource* source : {random.get(), text.get()})
    for (const auto& [batch, seq] : {std::pair<std::int64_t, std::int64_t>{0, 8},
                                     {1, 0},
                                     {-1, 8},
                                     {1, -8},
                                     {std::int64_t{1} << 40, std::int64_t{1} << 40}}) {
      check_refused([&, b = batch, s = seq] { source->next(b, s); }, {std::to_string(seq)});
      check_refused([&, b = batch, s = seq] { source->evaluation(b, s); }, {std::to_string(seq)});
    }
  check_refused([&] { text->next(1, INT64_MAX); }, {std::to_string(INT64_MAX)});
}

BOOST_AUTO_TEST_CASE(any_file_gives_tokens_of_the_vocabulary_or_one_line) {
  std::mt19937 random(9);
  int refused = 0, served = 0;
  for (int round = 0; round < 500; round++) {
    const std::string name = std::array{"f.txt", "f.u16", "f.u32"}[random() % 3];
    std::string bytes = random_bytes(random() % 300, random());
    if (random() % 2)
      for (std::size_t i = 0; i < bytes.size(); i++)
        if (i % (name == "f.u32" ? 4 : 2) != 0 && name != "f.txt") bytes[i] = 0;  // small ids
    const std::int64_t vocab = std::array{1, 200, 256, 300, 70'000}[random() % 5];
    const std::int64_t batch = 1 + random() % 4, seq = 1 + random() % 40;
    const auto path = write(name, bytes);
    const auto message = refusal([&] {
      const auto source = data::open_tokens(path, vocab, round);
      for (const TokenBatch& b : {source->next(batch, seq), source->evaluation(batch, seq)}) {
        BOOST_REQUIRE(b.ids.size() == static_cast<std::size_t>(batch * seq));
        for (const std::int32_t id : b.ids) BOOST_REQUIRE((id >= 0 && id < vocab));
      }
    });
    if (message) BOOST_REQUIRE_MESSAGE(is_one_line(*message), *message);
    (message ? refused : served)++;
  }
  BOOST_TEST(refused > 100);
  BOOST_TEST(served > 30);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace spillway::test
