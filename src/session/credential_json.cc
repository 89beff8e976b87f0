#include <algorithm>

#include "base/strings.h"
#include "session/credential_file.h"
#include "wire/json_reader.h"
#include "wire/utf8.h"

namespace tinker::session {

namespace {

using Kind = wire::JsonView::Kind;
using wire::JsonView;

/// Texts of the file never get in here: a key may stand in any place of a broken file.
Error malformed(std::string_view where, std::string_view expected) {
  return {.code = ErrorCode::invalid_argument,
          .message = base::concat(where, ": expected ", expected)};
}

Result<std::string> required_text(const JsonView& object,
                                  const char* name,
                                  const std::string& where) {
  const auto value = object.member(name);
  if (!value || value->kind() != Kind::string) {
    return malformed(where, base::concat("a text as '", name, "'"));
  }
  return std::string(value->string());
}

Result<JsonView> required_object(const JsonView& object,
                                 const char* name,
                                 const std::string& where) {
  const auto value = object.member(name);
  if (!value || value->kind() != Kind::object) {
    return malformed(where, base::concat("an object as '", name, "'"));
  }
  return *value;
}

/// The member, unless it is missing or null.
std::optional<JsonView> optional_member(const JsonView& object, const char* name) {
  const auto value = object.member(name);
  return value && value->kind() != Kind::null ? value : std::nullopt;
}

Result<ApiKeyDetails> read_details(const JsonView& record, const std::string& where) {
  TINKER_TRY(const auto details, required_object(record, "details", where));
  TINKER_TRY(const auto org, required_object(details, "org_details", where));
  TINKER_TRY(const auto user, required_object(details, "user_details", where));
  ApiKeyDetails out;
  TINKER_TRY(out.org_details.name, required_text(org, "name", where));
  TINKER_TRY(out.user_details.email, required_text(user, "email", where));
  return out;
}

Result<KeyRecord> read_record(const JsonView& record, const std::string& where) {
  if (record.kind() != Kind::object) return malformed(where, "an object");
  KeyRecord out;
  TINKER_TRY(const auto type, required_text(record, "type", where));
  if (type != "manual" && type != "generated") {
    return malformed(where, "'manual' or 'generated' as 'type'");
  }
  out.type = type == "manual" ? KeyRecord::Type::manual : KeyRecord::Type::generated;
  TINKER_TRY(auto key, required_text(record, "key", where));
  out.key = Secret(std::move(key));
  TINKER_TRY(out.name, required_text(record, "name", where));
  if (out.type == KeyRecord::Type::manual && optional_member(record, "note")) {
    TINKER_TRY(out.note, required_text(record, "note", where));
  }
  if (out.type == KeyRecord::Type::generated || optional_member(record, "details")) {
    TINKER_TRY(out.details, read_details(record, where));
  }
  return out;
}

Result<CredentialFile::Keys> read_keys(const JsonView& keys) {
  if (keys.kind() != Kind::object) return malformed("'keys'", "an object");
  CredentialFile out;
  std::optional<Error> error;
  keys.for_each_member([&, number = 0](std::string_view id, JsonView value) mutable {
    auto record = read_record(value, base::concat("record ", ++number, " of 'keys'"));
    if (!record) {
      error = std::move(record).error();
      return false;
    }
    out.set(std::string(id), *std::move(record));
    return true;
  });
  if (error) return *std::move(error);
  return std::move(out.keys);
}

Result<void> check_version(const JsonView& root) {
  const auto version = root.member("version");
  if (!version || (version->is_number() && version->number() == 1)) return {};
  return malformed("'version'",
                   version->is_number() ? base::concat("1, found ", version->number())
                                        : base::concat("1, found ", version->kind_name()));
}

/// Writes objects of texts as the official client does: two spaces a level, `{}` for an empty one.
class Printer {
 public:
  void open() { out_ += '{'; }
  void open(std::string_view name) {
    begin(name);
    open();
    ++depth_;
  }
  void close() {
    --depth_;
    if (out_.back() != '{') new_line();
    out_ += '}';
  }
  void number(std::string_view name, int value) {
    begin(name);
    out_ += std::to_string(value);
  }
  void text(std::string_view name, std::string_view value) {
    begin(name);
    quote(value);
  }
  [[nodiscard]] bool is_utf8() const noexcept { return is_utf8_; }
  [[nodiscard]] std::string take() && { return std::move(out_); }

