#include <iomanip>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "wire/base64.h"
#include "wire/json_writer.h"
#include "wire/registry.h"
#include "wire/utf8.h"

namespace tinker::cli {
namespace {

using wire::Encoding;
using wire::WireType;

struct WireOptions {
  bool list = false;
  std::string type = {};
  std::string from = {};
  std::string to = {};
  bool lines = false;
  bool lenient = false;
};

int list_types() {
  for (const WireType& type : wire::wire_types()) {
    const char* kind = type.kind == WireType::Kind::request    ? "request"
                       : type.kind == WireType::Kind::response ? "response"
                                                               : "value";
    const char* encoding = type.has_json && type.has_proto ? "both"
                           : type.has_json                 ? "json"
                                                           : "proto";
    std::cout << std::left << std::setw(48) << type.name << std::setw(10) << kind << encoding
              << '\n';
  }
  return kOk;
}

/// One document with its encodings and policy.
struct Transcoder {
  const WireType& type;
  Encoding from;
  Encoding to;
  wire::Policy policy;

  Result<std::string> operator()(std::string input) const {
    std::vector<std::string> unknown;
    auto output =
        type.transcode(std::move(input), from, to, {.policy = policy, .unknown_members = &unknown});
    if (policy == wire::Policy::lenient) {
      for (const auto& path : unknown) std::cerr << path << ": unknown member, passed over\n";
    }
    return output;
  }
};

int transcode_document(const Transcoder& transcode) {
  std::string input{std::istreambuf_iterator<char>(std::cin), {}};
  const auto output = transcode(std::move(input));
  if (!output) {
    std::cerr << output.error().to_string() << '\n';
    return kRefused;
  }
  std::cout << *output;
  if (transcode.to == Encoding::json) std::cout << '\n';
  return kOk;
}

/// Binary messages travel as base64 in line mode.
Result<std::string> transcode_line(const Transcoder& transcode, std::string line) {
  if (transcode.from == Encoding::proto) {
    auto bytes = wire::from_base64(line);
    if (!bytes) {
      return Error{.code = ErrorCode::invalid_argument,
                   .message = "$: expected a message in base64, found other text"};
    }
    line = *std::move(bytes);
  }
  TINKER_TRY(auto output, transcode(std::move(line)));
  return transcode.to == Encoding::proto ? wire::to_base64(output) : std::move(output);
}

std::string error_line(const Error& error) {
  std::string text = error.to_string();
  // A message may quote the document, which need not be text.
  if (!wire::is_utf8(text)) {
    for (char& c : text) c = static_cast<unsigned char>(c) < 0x80 ? c : '?';
  }
  wire::JsonWriter writer(wire::NonFinite::refuse);
  writer.begin_object();
  writer.key("error");
  writer.string(text);
  writer.end_object();
  return std::move(writer).take();
}

int transcode_lines(const Transcoder& transcode) {
  std::string line;
  while (std::getline(std::cin, line)) {
    const auto output = transcode_line(transcode, std::move(line));
    std::cout << (output ? *output : error_line(output.error())) << '\n';
    // Answer at once when nothing more is waiting: the other side may want to see it first.
    if (std::cin.rdbuf()->in_avail() <= 0) std::cout.flush();
  }
  return kOk;
}

/// The encoding named on the command line, else the usual one.
Encoding encoding_of(std::string_view name, Encoding usual) {
  return name.empty() ? usual : name == "json" ? Encoding::json : Encoding::proto;
}

bool has(const WireType& type, Encoding encoding) {
  return encoding == Encoding::json ? type.has_json : type.has_proto;
}

int run_wire(const WireOptions& options) {
  std::ios::sync_with_stdio(false);
  if (options.list) return list_types();
  const WireType* type = wire::find_wire_type(options.type);
  if (type == nullptr) {
    std::cerr << "tinker wire: unknown type '" << options.type
              << "', expected one of those that 'tinker wire --list' shows\n";
    return kUsage;
  }
  const Encoding usual = type->has_json ? Encoding::json : Encoding::proto;
  const Transcoder transcode = {
      .type = *type,
      .from = encoding_of(options.from, usual),
      .to = encoding_of(options.to, usual),
      .policy = options.lenient ? wire::Policy::lenient : wire::Policy::strict};
  for (const Encoding encoding : {transcode.from, transcode.to}) {
    if (has(*type, encoding)) continue;
    std::cerr << "tinker wire: " << type->name << " has no "
              << (encoding == Encoding::json ? "json" : "proto") << " form, only "
              << (usual == Encoding::json ? "json" : "proto") << '\n';
    return kUsage;
  }
  return options.lines ? transcode_lines(transcode) : transcode_document(transcode);
}

}  // namespace

void add_wire_command(CLI::App& app, int& status) {
  const auto options = std::make_shared<WireOptions>();
  CLI::App* command = app.add_subcommand(
      "wire", "Read a wire type from standard input and write it as it would be sent");
  auto* type = command->add_option("TYPE", options->type, "Official class name in snake case");
  auto* list = command->add_flag("--list", options->list, "List all types: name, kind, encodings");
  type->excludes(list);
  command->add_option("--from", options->from, "Encoding of the input")
      ->check(CLI::IsMember({"json", "proto"}));
  command->add_option("--to", options->to, "Encoding of the output")
      ->check(CLI::IsMember({"json", "proto"}));
  command->add_flag("--lines", options->lines, "One document per line, binary ones in base64");
  command->add_flag("--lenient",
                    options->lenient,
                    "Read requests as a server does that meets newer clients: report unknown "
                    "members on standard error instead of refusing them");
  command->footer("Without --from and --to: json where the type has it, else proto.");
  command->callback([options, &status] {
    if (!options->list && options->type.empty()) throw CLI::RequiredError("TYPE or --list");
    status = run_wire(*options);
    if (!std::cout.flush()) {
      std::cerr << "tinker wire: standard output could not be written\n";
      status = kRefused;
    }
  });
}

}  // namespace tinker::cli
