// record.h - a raw record is an experiment: written whole or not at all, never over another, read-only afterwards.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace spillway::decision {

// results/<run>/ for the records of one run.
class RunFolder {
 public:
  // Error: a run name that is empty, has a slash, or is "." , ".." or "latest".
  RunFolder(std::filesystem::path results, std::string run);
  // Before anything is measured: creates the folder, and Error when `record` exists in it (named) or when nothing can
  // be written there.
  void prepare(const std::string& record);
  // write_exclusive, then points results/latest here.
  std::filesystem::path write(const std::string& record, const nlohmann::ordered_json& contents);
  // Removes the folder when prepare() made it and nothing stands in it: a run that failed leaves nothing behind.
  void discard_if_empty() noexcept;
  // What stands in the folder: "kept in results/x: 73_host_training.json", or "nothing was recorded".
  std::string kept() const;
  const std::filesystem::path& path() const { return folder_; }

 private:
  std::filesystem::path results_, folder_;
  std::string run_;
  bool created_ = false;
};

// Writes a record exclusively: temporary file beside it, fsync, read-only, linked into place. Error when the name is
// taken, the folder cannot be written, or the disk is full; no partial file stays.
void write_exclusive(const std::filesystem::path& target, const nlohmann::ordered_json& contents);

// Writes a file that is made from records and may be made again: temporary file, renamed into place. Error as above.
void write_derived(const std::filesystem::path& target, const std::string& contents);

// A whole run: prepare, measure, write, report; beside a record of 73, 76 or 75 its v1 sidecar. When `measure` throws,
// a folder in which nothing stands goes again, and an Interrupted says what was kept. When the record cannot be written
// the report is printed all the same.
enum class Sidecar : std::uint8_t { none, v1 };
struct Measured {
  nlohmann::ordered_json record;
  std::string report;  // for people
};
using Measure = std::function<Measured()>;
void record_run(RunFolder& folder, const std::string& record, Sidecar sidecar, const Measure& measure);

// "20261201T064500Z_host_small_768": UTC time, device, model, and what tells it from others: its seq. A number is
// appended where `results` has that name already.
std::string default_run_name(const std::filesystem::path& results, bool host, const std::string& model,
                             const std::string& what);

}  // namespace spillway::decision
