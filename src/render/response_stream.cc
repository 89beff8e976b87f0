// Responses token by token. The format says by which marks the parts of a response are told apart;
// here they are looked for in the text as it comes. What may be the beginning of a mark is held
// back until it is clear, so a mark is never told as text.
#include "tinker/response_stream.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <variant>

#include "jinja/utf8.h"
#include "tinker/tokenizer.h"

namespace tinker {

namespace {

using State = ResponseSyntax::State;
using Mark = ResponseSyntax::Mark;
using Deltas = std::vector<ResponseDelta>;

/// More tokens than a prompt has behind the mark that opens the reasoning.
constexpr std::size_t kPromptEnd = 8;

ResponseDelta::Kind kind_of(State state) {
  switch (state) {
    case State::thinking: return ResponseDelta::Kind::thinking;
    case State::tool_call: return ResponseDelta::Kind::tool_call;
    case State::text:
    case State::hidden: break;
  }
  return ResponseDelta::Kind::text;
}

/// How many bytes at the end of `text` are the beginning of `mark`, of which more is to come.
std::size_t partial_size(std::string_view text, std::string_view mark) {
  for (std::size_t size = std::min(text.size() + 1, mark.size()); size-- > 1;) {
    if (text.ends_with(mark.substr(0, size))) return size;
  }
  return 0;
}

}  // namespace

class ResponseStream::Reader {
 public:
  explicit Reader(Renderer renderer)
      : renderer_(std::move(renderer)),
        syntax_(renderer_.format().response_syntax()),
        stop_(renderer_.stop()),
        decoder_(renderer_.tokenizer().decode_stream()),
        state_(syntax_.first) {
    const auto* const texts = std::get_if<std::vector<std::string>>(&stop_);
    if (!texts) return;
    for (const auto& text : *texts) {
      syntax_.marks.push_back({.text = text, .from = State::text, .to = State::hidden});
    }
  }

  [[nodiscard]] const Renderer& renderer() const { return renderer_; }
  void begin_after(const ModelInput& prompt);
  Deltas push(std::int32_t token);
  Deltas finish();
  [[nodiscard]] Result<ParsedResponse> response() const {
    return renderer_.parse_response(tokens_);
  }

 private:
  struct Place {
    const Mark* mark = nullptr;
    std::size_t at = std::string::npos;
  };

  [[nodiscard]] bool is_end(std::int32_t token) const;
  /// The first mark in the text that counts in this state.
  [[nodiscard]] Place find_mark() const;
  /// How much of the end of the text may be the beginning of a mark.
  [[nodiscard]] std::size_t held_back() const;
  void read_control_token(Deltas& out, std::int32_t token);
  void read_text(Deltas& out);
  void enter(State state);
  void emit(Deltas& out, std::string_view text);
  void tell(Deltas& out, std::string_view text);

