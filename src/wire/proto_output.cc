// ForwardBackwardOutput (PROTOBUF 5): per-datum tensors travel batched, a record per run of datums
// whose tensors have the same element types and trailing shapes.

#include <algorithm>

#include "wire/proto.h"
#include "wire/proto_tensor.h"

namespace tinker::wire {
namespace {

/// One field of a record: the tensors of its datums, one after the other.
struct BatchedTensor {
  std::string_view data = {};
  std::string_view offsets = {};
  std::int32_t dtype = 0;
  std::vector<std::int64_t> trailing_shape = {};
};

struct ArrayRecord {
  std::vector<std::pair<std::string, BatchedTensor>> fields = {};
  std::int64_t num_datums = 0;
};

bool read_batched_tensor(pbf_reader reader, BatchedTensor& out, ProtoDecoder& decoder) {
  while (reader.next()) {
    const auto type = reader.wire_type();
    if (type == pbf_wire_type::length_delimited && (reader.tag() == 1 || reader.tag() == 2)) {
      std::string_view& field = reader.tag() == 1 ? out.data : out.offsets;
      const auto view = reader.get_view();
      field = {view.data(), view.size()};
    } else if (type == pbf_wire_type::varint && reader.tag() == 3) {
      out.dtype = reader.get_enum();
    } else if ((reader.tag() != 4 || !read_shape(reader, out.trailing_shape)) &&
               !read_unknown_field(reader, Members::open, decoder)) {
      return false;
    }
  }
  return true;
}

struct ProtoBatchedTensor {
  static constexpr auto kWireType = pbf_wire_type::length_delimited;
  static bool read(pbf_reader& reader, BatchedTensor& out, ProtoDecoder& decoder) {
    return read_batched_tensor(reader.get_message(), out, decoder);
  }
};

bool read_record(pbf_reader reader, ArrayRecord& out, ProtoDecoder& decoder) {
  std::map<std::string, std::size_t> places;  // a repeated name replaces, in its first place
  while (reader.next()) {
    if (reader.tag() == 2 && reader.wire_type() == pbf_wire_type::length_delimited) {
      std::pair<std::string, BatchedTensor> field;
      if (!read_map_entry<ProtoBatchedTensor>(
              reader.get_message(), field.first, field.second, Members::open, decoder)) {
        return false;
      }
      const auto [place, is_new] = places.try_emplace(field.first, out.fields.size());
      if (is_new) out.fields.emplace_back();
      out.fields[place->second] = std::move(field);
    } else if (reader.tag() == 3 && reader.wire_type() == pbf_wire_type::varint) {
      out.num_datums = reader.get_int64();
    } else if (!read_unknown_field(
                   reader, Members::open, decoder)) {  // type_tag is not read either
      return false;
    }
  }
  return true;
}

/// Cells of one datum along the trailing shape, or nothing when that is impossible.
std::optional<std::int64_t> cells_per_row(std::span<const std::int64_t> trailing_shape) {
  std::int64_t cells = 1;
  for (const auto size : trailing_shape) {
    if (size < 0 || __builtin_mul_overflow(cells, size, &cells)) return std::nullopt;
  }
  return cells;
}

/// The tensor of one datum: elements [first, last) of the field.
bool slice_datum(const TensorData::Values& values,
                 std::pair<std::int64_t, std::int64_t> range,
                 const BatchedTensor& batched,
                 TensorData& out,
                 ProtoDecoder& decoder) {
  const auto [first, last] = range;
  const auto row = cells_per_row(batched.trailing_shape);
  const std::int64_t count = last - first;
  if (!row || (*row == 0 ? count != 0 : count % *row != 0)) {
    return decoder.fail(
        base::concat("expected whole rows of the trailing shape, found ", count, " elements"));
  }
  TensorData::Shape shape = {*row == 0 ? 0 : count / *row};
  shape.insert(shape.end(), batched.trailing_shape.begin(), batched.trailing_shape.end());
  out = std::visit(
      [&](const auto& buffer) {
        return TensorData(
            buffer.slice(static_cast<std::size_t>(first), static_cast<std::size_t>(count)),
            std::move(shape));
      },
      values);
  return true;
}

std::size_t array_count(const BatchedTensor& batched) {
  const std::size_t offsets = batched.offsets.size() / sizeof(std::int64_t);
  return offsets == 0 ? 0 : offsets - 1;
}

/// Cuts a field into the tensors of its datums; `outputs` are those datums, perhaps fewer.
bool unbatch(const std::string& name,
             const BatchedTensor& batched,
             std::span<NamedTensors> outputs,
             ProtoDecoder& decoder) {
  const auto dtype = static_cast<ProtoDtype>(batched.dtype);
  TensorData::Values values;
  if (!read_elements(batched.data, dtype, values, decoder)) return false;
  if (batched.offsets.size() % sizeof(std::int64_t) != 0) {
    return decoder.fail(base::concat(
        "expected whole offsets of 8 bytes, found ", batched.offsets.size(), " bytes"));
  }
  // Each datum gets a copy of the trailing shape, so its length must not be the sender's to choose.
  constexpr std::size_t kHighestRank = 16;
  if (batched.trailing_shape.size() > kHighestRank) {
    return decoder.fail(base::concat("expected a trailing shape of at most ",
                                     kHighestRank,
                                     " dimensions, found ",
                                     batched.trailing_shape.size()));
  }
  const auto offsets = Buffer<std::int64_t>::view(as_byte_span(batched.offsets), decoder.body());
  const std::int64_t width = element_size(dtype);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::int64_t from = offsets[i];
    const std::int64_t to = offsets[i + 1];
    if (from < 0 || to < from || std::cmp_greater(to, batched.data.size()) || from % width != 0 ||
        to % width != 0) {
      return decoder.fail(base::concat("expected ascending offsets of whole elements up to ",
                                       batched.data.size(),
                                       ", found ",
                                       from,
                                       " and ",
                                       to));
    }
    TensorData& out = outputs[i][name];
    if (!slice_datum(values, {from / width, to / width}, batched, out, decoder)) return false;
  }
  return true;
}

/// How many datums the records announce; nothing when the sum is impossible.
std::optional<std::size_t> announced_datums(std::span<const ArrayRecord> records) {
  std::int64_t total = 0;
  for (const auto& record : records) {
    if (record.num_datums < 0 || __builtin_add_overflow(total, record.num_datums, &total)) {
      return std::nullopt;
    }
  }
  return static_cast<std::size_t>(total);
}

/// The number of datums: as announced, else as the first field tells (encoders that predate
/// num_datums). Every field must have that many arrays, so the number is paid for by the sender;
/// without fields it costs nothing and has a limit.
bool count_datums(std::span<const ArrayRecord> records, std::size_t& out, ProtoDecoder& decoder) {
  constexpr std::size_t kMostEmptyDatums = std::size_t{1} << 16U;
  std::map<std::string_view, std::size_t> arrays;
  std::optional<std::string_view> first;
  for (const auto& record : records) {
    for (const auto& [name, batched] : record.fields) {
      if (!first) first = name;
      arrays[name] += array_count(batched);
    }
  }
  const auto announced = announced_datums(records);
  if (!announced) return decoder.fail("expected a num_datums of at least 0");
  out = *announced == 0 && first ? arrays[*first] : *announced;
  if (!first && out > kMostEmptyDatums) {
    return decoder.fail(
        base::concat("expected at most ", kMostEmptyDatums, " datums without fields, found ", out));
  }
  for (const auto& [name, count] : arrays) {
    if (count >= out) continue;
    const Path::Step step(decoder.path(), name);
    return decoder.fail(base::concat("expected ", out, " arrays, found ", count));
  }
  return true;
}

bool join_records(std::span<const ArrayRecord> records,
                  std::vector<NamedTensors>& outputs,
                  ProtoDecoder& decoder) {
  std::size_t datums = 0;
  if (!count_datums(records, datums, decoder)) return false;
  outputs.resize(datums);
  std::map<std::string_view, std::size_t> done;  // arrays of a name follow over the records
  for (const auto& record : records) {
    for (const auto& [name, batched] : record.fields) {
      const Path::Step step(decoder.path(), name);
      std::size_t& begin = done[name];
      const std::size_t count = std::min(array_count(batched), datums - begin);
      if (!unbatch(name, batched, std::span(outputs).subspan(begin, count), decoder)) return false;
      begin += count;
    }
  }
  return true;
}

bool read_output(pbf_reader reader, ForwardBackwardOutput& out, ProtoDecoder& decoder) {
  using MetricsCodec = ProtoCodec<decltype(out.metrics)>;
  std::vector<ArrayRecord> records;
  while (reader.next()) {
    const bool is_message = reader.wire_type() == pbf_wire_type::length_delimited;
    bool ok = true;
    if (is_message && reader.tag() == 1) {
      const Path::Step step(decoder.path(), "loss_fn_output_type");
      ok = ProtoCodec<std::string>::read(reader, out.loss_fn_output_type, decoder);
    } else if (is_message && reader.tag() == 2) {
      const Path::Step step(decoder.path(), "loss_fn_outputs");
      const Path::Step index(decoder.path(), records.size());
      ok = read_record(reader.get_message(), records.emplace_back(), decoder);
    } else if (is_message && reader.tag() == 3) {
      const Path::Step step(decoder.path(), "metrics");
      ok = MetricsCodec::read(reader, out.metrics, decoder);
    } else {
      ok = read_unknown_field(reader, Members::open, decoder);
    }
    if (!ok) return false;
  }
  if (records.empty()) {
    if (out.loss_fn_output_type.empty()) out.loss_fn_output_type = "ArrayRecord";
    return true;
  }
  // A qualified name, "package.module:Class", is known by its class.
  out.loss_fn_output_type.erase(0, out.loss_fn_output_type.rfind(':') + 1);
  const Path::Step step(decoder.path(), "loss_fn_outputs");
  return join_records(records, out.loss_fn_outputs, decoder);
}

// ---- Writing

std::span<const std::int64_t> trailing_shape(const TensorData& tensor) {
  const auto& shape = tensor.shape();
  if (!shape || shape->size() < 2) return {};
  return std::span(*shape).subspan(1);
}

/// Whether two datums can share a record.
bool same_layout(const NamedTensors& a, const NamedTensors& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.dtype() == y.second.dtype() &&
           std::ranges::equal(trailing_shape(x.second), trailing_shape(y.second));
  });
}

