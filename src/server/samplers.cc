#include "server/samplers.h"

#include <utility>

namespace tinker::server {

std::shared_ptr<Sampler> Samplers::add(SamplerRecord record, std::shared_ptr<Session> session) {
  auto sampler = std::make_shared<Sampler>();
  sampler->record = std::move(record);
  sampler->scope->attach(session->scope);
  sampler->session = std::move(session);
  samplers_.insert_or_assign(sampler->record.sampler_id, sampler);
  return sampler;
}

std::shared_ptr<Sampler> Samplers::find(const std::string& sampler_id) const {
  const auto found = samplers_.find(sampler_id);
  return found != samplers_.end() ? found->second : nullptr;
}

std::vector<AdapterSnapshot> Samplers::ephemeral() const {
  std::vector<AdapterSnapshot> out;
  for (const auto& [id, sampler] : samplers_) {
    if (sampler->ephemeral) out.push_back(*sampler->ephemeral);
  }
  return out;
}

void Samplers::remove_of_session(std::string_view session_id, const Error& reason) {
  for (auto it = samplers_.begin(); it != samplers_.end();) {
    const auto sampler = it->second;
    if (sampler->record.session_id != session_id) {
      ++it;
      continue;
    }
    it = samplers_.erase(it);
    sampler->scope->cancel(reason);
  }
}

}  // namespace tinker::server