  Renderer renderer_;
  ResponseSyntax syntax_;
  Stop stop_;
  Tokenizer::DecodeStream decoder_;
  std::vector<std::int32_t> tokens_ = {};
  std::string text_ = {};      // decoded, and not looked through
  std::string hidden_ = {};    // since the last mark
  std::string newlines_ = {};  // behind reasoning, dropped if nothing follows
  State state_;
  std::size_t part_ = 0;
  bool is_told_ = false;           // something of this part was told
  bool has_bytes_ = false;         // there was something since the last mark
  bool follows_thinking_ = false;  // there was reasoning, and no text since
  bool has_begun_ = false;
  bool is_over_ = false;
};

/// Whether the prompt opens the reasoning. Then a model may do so once more.
void ResponseStream::Reader::begin_after(const ModelInput& prompt) {
  const auto opener = std::ranges::find_if(syntax_.marks, [](const Mark& mark) {
    return mark.from == State::text && mark.to == State::thinking;
  });
  if (opener == syntax_.marks.end() || prompt.chunks.empty()) return;
  const auto* const last = std::get_if<EncodedTextChunk>(&prompt.chunks.back());
  if (last == nullptr) return;
  const std::span all(last->tokens);
  const auto end = renderer_.tokenizer().decode(all.last(std::min(all.size(), kPromptEnd)));
  const auto trimmed = jinja::trim_right(end);
  if (!trimmed.ends_with(opener->text)) return;
  state_ = State::thinking;
  has_bytes_ = trimmed.size() < end.size();
  syntax_.skipped = opener->text;
}

Deltas ResponseStream::Reader::push(std::int32_t token) {
  Deltas out;
  tokens_.push_back(token);
  if (is_over_) return out;
  if (is_end(token)) return finish();
  if (!syntax_.marks_are_tokens) {
    text_ += decoder_.push(token);
    read_text(out);
  } else if (renderer_.tokenizer().is_special(token)) {
    read_control_token(out, token);
  } else {
    emit(out, decoder_.push(token));
  }
  return out;
}

Deltas ResponseStream::Reader::finish() {
  Deltas out;
  if (std::exchange(is_over_, true)) return out;
  text_ += decoder_.finish();
  if (!syntax_.marks_are_tokens) {
    has_begun_ = has_begun_ || !text_.starts_with(syntax_.skipped);
    read_text(out);
  }
  emit(out, std::exchange(text_, {}));
  return out;
}

bool ResponseStream::Reader::is_end(std::int32_t token) const {
  const auto has = [token](const std::vector<std::int32_t>& ids) {
    return std::ranges::find(ids, token) != ids.end();
  };
  const auto* const ids = std::get_if<std::vector<std::int32_t>>(&stop_);
  return (ids != nullptr && has(*ids)) || has(syntax_.end_tokens);
}

ResponseStream::Reader::Place ResponseStream::Reader::find_mark() const {
  Place out;
  for (const auto& mark : syntax_.marks) {
    if (mark.from != state_) continue;
    const auto at = text_.find(mark.text);
    if (at >= out.at) continue;
    const bool counts = mark.header.empty() ||
                        (hidden_ + text_.substr(0, at)).find(mark.header) != std::string::npos;
    if (counts) out = {.mark = &mark, .at = at};
  }
  return out;
}

std::size_t ResponseStream::Reader::held_back() const {
  std::size_t out = 0;
  for (const auto& mark : syntax_.marks) {
    if (mark.from == state_) out = std::max(out, partial_size(text_, mark.text));
  }
  return out;
}

void ResponseStream::Reader::read_control_token(Deltas& out, std::int32_t token) {
  emit(out, decoder_.finish());
  const auto text = renderer_.tokenizer().id_to_token(token).value_or("");
  const auto mark = std::ranges::find_if(
      syntax_.marks, [&](const Mark& each) { return each.from == state_ && each.text == text; });
  if (mark == syntax_.marks.end()) {
    emit(out, text);
  } else {
    enter(mark->to);
  }
}

void ResponseStream::Reader::read_text(Deltas& out) {
  if (!has_begun_) {
    if (text_.size() < syntax_.skipped.size() && syntax_.skipped.starts_with(text_)) return;
    if (text_.starts_with(syntax_.skipped)) text_.erase(0, syntax_.skipped.size());
    has_begun_ = true;
  }
  for (auto place = find_mark(); place.mark != nullptr; place = find_mark()) {
    emit(out, std::string_view(text_).substr(0, place.at));
    text_.erase(0, place.at + place.mark->text.size());
    enter(place.mark->to);
  }
  const auto clear = text_.size() - held_back();
  emit(out, std::string_view(text_).substr(0, clear));
  text_.erase(0, clear);
}

void ResponseStream::Reader::enter(State state) {
  if (has_bytes_ && state_ == State::thinking) follows_thinking_ = true;
  if (has_bytes_ && state_ == State::text) follows_thinking_ = false;
  if (is_told_) ++part_;
  is_told_ = has_bytes_ = false;
  newlines_.clear();
  hidden_.clear();
  state_ = state;
}

/// Of reasoning, newlines are told once something follows them.
void ResponseStream::Reader::emit(Deltas& out, std::string_view text) {
  if (text.empty()) return;
  has_bytes_ = true;
  if (state_ == State::hidden) {
    hidden_ += text;
    return;
  }
  const bool is_thinking = state_ == State::thinking;
  const bool trims_front =
      syntax_.trims_newlines && (is_thinking || (state_ == State::text && follows_thinking_));
  if (trims_front && !is_told_) {
    text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
  }
  if (!syntax_.trims_newlines || !is_thinking) return tell(out, text);
  const auto size = text.find_last_not_of('\n') + 1;
  if (size > 0) tell(out, std::exchange(newlines_, {}) + std::string(text.substr(0, size)));
  if (is_told_) newlines_ += text.substr(size);
}

void ResponseStream::Reader::tell(Deltas& out, std::string_view text) {
  if (text.empty()) return;
  const bool is_first = part_ == 0 && !is_told_;
  if (is_first) out.push_back({.kind = ResponseDelta::Kind::header, .text = "assistant"});
  const auto kind = kind_of(state_);
  const bool goes_on = is_told_ && !out.empty() && out.back().part == part_;
  if (goes_on) {
    out.back().text += text;
  } else {
    out.push_back({.kind = kind, .text = std::string(text), .part = part_});
  }
  is_told_ = true;
}

ResponseStream::ResponseStream(Renderer renderer)
    : reader_(std::make_unique<Reader>(std::move(renderer))) {
  const auto prompt = reader_->renderer().build_generation_prompt({{.role = "user"}});
  if (prompt.ok()) reader_->begin_after(*prompt);
}

ResponseStream::ResponseStream(Renderer renderer, const ModelInput& prompt)
    : reader_(std::make_unique<Reader>(std::move(renderer))) {
  reader_->begin_after(prompt);
}

ResponseStream::ResponseStream(ResponseStream&&) noexcept = default;
ResponseStream& ResponseStream::operator=(ResponseStream&&) noexcept = default;
ResponseStream::~ResponseStream() = default;

std::vector<ResponseDelta> ResponseStream::push(std::int32_t token) {
  return reader_->push(token);
}

std::vector<ResponseDelta> ResponseStream::finish() {
  return reader_->finish();
}

Result<ParsedResponse> ResponseStream::response() const {
  return reader_->response();
}

}  // namespace tinker
