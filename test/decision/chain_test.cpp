// The chain as a whole: four experiments into one folder, refused as a whole when one of their records exists, told
// what was kept when it is interrupted, and never a record that is not whole, whenever it is killed.
#include <chrono>
#include <csignal>
#include <random>
#include <thread>

#include <sys/types.h>
#include <unistd.h>

#include "decision/check_run.h"
#include "decision/json_file.h"
#include "test/decision/program.h"
#include "test/device_controls.h"

using namespace spillway::decision;
using namespace spillway::test;
namespace fs = std::filesystem;

namespace {

std::string chain(const fs::path& results, const std::string& more = "") {
  return fmt::format(
      "chain --model tiny --seq 64 --warmup 1 --iters 2 --repeats 2 --tuned strategy=checkpoint --results {} --run r "
      "{}",
      results.string(), more);
}

// Runs the program in a process of its own; what it says on stderr goes to a file.
pid_t start(const std::string& arguments, const fs::path& err) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  const std::string command =
      fmt::format("exec {} {} >/dev/null 2>{}", std::getenv("SPILLWAY_BIN"), arguments, err.string());
  ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
  ::_exit(127);
}

// Its status as waitpid gives it, once the signal has been sent after so long.
int end(pid_t pid, std::chrono::milliseconds delay, int signal) {
  std::this_thread::sleep_for(delay);
  ::kill(pid, signal);
  int status = 0;
  ::waitpid(pid, &status, 0);
  return status;
}

const char* const kRecord76 = kHostDevice ? "76_host_memory.json" : "76_real_gpu_memory.json";

}  // namespace

BOOST_AUTO_TEST_SUITE(the_chain)

BOOST_AUTO_TEST_CASE(a_chain_leaves_four_records_what_belongs_to_them_and_no_contradiction) {
  const TemporaryFolder tmp;
  const Result r = spillway_run(chain(tmp.path()));
  BOOST_TEST_CONTEXT(r.err) BOOST_REQUIRE(r.status == 0);
  const RunCheck check = check_run(tmp.path() / "r");
  // Four records, three sidecars, two traces, and the memory of four strategies in three formats.
  BOOST_TEST(check.files.size() == 21U);
  for (std::size_t i = 0; i < 4; ++i)
    // A step of half a millisecond is never steady: that is told when nothing else is wrong.
    BOOST_TEST_CONTEXT(check.answers[i].reason)
  BOOST_TEST((check.answers[i].yes || check.answers[i].reason.find("spread by") != std::string::npos ||
              check.answers[i].reason.find("the profile explains") != std::string::npos ||
              check.answers[i].reason.find("the parts of a step sum to") != std::string::npos ||
              check.answers[i].reason.find("sensitive") != std::string::npos));
  const auto record = read(tmp.path() / "r" / kRecord76);
  BOOST_TEST(record["source_baseline"].get<std::string>().starts_with("73_"));
  BOOST_TEST(record["config"]["seq_len"] == 64);
  BOOST_TEST(record["config"]["command"].get<std::string>().find("chain --model tiny") != std::string::npos);

  const Result again = spillway_run(chain(tmp.path()));
  BOOST_TEST(again.status == 1);
  BOOST_TEST(again.err.find("73_") != std::string::npos);
  BOOST_TEST(std::count(again.err.begin(), again.err.end(), '\n') == 1);
}

BOOST_AUTO_TEST_CASE(a_chain_that_cannot_be_finished_is_refused_before_it_measures) {
  const TemporaryFolder tmp;
  fs::create_directories(tmp.path() / "r");
  std::ofstream(tmp.path() / "r" / "75_memory_budget_decision.json") << "{}";
  check_refused(chain(tmp.path()), "75_memory_budget_decision.json exists");
  BOOST_TEST(std::distance(fs::directory_iterator(tmp.path() / "r"), {}) == 1);
  check_refused(chain(tmp.path() / "x", "--strategies swap"), "swap");
  check_refused(chain(tmp.path() / "x", "--tuned batch=2"), "exactly one");
  check_refused(chain(tmp.path() / "x", "--memory-cap-mb nan"), "memory-cap-mb nan");
  BOOST_TEST(!fs::exists(tmp.path() / "x"));
}

BOOST_AUTO_TEST_CASE(an_arm_that_runs_out_of_memory_does_not_end_the_chain,
                     *boost::unit_test::enable_if<kHostDevice>()) {
  const TemporaryFolder tmp;
  const Result r =
      spillway_run(fmt::format("chain --model tiny --seq 64 --warmup 1 --iters 2 --repeats 2 --tuned batch=4096 "
                               "--device-memory 64MiB --results {} --run r",
                               tmp.path().string()));
  BOOST_TEST_CONTEXT(r.err) {
    BOOST_TEST(r.status == 1);
    BOOST_TEST(std::count(r.err.begin(), r.err.end(), '\n') == 1);
  }
  BOOST_TEST(read(tmp.path() / "r" / "73_host_training.json")["tuned"]["status"] == "oom");
  BOOST_TEST(fs::exists(tmp.path() / "r" / "75_memory_budget_decision.json"));
}

BOOST_AUTO_TEST_CASE(killed_at_any_moment_no_record_is_partial) {
  const TemporaryFolder tmp;
  std::mt19937_64 random(9);
  const int moments = kHostDevice ? 50 : 10;
  int records = 0, whole_runs = 0;
  for (int i = 0; i < moments; ++i) {
    const fs::path results = tmp.path() / std::to_string(i);
    end(start(chain(results), tmp.path() / "err"), std::chrono::milliseconds(random() % 250), SIGKILL);
    if (!fs::exists(results / "r")) continue;
    int here = 0;
    for (const auto& entry : fs::directory_iterator(results / "r")) {
      const std::string name = entry.path().filename().string();
      if (entry.path().extension() != ".json") continue;
      const auto record = read_json(entry.path());  // throws when it is not whole
      if (name.starts_with("74_trace") || name.starts_with("74_memory")) continue;
      BOOST_TEST(record.contains("decision"), entry.path().string());
      ++here;
    }
    records += here;
    whole_runs += here == 7;
  }
  BOOST_TEST_MESSAGE(records << " records, " << whole_runs << " whole runs of " << moments);
  BOOST_TEST(records > 0);
}

BOOST_AUTO_TEST_CASE(an_interrupted_run_says_what_it_kept) {
  const TemporaryFolder tmp;
  const fs::path err = tmp.path() / "err";
  BOOST_REQUIRE(
      spillway_run("baseline --model tiny --seq 64 --iters 1 --tuned batch=2 --run r --results " + tmp.path().string())
          .status == 0);
  const pid_t pid = start("bench --model tiny --seq 64 --iters 100000 --run r --results " + tmp.path().string(), err);
  const int status = end(pid, std::chrono::milliseconds(2000), SIGINT);
  std::ifstream in(err);
  const std::string said{std::istreambuf_iterator<char>(in), {}};
  BOOST_TEST_CONTEXT(said) {
    BOOST_REQUIRE(WIFEXITED(status));
    BOOST_TEST(WEXITSTATUS(status) == 130);
    BOOST_TEST(said.find(fmt::format("interrupted before {} was written; kept in ", kRecord76)) != std::string::npos);
    BOOST_TEST(said.find(": 73_") != std::string::npos);
    BOOST_TEST(std::count(said.begin(), said.end(), '\n') == 1);
  }
}

BOOST_AUTO_TEST_SUITE_END()