template <typename Sink>
void write_batched_tensor(ProtoWriter<Sink>& writer,
                          std::span<const NamedTensors> datums,
                          const std::string& name) {
  std::vector<std::int64_t> offsets = {0};
  for (const auto& datum : datums) {
    const auto bytes = bytes_of(datum.find(name)->second);
    offsets.push_back(offsets.back() + std::ssize(bytes));
  }
  if (offsets.back() > 0) {
    writer.length(1, static_cast<std::size_t>(offsets.back()));
    for (const auto& datum : datums) writer.raw(bytes_of(datum.find(name)->second));
  }
  writer.bytes(2, std::as_bytes(std::span(offsets)));
  const TensorData& first = datums.front().find(name)->second;
  writer.varint(3, static_cast<std::uint64_t>(proto_dtype(first.dtype())));
  write_shape(writer, 4, trailing_shape(first));
}

template <typename Sink>
void write_record(ProtoWriter<Sink>& writer,
                  std::span<const NamedTensors> datums,
                  std::string_view type) {
  ProtoCodec<std::string>::write(writer, 1, type);
  for (const auto& item : datums.front()) {
    writer.message(2, [&](auto& entry) {
      ProtoCodec<std::string>::write(entry, 1, item.first);
      entry.message(2, [&](auto& field) { write_batched_tensor(field, datums, item.first); });
    });
  }
  writer.varint(3, datums.size());
}

