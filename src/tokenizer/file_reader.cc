#include "tokenizer/file_reader.h"

#include <array>
#include <fstream>
#include <string>
#include <utility>

#include "base/strings.h"
#include "formats/mapped_file.h"
#include "tokenizer/gguf_reader.h"
#include "tokenizer/hf_reader.h"
#include "tokenizer/kimi_reader.h"
#include "tokenizer/tiktoken_reader.h"

namespace tinker::tokenizer {

namespace {

using Path = std::filesystem::path;

bool begins_as_gguf(const Path& path) {
  std::array<char, 4> begin = {};
  std::ifstream file(path, std::ios::binary);
  file.read(begin.data(), begin.size());
  return std::string_view(begin.data(), begin.size()) == "GGUF";
}

Result<Pipeline> with_name(Result<Pipeline> made, const Path& path) {
  if (!made.ok()) return Error(made.error()).with_context(path.string());
  return made;
}

/// The one file with this extension; empty when there is none, or another one.
Path only_file(const Path& folder, std::string_view extension) {
  Path found;
  std::error_code error;
  for (std::filesystem::directory_iterator file(folder, error), end; !error && file != end;
       file.increment(error)) {
    if (file->path().extension() != extension) continue;
    if (!found.empty()) return {};
    found = file->path();
  }
  return found;
}

Result<Path> find_in(const Path& folder) {
  std::error_code error;
  for (const auto* const name : {"tokenizer.json", "tiktoken.model"}) {
    if (std::filesystem::exists(folder / name, error)) return folder / name;
  }
  for (const auto* const extension : {".tiktoken", ".gguf"}) {
    if (auto file = only_file(folder, extension); !file.empty()) return file;
  }
  return Error{.code = ErrorCode::invalid_argument,
               .message = base::concat(
                   "no tokenizer in ",
                   folder.string(),
                   ": there is no tokenizer.json, no tiktoken.model, no single *.tiktoken, "
                   "no single *.gguf")};
}

Result<Pipeline> read_preset(const Path& path) {
  const auto options = TiktokenOptions::preset(path.stem().string());
  if (!options) {
    return Error{.code = ErrorCode::invalid_argument,
                 .message = base::concat("cannot tell from the name of ",
                                         path.string(),
                                         " how it cuts text into words; use from_tiktoken")};
  }
  TINKER_TRY(const auto ranks, read_file(path));
  return with_name(read_tiktoken(ranks, *options), path);
}

}  // namespace

Result<std::string> read_file(const Path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const auto fail = [&path](std::string_view why) {
    return Error{.code = ErrorCode::invalid_argument,
                 .message = base::concat("cannot read ", path.string(), ": ", why)};
  };
  if (!file) return fail("there is no such file, or it may not be read");
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return fail("it is a folder");
  const auto size = file.tellg();
  if (size < 0) return fail("it is no file");
  std::string content(static_cast<std::size_t>(size), '\0');
  file.seekg(0);
  if (!file.read(content.data(), size)) return fail("it ends too early");
  return content;
}

bool is_gguf(const Path& path) {
  return path.extension() == ".gguf" || begins_as_gguf(path);
}

Result<Path> find_tokenizer_file(const Path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return find_in(path);
  return path;
}

Result<Pipeline> read_tokenizer_file(const Path& given) {
  TINKER_TRY(const auto path, find_tokenizer_file(given));
  if (is_gguf(path)) {
    TINKER_TRY(const auto file, formats::MappedFile::open(path));
    return with_name(read_gguf_vocabulary(file.bytes()), path);
  }
  if (path.extension() == ".tiktoken") return read_preset(path);
  TINKER_TRY(const auto content, read_file(path));
  if (path.filename() == "tiktoken.model") {
    TINKER_TRY(const auto config, read_file(path.parent_path() / "tokenizer_config.json"));
    return with_name(read_kimi(content, config), path);
  }
  return with_name(read_tokenizer_json(content), path);
}

}  // namespace tinker::tokenizer
