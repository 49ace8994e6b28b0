// The longest sequence that fits: the search finds the edge wherever it lies, and what it finds holds when run again.
#include "decision/oom_boundary.h"

#include <set>

#include "test/decision/program.h"
#include "test/device_controls.h"

using namespace spillway::decision;
using namespace spillway::test;

BOOST_AUTO_TEST_SUITE(oom_boundary)

BOOST_AUTO_TEST_CASE(the_search_finds_every_edge) {
  for (const std::int64_t positions : {64, 100, 256, 1000, 4096})
    for (std::int64_t edge = 0; edge <= positions + 70; edge += 7) {
      std::set<std::int64_t> asked;
      const Boundary b = find_boundary("x", positions, [&](std::int64_t seq) {
        BOOST_REQUIRE(seq % 64 == 0);
        BOOST_REQUIRE(seq <= positions);
        BOOST_REQUIRE_MESSAGE(asked.insert(seq).second, seq << " was asked twice");
        return Probe{seq, seq <= edge, 0, 0, 0, seq <= edge ? "" : "out of memory"};
      });
      const std::int64_t expected = std::min(edge, positions) / 64 * 64;
      BOOST_TEST(b.largest.has_value() == (expected > 0));
      if (b.largest) BOOST_TEST(b.largest->seq == expected);
      BOOST_TEST(b.first_failing.has_value() == (expected + 64 <= positions));
      if (b.first_failing) BOOST_TEST(b.first_failing->seq == expected + 64);
      BOOST_TEST(b.probes.size() <= 2 * 7 + 1U);
    }
}

BOOST_AUTO_TEST_CASE(memory_that_is_not_monotone_still_gives_a_pair_that_holds) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    const auto fits = [=](std::int64_t seq) { return seq < 1000 || (seq < 3000 && (seq * (seed + 7) / 64) % 3 != 0); };
    const Boundary b = find_boundary("x", 8192, [&](std::int64_t seq) { return Probe{seq, fits(seq), 0, 0, 0, ""}; });
    BOOST_TEST(fits(b.largest->seq));
    BOOST_TEST(!fits(b.largest->seq + 64));
    BOOST_TEST(b.first_failing->seq == b.largest->seq + 64);
  }
}

const char* const kRecordBoundary = kHostDevice ? "76_host_oom_boundary.json" : "76_real_gpu_oom_boundary.json";

BOOST_AUTO_TEST_CASE(each_boundary_of_small_in_512_mib_is_found_and_the_baselines_is_the_smallest,
                     *boost::unit_test::enable_if<kHostDevice>()) {
  const TemporaryFolder tmp;
  const Result r = spillway_run(fmt::format(
      "oom-boundary --model small --memory-cap-mb 512 --books-only --results {} --run r", tmp.path().string()));
  BOOST_TEST_CONTEXT(r.err) BOOST_REQUIRE(r.status == 0);
  const auto record = read(tmp.path() / "r" / kRecordBoundary);
  BOOST_TEST(record["evidence_level"] == "simulated");
  BOOST_REQUIRE(record["boundaries"].size() == 4U);
  const auto baseline = record["boundaries"][0]["largest_seq_len"].get<std::int64_t>();
  for (const auto& b : record["boundaries"]) {
    const auto largest = b["largest_seq_len"].get<std::int64_t>();
    BOOST_TEST(largest % 64 == 0);
    if (b["name"] != "baseline") BOOST_TEST(largest > baseline);
    BOOST_TEST(b["first_failing_seq_len"] == largest + 64);
    BOOST_TEST(b["error"].get<std::string>().find("cap 512.00 MiB") != std::string::npos);
    for (const auto& p : b["probes"])
      BOOST_TEST(p["fits"].get<bool>() == (p["seq_len"].get<std::int64_t>() <= largest));
  }
  check_bytes_beside_mebibytes(record);
}

BOOST_AUTO_TEST_CASE(what_the_books_find_holds_when_it_is_trained, *boost::unit_test::enable_if<kHostDevice>()) {
  const TemporaryFolder tmp;
  const std::string tight =
      fmt::format("oom-boundary --model tiny --batch 16 --memory-cap-mb 10 --results {}", tmp.path().string());
  const Result books = spillway_run(tight + " --run books --books-only --confirm");
  BOOST_TEST_CONTEXT(books.out << books.err) BOOST_REQUIRE(books.status == 0);
  const Result trained = spillway_run(tight + " --run trained");
  BOOST_TEST_CONTEXT(trained.err) BOOST_REQUIRE(trained.status == 0);
  const auto a = read(tmp.path() / "books" / kRecordBoundary)["boundaries"],
             b = read(tmp.path() / "trained" / kRecordBoundary)["boundaries"];
  BOOST_REQUIRE(a.size() == b.size());
  bool memory_was_the_limit = false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    BOOST_TEST(a[i]["largest_seq_len"] == b[i]["largest_seq_len"]);
    BOOST_REQUIRE(a[i]["probes"].size() == b[i]["probes"].size());
    for (std::size_t k = 0; k < a[i]["probes"].size(); ++k)
      for (const char* field : {"seq_len", "fits", "peak_memory_bytes", "peak_reserved_bytes"})
        BOOST_TEST(a[i]["probes"][k].value(field, nlohmann::json()) ==
                   b[i]["probes"][k].value(field, nlohmann::json()));
    BOOST_TEST(a[i]["confirmed_by_training"] == true);
    memory_was_the_limit |= a[i]["limited_by"] == "memory";
  }
  BOOST_TEST(memory_was_the_limit);
}

BOOST_AUTO_TEST_CASE(a_probe_peaks_where_a_benchmark_of_that_length_does) {
  const TemporaryFolder tmp;
  const std::string shape = fmt::format("--model tiny --batch 16 --results {}", tmp.path().string());
  BOOST_REQUIRE(spillway_run("oom-boundary --run b " + shape).status == 0);
  BOOST_REQUIRE(spillway_run("bench --run m --seq 256 --warmup 1 --iters 1 --repeats 1 " + shape).status == 0);
  const auto boundaries = read(tmp.path() / "b" / kRecordBoundary)["boundaries"];
  const auto candidates =
      read(tmp.path() / "m" / (kHostDevice ? "76_host_memory.json" : "76_real_gpu_memory.json"))["candidates"];
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const auto& last = boundaries[i]["probes"].back();
    BOOST_TEST(last["seq_len"] == 256);
    BOOST_TEST(last["peak_memory_bytes"] == candidates[i]["peak_memory_bytes"]);
  }
}

BOOST_AUTO_TEST_CASE(bad_options_are_one_line) {
  check_refused("oom-boundary --model tiny --strategies swap", "swap");
  check_refused("oom-boundary --model tiny --memory-cap-mb 0", "memory-cap-mb 0");
  check_refused("oom-boundary --model tiny --memory-cap-mb nan", "memory-cap-mb nan");
  check_refused("oom-boundary --model tiny --seq 64", "seq");
  if (kHostDevice) check_refused("oom-boundary --model tiny --confirm", "books-only");
}

BOOST_AUTO_TEST_SUITE_END()