void check_outputs(const ForwardBackwardOutput& output, ProtoErrors& errors) {
  const Path::Step outputs(errors.path(), "loss_fn_outputs");
  for (std::size_t i = 0; i < output.loss_fn_outputs.size(); ++i) {
    const Path::Step datum(errors.path(), i);
    const auto& tensors = output.loss_fn_outputs[i];
    const bool same_names = std::ranges::equal(tensors,
                                               output.loss_fn_outputs.front(),
                                               {},
                                               &NamedTensors::value_type::first,
                                               &NamedTensors::value_type::first);
    if (!same_names) errors.fail("expected the same outputs as for the first datum");
    for (const auto& [name, tensor] : tensors) {
      const Path::Step step(errors.path(), name);
      if (tensor.is_sparse()) errors.fail("expected a dense tensor, found a sparse one");
      if (const auto ok = tensor.validate(); !ok) errors.fail(ok.error().message);
    }
  }
}

template <typename Sink>
void write_output(ProtoWriter<Sink>& writer, const ForwardBackwardOutput& output) {
  ProtoCodec<std::string>::write(writer, 1, output.loss_fn_output_type);
  std::span<const NamedTensors> rest = output.loss_fn_outputs;
  while (!rest.empty()) {
    const auto next = std::ranges::find_if_not(
        rest, [&](const auto& datum) { return same_layout(datum, rest.front()); });
    const auto run = rest.first(static_cast<std::size_t>(next - rest.begin()));
    writer.message(2, [&](auto& record) { write_record(record, run, output.loss_fn_output_type); });
    rest = rest.subspan(run.size());
  }
  // Without any record, readers take an empty type for "ArrayRecord".
  if (output.loss_fn_outputs.empty() && output.loss_fn_output_type.empty()) writer.length(2, 0);
  ProtoCodec<decltype(output.metrics)>::write(writer, 3, output.metrics);
}

}  // namespace

Result<std::string> encode_proto(const ForwardBackwardOutput& output) {
  ProtoErrors errors;
  check_outputs(output, errors);
  if (const auto& error = errors.error()) return *error;
  return encode_message([&](auto& writer) { write_output(writer, output); });
}

template <>
Result<ForwardBackwardOutput> decode_proto(std::string body, DecodeOptions options) {
  return decode_message<ForwardBackwardOutput>(
      std::move(body), Direction::response, options, read_output);
}

}  // namespace tinker::wire
