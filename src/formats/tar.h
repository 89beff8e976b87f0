#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "tinker/result.h"

namespace tinker::formats {

struct TarEntry {
  enum class Kind { file, folder };
  Kind kind = Kind::file;
  std::string name = {};  ///< A clean relative path, once in an archive.
  std::uint64_t size = 0;
};

/// Who gets what is in an archive: `begin`, its content by `write`, `end`, for each entry in turn.
/// An error ends the reading with it.
class TarSink {
 public:
  virtual ~TarSink() = default;
  virtual Result<void> begin(const TarEntry& entry) = 0;
  virtual Result<void> write(std::string_view piece) = 0;
  virtual Result<void> end() = 0;
};

struct TarLimits {
  std::uint64_t max_bytes = std::uint64_t{1} << 40U;  ///< Of the whole archive, unpacked.
  std::size_t max_entries = 100'000;                  ///< Folders on the way included.
};

/// Reads a tar archive that comes in pieces: v7, ustar, pax, GNU. Trusts nothing in it: only files
/// and folders with safe names are handed out; links, devices, sparse files, names that come twice
/// and headers with a wrong checksum are refused with `invalid_response`, the entry named.
///
/// Thread-compatible.
class TarReader {
 public:
  /// `sink` must outlive it.
  TarReader(TarSink& sink, TarLimits limits) : sink_(sink), limits_(limits) {}

  /// No more calls after an error.
  Result<void> put(std::string_view bytes);
  /// There is no more. Fails unless the archive came to its end.
  [[nodiscard]] Result<void> finish() const;

 private:
  enum class Phase { header, meta, content, padding, ended };

  Result<void> read_header();
  Result<void> begin_entry(char type, std::string name, std::uint64_t size);
  Result<void> note(const TarEntry& entry);
  Result<void> end_entry();
  Result<void> read_meta();
  Result<void> read_pax(std::string_view records);

  TarSink& sink_;
  TarLimits limits_;
  Phase phase_ = Phase::header;
  std::string header_ = {};  // as far as it came
  std::string meta_ = {};    // of an entry that describes the next one
  char meta_type_ = '\0';
  std::uint64_t left_ = 0;  // of the content
  std::uint64_t padding_ = 0;
  std::uint64_t read_ = 0;  // of the archive
  int zero_blocks_ = 0;
  // What an entry before says of the next one.
  std::optional<std::string> next_name_ = {};
  std::optional<std::uint64_t> next_size_ = {};
  std::map<std::string, TarEntry::Kind, std::less<>> seen_ = {};
};

}  // namespace tinker::formats
