#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tinker/chat.h"
#include "tinker/renderer.h"
#include "tinker/result.h"
#include "tinker/types/datum.h"

namespace tinker {

/// What becomes of the weights of an example.
enum class WeightReduction {
  mean,  ///< They sum to 1, so that each example counts the same.
  none,  ///< They stay 0 and 1, so that each token counts the same.
};

struct DataStatistics;

struct DatumOptions {
  /// Longer examples lose their end: text token by token, images as a whole. Counted before the
  /// shift, so the datum's input has one token less.
  std::optional<std::size_t> max_length = {};
  WeightReduction reduction = WeightReduction::mean;
  /// Where there is one, each datum that is made is added to it, and whether it lost its end.
  DataStatistics* statistics = nullptr;
};

/// An example as `LossFn::cross_entropy` wants it: inputs are all tokens but the last, targets all
/// but the first. Images at the end are dropped. Fails where fewer than two tokens are left.
/// Whether anything is still trained, `DataStatistics::untrained` tells.
Result<Datum> to_datum(SupervisedExample example, const DatumOptions& options = {});

/// How conversations become data.
struct RenderOptions {
  DatumOptions datum = {};
  /// Absent: all messages of the assistant, of a completion if there is a prompt, and of preference
  /// pairs the last one.
  std::optional<TrainOnWhat> train_on = {};
  /// Makes several data of a conversation whose earlier turns the format writes differently once
  /// others follow, so that each is trained as it is sampled. Off, it is one datum, as the
  /// official cookbook makes it.
  bool splits = true;
};

/// A conversation, or a prompt and its completion.
struct ConversationRow {
  Conversation conversation = {};
  std::size_t prompt_size = 0;  ///< How many of the messages are a prompt: they are not trained.
  friend bool operator==(const ConversationRow&, const ConversationRow&) = default;
};

/// Two ways to go on, of which one is better.
struct PreferenceRow {
  std::vector<Message> prompt = {};
  std::vector<Message> chosen = {};
  std::vector<Message> rejected = {};
  std::vector<ToolSpec> tools = {};
  friend bool operator==(const PreferenceRow&, const PreferenceRow&) = default;
};

/// Text to go on with, without roles.
struct TextRow {
  std::string text = {};
  friend bool operator==(const TextRow&, const TextRow&) = default;
};

using DataRow = std::variant<ConversationRow, PreferenceRow, TextRow>;

/// Reads one line of a JSONL file, by its members:
/// - {"messages": [...], "tools": [...]}: a conversation; tools are optional;
/// - {"prompt": ..., "completion": ...}: texts of the user and of the assistant, or messages, and
///   tools likewise;
/// - {"prompt": ..., "chosen": ..., "rejected": ...}: likewise, a preference;
/// - {"comparison": {"prompt_conversation", "completion_A", "completion_B"}, "label": "A"}: the
///   cookbook's form of a preference; of a tie the second one is preferred, as there;
/// - {"text": "..."}: plain text.
/// Other members are passed over.
Result<DataRow> parse_data_row(std::string_view line);

/// The data of a row: of a conversation one or more, of a preference the chosen one and then the
/// rejected one, with unreduced weights. A conversation in which nobody answers may have none.
/// Refuses roles that the format does not know, and calls that it would leave out.
Result<std::vector<Datum>> to_data(const DataRow& row,
                                   const Renderer& renderer,
                                   const RenderOptions& options = {});

/// The lines of a file, each read when it is asked for. Only where they begin is kept in memory,
/// 16 bytes a line. A byte order mark at the beginning of the file is passed over.
///
/// Immutable; may be used on any thread.
class JsonlFile {
 public:
  /// Looks through the file once. Blank lines do not count.
  static Result<JsonlFile> open(const std::filesystem::path& path);

  [[nodiscard]] std::size_t size() const noexcept;
  /// One line; `index` is below `size()`.
  [[nodiscard]] Result<std::string> line(std::size_t index) const;
  /// The row that it stands for; the error begins with the file and the number of the line.
  [[nodiscard]] Result<DataRow> row(std::size_t index) const;
  /// "data.jsonl:17", for messages.
  [[nodiscard]] std::string place_of(std::size_t index) const;

 private:
  struct Lines;
  explicit JsonlFile(std::shared_ptr<const Lines> lines) : lines_(std::move(lines)) {}
  std::shared_ptr<const Lines> lines_;
};

/// Where a pass over data stands: enough to go on after a crash.
struct DataPosition {
  std::uint64_t epoch = 0;
  std::size_t row = 0;  ///< Of the epoch's order.
  friend bool operator==(const DataPosition&, const DataPosition&) = default;
};

/// The rows of a file in a random order, another one for each epoch. The same seed gives the same
/// orders on every machine.
///
/// Thread-compatible.
class ShuffledRows {
 public:
  /// Of `count` rows, the first `held_out` of the shuffle by `seed` are never among them: they are
  /// `held_out()`. Where there are no more than these, no rows are left.
  ShuffledRows(std::size_t count, std::uint64_t seed, std::size_t held_out = 0);

  /// Rows of an epoch.
  [[nodiscard]] std::size_t size() const noexcept { return rows_.size(); }
  [[nodiscard]] const std::vector<std::size_t>& held_out() const noexcept { return held_out_; }
  [[nodiscard]] DataPosition position() const noexcept { return position_; }
  /// Goes on elsewhere, as if all before had been taken.
  void seek(DataPosition position);
  /// The next row. After the last of an epoch comes the first of the next one. Requires
  /// `size() > 0`.
  std::size_t next();

 private:
  void shuffle();

  std::uint64_t seed_;
  std::vector<std::size_t> rows_;   // sorted
  std::vector<std::size_t> order_;  // of the epoch of `position_`
  std::vector<std::size_t> held_out_;
  DataPosition position_ = {};
};

/// What data look like, for people.
struct DataStatistics {
  std::size_t data = 0;       ///< How many.
  std::uint64_t tokens = 0;   ///< Of all inputs.
  std::uint64_t trained = 0;  ///< Targets whose weight is not 0.
  std::size_t longest = 0;
  std::size_t untrained = 0;  ///< Data without any weight: nothing is learnt from them.
  std::size_t truncated = 0;  ///< By `DatumOptions::max_length`.

  /// Counts all but `truncated`: of what is made, `DatumOptions::statistics` tells that, too.
  void add(const Datum& datum);
};

/// Joins short data into longer ones of up to `max_length` inputs, in their order: fewer sequences,
/// the same targets and weights. A later example sees the earlier ones of its datum. Takes what
/// `to_datum` gives, and refuses data that are longer or have other loss inputs.
Result<std::vector<Datum>> pack(std::vector<Datum> data, std::size_t max_length);

}  // namespace tinker
