#include "loss/value.h"

#include "base/strings.h"

namespace tinker::loss::eval {
namespace {

struct Describe {
  std::string operator()(const None&) const { return "None"; }
  std::string operator()(const Ellipsis&) const { return "..."; }
  std::string operator()(const Number& number) const {
    if (number.dtype == Dtype::boolean) return number.value != 0 ? "True" : "False";
    return base::concat(number.dtype == Dtype::integer ? "int " : "float ", number.value);
  }
  std::string operator()(const std::string& text) const {
    return base::concat("'", std::string_view(text).substr(0, 64), "'");
  }
  std::string operator()(const Dtype& dtype) const { return std::string(to_string(dtype)); }
  std::string operator()(const Place& place) const { return place.name; }
  std::string operator()(const Ref& ref) const { return base::concat("node ", ref.node); }
  std::string operator()(const Variable& variable) const {
    return base::concat(to_string(variable.dtype()), to_string(variable.shape()));
  }
  std::string operator()(const Sequence& sequence) const {
    constexpr std::size_t kShown = 8;
    std::string out = "(";
    for (std::size_t i = 0; i < sequence.items.size() && i < kShown; ++i) {
      out += base::concat(i == 0 ? "" : ", ", describe(sequence.items[i]));
    }
    return out + (sequence.items.size() > kShown ? ", ...)" : ")");
  }
  std::string operator()(const SliceRange&) const { return "a slice"; }
};

}  // namespace

std::string describe(const Value& value) {
  return std::visit(Describe{}, value.any);
}

}  // namespace tinker::loss::eval
