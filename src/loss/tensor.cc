#include "loss/tensor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "base/strings.h"

namespace tinker::loss::eval {

Tensor scalar(double value, Dtype dtype) {
  return {.dtype = dtype, .values = {value}};
}

Error invalid(std::string message) {
  return {.code = ErrorCode::invalid_argument, .message = std::move(message)};
}

Error bad_shape(std::string_view expected, const Shape& found) {
  return invalid(base::concat("expected ", expected, ", found shape ", to_string(found)));
}

std::string to_string(const Shape& shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    out += base::concat(i == 0 ? "" : ", ", shape[i]);
  }
  return out + "]";
}

std::string_view to_string(Dtype dtype) {
  constexpr std::array<std::string_view, 3> kNames = {"bool", "int64", "float32"};
  return kNames[static_cast<std::size_t>(dtype)];
}

Result<std::size_t> element_count(const Shape& shape) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  if (shape.size() > kMaxRank) {
    return bad_shape(base::concat("at most ", kMaxRank, " axes"), shape);
  }
  std::int64_t count = 1;
  for (const auto extent : shape) {
    if (extent < 0) return bad_shape("no negative size", shape);
    if (extent > kMost || (extent > 0 && count > kMost / extent)) {
      return bad_shape("fewer elements", shape);
    }
    count *= extent;
  }
  return static_cast<std::size_t>(count);
}

std::vector<std::size_t> row_major_strides(const Shape& shape) {
  std::vector<std::size_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * static_cast<std::size_t>(shape[i]);
  }
  return strides;
}

Result<Shape> broadcast(const Shape& a, const Shape& b) {
  const auto& longer = a.size() >= b.size() ? a : b;
  const auto& shorter = a.size() >= b.size() ? b : a;
  Shape out = longer;
  const std::size_t lead = longer.size() - shorter.size();
  for (std::size_t i = 0; i < shorter.size(); ++i) {
    auto& extent = out[lead + i];
    if (extent == 1) {
      extent = shorter[i];
    } else if (shorter[i] != 1 && shorter[i] != extent) {
      return invalid(
          base::concat("shapes ", to_string(a), " and ", to_string(b), " do not broadcast"));
    }
  }
  return out;
}

std::vector<std::size_t> broadcast_strides(const Shape& from, const Shape& to) {
  const auto own = row_major_strides(from);
  std::vector<std::size_t> strides(to.size(), 0);
  const std::size_t lead = to.size() - from.size();
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i] != 1) strides[lead + i] = own[i];
  }
  return strides;
}

Result<std::size_t> normalize_axis(std::int64_t axis, std::size_t rank) {
  const auto axes = static_cast<std::int64_t>(std::max<std::size_t>(rank, 1));
  if (axis < -axes || axis >= axes) {
    return invalid(
        base::concat("expected an axis from ", -axes, " to ", axes - 1, ", found ", axis));
  }
  return static_cast<std::size_t>(axis < 0 ? axis + axes : axis);
}

std::int64_t to_integer(double value) {
  constexpr double kLimit = 9223372036854775808.0;  // 2^63
  if (std::isnan(value) || value <= -kLimit) return std::numeric_limits<std::int64_t>::min();
  if (value >= kLimit) return std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(value);
}

}  // namespace tinker::loss::eval
