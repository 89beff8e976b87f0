#include "engine/policy.h"

namespace tinker::engine {

void Policy::want_sampling(bool wants) {
  if (wants == kinds_.wants(Kind::sampling)) return;
  if (wants) {
    kinds_.arrive(Kind::sampling, options_.sampling_weight);
  } else {
    kinds_.leave(Kind::sampling);
  }
}

void Policy::arrive(const std::string& tenant, LineId line) {
  kinds_.arrive(Kind::training, options_.training_weight);
  tenants_.arrive(tenant);
  lines_[tenant].arrive(line);
  tenant_of_[line] = tenant;
}

void Policy::leave(LineId line) {
  const auto found = tenant_of_.find(line);
  const auto lines = lines_.find(found->second);
  lines->second.leave(line);
  if (!lines->second.is_wanted()) {
    tenants_.leave(found->second);
    lines_.erase(lines);
  }
  tenant_of_.erase(found);
  if (tenant_of_.empty()) kinds_.leave(Kind::training);
}

std::optional<Policy::Choice> Policy::next(const std::function<bool(LineId)>& may) const {
  const Kind* const kind = kinds_.next();
  if (kind == nullptr) return std::nullopt;
  if (*kind == Kind::sampling) return Choice{};
  const auto* const tenant =
      tenants_.next([&](const std::string& name) { return lines_.at(name).next(may) != nullptr; });
  return Choice{.line = *lines_.at(*tenant).next(may)};
}

void Policy::charge(const Choice& choice, double seconds) {
  kinds_.charge(choice.line ? Kind::training : Kind::sampling, seconds);
  if (!choice.line) return;
  const auto& tenant = tenant_of_.at(*choice.line);
  tenants_.charge(tenant, seconds);
  lines_.at(tenant).charge(*choice.line, seconds);
}

}  // namespace tinker::engine
