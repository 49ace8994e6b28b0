// record.cpp - see record.h. link(2) is what makes a record exclusive: it fails when the name is taken, whoever took
// it.
#include "decision/record.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "decision/normalize.h"
#include "decision/progress.h"
#include "runtime/error.h"

namespace spillway::decision {
namespace fs = std::filesystem;
namespace {

// A file of a name that nobody has, which is deleted unless it is linked to its real name. What a killed process left
// behind is in nobody's way.
class TemporaryFile {
 public:
  TemporaryFile(const fs::path& folder, const std::string& record) {
    std::string name = (folder / fmt::format(".{}-XXXXXX", record)).string();
    fd_ = ::mkostemp(name.data(), O_CLOEXEC);
    if (fd_ < 0) throw Error(fmt::format("cannot write into {}: {}", folder.string(), std::strerror(errno)));
    path_ = name;
  }
  ~TemporaryFile() {
    if (fd_ >= 0) ::close(fd_);
    ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void write(const std::string& text) {
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t n = ::write(fd_, text.data() + done, text.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail();
      done += static_cast<std::size_t>(n);
    }
    if (::fchmod(fd_, 0444) != 0 || ::fsync(fd_) != 0) fail();
  }
  const fs::path& path() const { return path_; }

 private:
  [[noreturn]] void fail() const {
    throw Error(fmt::format("cannot write {}: {}; nothing was recorded", path_.string(), std::strerror(errno)));
  }
  fs::path path_;
  int fd_ = -1;
};

}  // namespace

RunFolder::RunFolder(fs::path results, std::string run) : results_(std::move(results)), run_(std::move(run)) {
  if (run_.empty() || run_ == "." || run_ == ".." || run_ == "latest" || run_.find('/') != std::string::npos)
    throw Error(fmt::format("run name '{}': give a folder name without a slash that is not ., .. or latest", run_));
  folder_ = results_ / run_;
}

void RunFolder::prepare(const std::string& record) {
  std::error_code error;
  created_ = fs::create_directories(folder_, error) || created_;
  if (error) throw Error(fmt::format("cannot make the folder {}: {}", folder_.string(), error.message()));
  if (fs::exists(fs::symlink_status(folder_ / record)))
    throw Error(
        fmt::format("{} exists: a record is never overwritten; choose another run name", (folder_ / record).string()));
  TemporaryFile probe(folder_, "probe");
}

void write_exclusive(const fs::path& target, const nlohmann::ordered_json& contents) {
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  TemporaryFile file(folder, target.filename().string());
  file.write(contents.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  if (::link(file.path().c_str(), target.c_str()) != 0) {
    if (errno == EEXIST) throw Error(fmt::format("{} exists: a record is never overwritten", target.string()));
    throw Error(fmt::format("cannot write {}: {}; nothing was recorded", target.string(), std::strerror(errno)));
  }
  if (const int directory = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); directory >= 0) {
    ::fsync(directory);
    ::close(directory);
  }
}

void write_derived(const fs::path& target, const std::string& contents) {
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  TemporaryFile file(folder, target.filename().string());
  file.write(contents);
  if (::rename(file.path().c_str(), target.c_str()) != 0)
    throw Error(fmt::format("cannot write {}: {}", target.string(), std::strerror(errno)));
}

fs::path RunFolder::write(const std::string& record, const nlohmann::ordered_json& contents) {
  fs::path target = folder_ / record;
  std::error_code ignored;
  fs::create_directories(folder_, ignored);  // gone, when a run beside this one that made it was stopped
  write_exclusive(target, contents);
  // A convenience beside the record: that it cannot be made does not undo the run.
  const fs::path link = results_ / fmt::format(".latest-{}-{}", ::getpid(), std::random_device()());
  fs::create_directory_symlink(run_, link, ignored);
  fs::rename(link, results_ / "latest", ignored);
  if (ignored) fs::remove(link, ignored);
  return target;
}

void RunFolder::discard_if_empty() noexcept {
  std::error_code ignored;
  if (created_) fs::remove(folder_, ignored);  // removes only an empty folder
}

std::string RunFolder::kept() const {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_, ignored))
    if (const std::string name = entry.path().filename().string(); !name.starts_with('.')) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names.empty() ? "nothing was recorded"
                       : fmt::format("kept in {}: {}", folder_.string(), fmt::join(names, ", "));
}

void record_run(RunFolder& folder, const std::string& record, Sidecar sidecar, const Measure& measure) {
  try {
    folder.prepare(record);
    if (sidecar == Sidecar::v1) folder.prepare(sidecar_name(record));
    catch_interrupts();
    const Measured measured = measure();
    try {
      folder.write(record, measured.record);
      if (sidecar == Sidecar::v1) folder.write(sidecar_name(record), normalize(measured.record, record));
    } catch (...) {
      fmt::print("{}\n", measured.report);  // what was measured is not lost with the disk
      throw;
    }
    fmt::print("{}\nrecord: {}\n", measured.report, (folder.path() / record).string());
  } catch (const Interrupted&) {
    folder.discard_if_empty();
    throw Interrupted(fmt::format("interrupted before {} was written; {}", record, folder.kept()));
  } catch (...) {
    folder.discard_if_empty();
    throw;
  }
}

std::string default_run_name(const fs::path& results, bool host, const std::string& model, const std::string& what) {
  std::string safe = fs::path(model).filename().string();
  std::replace_if(
      safe.begin(), safe.end(),
      [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '-'; }, '_');
  const std::string name =
      fmt::format("{:%Y%m%dT%H%M%SZ}_{}_{}_{}", fmt::gmtime(std::time(nullptr)), host ? "host" : "gpu", safe, what);
  std::string unused = name;
  for (int n = 2; fs::exists(fs::symlink_status(results / unused)); ++n) unused = fmt::format("{}_{}", name, n);
  return unused;
}

}  // namespace spillway::decision