 private:
  void begin(std::string_view name) {
    if (out_.back() != '{') out_ += ',';
    new_line();
    quote(name);
    out_ += ": ";
  }
  void new_line() {
    out_ += '\n';
    out_.append(2 * depth_, ' ');
  }
  void quote(std::string_view text);

  std::string out_;
  std::size_t depth_ = 1;
  bool is_utf8_ = true;
};

void Printer::quote(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  constexpr std::string_view kShort = "\"\\\b\f\n\r\t";
  constexpr std::string_view kLetters = "\"\\bfnrt";
  is_utf8_ = is_utf8_ && wire::is_utf8(text);
  out_ += '"';
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (const auto at = kShort.find(c); at != std::string_view::npos) {
      out_ += '\\';
      out_ += kLetters[at];
    } else if (code < 0x20) {
      out_ += base::concat("\\u00", kHex[code >> 4U], kHex[code & 0xfU]);
    } else {
      out_ += c;
    }
  }
  out_ += '"';
}

void print_record(Printer& out, const std::string& id, const KeyRecord& record) {
  const bool is_manual = record.type == KeyRecord::Type::manual;
  out.open(id);
  out.text("type", is_manual ? "manual" : "generated");
  out.text("key", record.key.expose());
  out.text("name", record.name);
  if (is_manual && record.note) out.text("note", *record.note);
  if (record.details) {
    out.open("details");
    out.open("org_details");
    out.text("name", record.details->org_details.name);
    out.close();
    out.open("user_details");
    out.text("email", record.details->user_details.email);
    out.close();
    out.close();
  }
  out.close();
}

auto place_of(auto& keys, std::string_view id) {
  return std::find_if(keys.begin(), keys.end(), [&](const auto& key) { return key.first == id; });
}

}  // namespace

const KeyRecord* CredentialFile::find(std::string_view id) const noexcept {
  const auto place = place_of(keys, id);
  return place == keys.end() ? nullptr : &place->second;
}

const KeyRecord* CredentialFile::default_key() const noexcept {
  return default_id ? find(*default_id) : nullptr;
}

void CredentialFile::set(std::string id, KeyRecord record) {
  if (const auto place = place_of(keys, id); place != keys.end()) {
    place->second = std::move(record);
  } else {
    keys.emplace_back(std::move(id), std::move(record));
  }
}

bool CredentialFile::erase(std::string_view id) {
  const auto place = place_of(keys, id);
  if (place == keys.end()) return false;
  if (default_id == id) default_id.reset();
  keys.erase(place);
  return true;
}

Result<CredentialFile> parse_credentials(std::string_view text) {
  const auto document = wire::JsonDocument::parse(text);
  if (!document) return malformed("the file", "a JSON document");
  const JsonView root = document->root();
  if (root.kind() != Kind::object) return malformed("the file", "a JSON object");
  TINKER_TRY(check_version(root));
  CredentialFile out;
  if (optional_member(root, "default")) {
    TINKER_TRY(out.default_id, required_text(root, "default", "the file"));
  }
  if (const auto keys = root.member("keys")) {
    TINKER_TRY(out.keys, read_keys(*keys));
  }
  return out;
}

Result<std::string> print_credentials(const CredentialFile& file) {
  Printer out;
  out.open();
  out.number("version", 1);
  if (file.default_id) out.text("default", *file.default_id);
  out.open("keys");
  for (std::size_t i = 0; i < file.keys.size(); ++i) {
    const auto& [id, record] = file.keys[i];
    print_record(out, id, record);
    if (!out.is_utf8()) return malformed(base::concat("record ", i + 1), "UTF-8 text");
    if (record.type == KeyRecord::Type::generated && !record.details) {
      return malformed(base::concat("record ", i + 1), "the details of a generated key");
    }
  }
  out.close();
  out.close();
  if (!out.is_utf8()) return malformed("'default'", "UTF-8 text");
  return std::move(out).take();
}

}  // namespace tinker::session
