// x[...]: integers, slices, None and ... first, as a strided view; then tensors of indices.
#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "loss/op_table.h"
#include "loss/views.h"

namespace tinker::loss::eval {
namespace {

/// A view that is being made, and the tensors that index some of its axes.
struct View {
  Shape shape = {};
  std::vector<std::size_t> strides = {};
  std::size_t offset = 0;
  struct Chosen {
    std::size_t axis;
    Variable places;
  };
  std::vector<Chosen> chosen = {};

  void keep(std::int64_t extent, std::size_t stride) {
    shape.push_back(extent);
    strides.push_back(stride);
  }
};

Result<std::size_t> check_index(std::int64_t index, std::int64_t extent) {
  if (index < -extent || index >= extent) {
    return invalid(base::concat("index ", index, " is out of range for size ", extent));
  }
  return static_cast<std::size_t>(index < 0 ? index + extent : index);
}

struct Bounds {
  std::int64_t start = 0;
  std::int64_t step = 1;
  std::int64_t count = 0;
};

/// A Python slice of an axis. Torch allows no negative steps.
Result<Bounds> slice_bounds(const SliceRange& slice, std::int64_t extent) {
  std::array<std::int64_t, 3> given = {0, extent, 1};
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (slice.bounds[i].is_none()) continue;
    const auto bound = as_integer(slice.bounds[i]);
    if (!bound)
      return invalid("expected an integer in a slice, found " + describe(slice.bounds[i]));
    given[i] = *bound;
    if (i == 2) break;
    if (given[i] < 0) given[i] = std::max<std::int64_t>(given[i], -extent) + extent;
    given[i] = std::min(given[i], extent);
  }
  if (given[2] < 1) return invalid(base::concat("expected a positive step, found ", given[2]));
  const std::int64_t length = std::max<std::int64_t>(given[1] - given[0], 0);
  const std::int64_t count = length == 0 ? 0 : (length - 1) / given[2] + 1;
  return Bounds{.start = given[0], .step = given[2], .count = count};
}

/// How many axes of the tensor an index item uses.
std::size_t axes_used(const Value& item) {
  if (item.is_none() || item.get_if<Ellipsis>()) return 0;
  const auto* variable = item.get_if<Variable>();
  return variable != nullptr && variable->dtype() == Dtype::boolean ? variable->rank() : 1;
}

/// One tensor of indices per axis of a mask: where it is true.
Result<std::vector<Variable>> nonzero(Tape& tape, const Variable& mask) {
  TINKER_TRY(tape.charge(mask.size() * (mask.rank() + 1)));
  std::vector<Tensor> found(mask.rank(), Tensor{.dtype = Dtype::integer});
  const auto strides = row_major_strides(mask.shape());
  for (std::size_t i = 0; i < mask.size(); ++i) {
    if (mask.values()[i] == 0.0) continue;
    for (std::size_t axis = 0; axis < found.size(); ++axis) {
      const auto extent = static_cast<std::size_t>(mask.shape()[axis]);
      found[axis].values.push_back(static_cast<double>(i / strides[axis] % extent));
    }
  }
  std::vector<Variable> out;
  for (auto& places : found) {
    places.shape = {static_cast<std::int64_t>(places.values.size())};
    out.emplace_back(std::move(places));
  }
  return out;
}

Result<void> choose(Tape& tape,
                    View& view,
                    const Variable& index,
                    const Shape& from,
                    const std::vector<std::size_t>& strides,
                    std::size_t axis) {
  std::vector<Variable> per_axis = {index};
  if (index.dtype() == Dtype::floating) return invalid("expected indices, found floats");
  if (index.dtype() == Dtype::boolean) {
    for (std::size_t i = 0; i < index.rank(); ++i) {
      if (index.shape()[i] != from[axis + i]) {
        return bad_shape(base::concat("a mask for ", to_string(from)), index.shape());
      }
    }
    TINKER_TRY(per_axis, nonzero(tape, index));
  }
  for (std::size_t i = 0; i < per_axis.size(); ++i) {
    view.chosen.push_back({.axis = view.shape.size(), .places = per_axis[i]});
    view.keep(from[axis + i], strides[axis + i]);
  }
  return {};
}

/// A list of integers means a tensor of them.
Answer as_index(const Value& item) {
  const auto* list = item.get_if<Sequence>();
  if (list == nullptr) return item;
  Tensor out = {.shape = {static_cast<std::int64_t>(list->items.size())}, .dtype = Dtype::integer};
  for (const auto& entry : list->items) {
    const auto index = as_integer(entry);
    if (!index) return invalid("expected an integer index, found " + describe(entry));
    out.values.push_back(static_cast<double>(*index));
  }
  return Variable(std::move(out));
}

Result<void> apply(Tape& tape, View& view, const Value& item, const Variable& x, std::size_t axis) {
  const auto strides = row_major_strides(x.shape());
  if (item.is_none()) {
    view.keep(1, 0);
    return {};
  }
  if (const auto* slice = item.get_if<SliceRange>()) {
    TINKER_TRY(const Bounds bounds, slice_bounds(*slice, x.shape()[axis]));
    view.offset += static_cast<std::size_t>(bounds.start) * strides[axis];
    view.keep(bounds.count, strides[axis] * static_cast<std::size_t>(bounds.step));
    return {};
  }
  if (const auto* tensor = item.get_if<Variable>()) {
    return choose(tape, view, *tensor, x.shape(), strides, axis);
  }
  const auto* number = item.get_if<Number>();
  if (number == nullptr || number->dtype != Dtype::integer) {
    return invalid("expected an index, found " + describe(item));
  }
  TINKER_TRY(const std::size_t at, check_index(to_integer(number->value), x.shape()[axis]));
  view.offset += at * strides[axis];
  return {};
}

Result<View> make_view(Tape& tape, const Variable& x, const std::vector<Value>& items) {
  std::size_t used = 0;
  std::size_t ellipses = 0;
  for (const auto& item : items) {
    used += axes_used(item);
    ellipses += item.get_if<Ellipsis>() ? 1 : 0;
  }
  if (used > x.rank() || ellipses > 1) {
    return bad_shape(base::concat("a tensor with ", used, " axes to index"), x.shape());
  }
  View view;
  std::size_t axis = 0;
  const auto fill = [&](std::size_t count) {
    for (; count > 0; --count, ++axis) {
      view.keep(x.shape()[axis], row_major_strides(x.shape())[axis]);
    }
  };
  for (const auto& item : items) {
    if (item.get_if<Ellipsis>()) {
      fill(x.rank() - used);
      continue;
    }
    TINKER_TRY(apply(tape, view, item, x, axis));
    axis += axes_used(item);
  }
  fill(x.rank() - axis);
  return view;
}

/// The offset that the tensors of indices add for each element of their common shape.
Result<std::vector<std::size_t>> chosen_offsets(Tape& tape, const View& view, const Shape& common) {
  TINKER_TRY(const std::size_t count, element_count(common));
  TINKER_TRY(tape.charge(count * (view.chosen.size() + 1)));
  std::vector<std::size_t> offsets(count, 0);
  for (const auto& [axis, places] : view.chosen) {
    std::vector<std::size_t> mine;
    for (const double place : places.values()) {
      TINKER_TRY(const std::size_t at, check_index(to_integer(place), view.shape[axis]));
      mine.push_back(at * view.strides[axis]);
    }
    std::size_t i = 0;
    walk(common, broadcast_strides(places.shape(), common), [&](std::size_t at) {
      offsets[i++] += mine[at];
    });
  }
  return offsets;
}

/// Axes of a view that no tensor indexes, before or after those that one does.
struct Rest {
  Shape shape = {};
  std::vector<std::size_t> strides = {};
};

/// The axes of tensor indices come where the first of them stood if they stood side by side, else
/// in front.
std::pair<Rest, Rest> split_axes(const View& view) {
  const std::size_t first = view.chosen.front().axis;
  const bool side_by_side = view.chosen.back().axis - first + 1 == view.chosen.size();
  const std::size_t at = side_by_side ? first : 0;
  Rest before;
  Rest after;
  for (std::size_t i = 0; i < view.shape.size(); ++i) {
    if (std::ranges::find(view.chosen, i, &View::Chosen::axis) != view.chosen.end()) continue;
    auto& rest = i < at ? before : after;
    rest.shape.push_back(view.shape[i]);
    rest.strides.push_back(view.strides[i]);
  }
  return {before, after};
}

Result<Variable> gather_chosen(Tape& tape, const Variable& x, const View& view) {
  Shape common;
  for (const auto& chosen : view.chosen) {
    TINKER_TRY(common, broadcast(common, chosen.places.shape()));
  }
  TINKER_TRY(const auto offsets, chosen_offsets(tape, view, common));
  const auto [before, after] = split_axes(view);
  Shape shape = before.shape;
  shape.insert(shape.end(), common.begin(), common.end());
  shape.insert(shape.end(), after.shape.begin(), after.shape.end());
  TINKER_TRY(const std::size_t count, element_count(shape));
  TINKER_TRY(tape.charge(2 * count));
  std::vector<std::size_t> places;
  places.reserve(count);
  const auto& inner_axes = after;
  walk(before.shape, before.strides, [&](std::size_t outer) {
    for (const auto chosen : offsets) {
      walk(inner_axes.shape, inner_axes.strides, [&](std::size_t inner) {
        places.push_back(view.offset + outer + chosen + inner);
      });
    }
  });
  return take(tape, x, std::move(shape), std::move(places));
}

Answer index_tensor(const Call& call, const Variable& x) {
  std::vector<Value> items = {call[1]};
  const auto* tuple = call[1].get_if<Sequence>();
  if (tuple != nullptr && !tuple->is_list) items = tuple->items;
  for (auto& item : items) {
    TINKER_TRY(item, as_index(item));
  }
  TINKER_TRY(const View view, make_view(call.tape(), x, items));
  return view.chosen.empty() ? strided(call.tape(), x, view.shape, view.offset, view.strides)
                             : gather_chosen(call.tape(), x, view);
}

Answer index_sequence(const Sequence& sequence, const Value& index) {
  const auto size = static_cast<std::int64_t>(sequence.items.size());
  if (const auto* slice = index.get_if<SliceRange>()) {
    TINKER_TRY(const Bounds bounds, slice_bounds(*slice, size));
    Sequence out;
    for (std::int64_t i = 0; i < bounds.count; ++i) {
      out.items.push_back(sequence.items[static_cast<std::size_t>(bounds.start + i * bounds.step)]);
    }
    return out;
  }
  const auto found = as_integer(index);
  if (!found) return invalid("expected an index, found " + describe(index));
  TINKER_TRY(const std::size_t at, check_index(*found, size));
  return sequence.items[at];
}

Answer getitem(const Call& call) {
  if (const auto* sequence = call[0].get_if<Sequence>()) return index_sequence(*sequence, call[1]);
  if (const auto* x = call[0].get_if<Variable>()) return index_tensor(call, *x);
  return invalid("cannot index " + describe(call[0]));
}

/// torch.gather(x, dim, index): out[i][j] = x[i][index[i][j]] for dim 1.
Answer gather(const Call& call) {
  TINKER_TRY(const Variable x, call.tensor(0));
  TINKER_TRY(const std::int64_t dim, call.integer(1));
  TINKER_TRY(const Variable index, call.tensor(2));
  TINKER_TRY(const std::size_t axis, normalize_axis(dim, x.rank()));
  if (index.dtype() != Dtype::integer || index.rank() != x.rank() || x.rank() == 0) {
    return bad_shape(base::concat("integers of rank ", x.rank(), " to gather by"), index.shape());
  }
  auto strides = row_major_strides(x.shape());
  for (std::size_t i = 0; i < x.rank(); ++i) {
    if (i != axis && index.shape()[i] > x.shape()[i]) {
      return bad_shape(base::concat("indices within ", to_string(x.shape())), index.shape());
    }
  }
  TINKER_TRY(call.tape().charge(2 * index.size()));
  const std::size_t along = std::exchange(strides[axis], 0);
  std::vector<std::size_t> places;
  walk(index.shape(), strides, [&](std::size_t at) { places.push_back(at); });
  for (std::size_t i = 0; i < places.size(); ++i) {
    TINKER_TRY(const std::size_t at, check_index(to_integer(index.values()[i]), x.shape()[axis]));
    places[i] += at * along;
  }
  return take(call.tape(), x, index.shape(), std::move(places));
}

}  // namespace

void add_indexing(OpTable& table) {
  table.add(Where::operation, "getitem", "a, b", getitem);
  table.add(Where::both, "gather", "input, dim, index, sparse_grad=False", gather);
}

}  // namespace tinker::loss::eval
