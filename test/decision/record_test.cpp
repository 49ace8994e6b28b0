// A record is written whole or not at all, never over another, and cannot be changed afterwards.
#include "decision/record.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/error.h"
#include "test/decision/temporary_folder.h"
#include "test/fixture.h"

namespace fs = std::filesystem;
using spillway::Error;
using spillway::decision::RunFolder;
using spillway::test::TemporaryFolder;

namespace {
const nlohmann::ordered_json kRecord = {{"stage", "test"}, {"bytes", 9007199254740993}};

std::string text_of(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}
std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}
}  // namespace

BOOST_AUTO_TEST_SUITE(records)

BOOST_AUTO_TEST_CASE(a_record_is_whole_read_only_and_alone_in_its_folder) {
  const TemporaryFolder tmp;
  RunFolder folder(tmp.path() / "results", "one");
  folder.prepare("76_host_memory.json");
  const fs::path file = folder.write("76_host_memory.json", kRecord);
  BOOST_TEST(nlohmann::ordered_json::parse(text_of(file)) == kRecord);
  struct stat status {};
  BOOST_REQUIRE(::stat(file.c_str(), &status) == 0);
  BOOST_TEST((status.st_mode & 0777U) == 0444U);
  BOOST_TEST(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
  BOOST_TEST(fs::read_symlink(tmp.path() / "results" / "latest") == "one");
}

BOOST_AUTO_TEST_CASE(a_second_run_into_the_folder_is_refused_by_name_before_and_after_measuring) {
  const TemporaryFolder tmp;
  RunFolder first(tmp.path(), "one"), second(tmp.path(), "one");
  first.prepare("76_host_memory.json");
  second.prepare("76_host_memory.json");  // both started before either had written
  const fs::path file = first.write("76_host_memory.json", kRecord);
  const std::string before = text_of(file);
  BOOST_TEST(message_of([&] {
               second.write("76_host_memory.json", {{"other", 1}});
             }).find(file.string()) != std::string::npos);
  BOOST_TEST(message_of([&] { RunFolder(tmp.path(), "one").prepare("76_host_memory.json"); }).find(file.string()) !=
             std::string::npos);
  BOOST_TEST(text_of(file) == before);
  BOOST_TEST(std::distance(fs::directory_iterator(tmp.path() / "one"), fs::directory_iterator()) == 1);
}

BOOST_AUTO_TEST_CASE(a_folder_that_cannot_be_made_is_one_line) {
  const TemporaryFolder tmp;
  std::ofstream(tmp.path() / "file") << "x";
  const std::string message = message_of([&] { RunFolder(tmp.path() / "file", "one").prepare("r.json"); });
  BOOST_TEST(message.find("file/one") != std::string::npos);
  BOOST_TEST(message.find('\n') == std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_full_disk_is_one_line_and_leaves_no_file) {
  // A folder on a full file system cannot be had without privileges; a limit on the size of files is as good: the
  // write fails half-way.
  const TemporaryFolder tmp;
  RunFolder folder(tmp.path(), "one");
  folder.prepare("r.json");
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{100, 100};
    ::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const std::string message = message_of([&] { folder.write("r.json", {{"long", std::string(10000, 'x')}}); });
    ::_exit(message.find("nothing was recorded") != std::string::npos && message.find('\n') == std::string::npos ? 0
                                                                                                                 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  BOOST_TEST(status == 0);
  BOOST_TEST(fs::is_empty(folder.path()));
}

BOOST_AUTO_TEST_CASE(a_run_name_is_a_plain_folder_name) {
  for (const char* name : {"", ".", "..", "latest", "a/b", "/a"}) BOOST_CHECK_THROW(RunFolder("results", name), Error);
}

BOOST_AUTO_TEST_CASE(a_run_that_failed_leaves_no_folder) {
  const TemporaryFolder tmp;
  RunFolder folder(tmp.path(), "one");
  folder.prepare("r.json");
  folder.prepare("r_v1.json");
  folder.discard_if_empty();
  BOOST_TEST(!fs::exists(tmp.path() / "one"));
}

BOOST_AUTO_TEST_SUITE_END()
